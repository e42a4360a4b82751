"""
The end of the replicated part: every acknowledged record is looked up in every store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pystore.demo.compare import compare
from pystore.demo.replicas import StepCallback
from pystore.demo.stream_writer import StreamedAck, ack_array
from pystore.demo.workload import AppendJobs
from pystore.store.commit_log import CommitLog
from pystore.verify import verify_store

__all__ = ["StoreCheck", "check_stores"]


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """
    What was found in the store of one broker.

    Attributes:
        broker: its id.
        store: its directory.
        compared: number of acknowledged records that were looked up.
        missing: of these, those that are missing or differ.
        records: in the log.
        log_bytes: size of the log.
        verdict: of the verification of every record.
        problem: text about the first missing record or the first damage; empty: none.
    """

    broker: int
    store: Path
    compared: int
    missing: int
    records: int
    log_bytes: int
    verdict: str
    problem: str = ""

    @property
    def is_good(self) -> bool:
        """
        Whether it is whole, and has every acknowledged record.
        """
        return self.missing == 0 and self.verdict == "whole"


def check_stores(
    stores: Sequence[tuple[int, Path]],
    acks: list[StreamedAck],
    jobs: AppendJobs,
    note: StepCallback,
    *,
    who: str = "broker",
) -> list[StoreCheck]:
    """
    Looks every acknowledged record up in every store, byte for byte, and verifies the
    stores.

    Args:
        stores: ids and directories of brokers that do not run.
        acks: the acknowledged appends.
        jobs: what was appended.
        note: called with the progress.
        who: what has an id, for the progress.

    Raises:
        PystoreError: a store cannot be read.
    """
    return [
        _check(broker, store, acks, jobs, partial(_note, note, f"{who} {broker}: "))
        for broker, store in stores
    ]


def _note(note: StepCallback, who: str, label: str, done: int, total: int) -> None:
    note(who + label, done, total)


def _check(
    broker: int,
    store: Path,
    acks: list[StreamedAck],
    jobs: AppendJobs,
    note: StepCallback,
) -> StoreCheck:
    label = "look up"
    with CommitLog(store, mode="r") as log:
        found = compare(
            log.reader, ack_array(acks), jobs, lambda done: note(label, done, len(acks))
        )
    report = verify_store(
        store,
        progress=lambda done, total: note("verify", done, total),
    )
    damage = report.damages[0].reason if report.damages else ""
    return StoreCheck(
        broker,
        store,
        found.records,
        found.missing,
        report.records,
        report.scanned_bytes,
        report.verdict,
        found.problem or damage,
    )
