"""
Who holds how much of the log at one moment. Pure.

Appends that end at the same time share one such picture: what each of them reached is
told without asking the judgement again.
"""

from __future__ import annotations

from pystore.ha.insync.ack import Ack, AckOutcome, AckResult

__all__ = ["HolderOffsets"]

_NOBODY: frozenset[int] = frozenset()
_tuple_new = tuple.__new__  # a third of what a call of the class takes


class HolderOffsets:
    """
    A picture that does not change. Any thread.

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
        self._held = held
        self._is_legacy = is_legacy
        self._everyone = frozenset(broker_id for broker_id, _, _ in held)
        self._received_low = min(received for _, received, _ in held)
        self._flushed_low = min(flushed for _, _, flushed in held)
        self._flushed_high = max(flushed for _, _, flushed in held)

    def settled(self, ack: Ack, end_offset: int, outcome: AckOutcome) -> AckResult:
        """
        Returns the end of a wait, with those who hold the append at this moment.

        Args:
            ack: what was promised.
            end_offset: of the append.
            outcome: what became of it.
        """
        # By the bounds for most appends: received by everyone, and on no disk yet.
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
        told = ack, end_offset, outcome, received, flushed, self._is_legacy
        return _tuple_new(AckResult, told)
