"""
RocketMQ's ``checkpoint``: bytes to values and back. Pure.

Layout: docs/format.md, small files (RocketMQ 5.3: ``StoreCheckpoint``).
"""

from __future__ import annotations

import struct
from dataclasses import astuple, dataclass

from pystore.errors import FormatError, InvalidError
from pystore.fs.layout import CHECKPOINT
from pystore.stored_names import stored

__all__ = ["CHECKPOINT_BYTES", "CheckpointTimes", "parse_checkpoint"]

CHECKPOINT_BYTES = 4096

_CHECKPOINT = struct.Struct(">5q")
_TIMESTAMP_SLACK_MS = 3000


@stored
@dataclass(frozen=True, slots=True)
class CheckpointTimes:
    """
    The content of ``checkpoint``: store times in ms, offsets in bytes.

    Attributes:
        physic_ms: of the last flushed record of the log.
        logics_ms: of the last flushed entry of a consume queue.
        index_ms: the end time of the last flushed index file.
        master_flushed_offset: the flushed offset that the master last reported.
        confirm_offset: the confirm offset.
    """

    physic_ms: int = 0
    logics_ms: int = 0
    index_ms: int = 0
    master_flushed_offset: int = 0
    confirm_offset: int = 0

    def __post_init__(self) -> None:
        if not all(0 <= value < 2**63 for value in astuple(self)):
            raise InvalidError(f"{self}: a value is negative or above 2^63-1")

    @property
    def min_ms(self) -> int:
        """
        Java's ``minTimestamp``: recovery after a crash starts at or below it.
        """
        return max(0, min(self.physic_ms, self.logics_ms) - _TIMESTAMP_SLACK_MS)

    @property
    def min_index_ms(self) -> int:
        """
        Java's ``minTimestampIndex``: the same where the index must be whole.
        """
        return min(self.min_ms, self.index_ms)

    def limited(self, store_ms: int, end: int) -> CheckpointTimes:
        """
        The same, but nothing is newer than a log's last record, or above its end.
        """
        return CheckpointTimes(
            physic_ms=min(self.physic_ms, store_ms),
            logics_ms=min(self.logics_ms, store_ms),
            index_ms=min(self.index_ms, store_ms),
            master_flushed_offset=self.master_flushed_offset,
            confirm_offset=min(self.confirm_offset, end),
        )

    def encode(self) -> bytes:
        """
        The file's content, 4096 bytes.
        """
        return _CHECKPOINT.pack(*astuple(self)).ljust(CHECKPOINT_BYTES, b"\0")


def parse_checkpoint(content: bytes, path: str = CHECKPOINT) -> CheckpointTimes:
    """
    Read ``checkpoint``.

    Raises:
        FormatError: not 4096 bytes, a negative value, or a byte after the fields
            that is not zero.
    """
    advice = "move it away: recovery then reads the whole log"
    if len(content) != CHECKPOINT_BYTES:
        raise FormatError(
            f"{path}: {len(content)} bytes instead of {CHECKPOINT_BYTES}: {advice}",
            path=path,
        )
    values = _CHECKPOINT.unpack_from(content)
    if min(values) < 0:
        at = 8 * values.index(min(values))
        raise FormatError(
            f"{path}: the value at byte {at} is negative: {advice}", path=path
        )
    rest = content[_CHECKPOINT.size :]
    if any(rest):
        at = _CHECKPOINT.size + len(rest) - len(rest.lstrip(b"\0"))
        raise FormatError(
            f"{path}: byte {at} is not zero, and no field is there: {advice}",
            path=path,
        )
    return CheckpointTimes(*values)
