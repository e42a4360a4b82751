"""
Who a process of a broker is: a broker id that lasts, an incarnation that does not.

A process that starts is another incarnation, so it is neither the member that was
listed nor the master that was elected, whatever its id is (B1). A Java broker tells
none; there the id has to do. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.metastore.values import Incarnation

__all__ = ["NOWHERE", "LogEnd", "Member", "ids_of"]


@dataclass(frozen=True, slots=True)
class Member:
    """
    One replica, as it was listed or elected.

    Attributes:
        broker_id: persistent, from 1 on.
        incarnation: ``None`` for a Java broker.
    """

    broker_id: int
    incarnation: Incarnation | None = None


@dataclass(frozen=True, slots=True, order=True)
class LogEnd:
    """
    How far a log goes. One of a higher epoch is further, however short it is.

    Attributes:
        epoch: of its last bytes; -1: not known.
        end: in bytes, exclusive; -1: not known.
    """

    epoch: int = -1
    end: int = -1


NOWHERE = LogEnd()
"""It is not known how far."""


def ids_of(members: frozenset[Member]) -> frozenset[int]:
    """
    Returns the broker ids of members.
    """
    return frozenset(member.broker_id for member in members)
