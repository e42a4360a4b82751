"""
The leases that this controller grants, and the end of former masters' leases. Pure.

A lease lets one master decide `leader` acks alone, until it expires. The broker counts
it from the *sending* of the heartbeat, which no controller knows. The controller waits
from its *answer*, which is later. It records its own grants; those of the previous
controller have expired once its term is old enough (C3).

Source: C1 to C3, B8; RMQ-R81; docs/controller.md, time.
"""

from __future__ import annotations

from pystore.controller.liveness.authority import LEASE_MS, Authority
from pystore.controller.liveness.clock_skew import granted, waited
from pystore.controller.model.state import SetKey, SetState
from pystore.replicaset import Member

__all__ = ["Leases"]

_MS = 1_000_000


class Leases:
    """
    The leases of one term, by set. The next term has its own object.

    Args:
        authority: of the term.
    """

    __slots__ = ("_authority", "_ends_ns")

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._ends_ns: dict[SetKey, dict[Member, int]] = {}

    def grant(
        self,
        state: SetState,
        requester: Member,
        epoch: int,
        timeout_ms: int,
        now_ns: int,
    ) -> int:
        """
        Grants a lease with the answer to a heartbeat. It counts whether the answer
        arrives or not.

        Args:
            state: of the set, as committed.
            requester: the sender of the heartbeat.
            epoch: of the sender's mastership.
            timeout_ms: how long its heartbeats are valid.
            now_ns: boot time, read after the heartbeat arrived.

        Returns:
            the length in ms after the sending of the heartbeat, by the broker's clock
            (`clock_skew`); 0: no lease.
        """
        is_master = state.master == requester and state.epoch == epoch
        if not is_master or requester.incarnation is None or state.unreleased:
            return 0
        length_ms = granted(min(timeout_ms, LEASE_MS))
        until_ns = self._authority.until_ns
        if until_ns is not None:
            # It ends before another controller can lead.
            length_ms = min(length_ms, (until_ns - now_ns) // _MS)
        if length_ms <= 0:
            return 0
        self._remember(state.key, requester, now_ns + waited(length_ms * _MS), now_ns)
        return length_ms

    def _remember(self, key: SetKey, member: Member, end_ns: int, now_ns: int) -> None:
        old = self._ends_ns.get(key, {})
        ends = {one: end for one, end in old.items() if end > now_ns}
        # A shorter lease does not end a longer one, whose answer may arrive later.
        ends[member] = max(end_ns, ends.get(member, 0))
        self._ends_ns[key] = ends

    def end_ns(self, key: SetKey, member: Member) -> int:
        """
        Returns when all leases of a member have expired, in boot time; leases from
        before this term included.
        """
        ends = self._ends_ns.get(key, {})
        return max(ends.get(member, 0), self._authority.replaces_at_ns)

    def left_ms(self, key: SetKey, member: Member, now_ns: int) -> int:
        """
        Returns how long the lease of a member may still run, in ms, for people; 0:
        none. Java brokers have no leases.
        """
        if member.incarnation is None:
            return 0
        return max(0, self.end_ns(key, member) - now_ns) // _MS

    def due_ns(self, state: SetState) -> int | None:
        """
        Returns when `EndLeases` is due for the epoch of the state: all leases of former
        masters have expired then. ``None``: there are none.
        """
        ends = (self.end_ns(state.key, one) for one in state.unreleased)
        return max(ends, default=None)

    def forget(self, key: SetKey) -> None:
        """
        Removes a set: all its brokers were cleaned, and no lease is waited for.
        """
        self._ends_ns.pop(key, None)
