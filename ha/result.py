"""
The result of an append, and the status of a replica. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pystore.ha.insync.ack import AckResult
from pystore.ha.role import Role
from pystore.replicaset import AgreedSet, Member

if TYPE_CHECKING:
    from pystore.core.results import Appended

__all__ = ["AppendResult", "ReplicaStatus"]


@dataclass(frozen=True, slots=True)
class AppendResult:
    """
    The result of an append.

    Attributes:
        appended: where the records are.
        settled: the ack, and what was reached when the wait ended.
    """

    appended: Appended
    settled: AckResult

    @property
    def is_reached(self) -> bool:
        """
        Whether the ack was reached.
        """
        return self.settled.is_reached


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """
    The status of a replica.

    Attributes:
        role: of the replica.
        epoch: of the newest decision.
        master: of that decision.
        address: where the master serves slaves; this replica's own if it is master.
        agreed: the set as far as this replica knows it.
        gap_bytes: of a slave: bytes that the master has and the slave does not; of a
            master: bytes that are not confirmed yet; ``None``: not known.
        lease_left_ms: how long `leader` may be decided; 0: not now; ``None``: not
            limited, or this replica is not the master.
        problem: the error that holds the replica up; empty: none.
    """

    role: Role
    epoch: int
    master: Member | None
    address: str
    agreed: AgreedSet
    gap_bytes: int | None
    lease_left_ms: int | None
    problem: str
