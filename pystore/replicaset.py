"""
The members of a set of replicas, and versions of that set. Pure.

A process that starts is another incarnation, so it is neither the member that was
listed nor the master that was elected, until a master admits it again or the
controller finds that it lost nothing (B1, B2). A Java broker and a legacy slave have
no incarnation: there the broker id has to suffice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pystore.errors import InvalidError
from pystore.stored_names import stored

__all__ = ["NO_SET", "AgreedSet", "Incarnation", "Member", "ids_of"]


@stored
@dataclass(frozen=True, slots=True)
class Incarnation:
    """
    One process start of one store: a counter and 128 random bits (B1).

    Counter 0 is a store that no process has opened for writing yet.
    """

    counter: int = 0
    bits: bytes = bytes(16)

    def __post_init__(self) -> None:
        if self.counter < 0 or len(self.bits) != 16:
            raise InvalidError("an incarnation is a counter and 16 random bytes")

    @property
    def text(self) -> str:
        """
        As in our ``abort`` file: ``<counter>-<32 hexadecimal digits>``.
        """
        return f"{self.counter}-{self.bits.hex()}"


@dataclass(frozen=True, slots=True)
class Member:
    """
    One replica, as it was listed or elected.

    Attributes:
        broker_id: persistent, from 1 on.
        incarnation: ``None`` for a Java broker and for a legacy slave.
    """

    broker_id: int
    incarnation: Incarnation | None = None


def ids_of(members: Iterable[Member]) -> frozenset[int]:
    """
    Returns the broker ids of members.
    """
    return frozenset(member.broker_id for member in members)


@dataclass(frozen=True, slots=True)
class AgreedSet:
    """
    A SyncStateSet as the controller committed it, with its version.

    Attributes:
        members: the master among them, if there is one.
        set_epoch: the version; it rises with every change.
        candidates: members of the set before the election that may still be elected:
            they hold acks back until they are admitted or removed (B7).
        continuing: restarted replicas that the controller found to have lost nothing
            since they were listed with an older incarnation (B2). A statement about
            processes that run now: the record of a set does not hold it.
    """

    members: frozenset[Member] = frozenset()
    set_epoch: int = 0
    candidates: frozenset[Member] = frozenset()
    continuing: frozenset[Member] = field(
        default=frozenset(), metadata={"is_stored": False}
    )


NO_SET = AgreedSet()
"""The set of brokers that never had a master."""
