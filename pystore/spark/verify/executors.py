"""
Tasks on Spark's executors: values go out, values come back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pystore.spark.session import job_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["RunTasks", "on_spark"]

_PARTITION_BYTES = 256 << 20
_PARTITIONS_MAX = 20_000

RunTasks = Callable[
    [Sequence[Any], Callable[[Any], Any], Callable[[Any], int]], "list[Any]"
]
"""Calls a function of a module with each task; the last one sizes a task, in bytes."""


def on_spark(session: SparkSession) -> RunTasks:
    """
    Returns what runs tasks on the executors of a session.

    A task that fails is tried again by Spark, on another executor, and its result
    counts once; so tasks must change nothing.
    """

    def run(
        tasks: Sequence[Any],
        function: Callable[[Any], Any],
        size: Callable[[Any], int],
    ) -> list[Any]:
        if not tasks:
            return []
        total = sum(map(size, tasks))
        wanted = max(-(-total // _PARTITION_BYTES), context.defaultParallelism)
        slices = min(len(tasks), wanted, _PARTITIONS_MAX)
        with job_errors():
            return context.parallelize(tasks, slices).map(function).collect()

    context = session.sparkContext
    return run
