"""
One host has one rate for each direction, which changes at run time and yields.
"""

from __future__ import annotations

import pytest
from lib.rate_clock import RateClock

from pystore.errors import InvalidError
from pystore.rates.host_rates import LOOK_MS, HostRates, RateLimits
from pystore.rates.latency_samples import LatencyKind, LatencySamples


def rates_of(clock: RateClock, limits: RateLimits) -> HostRates:
    """
    The rates of a host that has this clock.
    """
    samples = LatencySamples(clock.read_ns)
    return HostRates(limits, clock.read, clock.sleep, samples)


def second_of(rates: HostRates, clock: RateClock, append_ms: float) -> None:
    """
    A second in which as much is moved as allowed, and appends take so long.
    """
    until_ms = clock.now_ms + LOOK_MS
    while clock.now_ms < until_ms:
        began_ns = rates.latency.begin()
        clock.sleep(append_ms / 1000)
        rates.latency.end(LatencyKind.SYNC, began_ns)
        while rates.inward.allowed(1 << 20):
            rates.inward.spend(rates.inward.allowed(1 << 20))
    rates.look()


def test_limits_change_one_by_one_while_the_host_runs() -> None:
    """
    What is not named stays.
    """
    rates = rates_of(RateClock(), RateLimits(10, 20))
    assert RateLimits(10, 30) == rates.change(out_bytes=30)
    assert RateLimits(0, 30, 5) == rates.change(in_bytes=0, latency_ms=5)
    assert (0, 30) == (rates.inward.bytes_per_second, rates.outward.bytes_per_second)
    assert rates.latency.is_wanted


@pytest.mark.parametrize("wrong", [{"in_bytes": -1}, {"latency_ms": 60_001}])
def test_a_limit_out_of_its_range_changes_nothing(wrong: dict[str, int]) -> None:
    """
    The error names it.
    """
    rates = rates_of(RateClock(), RateLimits(10, 20))
    with pytest.raises(InvalidError, match=f"{next(iter(wrong))}: .* expected 0 to"):
        rates.change(**wrong)
    assert RateLimits(10, 20) == rates.limits


def test_the_rate_follows_the_latency_of_appends() -> None:
    """
    Half after a slow second, nothing while that is all that is known, and back step by
    step.
    """
    clock = RateClock()
    rates = rates_of(clock, RateLimits(64 << 20, 0, 20))
    second_of(rates, clock, 30)
    assert 32 << 20 == pytest.approx(rates.inward.bytes_per_second, rel=0.15)
    assert 30.0 == pytest.approx(rates.status()["appendP99Ms"])
    halved = rates.inward.bytes_per_second
    second_of(rates, clock, 5)
    assert halved + (4 << 20) == rates.inward.bytes_per_second
    for _ in range(20):
        second_of(rates, clock, 5)
    assert 64 << 20 == rates.inward.bytes_per_second


def test_a_limit_that_is_lifted_gives_the_whole_rate_at_once() -> None:
    """
    Nothing is measured any more.
    """
    clock = RateClock()
    rates = rates_of(clock, RateLimits(64 << 20, 0, 20))
    second_of(rates, clock, 30)
    rates.change(latency_ms=0)
    rates.look()
    assert 64 << 20 == rates.inward.bytes_per_second
    assert None is rates.status()["appendP99Ms"]
    assert not rates.latency.is_wanted


def test_what_is_served_keeps_the_rate_that_was_told_and_that_of_the_host() -> None:
    """
    What else goes out keeps that of the host alone.
    """
    rates = rates_of(RateClock(), RateLimits(out_bytes=30))
    rates.serve_at(20)
    assert (20, 30) == (
        rates.serving.bytes_per_second,
        rates.outward.bytes_per_second,
    )
    rates.serve_at(-1)
    assert 20 == rates.status()["toldServeBytesPerSecond"]
    rates.serve_at(40)
    assert 30 == rates.serving.bytes_per_second
    rates.change(out_bytes=0)
    rates.serve_at(0)
    assert 0 == rates.serving.bytes_per_second
