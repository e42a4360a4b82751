"""
Which bytes of the log the next block holds. Pure.

A block lies in one segment, so that it is one range of one file, and in one epoch,
so that it has one label. The label is that of its first byte, from the table as it
stands when the block is sent (R159, R191).

Source: docs/protocol.md (K.3, R100, R188, R190, R191).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pystore.epochs.table import NO_END, EpochTable
from pystore.errors import InvalidError, OffsetOutOfRange

__all__ = ["BlockRange", "Extent", "next_block"]


class Extent(Protocol):
    """
    A log at one moment, as far as it is sent; a `MasterLog` is one.
    """

    @property
    def epochs(self) -> EpochTable:
        """
        Who wrote what.
        """

    @property
    def min_offset(self) -> int:
        """
        Where it begins.
        """

    @property
    def end_offset(self) -> int:
        """
        Where it ends.
        """

    @property
    def segment_size(self) -> int:
        """
        Bytes of one file.
        """


@dataclass(frozen=True, slots=True)
class BlockRange:
    """
    Bytes ``[offset, offset + size)`` of the log, and whose they are.

    Attributes:
        offset: where the block begins.
        size: in bytes, at least 1.
        epoch: the mastership that wrote all of it.
        epoch_start: where that epoch begins; may lie below the log's minimum.
    """

    offset: int
    size: int
    epoch: int
    epoch_start: int

    @property
    def end_offset(self) -> int:
        """
        Where the next block begins.
        """
        return self.offset + self.size

    @property
    def is_epoch_begin(self) -> bool:
        """
        Whether its first byte is the epoch's.
        """
        return self.offset == self.epoch_start


def next_block(log: Extent, offset: int, bytes_max: int) -> BlockRange | None:
    """
    Returns the block at ``offset``; ``None`` at the end of the log, or if
    ``bytes_max`` allows nothing. Logarithmic in the number of epochs.

    Args:
        log: what there is to send.
        offset: where the slave goes on.
        bytes_max: the longest block.

    Raises:
        OffsetOutOfRange: the log does not hold ``offset`` (R100), or has not got
            so far: the slave's log is not a copy of this one.
        InvalidError: no epoch covers ``offset``, so its bytes have no label (R188);
            or no file has that size.
    """
    if not log.min_offset <= offset <= log.end_offset:
        raise OffsetOutOfRange(
            f"a slave goes on at {offset}, the log holds {log.min_offset} to "
            f"{log.end_offset}: it has to be filled anew",
            offset=offset,
        )
    if log.segment_size < 1:
        raise InvalidError(f"a segment of {log.segment_size} bytes")
    if offset == log.end_offset or bytes_max <= 0:
        return None
    epochs = log.epochs
    entry, epoch_end = epochs.entries[-1] if epochs.entries else None, NO_END
    if entry is None or offset < entry.start_offset:
        # Not in the last one, where nearly all blocks are.
        entry = epochs.find(offset)
        epoch_end = NO_END if entry is None else epochs.end_of(entry)
    if entry is None:
        raise InvalidError(
            f"no epoch covers {offset}: bytes without a label are not sent",
            offset=offset,
        )
    segment_end = offset - offset % log.segment_size + log.segment_size
    end = min(epoch_end, segment_end, log.end_offset, offset + bytes_max)
    return BlockRange(offset, end - offset, entry.epoch, entry.start_offset)
