"""
What threads move together stays below the rate, as it is at each moment.
"""

from __future__ import annotations

import threading

import pytest
from lib.rate_clock import RateClock

from pystore.rates.shared_rate import SharedRate

PIECE = 256 << 10


def moved_in(rate: SharedRate, clock: RateClock, lasting_ms: int) -> float:
    """
    Bytes a second that one thread moves.
    """
    begin, moved = clock.now_ms, 0
    while clock.now_ms - begin < lasting_ms:
        rate.use(PIECE)
        moved += PIECE
    return moved / (clock.now_ms - begin) * 1000


@pytest.mark.parametrize("limit", [1 << 20, 25_000_000, 100_000_000, 1_000_000_000])
def test_the_rate_is_kept_within_a_tenth_over_five_seconds(limit: int) -> None:
    """
    In pieces of 256 KiB, as a repair moves them.
    """
    clock = RateClock()
    rate = SharedRate(limit, clock.read, clock.sleep)
    assert 0.9 * limit <= moved_in(rate, clock, 5_000) <= 1.1 * limit


def test_a_rate_that_is_changed_often_grants_no_more() -> None:
    """
    Each change without a new burst.
    """
    clock = RateClock()
    rate = SharedRate(10_000_000, clock.read, clock.sleep)
    begin, moved = clock.now_ms, 0
    while clock.now_ms - begin < 5_000:
        rate.change(10_000_000)
        rate.use(PIECE)
        moved += PIECE
        assert moved <= 55_000_000


def test_a_new_rate_counts_for_what_waits() -> None:
    """
    What was moved at the former rate is waited for at the new one.
    """
    clock = RateClock()
    seen: list[float] = []

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        seen.append(seconds)
        if len(seen) == 3:
            rate.change(1 << 30)

    rate = SharedRate(1000, clock.read, sleep)
    rate.use(PIECE)
    assert 4 >= len(seen)


def test_without_a_limit_nothing_waits_and_all_is_counted() -> None:
    """
    The default.
    """
    clock = RateClock()
    rate = SharedRate(0, clock.read, clock.sleep)
    rate.use(1 << 40)
    assert (1 << 40, 0, 7) == (rate.moved_bytes, rate.wait_ms(), rate.allowed(7))
    assert 1_000.0 == clock.now_ms


def test_a_first_limit_has_no_debt() -> None:
    """
    What was moved without a limit is not waited for.
    """
    clock = RateClock()
    rate = SharedRate(0, clock.read, clock.sleep)
    rate.use(1 << 40)
    rate.change(1_000_000)
    assert rate.wait_ms() <= 10


def test_several_threads_share_one_rate() -> None:
    """
    Together they move no more than one would.
    """
    clock = RateClock(sleepers=4)
    rate = SharedRate(10_000_000, clock.read, clock.sleep)

    def work() -> None:
        for _ in range(100):
            rate.use(100_000)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert 40_000_000 == rate.moved_bytes
    assert clock.now_ms - 1_000 >= 0.85 * 4_000
