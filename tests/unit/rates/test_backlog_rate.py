"""
A backlog keeps the rate of its host, and what writers append passes freely.
"""

from __future__ import annotations

from lib.rate_clock import RateClock

from pystore.rates.backlog_rate import BacklogRate
from pystore.rates.shared_rate import SharedRate

FAR = 1 << 40


def test_two_links_share_what_the_host_allows() -> None:
    """
    A burst, then nothing for both of them.
    """
    clock = RateClock()
    rate = SharedRate(1_000_000, clock.read, clock.sleep)
    one, other = BacklogRate(rate), BacklogRate(rate)
    assert 60_000 == one.allowed(60_000)
    one.spend(60_000)
    assert 40_000 == other.allowed(60_000)
    other.spend(40_000)
    assert (0, 0) == (one.allowed(1), other.allowed(1))
    assert 0 < one.wait_ms() <= 10


def test_what_the_log_grows_by_is_not_counted() -> None:
    """
    Else a replica would never catch up below writers that are faster.
    """
    clock = RateClock()
    rate = SharedRate(1_000_000, clock.read, clock.sleep)
    link = BacklogRate(rate)
    link.grown(1_000_000_000, FAR)
    rate.spend(100_000)
    assert 0 == link.allowed(50_000)
    link.grown(1_000_030_000, FAR)
    assert (30_000, 0) == (link.allowed(50_000), link.wait_ms())
    link.spend(30_000)
    assert (0, 100_000) == (link.allowed(50_000), rate.moved_bytes)


def test_a_link_that_idles_saves_no_more_than_its_backlog() -> None:
    """
    What others sent it meanwhile is no credit.
    """
    clock = RateClock()
    rate = SharedRate(1_000_000, clock.read, clock.sleep)
    link = BacklogRate(rate)
    link.grown(0, 0)
    link.grown(1 << 30, 5)
    rate.spend(100_000)
    assert 5 == link.allowed(100)
