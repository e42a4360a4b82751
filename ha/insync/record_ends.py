"""
Where the newest records end, to round an ack down to one. Pure.

A slave may ack half a record; the confirm offset is always the end of a whole one
(A1). The end of the log at any moment is one, so remembering those is enough.
"""

from __future__ import annotations

from bisect import bisect_right

__all__ = ["RecordEnds"]


class RecordEnds:
    """
    Ends of the log, ascending.

    Where a slave lies so far behind that there are too many, every second is
    forgotten, never the newest: then the confirm offset moves in larger steps.

    Args:
        end_offset: the first one.
        count_max: how many are kept.
    """

    def __init__(self, end_offset: int, count_max: int = 1 << 16) -> None:
        self._ends = [end_offset]
        self._count_max = count_max

    @property
    def newest(self) -> int:
        """
        The end of the log.
        """
        return self._ends[-1]

    def add(self, end_offset: int) -> None:
        """
        The log ends here now; what is not above the newest changes nothing.
        """
        if end_offset <= self._ends[-1]:
            return
        self._ends.append(end_offset)
        if len(self._ends) > self._count_max:
            self._ends = self._ends[:-1:2] + self._ends[-1:]

    def floor(self, offset: int) -> int | None:
        """
        Returns the newest known end that is not above the offset, if there is one.
        """
        place = bisect_right(self._ends, offset)
        return self._ends[place - 1] if place else None

    def forget_below(self, offset: int) -> None:
        """
        Nobody will ask below this offset any more.
        """
        # The newest stays, whatever is asked.
        del self._ends[: min(bisect_right(self._ends, offset), len(self._ends)) - 1]
