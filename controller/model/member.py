"""
The identity of a broker process: a lasting broker id and the incarnation of a start.

A new process has another incarnation, so it is neither the listed member nor the
elected master, also if its id is the same (B1). A Java broker has no incarnation; there
the id identifies it. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.metastore.values import Incarnation

__all__ = ["NOWHERE", "LogEnd", "Member", "ids_of"]


@dataclass(frozen=True, slots=True)
class Member:
    """
    One replica as it was listed or elected.

    Attributes:
        broker_id: persistent, from 1 on.
        incarnation: ``None`` for a Java broker.
    """

    broker_id: int
    incarnation: Incarnation | None = None


@dataclass(frozen=True, slots=True, order=True)
class LogEnd:
    """
    The end of a log. A log with a higher last epoch compares greater, also if it is
    shorter.

    Attributes:
        epoch: of its last bytes; -1: unknown.
        end: in bytes, exclusive; -1: unknown.
    """

    epoch: int = -1
    end: int = -1


NOWHERE = LogEnd()
"""An unknown log end."""


def ids_of(members: frozenset[Member]) -> frozenset[int]:
    """
    Returns the broker ids of members.
    """
    return frozenset(member.broker_id for member in members)
