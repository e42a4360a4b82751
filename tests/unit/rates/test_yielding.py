"""
A rate halves while appends take too long, and grows again.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pystore.rates.yielding import LEAST_BYTES_PER_SECOND, UNLIMITED, yielded_rate

CEILING = 64_000_000


def test_the_rate_halves_while_appends_are_slow() -> None:
    """
    Down to one that still moves.
    """
    rate = CEILING
    seen = []
    for _ in range(8):
        rate = yielded_rate(rate, CEILING, rate, 21.0, 20)
        seen.append(rate)
    assert [32_000_000, 16_000_000, 8_000_000, 4_000_000, 2_000_000] == seen[:5]
    assert LEAST_BYTES_PER_SECOND == seen[-1]


def test_the_rate_grows_back_in_small_steps() -> None:
    """
    Up to the ceiling, and not above.
    """
    rate, looks = 32_000_000, 0
    while rate < CEILING:
        rate = yielded_rate(rate, CEILING, rate, 10.0, 20)
        looks += 1
    assert (CEILING, 8) == (rate, looks)


def test_near_the_limit_the_rate_stays() -> None:
    """
    It does not swing around the latency that is still allowed.
    """
    assert 9_000_000 == yielded_rate(9_000_000, CEILING, 9_000_000, 19.0, 20)


def test_half_of_what_was_moved_follows_where_less_was_moved_than_allowed() -> None:
    """
    Without a ceiling, too: half of the disk's speed is asked for after two looks.
    """
    first = yielded_rate(UNLIMITED, 0, 100_000_000, 50.0, 20)
    assert UNLIMITED // 8 == first
    assert 50_000_000 == yielded_rate(first, 0, 100_000_000, 50.0, 20)


def test_a_repair_that_moves_nothing_is_not_the_cause() -> None:
    """
    Its rate is as it was when it goes on.
    """
    assert CEILING == yielded_rate(CEILING, CEILING, 0, 50.0, 20)


def test_without_a_limit_the_rate_is_the_ceiling() -> None:
    """
    Whatever appends take.
    """
    assert CEILING == yielded_rate(1, CEILING, 1, 500.0, 0)
    assert 0 == yielded_rate(1, 0, 1, 500.0, 0)


def test_where_no_append_is_made_the_rate_grows() -> None:
    """
    There is no writer to yield to.
    """
    assert 8_000_000 < yielded_rate(8_000_000, CEILING, 8_000_000, None, 20)


def test_the_rate_settles_below_a_disk_that_others_use() -> None:
    """
    A disk whose latency grows with what is moved: in the long run appends stay near
    the limit, and the repair gets most of what the limit leaves.
    """
    rate, above, moved = CEILING, 0, 0
    for _ in range(200):
        p99_ms = 8 + rate / 2_000_000
        above += p99_ms > 20
        moved += rate
        rate = yielded_rate(rate, CEILING, rate, p99_ms, 20)
    assert above <= 5
    assert moved / 200 >= 0.6 * 24_000_000


@given(
    st.integers(0, 1 << 40),
    st.integers(0, 1 << 40),
    st.integers(0, 1 << 40),
    st.none() | st.floats(0, 1e6),
    st.integers(0, 60_000),
)
def test_the_rate_is_never_above_its_ceiling(
    rate: int, ceiling: int, moved: int, p99_ms: float | None, limit_ms: int
) -> None:
    """
    And never stands still.
    """
    found = yielded_rate(rate, ceiling, moved, p99_ms, limit_ms)
    if ceiling:
        assert 0 < found <= ceiling
    else:
        assert 0 <= found <= UNLIMITED
