"""
Lines of a service, beside a reader that takes nothing.
"""

from __future__ import annotations

import threading

import pytest

from pystore.cli.lib.log_lines import LogLines


def test_a_line_that_cannot_be_written_stops_nobody() -> None:
    """
    The lines that do not fit are counted, and their number is told once.
    """
    written: list[str] = []
    begins, goes_on = threading.Event(), threading.Event()

    def write(line: str) -> None:
        begins.set()
        assert goes_on.wait(20)
        written.append(line)

    lines = LogLines(write, lines_max=3)
    lines.say("first")
    assert begins.wait(20)
    for number in range(100):
        lines.say(f"line {number}")
    assert not lines.flush(0.01)
    goes_on.set()
    assert lines.flush(20)

    assert ["first", "line 0"] == written[:2]
    assert "97 more lines were dropped: stderr is too slow" in written
    assert 5 == len(written)


def test_all_lines_are_written_in_their_order() -> None:
    """
    Before the process ends.
    """
    written: list[str] = []
    lines = LogLines(written.append)
    assert lines.flush(0)
    expected = [f"line {number}" for number in range(500)]
    for line in expected:
        lines.say(line)
    assert lines.flush(20)

    assert expected == written


def test_a_line_has_the_name_of_the_program_before_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """
    On stderr, before the end of the block.
    """
    with LogLines() as lines:
        lines.say("a line")

    assert ("", "pystore: a line\n") == capsys.readouterr()
