"""
Who holds how much of the log at one moment. Pure.

Appends that end at the same time share one such picture: what each of them reached is
told without asking the judgement again.
"""

from __future__ import annotations

from pystore.ha.insync.ack import Ack, Outcome, Settled

__all__ = ["Copies"]


class Copies:
    """
    A picture that does not change. Any thread.

    Args:
        held: broker id, received offset, flushed offset of the master and of each
            slave that counts.
        is_legacy: a legacy slave is in the set.
    """

    __slots__ = ("_everyone", "_flushed_low", "_held", "_is_legacy", "_received_low")

    def __init__(self, held: tuple[tuple[int, int, int], ...], is_legacy: bool) -> None:
        self._held = held
        self._is_legacy = is_legacy
        self._everyone = frozenset(broker_id for broker_id, _, _ in held)
        self._received_low = min(received for _, received, _ in held)
        self._flushed_low = min(flushed for _, _, flushed in held)

    def settled(self, ack: Ack, end_offset: int, outcome: Outcome) -> Settled:
        """
        Returns the end of a wait, with those who hold the append at this moment.

        Args:
            ack: what was promised.
            end_offset: of the append.
            outcome: what became of it.
        """
        return Settled(
            ack,
            end_offset,
            outcome,
            self._received_by(end_offset),
            self._flushed_by(end_offset),
            self._is_legacy,
        )

    def _received_by(self, end_offset: int) -> frozenset[int]:
        if end_offset <= self._received_low:  # as of most appends
            return self._everyone
        return frozenset(
            one for one, received, _ in self._held if received >= end_offset
        )

    def _flushed_by(self, end_offset: int) -> frozenset[int]:
        if end_offset <= self._flushed_low:
            return self._everyone
        return frozenset(one for one, _, flushed in self._held if flushed >= end_offset)
