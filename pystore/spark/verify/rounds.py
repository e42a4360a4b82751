"""
Rounds as Parquet, ``audit/round=<number>/``, and the choice for the next round.

The rounds are the only record of when a segment was last verified. A round appears by
one rename: complete or not at all.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from pystore.errors import InvalidError
from pystore.fs.atomic import (
    replace_file,
    storage_error,
    sync_directory,
    sync_tree,
)
from pystore.spark.plan.arrow_schema import arrow_schema
from pystore.spark.verify.frame import COLUMNS, row_of, verdict_of
from pystore.spark.verify.past import Past
from pystore.spark.verify.run import VerifyRun
from pystore.spark.verify.task import SegmentTask
from pystore.spark.verify.verdicts import SegmentVerdict, Verdict

__all__ = [
    "AUDIT",
    "NEWEST",
    "last_verified",
    "load_past",
    "next_round",
    "oldest_first",
    "write_newest",
    "write_round",
]

AUDIT = "audit"
"""The folder of the rounds."""

NEWEST = "newest.parquet"
"""The newest verdicts over all rounds. It can be made again from the rounds."""

_NAME = re.compile(r"round=([0-9]+)")
_SCHEMA = arrow_schema({name: COLUMNS[name] for name in COLUMNS if name != "round"})
"""Without ``round``: Parquet readers take this column from the folder's name."""


def next_round(folder: Path) -> int:
    """
    Returns the number of the next round, from 0.
    """
    return max(_numbers(folder), default=-1) + 1


def _numbers(folder: Path) -> list[int]:
    audit = folder / AUDIT
    if not audit.is_dir():
        return []
    names = (_NAME.fullmatch(path.name) for path in audit.iterdir())
    return [int(found[1]) for found in names if found]


def write_round(folder: Path, found: VerifyRun) -> Path:
    """
    Writes a round durably, and returns its folder.

    Raises:
        StorageError: the system refused, and the round was not written.
        InvalidError: the round exists: two jobs write into one folder.
    """
    target = folder / AUDIT / f"round={found.number}"
    draft = target.with_name(f".round={found.number}.{os.getpid()}")
    rows = [row_of(one, found) for one in found.verdicts]
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        table = pa.Table.from_pylist(rows, _SCHEMA)
        pq.write_table(table, draft / "verdicts.parquet")
        sync_tree(draft)
        if target.exists():
            raise InvalidError(
                f"{target} exists: does another job write into this folder?"
            )
        draft.rename(target)
        sync_directory(target.parent)
    except OSError as error:
        # The caller gets the path with it.
        raise storage_error("write", target, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def write_newest(folder: Path, found: VerifyRun) -> None:
    """
    Writes the newest verdicts over all rounds. The file appears complete or not at all.

    Raises:
        StorageError: the system refused.
    """
    rows = [row_of(one, found) for one in found.verdicts]
    sink = pa.BufferOutputStream()
    metadata = {b"round": str(found.number).encode()}
    table = pa.Table.from_pylist(rows, arrow_schema(COLUMNS))
    pq.write_table(table.replace_schema_metadata(metadata), sink)
    replace_file(folder / NEWEST, sink.getvalue().to_pybytes(), folder / AUDIT)


def load_past(folder: Path) -> Past:
    """
    Returns the newest verdicts of all rounds.

    Raises:
        InvalidError: a round cannot be read.
    """
    numbers = sorted(_numbers(folder))
    if not numbers:
        return Past()
    try:
        path = folder / NEWEST
        if path.exists():
            table = pq.read_table(path)
            if (table.schema.metadata or {}).get(b"round") == str(numbers[-1]).encode():
                return _past_of(table.to_pylist(), numbers[-1])
        # The job was stopped between the round and this file, or an older version ran.
        rows: list[dict[str, Any]] = []
        for number in numbers:
            name = folder / AUDIT / f"round={number}" / "verdicts.parquet"
            with pq.ParquetFile(name) as file:
                table = file.read()
            rows += ({**row, "round": number} for row in table.to_pylist())
    except (OSError, pa.ArrowException) as error:
        # Files of another program, or a damaged file.
        raise InvalidError(
            f"{folder / AUDIT}: cannot read the rounds: {error}"
        ) from error
    return _past_of(rows, numbers[-1])


def _past_of(rows: Iterable[Mapping[str, Any]], last: int) -> Past:
    newest: dict[tuple[str, int | None, str], SegmentVerdict] = {}
    for row in rows:
        one = verdict_of(row)
        key = one.store, one.segment, one.name
        # No answer hides no verdict.
        if one.verdict is not Verdict.UNKNOWN or key not in newest:
            newest[key] = one
    return Past(newest, last)


def last_verified(folder: Path) -> dict[tuple[str, int], datetime]:
    """
    Returns when each segment was last checked, by store and base offset.

    Raises:
        InvalidError: a round cannot be read.
    """
    if not _numbers(folder):
        return {}
    wanted = (ds.field("checkedBytes") > 0) & (ds.field("verdict") != "UNKNOWN")
    try:
        rounds = ds.dataset(folder / AUDIT, partitioning="hive")
        table = rounds.to_table(["store", "segment", "verifiedAt"], filter=wanted)
    except (OSError, pa.ArrowException) as error:
        # Files of another program, or a damaged file.
        raise InvalidError(
            f"{folder / AUDIT}: cannot read the rounds: {error}"
        ) from error
    latest = table.group_by(["store", "segment"]).aggregate([("verifiedAt", "max")])
    return {
        (row["store"], row["segment"]): row["verifiedAt_max"]
        for row in latest.to_pylist()
        if row["segment"] is not None
    }


def oldest_first(
    verified: Mapping[tuple[str, int], datetime],
    budget_bytes: int | None,
    bad: Collection[tuple[str, int]] = (),
) -> Callable[[Sequence[SegmentTask]], list[SegmentTask]]:
    """
    Returns a function that chooses the tasks of a round.

    It takes the segments that are known to be bad, then those that were never checked,
    then those whose last check is the oldest, as many as the budget allows, and at
    least one. All replicas of a segment are checked in the same round, so that they
    can be compared.

    Args:
        verified: time of the last check, by store and base offset.
        bad: store and base offset of the segments that are known to be bad.
        budget_bytes: limit of the bytes that a round reads; ``None``: no limit.
    """

    def choose(tasks: Sequence[SegmentTask]) -> list[SegmentTask]:
        together: dict[tuple[str, int], list[SegmentTask]] = {}
        for task in tasks:
            together.setdefault((task.share.group, task.base), []).append(task)
        ages = {
            key: min(_age(verified, bad, task) for task in members)
            for key, members in together.items()
        }
        chosen: list[SegmentTask] = []
        left = budget_bytes
        for key in sorted(together, key=lambda one: (ages[one], one)):
            size = sum(task.size for task in together[key])
            if left is not None:
                if chosen and size > left:
                    break
                left -= size
            chosen += together[key]
        return chosen

    return choose


def _age(
    verified: Mapping[tuple[str, int], datetime],
    bad: Collection[tuple[str, int]],
    task: SegmentTask,
) -> float:
    if (task.share.store, task.base) in bad:
        return -1.0
    found = verified.get((task.share.store, task.base))
    return 0.0 if found is None else found.timestamp()
