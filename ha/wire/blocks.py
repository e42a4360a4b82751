"""
The bytes of the log in the next block. Pure.

A block lies in one segment, so it is one range of one file, and in one epoch, so it has
one label. The label is the epoch of its first byte, in the table at the time of sending
(RMQ-R159, RMQ-R191).

Source: docs/protocol.md (RMQ-K.3, RMQ-R100, RMQ-R188, RMQ-R190, RMQ-R191).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from pystore.epochs.table import NO_END, EpochTable
from pystore.errors import InvalidError, OffsetOutOfRange

__all__ = ["BlockRange", "Extent", "next_block"]


class Extent(Protocol):
    """
    The state of a log to send; `MasterLog` is one.
    """

    @property
    def epochs(self) -> EpochTable:
        """
        The epoch table.
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


class BlockRange(NamedTuple):
    """
    Bytes ``[offset, offset + size)`` of the log, and their epoch.

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
        log: the log to send.
        offset: where the slave resumes.
        bytes_max: the longest block.

    Raises:
        OffsetOutOfRange: the log does not hold ``offset`` (RMQ-R100), or ends below it:
            the slave's log is not a copy of this one.
        InvalidError: no epoch covers ``offset``, so its bytes have no label (RMQ-R188);
            or the segment size is below 1.
    """
    if not log.min_offset <= offset <= log.end_offset:
        raise OffsetOutOfRange(
            f"the slave resumes at offset {offset}, and the log holds offsets "
            f"{log.min_offset} to {log.end_offset}: the slave must be filled again",
            offset=offset,
        )
    if log.segment_size < 1:
        raise InvalidError(f"a segment of {log.segment_size} bytes")
    if offset == log.end_offset or bytes_max <= 0:
        return None
    epochs = log.epochs
    entry, epoch_end = epochs.entries[-1] if epochs.entries else None, NO_END
    if entry is None or offset < entry.start_offset:
        # Nearly all blocks are in the last epoch; this one is not.
        entry = epochs.find(offset)
        epoch_end = NO_END if entry is None else epochs.end_of(entry)
    if entry is None:
        raise InvalidError(
            f"no epoch covers offset {offset}: bytes without a label are not sent",
            offset=offset,
        )
    segment_end = offset - offset % log.segment_size + log.segment_size
    end = min(epoch_end, segment_end, log.end_offset, offset + bytes_max)
    return BlockRange(offset, end - offset, entry.epoch, entry.start_offset)
