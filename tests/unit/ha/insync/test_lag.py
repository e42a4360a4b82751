"""
When a slave was caught up, and where the log ended then.
"""

from __future__ import annotations

from pystore.ha.insync.lag import CaughtUpTimes, EndHistory


def test_the_time_never_moves_back() -> None:
    """
    RMQ-R97: an ack of an older frame proves less, and nothing is proved in advance.
    """
    catch_up = CaughtUpTimes(0)
    catch_up.acked(2, 500, holds_all=False, now_ms=600)
    catch_up.acked(2, 400, holds_all=False, now_ms=700)
    assert 500 == catch_up.last_ms(2)
    catch_up.acked(2, None, holds_all=False, now_ms=800)
    assert 500 == catch_up.last_ms(2)
    catch_up.acked(2, 5_000, holds_all=False, now_ms=900)

    assert 900 == catch_up.last_ms(2)


def test_a_slave_without_an_ack_lags_since_the_mastership_began() -> None:
    """
    RMQ-R88, RMQ-R99: there is time to connect, and no more than that.
    """
    catch_up = CaughtUpTimes(1_000)

    assert catch_up.last_ms(2) is None
    assert 500 == catch_up.lag_ms(2, 1_500)


def test_the_end_of_some_time_ago_is_known() -> None:
    """
    B9: or one of shortly before, which asks for less.
    """
    history = EndHistory(1_000)
    assert history.end_before(0) is None
    for now in range(0, 5_000, 50):
        history.note(now * 10, now)

    assert 40_000 == history.end_before(4_000)
    assert 40_000 == history.end_before(4_099)
    assert 49_000 == history.end_before(9_999)


def test_ends_that_no_caller_needs_are_forgotten() -> None:
    """
    B9: the window bounds the memory, whatever the rate of appends.
    """
    history = EndHistory(1_000)
    for now in range(100_000):
        history.note(now, now)

    assert len(history._samples) <= 12
    assert history.end_before(99_999 - 1_000) is not None
