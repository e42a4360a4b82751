"""
What a repair asks of a copy of a log: a store of this machine, or a peer that serves
one.

Source: docs/autorecovery.md, *Evidence*.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from pystore.epochs.table import EpochTable
from pystore.rocketmq.identity_file import BrokerIdentity
from pystore.seals import BLOCK_BYTES, Seal

__all__ = ["CopyFacts", "LogCopy", "block_count"]


@dataclass(frozen=True, slots=True)
class CopyFacts:
    """
    A copy at one moment.

    Attributes:
        begin: the first offset of the log.
        end: of the log.
        settled_end: no byte below it is cut any more: the confirm offset of a replica,
            the end of a log of no set.
        segment_size: in bytes.
        epochs: of the log.
        identity: of the broker; ``None``: a store of no set, or of none that is known.
        doubt: why the epochs may not be those of the bytes that are here: another
            program wrote, or it is a copy; empty: they are. Of a peer not told.
    """

    begin: int
    end: int
    settled_end: int
    segment_size: int
    epochs: EpochTable
    identity: BrokerIdentity | None
    doubt: str = ""

    def bases(self) -> range:
        """
        Returns the base offsets of all full segments that are settled.
        """
        size = self.segment_size
        return range(self.begin, self.settled_end - size + 1, size)

    def unsettled_bases(self) -> range:
        """
        Returns the base offsets of the segments above the settled ones, in which there
        are bytes of the log: they may still be cut.
        """
        size = self.segment_size
        return range(self.begin + len(self.bases()) * size, self.end, size)

    def is_unsettled(self, base: int) -> bool:
        """
        Whether bytes of a segment may still be cut.
        """
        return base + self.segment_size > max(self.settled_end, self.begin)

    def has(self, base: int) -> bool:
        """
        Whether a segment is full, settled and not below the beginning.
        """
        return self.begin <= base and base + self.segment_size <= self.settled_end


def block_count(segment_size: int) -> int:
    """
    Returns the number of blocks of a segment.
    """
    return -(-segment_size // BLOCK_BYTES)


class LogCopy(Protocol):
    """
    One copy of a log, looked at segment by segment. For one thread.
    """

    @property
    def name(self) -> str:
        """
        For messages: the path of a store, the address of a peer.
        """
        ...

    @property
    def facts(self) -> CopyFacts:
        """
        As of its opening.
        """
        ...

    def problem(self, base: int) -> str:
        """
        Returns why the file of a segment cannot be read as a whole; empty: it can.
        """
        ...

    def seal(self, base: int) -> Seal | None:
        """
        Returns the seal of a segment; ``None``: there is none that proves itself.
        """
        ...

    def block(self, base: int, index: int) -> bytes | memoryview:
        """
        Returns the bytes of a block of 4 MiB, as the disk has them; the last one of a
        segment may be shorter. They are valid until the next call.

        Raises:
            StorageError: the system refused.
        """
        ...

    def digests(self, base: int, indexes: Iterable[int]) -> dict[int, int | None]:
        """
        Returns the XXH3-64 of blocks on disk; ``None``: the block cannot be read.
        """
        ...

    def damaged_blocks(self, base: int) -> set[int]:
        """
        Returns the blocks with a record that does not prove itself: body and property
        CRC, and place.

        Raises:
            StorageError: the system refused.
        """
        ...
