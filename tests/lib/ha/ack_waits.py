"""
Appends that wait for their ack, where no thread does: in the simulation, and in tests
of the decisions alone. A service's appends wait in the core (`pystore.core.waits`).
"""

from __future__ import annotations

from pystore.ha.insync.ack import Ack, AckOutcome, AckResult
from pystore.ha.insync.ack_policy import AckPolicy

__all__ = ["AckWaits"]


class AckWaits:
    """
    The open waits of one mastership.

    Args:
        policy: what its appends are promised.
    """

    def __init__(self, policy: AckPolicy) -> None:
        self._policy = policy
        self._open: list[tuple[Ack, int, int]] = []

    def begin(self, ack: Ack, end_offset: int, deadline_ms: int) -> None:
        """
        An append waits for its ack; `settle` ends it.
        """
        self._open.append((ack, end_offset, deadline_ms))

    def settle(self, now_ms: int, lease_deadline_ms: int | None) -> list[AckResult]:
        """
        Ends the waits that are over; to be called after each input.

        Args:
            now_ms: the time.
            lease_deadline_ms: until when `leader` and `leader-synced` may be decided
                (B8, C1); ``None``: the controller gives no leases. `all` needs none:
                a master that was replaced lacks the acks.
        """
        if not self._open:
            return []
        policy, holders = self._policy, self._policy.holders()
        is_leased = lease_deadline_ms is None or now_ms <= lease_deadline_ms
        ended: list[AckResult] = []
        still: list[tuple[Ack, int, int]] = []
        for ack, end, deadline_ms in self._open:
            outcome: AckOutcome | None = policy.outcome(ack, end, is_leased)
            # An ack that came with the deadline is in time (RMQ-R218).
            if outcome is None and now_ms >= deadline_ms:
                outcome = policy.expired(ack, end)
            if outcome is None:
                still.append((ack, end, deadline_ms))
            else:
                ended.append(holders.settled(ack, end, outcome))
        self._open = still
        return ended

    def next_deadline(self) -> int | None:
        """
        Returns when the next wait runs out.
        """
        return min((deadline_ms for _, _, deadline_ms in self._open), default=None)
