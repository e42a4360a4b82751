"""
An export as a Spark job, for the command and for notebooks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pystore.spark.export.commit import Commit
from pystore.spark.export.run import ExportRequest, run_export
from pystore.spark.export.task import ExportTask, TaskResult, write_task
from pystore.spark.task_runner import parallelism_of, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["export"]


def export(session: SparkSession, request: ExportRequest) -> Commit | None:
    """
    Exports the new records of the stores, as Parquet by topic and day.

    Args:
        session: of Spark; its workers write the files.
        request: the options.

    Returns:
        The commit of the run; ``None``: there were no new records.

    Raises:
        PystoreError: as `run_export`; `UnavailableError`: a task failed.
    """

    def run(tasks: Sequence[ExportTask]) -> list[TaskResult]:
        into = f"pystore export into {request.into}".replace(",", " ")
        return run_tasks(session, tasks, write_task, description=into)

    return run_export(request, run, parallelism_of(session))
