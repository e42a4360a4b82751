"""
When a slave was caught up, from the ends that it was told.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pystore.ha.master.send_times import SEND_TIMES_MAX, SendTimes


def told(*frames: tuple[int, int]) -> SendTimes:
    """A session that sent frames with these (end, time)."""
    times = SendTimes()
    for end_offset, now_ms in frames:
        times.sent(end_offset, now_ms)
    return times


def test_a_slave_below_every_sent_end_was_never_caught_up() -> None:
    """Nothing moves by sending alone (RMQ-R99)."""
    assert told((100, 1), (200, 2)).held(99) is None


def test_holding_an_end_counts_from_when_that_end_was_sent() -> None:
    """RMQ-R97: not from when the ack came."""
    assert told((100, 1), (200, 2), (300, 3)).held(299) == 2


def test_the_newest_frame_with_that_end_counts() -> None:
    """On an idle log each heartbeat proves again that nothing is missing."""
    assert told((100, 1), (100, 5), (100, 9)).held(100) == 9


def test_what_was_proved_once_stays_proved() -> None:
    """The time never falls back, whatever an ack says."""
    times = told((100, 1), (200, 2))

    assert times.held(200) == 2
    assert times.held(0) == 2


def test_a_heartbeat_after_the_ack_counts_with_the_next_ack() -> None:
    """The same end, sent again after the slave held it."""
    times = told((100, 1))
    times.held(100)
    times.sent(100, 8)

    assert times.held(100) == 8


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=3 * SEND_TIMES_MAX),
    st.integers(0, 5000),
)
def test_forgotten_frames_make_a_slave_seem_behind_and_never_ahead(
    steps: list[int], held: int
) -> None:
    """Room is bounded, and what is lost with it is lost on the safe side."""
    times = SendTimes()
    end, exact = 0, None
    for now_ms, step in enumerate(steps):
        end += step
        times.sent(end, now_ms)
        exact = now_ms if end <= held else exact
    found = times.held(held)

    assert found is None or (exact is not None and found <= exact)
    if len(steps) <= SEND_TIMES_MAX:
        assert found == exact
