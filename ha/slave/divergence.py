"""
Comparing a Java master's bytes with ours before they count. Pure.

What was confirmed is not cut because a Java master's table says so: it may lack
epochs (R137, R159). The slave asks from the consistent point and compares what
comes; until the comparison reaches its end it holds, for the master, only what was
compared. Other bytes end in a cut at the first difference.

Source: docs/crash-safety.md (B10).
"""

from __future__ import annotations

from pystore.epochs.table import EpochTable

__all__ = ["Comparison", "adopted_epochs"]


class Comparison:
    """
    How far ours is known to be the master's.

    Args:
        start: where it begins: the consistent point, or below.
        end: our end, where it is over.

    Attributes:
        position: all below is equal.
    """

    def __init__(self, start: int, end: int) -> None:
        self.position = start
        self._end = end

    @property
    def is_over(self) -> bool:
        """
        Whether all of ours was compared.
        """
        return self.position >= self._end

    def split(self, block: memoryview) -> tuple[memoryview, memoryview]:
        """
        Returns what is to be compared of a block that begins at the position, and
        what goes behind our end.
        """
        size = min(len(block), self._end - self.position)
        return block[:size], block[size:]

    def matched(self, size: int) -> None:
        """
        So many bytes more are equal.
        """
        self.position += size


def adopted_epochs(ours: EpochTable, master: EpochTable, end: int) -> EpochTable:
    """
    Returns the table of a log whose bytes below *end* are the master's: our entries
    up to the newest common one, then the master's.

    Args:
        ours: has an entry in common with the master's.
        master: its table.
        end: of what is equal; an entry from there on begins with bytes to come.
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
