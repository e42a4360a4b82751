"""
A bar is drawn on a terminal only, and only if something takes long.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

from pystore.cli.lib.progress import ProgressBar

SHOW_CURSOR, CLEAR_LINE = "\x1b[?25h", "\x1b[2K"


class Terminal(io.StringIO):
    """
    A stream that says it is one.
    """

    def isatty(self) -> bool:
        """
        Is it?
        """
        return True


def seconds(*times: float) -> Iterator[float]:
    """
    Answers one time after the other.
    """
    yield from times


def test_nothing_is_drawn_in_the_first_second() -> None:
    """
    Most commands are over by then.
    """
    stream, clock = Terminal(), seconds(0.0, 0.5, 0.99)
    with ProgressBar("verify", 100, stream=stream, clock=clock.__next__) as progress:
        progress.reach(50)
        progress.reach(100)

    assert "" == stream.getvalue()


def test_a_bar_shows_the_label_and_is_cleared_at_the_end() -> None:
    """
    What stays on the screen is the result.
    """
    stream, clock = Terminal(), seconds(0.0, 1.5, 2.0)
    with ProgressBar("verify", 100, stream=stream, clock=clock.__next__) as progress:
        progress.reach(50)
        progress.reach(200)
        drawn = stream.getvalue()

    assert "verify" in drawn
    assert "50%" in drawn
    assert "100%" in drawn
    assert SHOW_CURSOR in stream.getvalue()
    assert stream.getvalue().endswith(CLEAR_LINE)


def test_nothing_is_drawn_without_a_terminal_or_a_length() -> None:
    """
    A log file is no place for a bar.
    """
    for stream, total in ((io.StringIO(), 100), (Terminal(), 0)):
        clock = seconds(0.0, 5.0)
        with ProgressBar("x", total, stream=stream, clock=clock.__next__) as progress:
            progress.reach(50)

        assert "" == stream.getvalue()


def test_the_length_may_be_known_later() -> None:
    """
    As that of a store is, once it was opened.
    """
    stream, clock = Terminal(), seconds(0.0, 5.0)
    with ProgressBar("x", stream=stream, clock=clock.__next__) as progress:
        progress.reach(50, 100)

    assert "50%" in stream.getvalue()
