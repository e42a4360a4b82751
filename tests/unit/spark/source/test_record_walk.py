"""
Ends of batches: between two records, for any limit.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.spark.reading import make_store
from lib.store.logs import SEGMENT_SIZE

from pystore.core.log_reader import LogReader
from pystore.core.options import LogOptions
from pystore.spark.source.record_walk import WalkStep, first_from, last_below, walk
from pystore.store.open_reader import open_reader

Records = list[tuple[int, int]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """
    A store of 400 records in several segments.
    """
    return make_store(tmp_path)


@pytest.fixture
def log(root: Path) -> Iterator[LogReader]:
    """
    The store, open for reading.
    """
    found, _ = open_reader(root, LogOptions())
    with found:
        yield found


def records_of(log: LogReader) -> Records:
    """
    Start and end of every record.
    """
    return [
        (int(row["offset"]), int(row["offset"] + row["size"]))
        for rows in log.scan(0)
        for row in rows
    ]


def test_a_walk_ends_with_the_last_whole_record_below_any_limit(
    log: LogReader,
) -> None:
    """
    From any record on, by bytes and by records, across ends of segments.
    """
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    records, end = records_of(log), log.ends().published_end

    for _ in range(300):
        first = chance.randrange(len(records))
        start = records[first][0]
        top = chance.randint(start, end)
        count = chance.choice([None, 1, 7, 100])
        whole = [one for one in records[first:] if one[1] <= top][:count]
        wanted = WalkStep(whole[-1][1], whole[-1][0], len(whole)) if whole else None

        assert (wanted or WalkStep(start, None, 0)) == walk(log, start, top, end, count)
        if count is None:
            found = last_below(log, start, top, end)
            assert (found.offset, found.record) == (
                (whole[-1][1], whole[-1][0]) if whole else (start, None)
            )


def test_an_offset_inside_a_record_leads_to_the_next_one(log: LogReader) -> None:
    """
    In a blank record it leads to the next segment, above the end to the end.
    """
    records, end = records_of(log), log.ends().published_end
    (inside,) = [i for i, (at, _) in enumerate(records) if at == SEGMENT_SIZE]
    last_of_first = records[inside - 1]

    assert records[3][0] == first_from(log, records[3][0], end)
    assert records[4][0] == first_from(log, records[3][0] + 1, end)
    assert SEGMENT_SIZE == first_from(log, last_of_first[1] + 1, end)
    assert end == first_from(log, end - 1, end)
    assert end == first_from(log, end + 5, end)


def test_damage_is_skipped_if_the_next_record_is_known(
    root: Path, log: LogReader
) -> None:
    """
    It proves itself by its magic, its lengths and its embedded offset.
    """
    records, end = records_of(log), log.ends().published_end
    victim = next(one for one in records if one[0] > SEGMENT_SIZE + 20_000)
    with (root / "commitlog" / f"{SEGMENT_SIZE:020d}").open("r+b") as file:
        file.seek(victim[0] - SEGMENT_SIZE)
        file.write(b"garbage!")

    at_damage = last_below(log, 0, victim[1] + 8, end)
    after = last_below(log, 0, victim[0] + 9000, end)
    behind = walk(log, 0, 2 * SEGMENT_SIZE, end)
    beyond = last_below(log, 0, end, end)

    assert victim[1] == at_damage.offset
    assert max(e for _, e in records if e <= victim[0] + 9000) == after.offset
    assert max(at for at, _ in records if at < 2 * SEGMENT_SIZE) == behind.record
    assert (records[-1][1], records[-1][0]) == (beyond.offset, beyond.record)


def test_a_bad_record_with_a_valid_size_is_walked_over(
    root: Path, log: LogReader
) -> None:
    """
    Only headers are read; the task that reads the body reports it.
    """
    records, end = records_of(log), log.ends().published_end
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(records[50][0] + 100)
        file.write(b"\xff")

    assert records[80][1] == last_below(log, 0, records[80][1], end).offset
