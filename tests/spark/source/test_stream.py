"""
The stream reader as Spark's driver calls it, without a session.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lib.spark.stream_driver import Driver
from lib.store.stores import SEGMENT, fill, message
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
)

from pystore.errors import CutError, NotAStoreError, OffsetOutOfRange
from pystore.message.message import Message
from pystore.store.commit_log import CommitLog

SEED = 20260731
RECORD = 230
"""More than a record of `fill` takes."""


@pytest.fixture
def log(tmp_path: Path) -> Any:
    """
    A store that is being written.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        yield log


def test_batches_hold_each_record_once(log: CommitLog) -> None:
    """
    Between two batches the store grows, and the reader restarts.
    """
    driver, found, written = Driver(log.path), list[int](), list[int]()
    for first in range(0, 2000, 400):
        written += fill(log, 400, first)
        found += driver.batch()
        driver.restart()

    assert written == found
    assert [] == driver.batch()


@pytest.mark.parametrize(
    ("option", "limit"),
    [
        ({"maxBytesPerTrigger": 50 * RECORD}, ReadMaxBytes(50 * RECORD)),
        ({"maxRecordsPerTrigger": 50}, ReadMaxRows(50)),
    ],
)
def test_a_batch_keeps_its_limit(
    log: CommitLog, option: dict[str, int], limit: ReadLimit
) -> None:
    """
    By the option, which Spark passes back; all data if Spark requests it.
    """
    written = fill(log, 600)
    driver = Driver(log.path, **{name: str(at) for name, at in option.items()})
    assert limit == driver.reader.getDefaultReadLimit()

    found, sizes = list[int](), list[int]()
    while len(found) < 500:
        found += driver.batch()
        sizes.append(len(found) - sum(sizes))
    assert all(40 <= size <= 60 for size in sizes), sizes
    found += driver.batch(ReadAllAvailable())

    assert written == found


def test_two_limits_hold_together(log: CommitLog) -> None:
    """
    Spark knows one of them, the options both.
    """
    fill(log, 100)
    driver = Driver(log.path, maxBytesPerTrigger="1m", maxRecordsPerTrigger=7)

    assert 7 == len(driver.batch())


def test_a_record_larger_than_the_limit_comes_alone(log: CommitLog) -> None:
    """
    Otherwise the stream would not continue.
    """
    written = fill(log, 3)
    driver = Driver(log.path, maxBytesPerTrigger=1)

    assert [[offset] for offset in written] == [driver.batch() for _ in range(3)]
    assert [] == driver.batch()


def test_stores_share_a_limit(tmp_path: Path) -> None:
    """
    The unused share of a small store goes to the others; each gives records.
    """
    with (
        CommitLog(tmp_path / "a", segment_size=SEGMENT) as one,
        CommitLog(tmp_path / "b", segment_size=SEGMENT) as other,
    ):
        fill(one, 10)
        # Equal records of one millisecond would make them replicas of one log.
        other.append(Message("other", b"first"))
        fill(other, 500)
        driver = Driver(tmp_path / "*", maxRecordsPerTrigger=100)

        assert 100 == len(driver.batch())
        assert driver.start is not None
        stores = driver.start["stores"]
        assert one.end_offset == stores[str(one.path)]["offset"]
        fill(one, 300)
        assert 100 == len(driver.batch())


def test_a_new_store_is_read_from_its_start(tmp_path: Path) -> None:
    """
    Even if the others began at their ends.
    """
    with CommitLog(tmp_path / "a", segment_size=SEGMENT) as one:
        fill(one, 10)
        driver = Driver(tmp_path / "*", startingOffsets="latest")
        assert [] == driver.batch()
        with CommitLog(tmp_path / "b", segment_size=SEGMENT) as other:
            written = fill(other, 5)
            assert written == driver.batch()


def test_a_stream_begins_at_the_starting_offset(log: CommitLog) -> None:
    """
    At a record, or at the first one above an offset.
    """
    written = fill(log, 100)
    assert written == Driver(log.path, startingOffsets="Earliest").batch()
    for offset in (written[60], written[60] - 1):
        assert written[60:] == Driver(log.path, startingOffsets=offset).batch()
    latest = Driver(log.path, startingOffsets="latest")
    latest.begin()
    assert latest.start == latest.reader.initialOffset()
    behind = fill(log, 5)
    assert latest.start == latest.reader.initialOffset()  # Spark calls it again
    assert behind == latest.batch()


