"""
The end of each part of the demo: Spark verifies a store and two copies of it, and real
replicas against each other.

One bit of one copy is changed on purpose. The verification must report this segment and
no other one, and of the real replicas none.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pystore.bindings.row import Check
from pystore.core.log_reader import LogReader
from pystore.errors import UnavailableError
from pystore.fs.layout import segment_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pystore.spark.verify.run import VerifyRun

__all__ = [
    "COPIES",
    "AgreementReport",
    "ReplicaReport",
    "StepCallback",
    "compare_replicas",
    "show_replicas",
]

COPIES = 2

StepCallback = Callable[[str, int, int], None]
"""Called with a step's label, how far the step is and how far it goes."""


@dataclass(frozen=True, slots=True)
class ReplicaReport:
    """
    The result of the verification on Spark.

    Attributes:
        segments: number of segments of the store and its copies.
        checked_bytes: size of these segments.
        seconds: that the job took, without the start of the session.
        planted: store and base offset of the damaged segment.
        named: segments that the verification reports as bad.
        evidence: of the first one.
        page: path of the report.
        skipped: why the job did not run, in one line; empty: it ran.
    """

    segments: int = 0
    checked_bytes: int = 0
    seconds: float = 0.0
    planted: tuple[str, int] | None = None
    named: tuple[tuple[str, int | None], ...] = ()
    evidence: str = ""
    page: Path | None = None
    skipped: str = ""

    @property
    def is_good(self) -> bool:
        """
        Whether exactly the damaged segment was reported.
        """
        return bool(self.skipped) or (self.planted,) == self.named


@dataclass(frozen=True, slots=True)
class AgreementReport:
    """
    The result of the comparison of real replicas on Spark.

    Attributes:
        segments: number of segments of all stores.
        checked_bytes: size of these segments.
        seconds: that the job took, without the start of the session.
        bad: segments that are bad or differ: store, base offset, and the evidence.
        page: path of the report.
        skipped: why the job did not run, in one line; empty: it ran.
    """

    segments: int = 0
    checked_bytes: int = 0
    seconds: float = 0.0
    bad: tuple[tuple[str, int | None, str], ...] = ()
    page: Path | None = None
    skipped: str = ""

    @property
    def is_good(self) -> bool:
        """
        Whether no segment is bad.
        """
        return not self.bad


def compare_replicas(
    stores: Sequence[Path], into: Path, note: StepCallback, master: str = "local[*]"
) -> AgreementReport:
    """
    Verifies replicas against each other on Spark.

    Args:
        stores: closed.
        into: directory of the round and its page.
        note: called with the progress.
        master: of Spark.

    Raises:
        PystoreError: a store cannot be read, or Spark failed.
    """
    from pystore.spark.session import open_session  # noqa: PLC0415

    try:
        with open_session("pystore demo", master) as session:
            note("verify the replicas on Spark", 0, 0)
            found = _verified(session, stores, into)
    except UnavailableError as error:
        # The rest of the demo does not need Java.
        return AgreementReport(skipped=str(error))
    return AgreementReport(
        segments=sum(one.segment is not None for one in found.verdicts),
        checked_bytes=sum(one.checked_bytes for one in found.verdicts),
        seconds=found.seconds,
        bad=tuple(
            (one.store, one.segment, one.evidence[0] if one.evidence else "")
            for one in found.verdicts
            if one.is_bad
        ),
        page=into / _page(),
    )


def show_replicas(
    store: Path, into: Path, note: StepCallback, master: str = "local[*]"
) -> ReplicaReport:
    """
    Copies the store twice, damages one copy and verifies all three on Spark.

    Args:
        store: closed; the copies are made beside it.
        into: directory of the round and its page.
        note: called with the progress.
        master: of Spark.

    Raises:
        PystoreError: a store cannot be read, or Spark failed.
    """
    # PySpark is needed from here on; the rest of the demo does not need it.
    from pystore.spark.session import open_session  # noqa: PLC0415

    roots = [store]
    try:
        with open_session("pystore demo", master) as session:
            for number in range(1, COPIES + 1):
                note("copy the store", number - 1, COPIES)
                roots.append(store.with_name(f"copy{number}"))
                shutil.copytree(store, roots[-1])
            planted = _flip_one_bit(roots[-1])
            note("verify on Spark", 0, 0)
            found = _verified(session, roots, into)
    except UnavailableError as error:
        # The rest of the demo does not need Java.
        return ReplicaReport(skipped=str(error))
    finally:
        for root in roots[1:]:
            shutil.rmtree(root, ignore_errors=True)
    bad = [one for one in found.verdicts if one.is_bad]
    return ReplicaReport(
        segments=sum(one.segment is not None for one in found.verdicts),
        checked_bytes=sum(one.checked_bytes for one in found.verdicts),
        seconds=found.seconds,
        planted=planted,
        named=tuple((one.store, one.segment) for one in bad),
        evidence=bad[0].evidence[0] if bad and bad[0].evidence else "",
        page=into / _page(),
    )


def _verified(session: SparkSession, roots: Sequence[Path], into: Path) -> VerifyRun:
    from pystore.spark.verify.executors import on_spark  # noqa: PLC0415
    from pystore.spark.verify.output import write_output  # noqa: PLC0415
    from pystore.spark.verify.rounds import next_round  # noqa: PLC0415
    from pystore.spark.verify.run import verify_stores  # noqa: PLC0415

    found = verify_stores(
        on_spark(session),
        [str(root) for root in roots],
        replicas="all",
        number=next_round(into),
    )
    write_output(into, found)
    return found


def _page() -> str:
    from pystore.spark.verify.output import PAGE  # noqa: PLC0415

    return PAGE


def _flip_one_bit(root: Path) -> tuple[str, int]:
    """
    Changes one bit of a body in the middle of the log.
    """
    with LogReader(root) as log:
        bases = log.segments()
        base = bases[len(bases) // 2]
        end = base + log.ends().segment_size
        scan = log.scan(base, end, Check.OFFSET, rows=1000)
        rows = next(scan)
    row = rows[rows["body_size"] > 0][-1]
    path = segment_path(root, base)
    with path.open("r+b") as file:
        file.seek(int(row["offset"]) - base + int(row["body_at"]))
        (byte,) = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))
    return str(root), base
