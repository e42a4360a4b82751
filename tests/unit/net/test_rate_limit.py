"""
A slave is sent so many bytes a second, and no more.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pystore.net.rate_limit import RateLimit


def test_without_a_limit_everything_is_allowed() -> None:
    """Nothing is counted."""
    flow = RateLimit(0, 0)
    flow.spend(1 << 40)

    assert flow.allowed(0, 999) == 999
    assert flow.wait_ms() == 0


def test_a_budget_is_spent_and_grows_again() -> None:
    """1,000 bytes a second: a burst of 100, then a byte each millisecond."""
    flow = RateLimit(1000, 0)
    assert flow.allowed(0, 1 << 20) == 100
    flow.spend(100)
    assert flow.allowed(0, 1 << 20) == 0
    assert flow.wait_ms() == 10
    assert flow.allowed(9, 1 << 20) == 0
    assert flow.allowed(10, 1 << 20) == 10
    assert flow.allowed(10_000, 1 << 20) == 100


def test_a_rate_below_a_byte_per_piece_still_moves() -> None:
    """One byte a second is slow, not never."""
    flow = RateLimit(1, 0)
    assert flow.allowed(0, 5) == 1
    flow.spend(1)

    assert flow.wait_ms() == 1000
    assert flow.allowed(1000, 5) == 1


@given(
    st.integers(1, 10**9),
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 10**6)), max_size=50),
)
def test_no_stretch_of_time_gets_more_than_its_share(
    rate: int, steps: list[tuple[int, int]]
) -> None:
    """Up to the burst, and to the byte that rounding leaves."""
    flow, now_ms, sent = RateLimit(rate, 0), 0, 0
    for passed_ms, wanted in steps:
        now_ms += passed_ms
        size = flow.allowed(now_ms, wanted)
        flow.spend(size)
        sent += size

    assert sent <= rate * (now_ms + 100) // 1000 + 1
