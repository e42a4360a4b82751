"""
Blocks cover the log without a gap, and none has two labels or two files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystore.epochs.table import EpochEntry, EpochTable
from pystore.errors import InvalidError, OffsetOutOfRange
from pystore.ha.master.effects import MasterLog
from pystore.ha.wire.blocks import BlockRange, Extent, next_block


@dataclass(frozen=True)
class Log:
    """
    What there is to send.
    """

    epochs: EpochTable
    segment_size: int
    min_offset: int
    end_offset: int


def blocks_of(log: Extent, bytes_max: int) -> list[BlockRange]:
    """
    Returns all blocks of a log.
    """
    blocks: list[BlockRange] = []
    offset = log.min_offset
    while block := next_block(log, offset, bytes_max):
        blocks.append(block)
        offset = block.end_offset
    return blocks


LOG = Log(EpochTable.of([(1, 0), (2, 1580), (4, 2370)]), 1024, 0, 2844)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """
    Any log whose bytes all have an epoch.
    """
    starts = draw(st.sets(st.integers(0, 400), min_size=1, max_size=12))
    epochs = sorted(draw(st.sets(st.integers(0, 99), min_size=12, max_size=12)))
    table = EpochTable.of(zip(epochs, sorted(starts), strict=False))
    low = draw(st.integers(min(starts), 450))
    return Log(table, draw(st.integers(1, 200)), low, draw(st.integers(low, 500)))


@given(logs(), st.integers(1, 120))
def test_blocks_cover_the_log_without_a_gap(log: Log, bytes_max: int) -> None:
    """
    Each lies in one segment and one epoch, is as long as may be, and is labelled
    with the epoch of its first byte, which is that of every byte.
    """
    offset = log.min_offset
    while block := next_block(log, offset, bytes_max):
        assert offset == block.offset
        last = block.end_offset - 1
        label = EpochEntry(block.epoch, block.epoch_start)
        assert label == log.epochs.find(offset) == log.epochs.find(last)
        assert offset // log.segment_size == last // log.segment_size
        assert block.is_epoch_begin == (block.epoch_start == offset)
        assert (
            block.size == bytes_max
            or block.end_offset == log.end_offset
            or block.end_offset % log.segment_size == 0
            or any(e.start_offset == block.end_offset for e in log.epochs.entries)
        )
        offset = block.end_offset

    assert log.end_offset == offset


def test_the_label_is_that_of_the_first_byte() -> None:
    """
    RMQ-R191: where a Java master says epoch 2 from 1580 for the last bytes of epoch 1.
    """
    blocks = blocks_of(LOG, 32768)

    assert [
        BlockRange(0, 1024, 1, 0),
        BlockRange(1024, 556, 1, 0),
        BlockRange(1580, 468, 2, 1580),
        BlockRange(2048, 322, 2, 1580),
        BlockRange(2370, 474, 4, 2370),
    ] == blocks
    assert [True, False, True, False, True] == [one.is_epoch_begin for one in blocks]
    assert next_block(LOG, 2844, 32768) is None


def test_the_label_comes_from_the_table_of_the_moment() -> None:
    """
    RMQ-R159: an epoch that began since the last block is in the next one.
    """
    later = Log(LOG.epochs.append(7, 2844), 1024, 0, 2900)

    assert BlockRange(2844, 56, 7, 2844) == next_block(later, 2844, 4096)


def test_flow_control_may_allow_nothing() -> None:
    """
    No bytes now is no block now.
    """
    assert next_block(LOG, 0, 0) is None
    assert next_block(LOG, 0, -5) is None
    assert BlockRange(0, 1, 1, 0) == next_block(LOG, 0, 1)


@pytest.mark.parametrize("offset", [-1, 0, 1023, 2845, 10**9])
def test_an_offset_that_the_log_does_not_hold_is_an_error(offset: int) -> None:
    """
    RMQ-R100: below the minimum and above the end alike.
    """
    log = Log(LOG.epochs, 1024, 1024, 2844)
    with pytest.raises(
        OffsetOutOfRange, match=f"at offset {offset}, and the log holds offsets 1024 to"
    ):
        next_block(log, offset, 100)


def test_bytes_without_a_label_are_refused() -> None:
    """
    RMQ-R188: instead of a block of a negative size.
    """
    log = Log(EpochTable.of([(3, 1000)]), 1024, 0, 2000)
    for uncovered in (log, Log(EpochTable(), 1024, 0, 2000)):
        with pytest.raises(InvalidError, match="no epoch covers offset 500"):
            next_block(uncovered, 500, 100)
    assert BlockRange(1000, 24, 3, 1000) == next_block(log, 1000, 100)


def test_an_empty_log_needs_no_epoch() -> None:
    """
    There is nothing to send, and nothing wrong.
    """
    assert next_block(Log(EpochTable(), 1024, 0, 0), 0, 100) is None


def test_segments_have_a_size() -> None:
    """
    A size of 0 is our caller's mistake.
    """
    with pytest.raises(InvalidError, match="a segment of 0 bytes"):
        next_block(Log(LOG.epochs, 0, 0, 2844), 0, 100)


def test_a_masters_log_is_what_blocks_are_cut_from() -> None:
    """
    The effects' own value serves as it is.
    """
    log = MasterLog(0, 2844, 0, 0, LOG.epochs, 1024)

    assert blocks_of(LOG, 500) == blocks_of(log, 500)


def test_a_block_costs_the_logarithm_of_the_epochs() -> None:
    """
    5,000 epochs: each lookup looks at a handful of entries, not at all.
    """
    seen = 0

    class Counted(tuple[EpochEntry, ...]):
        """
        Entries that count their reads.
        """

        __slots__ = ()

        def __getitem__(self, at: Any) -> Any:
            nonlocal seen
            seen += 1
            return super().__getitem__(at)

        def __iter__(self) -> Any:
            raise AssertionError("all entries were walked")

    table = EpochTable.of((n, 100 * n) for n in range(5000))
    object.__setattr__(table, "entries", Counted(table.entries))
    log = Log(table, 1 << 20, 0, 500_000)
    for offset in range(7, 500_000, 4999):
        before = seen
        block = next_block(log, offset, 1 << 20)
        assert block
        assert block.epoch == offset // 100
        assert 0 < seen - before < 60
