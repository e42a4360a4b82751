"""
Ends of the newest records, to round an ack down to one. Pure.

A slave may ack half a record; the confirm offset is always the end of a whole record
(A1). Each end of the log is the end of a record, so it is enough to remember those.
"""

from __future__ import annotations

from bisect import bisect_right

__all__ = ["RecordEnds"]


class RecordEnds:
    """
    Ends of the log, ascending.

    If a slave is so far behind that there are too many, every second one is forgotten,
    but never the newest. The confirm offset then moves in larger steps.

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
        Adds an end of the log; an offset that is not above the newest changes nothing.
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
        Forgets ends below an offset that no caller needs any more.
        """
        # The newest always stays.
        del self._ends[: min(bisect_right(self._ends, offset), len(self._ends)) - 1]
