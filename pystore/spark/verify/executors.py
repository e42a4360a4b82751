"""
Runs tasks on Spark's executors. Tasks and results are plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pystore.spark.task_runner import parallelism_of, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["RunTasks", "on_spark"]

_PARTITION_BYTES = 256 << 20
_PARTITIONS_MAX = 20_000

RunTasks = Callable[
    [Sequence[Any], Callable[[Any], Any], Callable[[Any], int]], "list[Any]"
]
"""
Calls the function with each task and returns the results. The last argument returns
the size of a task in bytes.
"""


def on_spark(session: SparkSession) -> RunTasks:
    """
    Returns a function that runs tasks on the executors of a session, classic or of
    Spark Connect.

    Spark may run a task twice, or again after a failure, on any executor. So a task
    must change nothing.
    """

    def run(
        tasks: Sequence[Any],
        function: Callable[[Any], Any],
        size: Callable[[Any], int],
    ) -> list[Any]:
        if not tasks:
            return []
        total = sum(map(size, tasks))
        wanted = max(-(-total // _PARTITION_BYTES), parallelism_of(session))
        slices = min(len(tasks), wanted, _PARTITIONS_MAX)
        text = f"pystore verify: {len(tasks)} tasks"
        return run_tasks(session, tasks, function, slices, text)

    return run
