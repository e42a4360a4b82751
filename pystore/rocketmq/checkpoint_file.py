"""
RocketMQ's ``checkpoint``: bytes to values and back. Pure.

A newer RocketMQ writes more fields, and an older one leaves what it does not know.
So bytes behind the fields that are known here are no damage: they are kept, written
again as they are, and named by a note.

Layout: docs/format.md, small files (RocketMQ 5.1 to 5.5: ``StoreCheckpoint``).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

from pystore.errors import FormatError, InvalidError
from pystore.fs.layout import CHECKPOINT
from pystore.stored_names import stored

__all__ = ["CHECKPOINT_BYTES", "CheckpointTimes", "parse_checkpoint"]

CHECKPOINT_BYTES = 4096

_CHECKPOINT = struct.Struct(">6q")
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
        logics_offset: the start of the last record whose entry was flushed to its
            consume queue, since RocketMQ 5.5.0; 0: no such record, or an older
            version. From 1 on it replaces ``logics_ms`` in the recovery of 5.5.0.
        unknown: the bytes behind it, without the zeros at their end.
    """

    physic_ms: int = 0
    logics_ms: int = 0
    index_ms: int = 0
    master_flushed_offset: int = 0
    confirm_offset: int = 0
    logics_offset: int = 0
    unknown: bytes = b""

    def __post_init__(self) -> None:
        if not all(0 <= value < 2**63 for value in self._values):
            raise InvalidError(f"{self}: a value is negative or above 2^63-1")
        if len(self.unknown) > CHECKPOINT_BYTES - _CHECKPOINT.size:
            raise InvalidError(f"{len(self.unknown)} unknown bytes are too many")

    @property
    def _values(self) -> tuple[int, ...]:
        return (
            self.physic_ms,
            self.logics_ms,
            self.index_ms,
            self.master_flushed_offset,
            self.confirm_offset,
            self.logics_offset,
        )

    @property
    def note(self) -> str:
        """
        Names the unknown bytes as one line; empty: there are none.
        """
        if not self.unknown:
            return ""
        skipped = len(self.unknown) - len(self.unknown.lstrip(b"\0"))
        first, end = _CHECKPOINT.size + skipped, _CHECKPOINT.size + len(self.unknown)
        return (
            f"bytes {first} to {end} of {CHECKPOINT} are fields of another version of "
            "RocketMQ: they are kept, and not used"
        )

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
        return replace(
            self,
            physic_ms=min(self.physic_ms, store_ms),
            logics_ms=min(self.logics_ms, store_ms),
            index_ms=min(self.index_ms, store_ms),
            confirm_offset=min(self.confirm_offset, end),
            logics_offset=min(self.logics_offset, end),
        )

    def at_most(self, other: CheckpointTimes) -> CheckpointTimes:
        """
        The same, but no time, and no ``logics_offset``, is higher than in ``other``.
        """
        return replace(
            self,
            physic_ms=min(self.physic_ms, other.physic_ms),
            logics_ms=min(self.logics_ms, other.logics_ms),
            index_ms=min(self.index_ms, other.index_ms),
            logics_offset=min(self.logics_offset, other.logics_offset),
        )

    def encode(self) -> bytes:
        """
        The file's content, 4096 bytes.
        """
        known = _CHECKPOINT.pack(*self._values)
        return (known + self.unknown).ljust(CHECKPOINT_BYTES, b"\0")


def parse_checkpoint(content: bytes, path: str = CHECKPOINT) -> CheckpointTimes:
    """
    Read ``checkpoint``.

    Raises:
        FormatError: not 4096 bytes, or a negative value.
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
    rest = content[_CHECKPOINT.size :].rstrip(b"\0")
    physic, logics, index, flushed, confirm, logics_offset = values
    return CheckpointTimes(physic, logics, index, flushed, confirm, logics_offset, rest)
