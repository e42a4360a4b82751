"""
The brake: a check that would newly mark too much at once stops. Pure.

Mass damage is more often a defect of a check, a mount that is missing, or a firmware,
than work for the queue: a person looks first. Losses are no part of it: a dead replica
explains what is missing.

Source: AR-R7; docs/autorecovery.md, *The Auditor*.
"""

from __future__ import annotations

from pystore.autorecovery.replica_key import ReplicaKey

__all__ = ["BRAKE_ALARM", "BRAKE_LEAST", "MarkBrake"]

BRAKE_ALARM = "recovery/alarm/brake"
"""Exists while a check was stopped because it would have marked too much."""

BRAKE_LEAST = 16
"""So many new marks of one check never trip the brake, however few segments there
are."""


class MarkBrake:
    """
    The brake of one check of all replicas. One thread.

    Attributes:
        is_forced: an operator wants the check to go on.
        tripped: why the check stopped, one line; empty: it did not.
        marks: how many marks the check made.
        segments: how many segments it looked at.
    """

    def __init__(self) -> None:
        self.is_forced = False
        self.tripped = ""
        self.marks = 0
        self.segments = 0
        self._looked: dict[ReplicaKey, int] = {}

    def begin(self, *, is_forced: bool) -> None:
        """
        Begins another check.
        """
        self.is_forced = is_forced
        self.tripped = ""
        self.marks = self.segments = 0
        self._looked.clear()

    def looked_at(self, replica: ReplicaKey, segments: int) -> None:
        """
        A replica with so many segments was looked at.
        """
        self.segments += segments - self._looked.get(replica, 0)
        self._looked[replica] = segments

    def admits(self, replica: ReplicaKey, new: int, percent: int) -> bool:
        """
        Returns whether new marks of a replica's copies may be made; counts them if so.

        Args:
            replica: that was looked at.
            new: how many marks.
            percent: of the segments of the replica, and of all that were looked at.
        """
        if not new:
            return True
        if self.tripped and not self.is_forced:
            return False
        own = self._looked.get(replica, 0)
        checks = ((new, own, replica.text), (self.marks + new, self.segments, "all"))
        for marks, segments, whose in checks:
            allowed = max(BRAKE_LEAST, segments * percent // 100)
            if marks > allowed and not self.is_forced:
                self.tripped = (
                    f"the check would newly mark {marks} of {segments} segments "
                    f"({whose}), and {percent} % stop it: look at the replica, then "
                    "ask for an audit with force"
                )
                return False
        self.marks += new
        return True
