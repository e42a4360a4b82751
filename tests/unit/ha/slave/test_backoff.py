"""
How long a slave waits before it connects again.
"""

from __future__ import annotations

from pystore.ha.slave.backoff import BackOff


def test_waits_double_up_to_the_longest() -> None:
    """
    1, 2, 4, 8, 16 s, and 30 s from then on.
    """
    back_off = BackOff(lambda: 0.0)

    waits = [back_off.wait_ms() for _ in range(7)]

    assert [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000] == waits


def test_chance_takes_at_most_a_fifth() -> None:
    """
    And it is asked anew for each wait.
    """
    drawn = iter([0.5, 1.0, 0.0])
    back_off = BackOff(lambda: next(drawn))

    assert [900, 1600, 4000] == [back_off.wait_ms() for _ in range(3)]


def test_success_begins_anew() -> None:
    """
    The wait after a link that went well is the first one.
    """
    back_off = BackOff(lambda: 0.0, first_ms=10, most_ms=50)
    for _ in range(4):
        back_off.wait_ms()

    back_off.reset()

    assert [10, 20] == [back_off.wait_ms() for _ in range(2)]
