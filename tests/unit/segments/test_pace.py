"""
A repair keeps its own rate, and with other repairs that of the host.
"""

from __future__ import annotations

import pytest
from lib.rate_clock import RateClock

from pystore.rates.shared_rate import SharedRate
from pystore.segments.pace import Pace

BLOCK = 4 << 20


@pytest.mark.parametrize("rate", [1 << 20, 25_000_000, 100_000_000, 1_000_000_000])
def test_the_rate_is_kept_within_a_tenth_over_five_seconds(rate: int) -> None:
    """
    However large a block is, compared with it.
    """
    clock = RateClock()
    pace = Pace(rate, clock.read, clock.sleep)
    begin, moved = clock.now_ms, 0
    while clock.now_ms - begin < 5_000:
        pace.spend(BLOCK)
        moved += BLOCK
    measured = moved / (clock.now_ms - begin) * 1000
    assert 0.9 * rate <= measured <= 1.1 * rate + BLOCK / 5


def test_without_a_limit_nothing_waits() -> None:
    """
    The default.
    """
    clock = RateClock()
    pace = Pace(0, clock.read, clock.sleep)
    for _ in range(100):
        pace.spend(1 << 30)
    assert 1_000.0 == clock.now_ms


def test_the_lower_of_the_two_rates_counts() -> None:
    """
    That of the repair, then that of the host, which another repair uses, too.
    """
    clock = RateClock()
    host = SharedRate(20_000_000, clock.read, clock.sleep)
    one, other = (
        Pace(rate, clock.read, clock.sleep, host=host) for rate in (10_000_000, 0)
    )
    begin = clock.now_ms
    for _ in range(10):
        one.spend(1_000_000)
    assert 900 <= clock.now_ms - begin <= 1_100
    begin = clock.now_ms
    for _ in range(20):
        other.spend(1_000_000)
    assert 800 <= clock.now_ms - begin <= 1_100
