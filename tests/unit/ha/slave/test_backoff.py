"""
How long a slave waits before it connects again.
"""

from __future__ import annotations

from pystore.ha.slave.backoff import MOST_MS, BackOff


def test_the_first_second_has_many_waits() -> None:
    """
    A new master often listens a few milliseconds after its slaves hear of it.
    """
    back_off = BackOff(lambda: 0.0)

    waits = [back_off.wait_ms() for _ in range(7)]

    assert [10, 20, 40, 80, 160, 320, 640] == waits


def test_waits_double_up_to_the_longest() -> None:
    """
    A master that stays away is tried every 30 s.
    """
    back_off = BackOff(lambda: 0.0)

    waits = [back_off.wait_ms() for _ in range(14)]

    assert [10 << 10, 10 << 11, MOST_MS, MOST_MS] == waits[10:]


def test_chance_takes_at_most_a_fifth() -> None:
    """
    And it is asked anew for each wait.
    """
    drawn = iter([0.5, 1.0, 0.0])
    back_off = BackOff(lambda: next(drawn))

    assert [9, 16, 40] == [back_off.wait_ms() for _ in range(3)]


def test_a_decision_begins_anew() -> None:
    """
    The next wait is the first one.
    """
    back_off = BackOff(lambda: 0.0, first_ms=10, most_ms=50)
    for _ in range(4):
        back_off.wait_ms()

    back_off.reset()

    assert [10, 20] == [back_off.wait_ms() for _ in range(2)]


def test_a_link_that_lived_for_a_second_begins_anew() -> None:
    """
    A shorter one does not, even if it brought bytes; but no wait after it is longer
    than a second.
    """
    back_off = BackOff(lambda: 0.0)
    for _ in range(10):
        back_off.wait_ms()

    back_off.worked(999)
    after_a_short_one = [back_off.wait_ms() for _ in range(2)]
    back_off.worked(1_000)

    assert [1_000, 2_000] == after_a_short_one
    assert 10 == back_off.wait_ms()