def test_available_now_ends_at_the_ends_of_its_start(log: CommitLog) -> None:
    """
    In as many batches as the limit needs, even if records are appended meanwhile.
    """
    written = fill(log, 100)
    driver = Driver(log.path, maxRecordsPerTrigger=30)
    driver.reader.prepareForTriggerAvailableNow()
    driver.begin()
    found: list[int] = []
    while batch := driver.batch():
        found += batch
        fill(log, 10)

    assert written == found


def test_only_confirmed_records_are_read(log: CommitLog) -> None:
    """
    This is the default; published records are read on request.
    """
    written = fill(log, 10)
    log.writer.log.confirm(written[5] + 17)  # a follower may have half a record

    assert written[:5] == Driver(log.path).batch()
    assert written == Driver(log.path, readUpTo="published").batch()


def test_a_stream_begins_at_an_offset_of_each_store_or_at_a_time(
    log: CommitLog,
) -> None:
    """
    As in other sources; a store that is not named is read from its start.
    """
    written = fill(log, 900)
    ms = log.read(written[500]).store_ms
    first = next(at for at in written if log.read(at).store_ms >= ms)
    at = datetime.fromtimestamp(ms / 1000, UTC).isoformat()

    named = json.dumps({str(log.path): written[7]})
    assert written[7:] == Driver(log.path, startingOffsets=named).batch()
    other = json.dumps({"/other": 5})
    assert written == Driver(log.path, startingOffsets=other).batch()
    since = Driver(log.path, startingTimestamp=at)
    assert written[written.index(first) :] == since.batch()
    later = fill(log, 3)
    assert later == since.batch()
    assert [] == Driver(log.path, startingTimestamp="2100-01-01").batch()


def test_topics_are_chosen_by_an_option(log: CommitLog) -> None:
    """
    Skipped records count for limits, too, so the stream advances.
    """
    wanted: list[int] = []
    for number in range(100):
        offset = log.append(message(number, topic=f"T{number % 3}")).offset
        wanted += [offset] if number % 3 == 1 else []
    driver = Driver(log.path, topics="T1,X*", maxRecordsPerTrigger=10)

    assert wanted == [offset for _ in range(10) for offset in driver.batch()]
    assert [] == driver.batch()


def test_the_progress_has_the_ends_of_the_stores(log: CommitLog) -> None:
    """
    Spark computes the lag from them.
    """
    fill(log, 10)
    driver = Driver(log.path, maxRecordsPerTrigger=1)
    driver.batch()

    found = driver.reader.reportLatestOffset()

    assert found is not None
    assert log.end_offset == found["stores"][str(log.path)]["offset"]


def test_records_deleted_before_they_were_read_end_the_stream(log: CommitLog) -> None:
    """
    Or it continues with the first existing record.
    """
    written = fill(log, 2000)
    driver = Driver(log.path, maxRecordsPerTrigger=10)
    tolerant = Driver(log.path, maxRecordsPerTrigger=10, failOnDataLoss="false")
    assert written[:10] == driver.batch() == tolerant.batch()
    log.delete_before(2 * SEGMENT)

    with pytest.raises(OffsetOutOfRange, match="were deleted before the stream read"):
        driver.batch()
    left = [offset for offset in written if offset >= 2 * SEGMENT]
    assert left == tolerant.batch(ReadAllAvailable())


def test_a_cut_below_what_was_read_ends_the_stream(log: CommitLog) -> None:
    """
    Or it continues with the records written since.
    """
    written = fill(log, 100)
    driver = Driver(log.path)
    tolerant = Driver(log.path, failOnDataLoss="false")
    assert written == driver.batch() == tolerant.batch()
    log.cut(written[40])
    fresh = fill(log, 80, 1000)

    with pytest.raises(CutError, match="the log was cut below offset"):
        driver.batch()
    assert fresh == tolerant.batch()
    assert fill(log, 3) == tolerant.batch()


def test_a_planned_batch_whose_end_was_cut_is_not_read(log: CommitLog) -> None:
    """
    A restarted query runs its last batch again, between the same offsets.
    """
    written = fill(log, 100)
    driver = Driver(log.path)
    driver.begin()
    assert driver.start is not None
    end = driver.reader.latestOffset(driver.start, ReadAllAvailable())
    log.cut(written[50])
    fill(log, 60, 1000)
    driver.restart()

    with pytest.raises(CutError, match="the log was cut below offset"):
        driver.between(end)


