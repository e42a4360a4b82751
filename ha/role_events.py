"""
Tells the changes of a replica's role, and of its lease. Pure.

A role is told when it has begun or ended, not while it is pending; a lease when it is
granted first, refused or run out, not when it is renewed.

Source: C0, C1; docs/operations.md, *What happened?*.
"""

from __future__ import annotations

from pystore.events.node_events import (
    LeaseEnded,
    LeaseGranted,
    LeaseRefused,
    RoleChanged,
)
from pystore.events.node_teller import Tell
from pystore.ha.decision import Decision
from pystore.ha.role import Role

__all__ = ["RoleEvents"]


class RoleEvents:
    """
    The events of one replica. One thread.

    Args:
        tell: takes them.
    """

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._now = Role.IDLE, -1
        self._resigned = ""
        self._lease_epoch = -1
        self._has_lease = False
        self._is_refused = False

    @property
    def has_lease(self) -> bool:
        """
        Whether a lease was told that has not ended.
        """
        return self._has_lease

    def resigned(self, reason: str) -> None:
        """
        A mastership was given up; its role follows.
        """
        self._resigned = reason

    def stands(self, role: Role, known: Decision) -> None:
        """
        Takes the role and the newest decision: tells them if the role is another one,
        or serves another epoch.
        """
        if role is Role.PENDING:
            return
        old, epoch = self._now
        is_same = role is old and (
            epoch == known.epoch or role not in (Role.MASTER, Role.FOLLOWING)
        )
        self._now = role, known.epoch
        if role is not Role.MASTER:
            self._has_lease = False
        if is_same:
            return
        self._tell(
            RoleChanged,
            old=old.value,
            new=role.value,
            master_epoch=known.epoch,
            reason=self._why(role, known),
        )
        self._resigned = ""

    def leased(self, epoch: int, left_ms: int | None) -> None:
        """
        Takes how long the lease of a mastership runs; ``None``: the controller gives
        none; 0: there is none yet.
        """
        self._begin(epoch)
        if left_ms == 0 or self._has_lease:
            return
        self._has_lease, self._is_refused = True, False
        self._tell(LeaseGranted, master_epoch=epoch, is_limited=left_ms is not None)

    def refused(self, epoch: int) -> None:
        """
        The leading controller grants no lease.
        """
        self._begin(epoch)
        if not self._is_refused:
            self._has_lease, self._is_refused = False, True
            reason = "the leading controller refuses it"
            self._tell(LeaseRefused, master_epoch=epoch, reason=reason)

    def looked(self, left_ms: int | None) -> None:
        """
        Takes how long the lease still runs.
        """
        if self._has_lease and left_ms == 0:
            self._has_lease = False
            reason = "no controller has renewed it"
            self._tell(LeaseEnded, master_epoch=self._lease_epoch, reason=reason)

    def _begin(self, epoch: int) -> None:
        if epoch != self._lease_epoch:
            self._lease_epoch = epoch
            self._has_lease = self._is_refused = False

    def _why(self, role: Role, known: Decision) -> str:
        match role:
            case Role.SHUTDOWN:
                return "it shuts down"
            case Role.MASTER:
                return "the controllers elected this broker"
            case Role.FOLLOWING:
                assert known.master is not None
                return f"the controllers elected broker {known.master.broker_id}"
        if self._resigned:
            return self._resigned
        return "the controllers name no master that it can follow"
