"""
The lease of a mastership. Pure.

The master alone decides the acks `leader` and `leader-synced`, so a controller that
elects another master must know when the old one stops: it grants a lease with each
heartbeat. The lease counts from the moment at which the heartbeat was *sent*. It ends
when the first of two clocks reaches its end: boot time, which also counts while the
machine sleeps, or wall time.

A mastership begins without a lease (C0): until one is granted for its epoch, `leader`
is not acknowledged.

Source: C0 to C3, B8 (docs/in-sync.md).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NO_LEASE", "UNLEASED", "Lease", "lease_from"]


@dataclass(frozen=True, slots=True)
class Lease:
    """
    The end of a lease, exclusive.

    Attributes:
        boottime_ns: by the clock that counts from the start of the machine.
        wall_ms: by the wall clock.
    """

    boottime_ns: int
    wall_ms: int

    def left_ms(self, boottime_ns: int, wall_ms: int) -> int:
        """
        Returns how long it still runs, rounded down; 0 or less: it has ended.
        """
        by_boottime_ms = (self.boottime_ns - boottime_ns) // 1_000_000
        return min(by_boottime_ms, self.wall_ms - wall_ms)

    def has_ended(self, boottime_ns: int, wall_ms: int) -> bool:
        """
        Tells whether the core refuses the acks that need it.
        """
        return boottime_ns >= self.boottime_ns or wall_ms >= self.wall_ms


NO_LEASE = Lease(1, 1)
"""This master has no lease: none was granted for its epoch, or the last was refused."""

UNLEASED = Lease(2**63 - 1, 2**63 - 1)
"""
The controller gives no leases, as RocketMQ's: only the end of the mastership ends the
acks that the master decides alone. A broker says so explicitly, once it knows (C0).
"""


def lease_from(
    sent_boottime_ns: int, sent_wall_ms: int, length_ms: int, error_ms: int = 0
) -> Lease:
    """
    Returns the lease that the answer to a heartbeat grants.

    Args:
        sent_boottime_ns: when the heartbeat was sent.
        sent_wall_ms: the same, by the wall clock.
        length_ms: how long a heartbeat is valid.
        error_ms: by how much clocks may differ over that time.
    """
    length_ms -= error_ms
    return Lease(sent_boottime_ns + length_ms * 1_000_000, sent_wall_ms + length_ms)
