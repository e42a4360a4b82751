"""
The tail of a killed master: what was cut of it, and what that had been acknowledged as.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.store.stores import SEGMENT, fill

from pystore.demo.stream_writer import StreamedAck
from pystore.demo.tail_cut import DeadLog, TailCut, read_dead_log
from pystore.ha.slave.effects import Cut
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.store.commit_log import CommitLog

ALL, TAIL = 20, 30


@pytest.fixture
def offsets(tmp_path: Path) -> list[int]:
    """
    The offsets of the records of a closed store, and their end.
    """
    with CommitLog(tmp_path / "s", segment_size=SEGMENT) as log:
        fill(log, ALL + TAIL)
        rows = [row["offset"] for some in log.scan() for row in some]
        return [*map(int, rows), log.end_offset]


def ack(offsets: list[int], first: int, end: int) -> StreamedAck:
    """
    Of some records.
    """
    return StreamedAck(0, offsets[first], offsets[end], end - first, 1)


def dead(tmp_path: Path, offsets: list[int]) -> DeadLog:
    """
    The log of the master, read from its tail on.
    """
    return read_dead_log(tmp_path / "s", offsets[ALL])


def test_the_tail_is_every_record_above_an_offset(
    tmp_path: Path, offsets: list[int]
) -> None:
    """
    Up to the end of the log, not of its file.
    """
    found = dead(tmp_path, offsets)

    assert offsets[-1] == found.end
    assert offsets[ALL:-1] == found.records.tolist()


def test_a_cut_is_counted_in_bytes_and_records(
    tmp_path: Path, offsets: list[int]
) -> None:
    """
    An append that the slaves had in part counts as neither, and one as `all` is seen.
    """
    before = dead(tmp_path, offsets)
    at = offsets[ALL + 5]
    with ReplicaLog(tmp_path / "s", segment_size=SEGMENT) as log:
        log.carry_out(Cut(at))
        leader = [ack(offsets, ALL, ALL + 10), ack(offsets, ALL + 10, ALL + TAIL)]
        safe, lost = ack(offsets, 0, ALL), ack(offsets, ALL, ALL + 10)
        found = before.cut(1, leader, [safe])

        assert TailCut(1, offsets[-1], at, TAIL - 5, TAIL - 10, 0) == found
        assert offsets[-1] - at == found.size_bytes
        assert 10 == before.cut(1, leader, [safe, lost]).all_records


def test_a_log_that_was_not_cut_says_so(tmp_path: Path, offsets: list[int]) -> None:
    """
    Cuts of before do not count.
    """
    with ReplicaLog(tmp_path / "s", segment_size=SEGMENT) as log:
        log.carry_out(Cut(offsets[ALL + 5]))
    found = dead(tmp_path, offsets).cut(1, [], [])

    assert (None, 0, 0) == (found.offset, found.records, found.size_bytes)
