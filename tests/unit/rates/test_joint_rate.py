"""
Bytes that several rates count move as fast as the slowest allows.
"""

from __future__ import annotations

from lib.rate_clock import RateClock

from pystore.rates.joint_rate import JointRate
from pystore.rates.shared_rate import SharedRate


def test_the_slowest_rate_decides_and_each_counts() -> None:
    """
    One without a limit holds nothing back.
    """
    clock = RateClock()
    rates = [SharedRate(one, clock.read, clock.sleep) for one in (0, 2000, 1000)]
    joint, begun_ms = JointRate(*rates), clock.now_ms
    assert 1000 == joint.bytes_per_second
    for _ in range(100):
        joint.use(100)
    assert 9000 <= clock.now_ms - begun_ms <= 10_500
    assert [10_000] * 3 == [one.moved_bytes for one in rates]
    rates[2].change(0)
    assert 2000 == joint.bytes_per_second
    rates[1].change(0)
    assert 0 == joint.bytes_per_second
