"""
The request by which a master changes its SyncStateSet. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.replicaset import Member

__all__ = ["SetChange"]


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
    """

    attempt: int
    epoch: int
    set_epoch: int
    members: frozenset[Member]
    candidates: frozenset[Member]
    reason: str
    is_fence: bool = False
