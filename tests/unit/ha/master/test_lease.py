"""
How long a lease runs.
"""

from __future__ import annotations

from pystore.ha.master.lease import NO_LEASE, Lease, lease_from


def test_a_lease_counts_from_when_the_heartbeat_was_sent() -> None:
    """C1: not from when its answer came, and less what clocks may differ by."""
    lease = lease_from(5_000_000_000, 70_000, 10_000, 200)

    assert lease == Lease(14_800_000_000, 79_800)
    assert lease.left_ms(5_000_000_000, 70_000) == 9_800


def test_the_first_clock_to_get_there_ends_it() -> None:
    """C1: a wall clock that is set and a machine that slept both count."""
    lease = Lease(10_000_000_000, 10_000)

    assert lease.left_ms(4_000_000_000, 9_000) == 1_000
    assert lease.left_ms(9_999_000_000, 2_000) == 1
    assert lease.left_ms(9_999_000_001, 2_000) == 0
    assert lease.left_ms(0, 12_000) == -2_000


def test_no_lease_has_run_out() -> None:
    """By any clock that is not before the first millisecond."""
    assert NO_LEASE.left_ms(2_000_000, 2) < 0
