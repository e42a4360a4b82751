"""
A small segment, cut at every byte and flipped at every byte.

The store is changed in place, through the page cache, as a bad disk or another
program changes it; each time it is looked at through the public interface.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from lib.store.stores import (
    SEGMENT,
    fill,
    kill_while,
    make_folder,
    message,
    remove_folder,
)

from pystore import Check, CommitLog, NotAStoreError, inspect
from pystore.core.live_page import LivePage
from pystore.core.log_reader import LogReader
from pystore.verify import verify_store
from pystore.verify.coverage import uncovered_ranges

ALL = Check.BODY | Check.PROPERTY | Check.OFFSET
RECORDS = 6


@pytest.fixture
def root() -> Iterator[Path]:
    """
    Where a store can be, in memory if possible.
    """
    folder = make_folder()
    yield folder / "store"
    remove_folder(folder)


def segment(root: Path) -> Path:
    """
    The file of the only segment.
    """
    return root / "commitlog" / f"{0:020d}"


def ends_of(root: Path) -> list[int]:
    """
    Where the log could end: at 0, and behind each record.
    """
    with LogReader(root) as log:
        rows = np.concatenate(list(log.scan(0)))
    return [0, *(rows["offset"] + rows["size"]).tolist()]


def forget_live_bounds(root: Path) -> None:
    """
    As after a power cut: the live page is of an earlier boot.
    """
    with LivePage(root / "meta" / "live", writable=True) as page:
        page.begin(page.read()._replace(boot_id=bytes(range(16))))


@contextmanager
def changed(root: Path, at: int, data: bytes) -> Iterator[None]:
    """
    Other bytes at a position of the segment, for a while.
    """
    file = os.open(segment(root), os.O_RDWR)
    try:
        before = os.pread(file, len(data), at)
        os.pwrite(file, data, at)
        yield
        os.pwrite(file, before, at)
    finally:
        os.close(file)


@pytest.mark.parametrize("has_crc", [True, False])
def test_a_log_torn_at_any_byte_ends_at_the_last_whole_record(
    root: Path, has_crc: bool
) -> None:
    """
    With zeros from any byte on, nothing before it is lost and nothing half of a
    record stays (A6); also of records whose topic and properties no checksum covers.
    """
    kill_while(root, lambda log: fill(log, RECORDS), property_crc=has_crc)
    ends = ends_of(root)
    forget_live_bounds(root)
    for torn_at in range(ends[-1] + 1):
        whole = max(end for end in ends if end <= torn_at)
        with changed(root, torn_at, bytes(ends[-1] - torn_at)):
            made = inspect(root, with_rocketmq=False).plan

            assert made.corrupt is None, torn_at
            assert whole == made.end_offset, torn_at
            # A record's first bytes may be zero themselves.
            assert made.cut_bytes <= torn_at - whole, torn_at
            assert (made.cut_bytes > 0) == ("A6" == made.rule), torn_at


@pytest.mark.parametrize("left", [1, 2, 3, 4, 9])
def test_a_record_that_ends_in_a_zero_near_the_end_of_a_sector_is_whole(
    root: Path, left: int
) -> None:
    """
    The first bytes of the next one's size are zeros as well: RocketMQ has such records,
    and an opening cut the log there.
    """

    def work(log: CommitLog) -> None:
        size = log.append(message(0)).end
        fill(log, 1, 1)
        log.append(message(2, size=100 + (-left - size - log.end_offset) % 512))
        fill(log, 3, 3)

    kill_while(root, work, property_crc=False)
    ends = ends_of(root)
    assert 512 - left == ends[3] % 512
    forget_live_bounds(root)
    with changed(root, ends[3] - 1, b"\0"):
        made = inspect(root, with_rocketmq=False).plan
        assert (None, ends[6]) == (made.corrupt, made.end_offset)


@pytest.mark.parametrize("distance", [1, 3, 9, 60, 150])
def test_a_torn_tail_is_zeroed_and_appends_continue_there(
    root: Path, distance: int
) -> None:
    """
    From this position in a record on, bytes of the next one follow.
    """
    kill_while(root, lambda log: fill(log, RECORDS))
    ends = ends_of(root)
    forget_live_bounds(root)
    os.truncate(segment(root), ends[3] + distance)
    os.truncate(segment(root), SEGMENT)
    with CommitLog(root) as log:
        assert ends[3] == log.end_offset
        assert not any(segment(root).read_bytes()[ends[3] :])
        fill(log, 2, first=3)

        assert ends[5] == log.end_offset
        assert message(4).body == log.read(ends[4]).body


def test_a_file_cut_at_any_byte_is_named_with_both_sizes(root: Path) -> None:
    """
    Files never shrink: a shorter file is no result of a crash. A writer refuses it, and
    a reader serves the rest of the log.
    """
    kill_while(root, lambda log: fill(log, RECORDS))
    whole = segment(root).read_bytes()
    kill_while(root, lambda log: fill(log, 1000))  # so that it is not the last
    for size in range(1, ends_of(root)[RECORDS], 7):
        os.truncate(segment(root), size)
        text = f"{segment(root)}: {size} bytes, a segment here has {len(whole)}"
        with pytest.raises(NotAStoreError) as caught:
            CommitLog(root)
        assert str(caught.value).startswith(text)
        with CommitLog(root, mode="r") as log:
            (ill,) = log.ill
            assert f"{size} bytes" in ill.reason
            assert str(len(whole)) in ill.reason


def test_every_flipped_byte_is_seen_with_a_property_crc(root: Path) -> None:
    """
    For any byte, opening and verifying name its record.
    """
    kill_while(root, lambda log: fill(log, RECORDS))
    ends, data = ends_of(root), segment(root).read_bytes()
    for at in range(ends[-1]):
        start = max(end for end in ends if end <= at)
        with changed(root, at, bytes([data[at] ^ (1 << at % 8)])):
            made = inspect(root, with_rocketmq=False).plan

            assert made.corrupt is not None, at
            assert start == made.corrupt.offset, at
            if at % 17 == 0:
                assert [start] == [one.offset for one in verify_store(root).damages]


def test_without_it_verify_names_the_bytes_whose_flips_are_not_found(
    root: Path,
) -> None:
    """
    A byte is named if and only if one of its bits can flip unseen.
    """
    with CommitLog(root, segment_size=SEGMENT, property_crc=False) as log:
        fill(log, RECORDS)
    data, end = segment(root).read_bytes(), ends_of(root)[-1]
    with LogReader(root) as log:
        (rows,) = log.scan(0, checks=ALL)
        named = {
            int(row["offset"]) + at
            for row in rows
            for one in uncovered_ranges(row)
            for at in range(*one)
        }
        unseen = set()
        for at in range(end):
            for bit in range(8):
                with changed(root, at, bytes([data[at] ^ (1 << bit)])):
                    if log.scan(0, checks=ALL).finish().records == RECORDS:
                        unseen.add(at)
    assert named == unseen
    assert len(named) == verify_store(root).uncovered_bytes
