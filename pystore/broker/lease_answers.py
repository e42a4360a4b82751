"""
What the answers to a broker's heartbeats say of its lease. Pure.

A mastership has no lease until one is granted for its epoch. A refusal ends the lease
that it had. That a controller gives none, as RocketMQ's, is taken from the leader only,
and only while no controller of this broker ever spoke of a lease: a controller that
lost its extension by accident must not take a limit away.

Source: C0, C1; docs/in-sync.md.
"""

from __future__ import annotations

from typing import NamedTuple

from pystore.controller.protocol.calls import HeartbeatAnswer
from pystore.ha.master.lease import NO_LEASE, UNLEASED, Lease, lease_from

__all__ = ["LeaseAnswers", "SentHeartbeat"]


class SentHeartbeat(NamedTuple):
    """
    A heartbeat, when it was sent.

    Attributes:
        epoch: of the sender's log: a master's own epoch.
        boottime_ns: by the clock that counts from the start of the machine.
        wall_ms: by the wall clock.
    """

    epoch: int
    boottime_ns: int
    wall_ms: int


class LeaseAnswers:
    """
    The answers to one broker's heartbeats. One thread.
    """

    def __init__(self) -> None:
        self._has_leases = False

    def lease_of(
        self, sent: SentHeartbeat, answer: HeartbeatAnswer, *, is_leader: bool
    ) -> tuple[int, Lease] | None:
        """
        Returns epoch and lease that an answer tells; ``None``: it tells nothing.

        Args:
            sent: the heartbeat that is answered.
            answer: of one controller.
            is_leader: whether that controller leads, as far as is known.
        """
        grant = answer.lease
        if grant is None:
            if not is_leader or self._has_leases:
                return None
            return sent.epoch, UNLEASED
        self._has_leases = True
        if grant.length_ms:
            lease = lease_from(sent.boottime_ns, sent.wall_ms, grant.length_ms)
            return grant.epoch, lease
        return (sent.epoch, NO_LEASE) if is_leader else None
