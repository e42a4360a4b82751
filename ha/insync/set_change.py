"""
The request by which a master changes its SyncStateSet, and why the set changed. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.replicaset import AgreedSet, Member, ids_of

__all__ = ["SetChange", "change_reason"]


@dataclass(frozen=True, slots=True)
class SetChange:
    """
    A change of the SyncStateSet that the master requests once.

    The controller takes it only if epoch and set epoch are still the recorded ones,
    and checks that in the transaction of the change (RMQ-R104, RMQ-R105, RMQ-R112). The
    master sends it once: if it sent a request twice, the refusal of one would say
    nothing about the other.

    Attributes:
        attempt: number of this request; the answer carries it.
        epoch: of the mastership.
        set_epoch: the version that the change was computed from.
        members: the whole new set, the master included (RMQ-R91).
        candidates: those that stay candidates.
        reason: one line for people.
        is_fence: the set stays as it is, only its version rises: afterwards no
            earlier request of unknown outcome can be taken any more.
        filling: the ids of the members that join and lack records of the set: the
            controller takes them once it knows that itself (B11).
    """

    attempt: int
    epoch: int
    set_epoch: int
    members: frozenset[Member]
    candidates: frozenset[Member]
    reason: str
    is_fence: bool = False
    filling: frozenset[int] = frozenset()


def change_reason(before: AgreedSet, after: AgreedSet, asked: SetChange | None) -> str:
    """
    Returns why a set changed: one sentence for each broker; empty: it did not.

    Args:
        before: the set as the controller had committed it.
        after: as it is committed now.
        asked: the newest change that the master requested.
    """
    now = after.members, after.candidates
    if now == (before.members, before.candidates):
        return ""
    if asked is not None and now == (asked.members, asked.candidates):
        return asked.reason
    old, new = ids_of(before.members), ids_of(after.members)
    parts = [
        *(f"broker {one} left the SyncStateSet" for one in sorted(old - new)),
        *(f"broker {one} joined the SyncStateSet" for one in sorted(new - old)),
    ]
    what = "; ".join(parts) or "the processes or candidates of the SyncStateSet changed"
    return f"{what}: the controller decided it"
