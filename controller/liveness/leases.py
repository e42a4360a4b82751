"""
Which leases this controller grants, and until when those of former masters run. Pure.

A lease lets a master decide `leader` acks alone, so nobody else may, until it is over.
The broker counts it from when it *sent* the heartbeat, which no controller knows; the
controller waits from when it *answered*, which is later. It remembers its own grants;
those of the controller before it are over once its term is old enough (C3).

Source: C1 to C3, B8; R81; docs/controller.md, time.
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
    Those of one term, by set. The next term begins with another one.

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
        asker: Member,
        epoch: int,
        timeout_ms: int,
        now_ns: int,
    ) -> int:
        """
        Grants a lease with the answer to a heartbeat, and remembers it, whether the
        answer arrives or not.

        Args:
            state: of the set, as committed.
            asker: whose heartbeat it is.
            epoch: of the mastership that the asker has.
            timeout_ms: how long its heartbeats count.
            now_ns: boot time, looked at after the heartbeat came.

        Returns:
            for how many milliseconds after the heartbeat was sent, by the broker's
            clocks, which may be as wrong as `clock_error` says; 0: no lease.
        """
        is_master = state.master == asker and state.epoch == epoch
        if not is_master or asker.incarnation is None or state.unreleased:
            return 0
        length_ms = granted(min(timeout_ms, LEASE_MS))
        until_ns = self._authority.until_ns
        if until_ns is not None:
            # Over before anybody else can lead, however long the others' leases are.
            length_ms = min(length_ms, (until_ns - now_ns) // _MS)
        if length_ms <= 0:
            return 0
        self._remember(state.key, asker, now_ns + waited(length_ms * _MS), now_ns)
        return length_ms

    def _remember(self, key: SetKey, member: Member, end_ns: int, now_ns: int) -> None:
        old = self._ends_ns.get(key, {})
        ends = {one: end for one, end in old.items() if end > now_ns}
        # A shorter lease does not end a longer one whose answer may come later.
        ends[member] = max(end_ns, ends.get(member, 0))
        self._ends_ns[key] = ends

    def end_ns(self, key: SetKey, member: Member) -> int:
        """
        Returns when the lease of a member is over for certain, by boot time; one of
        before this term included.
        """
        ends = self._ends_ns.get(key, {})
        return max(ends.get(member, 0), self._authority.replaces_at_ns)

    def left_ms(self, key: SetKey, member: Member, now_ns: int) -> int:
        """
        Returns for how long the lease of a member may still run, for people; 0: it has
        none, as a Java broker never has.
        """
        if member.incarnation is None:
            return 0
        return max(0, self.end_ns(key, member) - now_ns) // _MS

    def due_ns(self, state: SetState) -> int | None:
        """
        Returns when `EndLeases` is due, for the epoch of the state: no former master
        of it has a lease then. ``None``: none is waited for.
        """
        ends = (self.end_ns(state.key, one) for one in state.unreleased)
        return max(ends, default=None)

    def forget(self, key: SetKey) -> None:
        """
        A set is no more: all its brokers were cleaned, and no lease is waited for.
        """
        self._ends_ns.pop(key, None)
