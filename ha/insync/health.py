"""
The health of a mastership: whether the master can append and sync. Pure.

A master that cannot serve is kept by everybody: its slaves follow it, and it tells the
controller that it is alive. So it resigns itself, if another member is well. A master
that cannot even listen has no mastership yet; `pystore.ha.replica` counts that time.

Source: B9, B13; A12, A13; docs/replication.md.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MasterHealth"]

_NEVER = -1


@dataclass(slots=True)
class MasterHealth:
    """
    What keeps a master from serving, and since when. One thread; times are milliseconds
    of a clock that never steps back.

    Attributes:
        ill_ms_max: how long it may last; an older refusal of an append counts no more.
    """

    ill_ms_max: int
    _poisoned_ms: int = _NEVER
    _refused_ms: int = _NEVER
    _last_ms: int = _NEVER
    _end_offset: int = _NEVER
    _refusal: str = ""

    def poisoned(self, now_ms: int) -> None:
        """
        The log cannot be flushed any more (A12).
        """
        if self._poisoned_ms == _NEVER:
            self._poisoned_ms = now_ms

    def refused(self, error: str, end_offset: int, now_ms: int) -> None:
        """
        The system refused an append, such as for a full disk (A13).

        Args:
            error: of the append, one line.
            end_offset: of the log: if it grew since the refusal before, some appends
                are taken.
            now_ms: the time.
        """
        if not self._is_refusing(end_offset, now_ms):
            self._refused_ms = now_ms
        self._last_ms, self._end_offset, self._refusal = now_ms, end_offset, error

    def problem(self, end_offset: int, now_ms: int) -> str:
        """
        Returns what keeps the master from serving now, one line; empty: nothing.
        """
        if self._poisoned_ms != _NEVER:
            return "a write-back failed: close this broker, and open it again"
        if self._is_refusing(end_offset, now_ms):
            return f"appends are refused: {self._refusal}"
        return ""

    def due_ms(self, end_offset: int, now_ms: int) -> int | None:
        """
        Returns when it will have lasted for too long; ``None``: the master is well.
        """
        begun = [self._poisoned_ms] if self._poisoned_ms != _NEVER else []
        if self._is_refusing(end_offset, now_ms):
            begun.append(self._refused_ms)
        return min(begun) + self.ill_ms_max + 1 if begun else None

    def _is_refusing(self, end_offset: int, now_ms: int) -> bool:
        """
        Whether the last thing known of appends is a refusal. Without one for a while
        nobody knows: there may be space again.
        """
        is_recent = now_ms - self._last_ms <= self.ill_ms_max
        return self._last_ms != _NEVER and is_recent and end_offset == self._end_offset
