"""
Verdicts as a table in Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pystore.spark.session import job_errors
from pystore.spark.verify.executors import on_spark
from pystore.spark.verify.run import VerifyRun, verify_stores
from pystore.spark.verify.verdicts import ReplicaAtPlan, SegmentVerdict, Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["COLUMNS", "frame_of", "row_of", "verdict_of", "verify"]

COLUMNS = {
    "round": "bigint",
    "verifiedAt": "timestamp",
    "group": "string",
    "store": "string",
    "segment": "bigint",
    "name": "string",
    "verdict": "string",
    "isBad": "boolean",
    "length": "bigint",
    "checkedBytes": "bigint",
    "records": "bigint",
    "uncoveredBytes": "bigint",
    "isSampled": "boolean",
    "isSealed": "boolean",
    "replicas": "int",
    "blocks": "array<int>",
    "firstDifference": "bigint",
    "digest": "string",
    "readBlocks": "array<int>",
    "blockDigests": "array<bigint>",
    "evidence": "array<string>",
    "seconds": "double",
    "brokerId": "int",
    "incarnation": "string",
    "begin": "bigint",
    "confirm": "bigint",
    "cutGeneration": "bigint",
    "plannedAt": "timestamp",
}
"""The columns of a round, with their types in Spark."""


def verify(
    session: SparkSession,
    paths: str | Iterable[str],
    *,
    replicas: str = "auto",
    percent: int = 100,
    number: int = 0,
) -> DataFrame:
    """
    Checks stores, and returns a row for each segment of each.

    Args:
        session: of Spark.
        paths: of stores: roots, globs, ``file:`` URLs.
        replicas: which stores are compared with each other: those whose identity
            names the same broker set (``auto``), ``all``, or ``none``.
        percent: of the blocks of each segment that are read.
        number: of the round; each round reads other blocks.

    Raises:
        PystoreError: as `pystore.spark.verify.run.verify_stores`.
    """
    roots = [paths] if isinstance(paths, str) else list(paths)
    found = verify_stores(
        on_spark(session),
        roots,
        replicas=replicas,
        percent=percent,
        number=number,
    )
    return frame_of(session, found)


def frame_of(session: SparkSession, found: VerifyRun) -> DataFrame:
    """
    Returns a round as a table.
    """
    schema = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
    rows = [tuple(row_of(one, found).values()) for one in found.verdicts]
    with job_errors():
        return session.createDataFrame(rows, schema)


def row_of(one: SegmentVerdict, found: VerifyRun) -> dict[str, Any]:
    """
    Returns a verdict by column.
    """
    return {
        "round": found.number if one.round is None else one.round,
        "verifiedAt": datetime.fromtimestamp(
            found.began if one.verified_at is None else one.verified_at, UTC
        ),
        "group": one.group,
        "store": one.store,
        "segment": one.segment,
        "name": one.name,
        "verdict": str(one.verdict),
        "isBad": one.is_bad,
        "length": one.length,
        "checkedBytes": one.checked_bytes,
        "records": one.records,
        "uncoveredBytes": one.uncovered_bytes,
        "isSampled": one.is_sampled,
        "isSealed": one.is_sealed,
        "replicas": one.replicas,
        "blocks": list(one.blocks),
        "firstDifference": one.first_difference,
        "digest": one.digest,
        "readBlocks": list(one.read_blocks),
        "blockDigests": list(one.block_digests),
        "evidence": one.evidence,
        "seconds": one.seconds,
        **_replica_row(one.replica),
    }


def _replica_row(one: ReplicaAtPlan | None) -> dict[str, Any]:
    return {
        "brokerId": one and one.broker_id,
        "incarnation": one and one.incarnation,
        "begin": one and one.begin,
        "confirm": one and one.confirm,
        "cutGeneration": one and one.cut_generation,
        "plannedAt": one and datetime.fromtimestamp(one.planned_at, UTC),
    }


def _replica_of(row: Mapping[str, Any]) -> ReplicaAtPlan | None:
    if row.get("brokerId") is None:
        return None
    return ReplicaAtPlan(
        row["brokerId"],
        row["incarnation"],
        row["begin"],
        row["confirm"],
        row["cutGeneration"],
        row["plannedAt"].timestamp(),
    )


def verdict_of(row: Mapping[str, Any]) -> SegmentVerdict:
    """
    Returns the verdict of a row, as `row_of` made it. Columns that an older version
    did not write have their default.
    """
    return SegmentVerdict(
        group=row["group"],
        store=row["store"],
        segment=row["segment"],
        verdict=Verdict(row["verdict"]),
        name=row["name"],
        is_bad=row["isBad"],
        length=row["length"],
        checked_bytes=row["checkedBytes"],
        records=row["records"],
        uncovered_bytes=row.get("uncoveredBytes") or 0,
        is_sampled=bool(row.get("isSampled")),
        is_sealed=row["isSealed"],
        replicas=row["replicas"],
        blocks=tuple(row["blocks"]),
        first_difference=row["firstDifference"],
        digest=row["digest"],
        read_blocks=tuple(row.get("readBlocks") or ()),
        block_digests=tuple(row.get("blockDigests") or ()),
        evidence=list(row["evidence"]),
        seconds=row["seconds"],
        round=row["round"],
        verified_at=row["verifiedAt"].timestamp(),
        replica=_replica_of(row),
    )
