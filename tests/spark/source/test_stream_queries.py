"""
Streams in a session: checkpoints, stops, and a writer meanwhile.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lib.store.stores import SEGMENT, fill
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pystore.store.commit_log import CommitLog

_WRITER = """
import sys
sys.path[:0] = sys.argv[2:]
from lib.store.stores import SEGMENT, fill
from pystore.store.commit_log import CommitLog
with CommitLog(sys.argv[1], segment_size=SEGMENT) as log:
    for first in range(0, 1 << 40, 50):
        fill(log, 50, first)
        print(first, flush=True)
        if not sys.stdin.readline():
            break
"""


class Follower:
    """
    A query that can be stopped and started: table, checkpoint, options.
    """

    def __init__(
        self, session: SparkSession, folder: Path, *paths: Path | str, **options: Any
    ) -> None:
        self._session = session
        self._folder = folder
        self._paths = ",".join(str(path) for path in paths)
        self.options = options

    def stream(self) -> DataFrame:
        """
        The source of the query.
        """
        reader = self._session.readStream.format("pystore").options(**self.options)
        return reader.load(self._paths)

    def start(self, **trigger: Any) -> StreamingQuery:
        """
        Starts the query, or continues it.
        """
        writer = self.stream().writeStream.format("parquet").trigger(**trigger)
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        return writer.start(str(self._folder / "table"))

    def run(self) -> list[int]:
        """
        Reads all records, and returns the number of records of each batch.
        """
        query = self.start(availableNow=True)
        query.awaitTermination(120)
        return [one.numInputRows for one in query.recentProgress if one.numInputRows]

    def offsets(self) -> list[int]:
        """
        The offsets of every record in the table, sorted.
        """
        table = self._session.read.parquet(str(self._folder / "table"))
        return sorted(row.offset for row in table.select("offset").collect())


def offsets_of(log: CommitLog) -> list[int]:
    """
    The offsets of every record in a log.
    """
    return [int(offset) for rows in log.scan() for offset in rows["offset"]]


def test_a_stopped_stream_continues_at_its_checkpoint(
    session: SparkSession, tmp_path: Path
) -> None:
    """
    Each record comes once, while the store stays open for writing; without new records
    there is no batch.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        fill(log, 1000)
        follower = Follower(session, tmp_path, log.path)

        assert [1000] == follower.run()
        assert [] == follower.run()
        fill(log, 700, 1000)
        assert [700] == follower.run()

        assert offsets_of(log) == follower.offsets()


def test_the_progress_of_a_stream_has_its_lag(
    session: SparkSession, tmp_path: Path
) -> None:
    """
    The end of each batch, and that of what may be read.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        fill(log, 300)
        query = Follower(session, tmp_path, log.path, maxRecordsPerTrigger=100).start(
            availableNow=True
        )
        query.awaitTermination(120)
        ends = [*offsets_of(log)[100::100], log.end_offset]
        lags = [log.end_offset - end for end in ends]

    found = []
    for progress in query.recentProgress:
        (source,) = progress.sources
        end, latest = json.loads(source.endOffset), json.loads(source.latestOffset)
        ((key, last),) = latest["stores"].items()
        found.append(last["offset"] - end["stores"][key]["offset"])
    assert lags == found[: len(lags)]


def test_a_stream_beside_a_writer_has_each_record_once(
    session: SparkSession, tmp_path: Path
) -> None:
    """
    It may be stopped at any time: an incomplete batch is read again.
    """
    root, tests = tmp_path / "store", [str(Path(__file__).parents[2])]
    command = [sys.executable, "-c", _WRITER, str(root), *tests]
    follower = Follower(session, tmp_path, root, maxRecordsPerTrigger=120)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdin
        assert writer.stdout
        for _ in range(3):
            writer.stdout.readline()
            query = follower.start(processingTime="0 seconds")
            for _ in range(4):
                writer.stdin.write("\n")
                writer.stdin.flush()
                writer.stdout.readline()
                query.processAllAvailable()
            writer.stdin.write("\n")
            writer.stdin.flush()
            query.stop()  # at any point of a batch
        writer.stdin.close()
        assert 0 == writer.wait(60)

    sizes = follower.run()

    assert all(size <= 120 for size in sizes)
    with CommitLog(root, mode="r") as log:
        written = offsets_of(log)
    assert len(written) > 600
    assert written == follower.offsets()


def test_columns_and_bodies_are_those_of_a_batch(
    session: SparkSession, tmp_path: Path
) -> None:
    """
    Schema and rows are equal.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        fill(log, 100)
    options = {"includeBody": "true", "splitBytes": "4k", "onDamage": "report"}
    follower = Follower(session, tmp_path, tmp_path / "store", **options)
    table = session.read.format("pystore").options(**options)
    batch = table.load(str(tmp_path / "store"))

    assert [100] == follower.run()

    assert batch.schema == follower.stream().schema
    streamed = session.read.parquet(str(tmp_path / "table"))
    assert (
        batch.orderBy("offset").collect()
        == streamed.select(batch.columns).orderBy("offset").collect()
    )


def test_data_loss_ends_a_query_with_one_line_or_is_skipped(
    session: SparkSession, tmp_path: Path
) -> None:
    """
    The option decides.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        fill(log, 100)
        follower = Follower(session, tmp_path, log.path)
        assert [100] == follower.run()
        fill(log, 2000, 100)
        log.delete_before(2 * SEGMENT)

        with pytest.raises(Exception, match=r"store: the records from offset \d+ to"):
            follower.run()
        follower.options["failOnDataLoss"] = "false"
        (count,) = follower.run()

        left = offsets_of(log)
        assert len(left) == count
        assert left == [one for one in follower.offsets() if one >= 2 * SEGMENT]


@pytest.mark.parametrize(
    ("is_stream", "options", "message"),
    [
        (True, {"fromOffset": "7"}, "fromOffset is not for streams"),
        (True, {"startingOffsets": "soon"}, "startingOffsets"),
        (False, {"maxBytesPerTrigger": "7"}, "maxBytesPerTrigger is for streams"),
    ],
)
def test_options_of_the_other_kind_are_refused(
    session: SparkSession,
    tmp_path: Path,
    is_stream: bool,
    options: dict[str, str],
    message: str,
) -> None:
    """
    The user would expect an effect.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        fill(log, 1)

    def read() -> None:
        if is_stream:
            Follower(session, tmp_path, tmp_path / "store", **options).run()
        else:
            table = session.read.format("pystore").options(**options)
            table.load(str(tmp_path / "store")).count()

    with pytest.raises(Exception, match=message):
        read()


def test_a_pattern_that_matches_no_store_is_an_error(
    session: SparkSession, tmp_path: Path
) -> None:
    """
    An empty table would look like an empty log.
    """
    with pytest.raises(Exception, match="no store matches"):
        Follower(session, tmp_path, tmp_path / "nothing*").run()
