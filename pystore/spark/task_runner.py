"""
Runs tasks on Spark's executors, also through Spark Connect. Plain values travel.

Spark may run a task twice, or again after a failure: one result of each counts.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from pystore.spark.session import described, is_remote, job_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["parallelism_of", "run_tasks"]

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

_RESULT = "number bigint, result binary"
_TASK_SCHEMA = pa.schema(
    {"part": pa.int32(), "number": pa.int64(), "task": pa.binary()}
)
_PROBE_ROWS = 10_000


def run_tasks(
    session: SparkSession,
    tasks: Sequence[_Task],
    function: Callable[[_Task], _Result],
    partitions: int | None = None,
    description: str = "pystore",
) -> list[_Result]:
    """
    Returns the results of a function, in the order of the tasks.

    Args:
        session: classic, or of Spark Connect.
        tasks: picklable values.
        function: picklable; returns a picklable value.
        partitions: number of Spark's tasks; by default one for each task.
        description: of the job, without a comma, for Spark's pages.

    Raises:
        UnavailableError: a task failed.
    """
    if not tasks:
        return []

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                # The tasks of this driver are trusted as Spark trusts its functions.
                found = pickle.dumps(function(pickle.loads(row["task"])))
                yield pa.record_batch({"number": [row["number"]], "result": [found]})

    with job_errors(), described(session, description):
        # As rows, so that a worker gets the tasks of its partition and no others.
        parts = partitions or len(tasks)
        rows = _rows(session, tasks, parts).repartitionById(parts, "part")
        results = rows.mapInArrow(run, _RESULT).collect()
    found = {row.number: bytes(row.result) for row in results}
    # What the executors of this session return is trusted as Spark trusts it.
    return [pickle.loads(found[number]) for number in range(len(tasks))]


def _rows(session: SparkSession, tasks: Sequence[object], parts: int) -> DataFrame:
    count = len(tasks)
    table = pa.table(
        {
            "part": [number * parts // count for number in range(count)],
            "number": range(count),
            "task": [pickle.dumps(task) for task in tasks],
        },
        _TASK_SCHEMA,
    )
    return session.createDataFrame(table)


def parallelism_of(session: Any) -> int:  # noqa: ANN401  of either kind
    """
    Returns the number of tasks that run at once.

    Args:
        session: classic, or of Spark Connect.
    """
    if not is_remote(session):
        return int(session.sparkContext.defaultParallelism)
    # A session of Connect has no context: Spark splits a range in as many parts.
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    with job_errors():
        parts = session.range(_PROBE_ROWS).select(F.spark_partition_id())
        return int(parts.distinct().count())
