"""
How much of the log each replica holds at one moment. Pure.

Appends that complete at the same time share one such value, so each gets its result
without the lock of the in-sync monitor.
"""

from __future__ import annotations

from pystore.ha.insync.ack import Ack, AckOutcome, AckResult

__all__ = ["HolderOffsets"]

_NOBODY: frozenset[int] = frozenset()
_tuple_new = tuple.__new__  # takes a third of the time of a call of the class


class HolderOffsets:
    """
    An immutable value. Any thread.

    Args:
        held: broker id, received offset, flushed offset of the master and of each
            slave that counts.
        is_legacy: a legacy slave is in the set.
    """

    __slots__ = (
        "_everyone",
        "_flushed_high",
        "_flushed_low",
        "_held",
        "_is_legacy",
        "_received_low",
    )

    def __init__(self, held: tuple[tuple[int, int, int], ...], is_legacy: bool) -> None:
        broker_ids, received, flushed = zip(*held, strict=True)
        self._held = held
        self._is_legacy = is_legacy
        self._everyone = frozenset(broker_ids)
        self._received_low = min(received)
        self._flushed_low = min(flushed)
        self._flushed_high = max(flushed)

    def settled(self, ack: Ack, end_offset: int, outcome: AckOutcome) -> AckResult:
        """
        Returns the end of a wait, with the replicas that hold the append now.

        Args:
            ack: that the append asked for.
            end_offset: of the append.
            outcome: how the wait ended.
        """
        # Most appends are decided by the bounds: all replicas received them, and none
        # has flushed them.
        if end_offset <= self._received_low:
            received = self._everyone
        else:
            received = frozenset(one for one, end, _ in self._held if end >= end_offset)
        if end_offset > self._flushed_high:
            flushed = _NOBODY
        elif end_offset <= self._flushed_low:
            flushed = self._everyone
        else:
            flushed = frozenset(one for one, _, end in self._held if end >= end_offset)
        values = ack, end_offset, outcome, received, flushed, self._is_legacy
        return _tuple_new(AckResult, values)
