"""
The confirm offset, and the offset that each ack has reached. Pure.

These offsets never move back within a mastership (RMQ-R128). They move only while every
member acks: a member without a session, or without an ack in its session, stops them
(RMQ-R122, RMQ-R129).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pystore.ha.insync.record_ends import RecordEnds
from pystore.ha.insync.sessions import Session

__all__ = ["AckHolders", "ConfirmOffset"]


@dataclass(frozen=True, slots=True)
class AckHolders:
    """
    The sessions whose acks count now.

    Attributes:
        members: for each member of any set that the controller may have agreed to,
            its session, or ``None``.
        joiners: slaves that are about to join the set: what is acknowledged meanwhile,
            they must hold too (RMQ-R82).
        is_enough: the replicas that certainly count are at least ``min_in_sync``.
        has_candidates: a replica outside the set may be elected (B7).
    """

    members: Sequence[Session | None]
    joiners: Sequence[Session]
    is_enough: bool
    has_candidates: bool

    @property
    def has_legacy(self) -> bool:
        """
        Whether a legacy slave is among the members.
        """
        return any(one is not None and one.is_legacy for one in self.members)


class ConfirmOffset:
    """
    Offsets that only rise.

    Args:
        end_offset: of the master's log.
        flushed_offset: the log is durable below it.
        confirm_offset: as the master knew it when its mastership began.

    Attributes:
        ends: ends of the master's records.
        flushed_offset: of the master.
        confirm_offset: every replica that may be elected holds everything below.
        all_offset: `all` is reached below it.
        all_synced_offset: `all-synced` is reached below it.
    """

    def __init__(
        self, end_offset: int, flushed_offset: int, confirm_offset: int
    ) -> None:
        self.ends = RecordEnds(end_offset)
        self.flushed_offset = flushed_offset
        # A stored offset may be above what is left of the log (RMQ-L.1.7).
        self.confirm_offset = min(confirm_offset, end_offset)
        self.all_offset = 0
        self.all_synced_offset = 0

    def advance(self, holders: AckHolders, serves_synced: bool) -> None:
        """
        Moves the offsets as far as these acks allow.
        """
        low = self._lowest_received(holders)
        if low is None:
            return
        rounded = self.ends.floor(low)
        if rounded is None:
            return
        if rounded > self.confirm_offset:
            self.confirm_offset = rounded
            self.ends.forget_below(rounded)
        if not holders.is_enough or holders.has_candidates:
            return
        self.all_offset = max(self.all_offset, rounded)
        if serves_synced and not holders.has_legacy:
            flushed = min(self._lowest_flushed(holders), rounded)
            self.all_synced_offset = max(self.all_synced_offset, flushed)

    def _lowest_received(self, holders: AckHolders) -> int | None:
        low = self.ends.newest
        for session in (*holders.members, *holders.joiners):
            if session is None or session.received_offset is None:
                return None
            low = min(low, session.received_offset)
        return low

    def _lowest_flushed(self, holders: AckHolders) -> int:
        # A legacy joiner does not report its disk; once it is a member, `all-synced`
        # is refused.
        own = (one for one in holders.joiners if not one.is_legacy)
        sessions = (*holders.members, *own)
        flushed = (one.flushed_offset for one in sessions if one is not None)
        return min((self.flushed_offset, *(offset or 0 for offset in flushed)))
