"""
The comparison of a Java master's bytes with the slave's. Pure.

A Java master's table may lack epochs (RMQ-R137, RMQ-R159), so it is no reason to cut
confirmed bytes. The slave requests bytes from the consistent point on and compares
them. Until the end of the comparison it acks only what it compared. At the first
difference the log is cut.

Source: B10.
"""

from __future__ import annotations

from pystore.epochs.table import EpochTable

__all__ = ["Comparison", "adopted_epochs"]


class Comparison:
    """
    How far the slave's log is known to equal the master's.

    Args:
        start: where it begins: the consistent point, or below.
        end: the end of the slave's log, where the comparison ends.

    Attributes:
        position: all below is equal.
    """

    def __init__(self, start: int, end: int) -> None:
        self.position = start
        self._end = end

    @property
    def is_over(self) -> bool:
        """
        Whether the whole log of the slave was compared.
        """
        return self.position >= self._end

    def split(self, block: memoryview) -> tuple[memoryview, memoryview]:
        """
        Returns the part of a block at the position that must be compared, and the
        part that follows the end of the slave's log.
        """
        size = min(len(block), self._end - self.position)
        return block[:size], block[size:]

    def matched(self, size: int) -> None:
        """
        Records that the next bytes are equal.
        """
        self.position += size


def adopted_epochs(ours: EpochTable, master: EpochTable, end: int) -> EpochTable:
    """
    Returns the table of a log whose bytes below *end* are the master's: the slave's
    entries up to the newest common one, then the master's.

    Args:
        ours: has an entry in common with the master's.
        master: its table.
        end: of the equal bytes; a later entry begins with bytes still to come.
    """
    shared = set(master.entries)
    common = max(entry.epoch for entry in ours.entries if entry in shared)
    kept = [entry for entry in ours.entries if entry.epoch <= common]
    gained = [
        entry
        for entry in master.entries
        if entry.epoch > common and entry.start_offset < end
    ]
    return EpochTable((*kept, *gained))
