"""
What a replica answers: what became of an append, and how it stands. Pure.
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
    What became of an append.

    Attributes:
        appended: where the records are.
        settled: what was promised, and what was reached by when it was asked.
    """

    appended: Appended
    settled: AckResult

    @property
    def is_reached(self) -> bool:
        """
        Whether the promise was kept.
        """
        return self.settled.is_reached


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """
    How a replica stands.

    Attributes:
        role: what it is.
        epoch: of the newest decision.
        master: whom that names.
        address: where the master serves slaves; its own, if that is this replica.
        agreed: the set as far as it is known here.
        gap_bytes: of a slave: what its master has and it has not; of a master: what
            is not confirmed yet; ``None``: not known.
        lease_left_ms: how long `leader` may be decided; ``None``: not limited, or no
            master.
        problem: why something does not go on; empty: nothing.
    """

    role: Role
    epoch: int
    master: Member | None
    address: str
    agreed: AgreedSet
    gap_bytes: int | None
    lease_left_ms: int | None
    problem: str