def test_a_stream_delivers_each_record_that_stands_once_whatever_is_cut(
    tmp_path: Path,
) -> None:
    """
    Cuts come between two batches, between the steps of a batch, and between the rows of
    a task. Records that were written between two cuts are not passed over.
    """
    chance = random.Random(SEED)
    for case in range(8):
        with CommitLog(tmp_path / f"store{case}", segment_size=SEGMENT) as log:
            _follow_while_cut(log, chance, f"seed {SEED}, case {case}")


def _follow_while_cut(log: CommitLog, chance: random.Random, where: str) -> None:
    driver = Driver(
        log.path,
        column="keys",
        failOnDataLoss="false",
        rowsPerBatch=7,
        splitBytes="9k",
        maxRecordsPerTrigger=90,
    )
    numbers = itertools.count()
    offsets: dict[str, int] = {}

    def change() -> None:
        for _ in range(chance.choice((0, 0, 1, 1, 2, 3))):
            if offsets:
                at = sorted(offsets.values())[-chance.randrange(1, 80) :][0]
                log.cut(at)
                for key in [key for key, one in offsets.items() if one >= at]:
                    del offsets[key]
            for number in itertools.islice(numbers, chance.randrange(60)):
                offsets[f"k{number}"] = log.append(message(number)).offset

    found: Counter[str] = Counter()
    for _ in range(20):
        change()
        driver.begin()
        assert driver.start is not None
        end = driver.reader.latestOffset(
            driver.start, driver.reader.getDefaultReadLimit()
        )
        change()
        for part in driver.reader.partitions(driver.start, json.loads(json.dumps(end))):
            change()
            for batch in driver.reader.read(part):
                found.update(str(key) for key in batch.column(0).to_pylist())
                if not chance.randrange(3):
                    change()
        driver.start = json.loads(json.dumps(end))
    while True:
        last = found.total()
        found.update(str(key) for key in driver.batch())
        if found.total() == last:
            break
    assert dict.fromkeys(offsets, 1) == {key: found[key] for key in offsets}, where


def test_a_missing_store_ends_the_stream(tmp_path: Path) -> None:
    """
    Or its offset is kept until the store exists again.
    """
    root = tmp_path / "a"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 10)
    driver = Driver(tmp_path / "*")
    tolerant = Driver(tmp_path / "*", failOnDataLoss="false")
    assert 10 == len(driver.batch()) == len(tolerant.batch())
    root.rename(tmp_path / "away")
    away = Driver(tmp_path / "away")
    away.begin()

    (tmp_path / "away").rename(tmp_path.parent / "away")
    with pytest.raises(NotAStoreError, match="no store matches"):
        driver.batch()
    assert [] == tolerant.batch()
    (tmp_path.parent / "away").rename(root)
    with CommitLog(root, segment_size=SEGMENT) as log:
        assert fill(log, 3) == tolerant.batch()


def test_a_reader_without_a_start_continues(log: CommitLog) -> None:
    """
    PySpark 4.1 passes no arguments; limits hold from the second batch on.
    """
    written = fill(log, 100)
    driver = Driver(log.path, maxRecordsPerTrigger=30)
    driver.begin()
    found: list[int] = []
    for _ in range(5):
        end = driver.reader.latestOffset()
        batch = driver.between(end)
        assert len(batch) <= 30
        driver.start, found = end, found + batch
    assert written == found

    fresh = fill(log, 50)
    driver.restart()
    end = driver.reader.latestOffset()
    assert fresh == driver.between(end)


def test_nothing_stays_open_between_batches(log: CommitLog) -> None:
    """
    A driver may run for months.
    """
    driver = Driver(log.path, maxRecordsPerTrigger=1)
    fill(log, 60)
    driver.batch()
    before, mapped = set(os.listdir("/proc/self/fd")), _mappings(log.path)

    for _ in range(50):
        driver.batch()
        driver.reader.reportLatestOffset()

    # What an earlier test left may be collected meanwhile.
    assert set() == set(os.listdir("/proc/self/fd")) - before
    assert mapped == _mappings(log.path)


def _mappings(root: Path) -> int:
    return Path("/proc/self/maps").read_text().count(str(root))
