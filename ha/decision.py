"""
What a controller decides about a set of replicas, as each of them is told. Pure.

Controllers repeat themselves, and what they say may arrive late: a decision is
compared with the one that is known before it means anything (`pystore.ha.role`).

Source: R103, R117, R118, R153, R162 to R165; B1.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.ha.master.lease import Lease
from pystore.replicaset import AgreedSet, Member

__all__ = ["Decision"]

_UNTOLD = AgreedSet(frozenset(), 0)


@dataclass(frozen=True, slots=True)
class Decision:
    """
    Who is master.

    Attributes:
        epoch: of the mastership, or of the election that is going on.
        master: who has it, with its incarnation: a restarted process is not the one
            that was elected (B1, R152); ``None``: nobody, as far as is known.
        address: ``HOST:PORT`` where the master serves slaves; empty: not known yet.
        agreed: the SyncStateSet as it was committed last, and its version; empty:
            not told.
        lease: of the master; ``None``: none is told with this, and if none ever is,
            the controller gives no leases.
    """

    epoch: int
    master: Member | None = None
    address: str = ""
    agreed: AgreedSet = _UNTOLD
    lease: Lease | None = None

    def lists(self, broker_id: int) -> bool:
        """
        Returns whether a broker may be a member or a candidate, for all we know.
        """
        listed = self.agreed.members | self.agreed.candidates
        return not listed or any(one.broker_id == broker_id for one in listed)
