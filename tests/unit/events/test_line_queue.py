"""
Lines of a service, beside a reader that takes nothing.
"""

from __future__ import annotations

import threading

from pystore.events.line_queue import LineQueue


def test_a_line_that_cannot_be_written_stops_nobody() -> None:
    """
    The lines that do not fit are counted, and their number is told once.
    """
    written: list[str] = []
    dropped: list[int] = []
    begins, goes_on = threading.Event(), threading.Event()

    def write(line: str) -> None:
        begins.set()
        assert goes_on.wait(20)
        written.append(line)

    lines = LineQueue(write, dropped.append, lines_max=3)
    lines.put("first")
    assert begins.wait(20)
    for number in range(100):
        lines.put(f"line {number}")
    assert not lines.flush(0.01)
    goes_on.set()
    assert lines.flush(20)

    assert ["first", "line 0", "line 1", "line 2"] == written
    assert [97] == dropped


def test_all_lines_are_written_in_their_order() -> None:
    """
    Before the process ends.
    """
    written: list[str] = []
    lines = LineQueue(written.append, bool)
    assert lines.flush(0)
    expected = [f"line {number}" for number in range(500)]
    for line in expected:
        lines.put(line)
    assert lines.flush(20)

    assert expected == written
