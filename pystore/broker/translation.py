"""
Translates between the values of controller and replication. Pure.

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
    Returns a member as a value of replication; members of a Java controller, and Java
    brokers, have no incarnation.
    """
    start = member.incarnation
    return Member(
        member.broker_id, None if start is None else (start.counter, start.bits)
    )


def agreed_of(agreed: state.AgreedSet) -> AgreedSet:
    """
    Returns a set as a value of replication.
    """
    return AgreedSet(
        frozenset(map(member_of, agreed.members)),
        agreed.set_epoch,
        frozenset(map(member_of, agreed.candidates)),
    )


def alteration(change: SetChange, master_id: int) -> commands.AlterSet:
    """
    Returns the command of a change.

    Args:
        change: of replication; the master is in its set.
        master_id: the broker that requests it.
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
