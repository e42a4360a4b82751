"""
The 99th percentile of what appends took lately.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from lib.rate_clock import RateClock

from pystore.rates.latency_samples import LatencyKind, LatencySamples, p99


def wanted(clock: RateClock) -> LatencySamples:
    """
    Samples of this clock.
    """
    samples = LatencySamples(clock.read_ns)
    samples.is_wanted = True
    return samples


def take(samples: LatencySamples, clock: RateClock, kind: LatencyKind, ms: int) -> None:
    """
    One wait of so many ms.
    """
    began_ns = samples.begin()
    clock.sleep(ms / 1000)
    samples.end(kind, began_ns)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=500))
def test_at_most_one_in_a_hundred_is_above_the_percentile(values: list[int]) -> None:
    """
    And it is one of the values; of fewer than a hundred the highest.
    """
    found = p99(values)
    assert found in values
    assert sum(one > found for one in values) <= len(values) // 100
    assert len(values) >= 100 or max(values) == found


def test_many_short_appends_do_not_hide_the_disk() -> None:
    """
    Each kind is judged alone, and the worse one counts.
    """
    clock = RateClock()
    samples = wanted(clock)
    take(samples, clock, LatencyKind.SYNC, 40)
    for _ in range(1000):
        take(samples, clock, LatencyKind.APPEND, 0)
    assert 40.0 == samples.p99_ms(5_000)


def test_a_sync_that_finds_all_on_disk_is_no_sample() -> None:
    """
    Waits that are none do not hide those that are.
    """
    clock = RateClock()
    samples = wanted(clock)
    take(samples, clock, LatencyKind.SYNC, 40)
    for _ in range(1000):
        take(samples, clock, LatencyKind.SYNC, 0)
    assert 40.0 == samples.p99_ms(5_000)


def test_what_is_over_for_long_does_not_count() -> None:
    """
    Without anything later nothing is known.
    """
    clock = RateClock()
    samples = wanted(clock)
    take(samples, clock, LatencyKind.SYNC, 40)
    clock.sleep(6)
    assert None is samples.p99_ms(5_000)


def test_one_append_in_sixteen_is_measured_and_none_if_not_wanted() -> None:
    """
    A sample costs two looks at the clock.
    """
    clock = RateClock()
    samples = wanted(clock)
    assert 2 == sum(bool(samples.begin_some()) for _ in range(32))
    samples.is_wanted = False
    assert 0 == sum(samples.begin_some() for _ in range(32))
    samples.end(LatencyKind.APPEND, samples.begin())
    assert None is samples.p99_ms(5_000)
