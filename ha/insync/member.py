"""
Who is in a set: replicas by broker id and incarnation, and versions of the set. Pure.

A restarted process has another incarnation, so it is not the member that was
listed, until a master admits it again or the controller says that it lost nothing
(B1, B2). A legacy slave has no incarnation; there the broker id has to do.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AgreedSet", "Incarnation", "Member", "SetChange"]

Incarnation = tuple[int, bytes]
"""The counter of a writer's starts, and random bits of this start."""


@dataclass(frozen=True, slots=True)
class Member:
    """
    One replica, as it was listed.

    Attributes:
        broker_id: persistent.
        incarnation: ``None`` for a legacy slave.
    """

    broker_id: int
    incarnation: Incarnation | None = None


@dataclass(frozen=True, slots=True)
class AgreedSet:
    """
    A SyncStateSet as the controller committed it.

    Attributes:
        members: the master among them.
        set_epoch: its version; it rises with every change.
        candidates: members of the set before the election who may still be elected,
            so who hold acks back until they are admitted or removed (B7).
        continuing: restarted replicas that the controller found to have lost nothing
            since they were listed with an older incarnation (B2).
    """

    members: frozenset[Member]
    set_epoch: int
    candidates: frozenset[Member] = frozenset()
    continuing: frozenset[Member] = frozenset()


@dataclass(frozen=True, slots=True)
class SetChange:
    """
    What the master asks the controller for, once.

    The controller takes it only if epoch and set epoch are still the recorded ones,
    looked at in the same moment as the change is committed (R104, R105, R112). It is
    sent once: of a request that was sent twice, one being refused says nothing about
    the other.

    Attributes:
        attempt: names this request; its answer comes with it.
        epoch: of the mastership.
        set_epoch: the version that the change was computed from.
        members: the whole new set, the master included (R91).
        candidates: those that stay candidates.
        reason: one line for people.
        is_fence: the set stays as it is, only its version rises: afterwards no
            earlier request of unknown outcome can be taken any more.
    """

    attempt: int
    epoch: int
    set_epoch: int
    members: frozenset[Member]
    candidates: frozenset[Member]
    reason: str
    is_fence: bool = False
