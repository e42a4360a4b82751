"""
A controller's decision about a set of replicas, as each replica receives it. Pure.

Controllers repeat decisions, and a decision may arrive late. So a replica compares each
one with the newest that it knows (`pystore.ha.role`).

Source: RMQ-R103, RMQ-R117, RMQ-R118, RMQ-R153, RMQ-R162 to RMQ-R165; B1, B15, C0.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.ha.master.lease import Lease
from pystore.replicaset import NO_SET, AgreedSet, Member

__all__ = ["Decision", "with_newer_set"]


@dataclass(frozen=True, slots=True)
class Decision:
    """
    A decision of the controller.

    Attributes:
        epoch: of the mastership, or of the election under way.
        master: the broker that has it, with its incarnation: a restarted process is
            not the one that was elected (B1, RMQ-R152); ``None``: no master is known.
        address: ``HOST:PORT`` where the master serves slaves; empty: not known yet.
        agreed: the SyncStateSet as it was committed last, and its version;
            `pystore.replicaset.NO_SET`: not known.
        lease: of the master; ``None``: this decision says nothing of it. A mastership
            begins with `pystore.ha.master.lease.NO_LEASE` then (C0).
        is_learner: this replica only follows: it never joins the SyncStateSet. Of the
            version of that set: a later one may say otherwise.
    """

    epoch: int
    master: Member | None = None
    address: str = ""
    agreed: AgreedSet = NO_SET
    lease: Lease | None = None
    is_learner: bool = False

    def lists(self, broker_id: int) -> bool:
        """
        Returns whether a broker may be a member or a candidate, as far as is known.
        """
        listed = self.agreed.members | self.agreed.candidates
        return not listed or any(one.broker_id == broker_id for one in listed)


def with_newer_set(known: Decision, told: Decision) -> Decision:
    """
    Returns the decision that has the newer SyncStateSet: that of the higher epoch, then
    the one with the higher version. A newer epoch without a set is newer, too: the set
    of that epoch is not known (B15).
    """
    known_version = known.epoch, known.agreed.set_epoch
    return told if (told.epoch, told.agreed.set_epoch) > known_version else known
