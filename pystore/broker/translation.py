"""
What a controller says, in the words of replication, and the other way round. Pure.

Both have values of their own for members and sets, as neither imports the other.
"""

from __future__ import annotations

from pystore.controller.model import commands, state
from pystore.controller.model import member as listed
from pystore.ha.insync.member import AgreedSet, Member, SetChange
from pystore.metastore.values import Incarnation

__all__ = ["agreed_of", "alteration", "member_of"]


def member_of(member: listed.Member) -> Member:
    """
    Returns a member as replication knows it; of a Java controller, or of a Java
    broker, without an incarnation.
    """
    start = member.incarnation
    return Member(
        member.broker_id, None if start is None else (start.counter, start.bits)
    )


def agreed_of(agreed: state.AgreedSet) -> AgreedSet:
    """
    Returns a set as replication knows it.
    """
    return AgreedSet(
        frozenset(map(member_of, agreed.members)),
        agreed.set_epoch,
        frozenset(map(member_of, agreed.candidates)),
    )


def alteration(change: SetChange, master_id: int) -> commands.AlterSet:
    """
    Returns what a controller is asked for.

    Args:
        change: as replication wants it; the master is in its set.
        master_id: the broker that asks.
    """
    (master,) = (one for one in change.members if one.broker_id == master_id)
    return commands.AlterSet(
        _listed(master),
        change.epoch,
        change.set_epoch,
        frozenset(map(_listed, change.members)),
        frozenset(map(_listed, change.candidates)),
        change.is_fence,
    )


def _listed(member: Member) -> listed.Member:
    start = member.incarnation
    return listed.Member(
        member.broker_id, None if start is None else Incarnation(*start)
    )
