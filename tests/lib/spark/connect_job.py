"""
All jobs and ways to read, as a client of a server of Spark Connect.

    python -m lib.spark.connect_job ADDRESS STORE COMPACTABLE INTO

It prints its results as JSON.

The two stores may be in use; INTO is a new folder.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import pystore.spark
from lib.spark.compaction import CHOICE
from pystore.errors import UnavailableError
from pystore.spark.compact.jobs import SparkJobs
from pystore.spark.compact.run import compact, survey
from pystore.spark.export.job import export
from pystore.spark.export.run import ExportRequest
from pystore.spark.session import is_remote, open_session
from pystore.spark.task_runner import parallelism_of, run_tasks
from pystore.spark.verify.frame import verify

__all__: list[str] = []


def _counts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.record_batch({"rows": [batch.num_rows]})


def _fail(_: int) -> None:
    raise ValueError("no such task")


def _error(session: SparkSession) -> str:
    try:
        run_tasks(session, [1], _fail)
    except UnavailableError as error:
        # The text is the result.
        return str(error)
    return ""


def _stream(session: SparkSession, store: str, into: Path) -> int:
    live = session.readStream.format("pystore").option("columns", "offset").load(store)
    sink = live.writeStream.format("parquet").option(
        "checkpointLocation", str(into / "checkpoint")
    )
    query = sink.trigger(availableNow=True).start(str(into / "streamed"))
    query.awaitTermination(120)
    return session.read.parquet(str(into / "streamed")).count()


def main() -> None:
    """
    Runs all of it.
    """
    address, store = sys.argv[1:3]
    compactable, into = map(Path, sys.argv[3:])
    found: dict[str, object] = {}
    with open_session("test", address) as session:
        pystore.spark.register(session)
        found["remote"] = is_remote(session)
        found["format"] = session.read.format("pystore").load(store).count()
        found["load"] = pystore.spark.load(session, store, columns="offset").count()
        mapped = pystore.spark.map_batches(session, store, _counts, "rows bigint")
        found["map_batches"] = sum(row.rows for row in mapped.collect())
        found["stream"] = _stream(session, store, into)
        found["parallelism"] = parallelism_of(session)
        found["tasks"] = run_tasks(session, [3, 1, 2], str, 2)
        found["error"] = _error(session)
        commit = export(session, ExportRequest((store,), into / "exported"))
        found["exported"] = commit and commit.records
        counted = survey(SparkJobs(session), compactable, CHOICE)
        found["surveyed"] = sum(queue.records for queue in counted.queues)
        compact(SparkJobs(session), compactable, into / "compacted", CHOICE)
        verdicts = verify(session, store, replicas="none")
        found["verdicts"] = sorted({row.verdict for row in verdicts.collect()})
        found["tags"] = sorted(session.getTags())
    print(json.dumps(found))


if __name__ == "__main__":
    main()
