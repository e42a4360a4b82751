"""
The two Spark jobs of a compaction: plan the layout, copy the records.

Plain values and rows travel. A task opens the store for reading, and closes it. Its
result depends only on the plan and on bytes that do not change, so a task may run
twice, or at the same time as its copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  the usual name

from pystore.spark.compact.checkpoint import CompactionWork
from pystore.spark.compact.copy import COPIED, COPIED_OF, copy_records
from pystore.spark.compact.layout import PLACES, QueueLayout, lay_out
from pystore.spark.compact.plan import CompactionPlan
from pystore.spark.compact.scan import NOTE, RECORD, SCANNED, scan_segment
from pystore.spark.session import described, job_errors
from pystore.spark.task_runner import parallelism_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkJobs"]

RecordBatches = Iterable[pa.RecordBatch]


class SparkJobs:
    """
    The tasks of a compaction, run by Spark.

    Args:
        session: of Spark.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def survey(self, plan: CompactionPlan) -> list[str]:
        """
        Returns the layout of each queue, and writes nothing.

        The layouts are texts of `QueueLayout` or of `CompactionDamage`.

        Raises:
            UnavailableError: a task failed.
        """
        with self._job("count", plan):
            rows = self._places(plan, with_records=False).collect()
        return [row.text for row in rows]

    def lay_out(self, work: CompactionWork) -> list[str]:
        """
        Plans the place of each record, saves the rows in the work, and returns the
        texts of the queues.

        Raises:
            UnavailableError: a task failed.
        """
        path = work.rows.as_uri()
        with self._job("plan", work.plan):
            rows = self._places(work.plan, with_records=True)
            rows.write.mode("overwrite").parquet(path)
            kept = self._session.read.schema(PLACES).parquet(path)
            notes = kept.where(F.col("kind") == NOTE).select("text").collect()
        return [row.text for row in notes]

    def copy(
        self,
        work: CompactionWork,
        layouts: Iterable[QueueLayout],
        done: Collection[int],
    ) -> None:
        """
        Copies the records of every segment to their places.

        Args:
            work: that holds the rows of the layout.
            layouts: of the queues.
            done: numbers of the segments that are already copied.

        Raises:
            UnavailableError: a task failed.
        """
        plan, folder = work.plan, str(work.folder)
        names = {layout.hash: layout.folder for layout in layouts}

        def copy(batches: RecordBatches) -> Iterator[pa.RecordBatch]:
            return copy_records(batches, plan, names, Path(folder))

        with self._job("copy", plan):
            rows = self._session.read.schema(PLACES).parquet(work.rows.as_uri())
            is_pending = (F.col("kind") == RECORD) & ~F.col("segment").isin(list(done))
            pending = rows.where(is_pending).select(*COPIED_OF)
            ordered = pending.repartitionById(
                len(plan.bases), "segment"
            ).sortWithinPartitions("segment", "offset")
            ordered.mapInArrow(copy, COPIED).collect()

    @contextmanager
    def _job(self, step: str, plan: CompactionPlan) -> Iterator[None]:
        text = f"pystore compact {plan.store}: {step}".replace(",", " ")
        with job_errors(), described(self._session, text):
            yield

    def _places(self, plan: CompactionPlan, *, with_records: bool) -> DataFrame:
        segments = len(plan.bases)
        scanned = self._session.range(0, segments, 1, max(1, segments)).mapInArrow(
            _scanner(plan), SCANNED
        )
        latest = scanned.groupBy("queue", "kind", "key").agg(
            F.max("offset").alias("last"), F.max_by("value", "offset").alias("value")
        )
        rows = latest.select(
            "queue",
            "kind",
            F.when(F.col("kind") == NOTE, F.col("key")).alias("key"),
            F.col("last").alias("offset"),
            "value",
        )
        parts = max(2, parallelism_of(self._session))
        ordered = rows.repartition(parts, "queue").sortWithinPartitions(
            "queue", "kind", "offset"
        )

        def lay(batches: RecordBatches) -> Iterator[pa.RecordBatch]:
            return lay_out(batches, plan, with_records=with_records)

        return ordered.mapInArrow(lay, PLACES)


def _scanner(
    plan: CompactionPlan,
) -> Callable[[RecordBatches], Iterator[pa.RecordBatch]]:
    splits, topics = plan.splits(), plan.choice.topics

    def scan(batches: RecordBatches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from scan_segment(splits[number], topics)

    return scan
