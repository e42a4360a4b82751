"""
How often one kind of lines is said.
"""

from __future__ import annotations

from pystore.remoting.line_rate import LINES_MAX, LINES_S, LineRate


def test_a_flood_of_lines_fills_no_log() -> None:
    """
    The first ones are said, and later how many were not.
    """
    said: list[str] = []
    rate = LineRate(said.append)
    for number in range(1000):
        rate.say(f"line {number}", 7.0)
    assert [f"line {number}" for number in range(LINES_MAX)] == said

    rate.say("late", 7.0 + LINES_S - 0.001)
    assert LINES_MAX == len(said)
    rate.say("next", 7.0 + LINES_S)
    assert f"next; {1001 - LINES_MAX} such lines before it were left out" == said[-1]
    rate.say("more", 7.0 + LINES_S)
    assert "more" == said[-1]


def test_few_lines_are_all_said() -> None:
    """
    However long ago the first one was.
    """
    said: list[str] = []
    rate = LineRate(said.append)
    for number in range(100):
        rate.say("line", number * LINES_S / LINES_MAX)
    assert 100 == len(said)
