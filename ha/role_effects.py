"""
What a change of roles asks for. Pure: frozen values, carried out by their owner.

One is carried out after the other; `pystore.ha.slave.effects.Promise` belongs to them,
too: the epoch is promised once the old role has ended, and before the new one begins.

Source: B6; R154, R161; docs/replication.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.ha.insync.member import AgreedSet
from pystore.ha.lease import Lease
from pystore.ha.slave.effects import Promise

__all__ = [
    "BeginMastership",
    "Effect",
    "Follow",
    "RenewLease",
    "Resign",
    "StopFollowing",
    "StopServing",
    "TakeSet",
]


@dataclass(frozen=True, slots=True)
class StopServing:
    """
    End the mastership of an epoch: no append and no ack any more.
    """

    epoch: int


@dataclass(frozen=True, slots=True)
class StopFollowing:
    """
    Leave the master; not a byte of it is written any more.
    """


@dataclass(frozen=True, slots=True)
class BeginMastership:
    """
    The log begins the epoch, and slaves are served.

    Attributes:
        epoch: of the mastership.
        agreed: the set as it was committed with the election.
        lease: see `Decision`.
    """

    epoch: int
    agreed: AgreedSet
    lease: Lease | None


@dataclass(frozen=True, slots=True)
class Follow:
    """
    Follow a master.

    Attributes:
        address: ``HOST:PORT``.
        epoch: of its mastership.
        may_wipe: the controller counts on nothing that this replica holds.
    """

    address: str
    epoch: int
    may_wipe: bool


@dataclass(frozen=True, slots=True)
class Resign:
    """
    Tell the controller that a mastership was given up; it has ended by now.
    """

    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class TakeSet:
    """
    The controller has a newer set of the mastership that runs (R117).
    """

    agreed: AgreedSet


@dataclass(frozen=True, slots=True)
class RenewLease:
    """
    The lease of the mastership that runs is another one.
    """

    epoch: int
    lease: Lease


Effect = (
    StopServing
    | StopFollowing
    | Promise
    | BeginMastership
    | Follow
    | Resign
    | TakeSet
    | RenewLease
)
