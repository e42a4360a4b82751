"""
Decisions of a controller for two replicas, one of which is ours.
"""

from __future__ import annotations

from pystore.ha.decision import Decision
from pystore.ha.master.lease import Lease
from pystore.replicaset import AgreedSet, Incarnation, Member

__all__ = ["ME", "OTHER", "SET", "to_follow", "to_lead"]

ME = Member(1, Incarnation(4, bytes(16)))
OTHER = Member(2, Incarnation(9, bytes(16)))
SET = AgreedSet(frozenset({ME}), 7, frozenset({OTHER}))
THEIRS = AgreedSet(frozenset({OTHER}), 7, frozenset({ME}))


def to_lead(
    epoch: int, agreed: AgreedSet = SET, lease: Lease | None = None
) -> Decision:
    """
    Returns a decision for us.
    """
    return Decision(epoch, ME, "me:1", agreed, lease)


def to_follow(epoch: int, address: str = "a:1") -> Decision:
    """
    Returns a decision for the other one.
    """
    return Decision(epoch, OTHER, address, THEIRS)
