"""
A bar is drawn only on a terminal, and only for long work.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

from pystore.cli.lib.progress import ProgressBar

SHOW_CURSOR, CLEAR_LINE = "\x1b[?25h", "\x1b[2K"


class Terminal(io.StringIO):
    """
    A stream that claims to be a terminal.
    """

    def isatty(self) -> bool:
        """
        Returns true.
        """
        return True


def seconds(*times: float) -> Iterator[float]:
    """
    Yields one time after the other.
    """
    yield from times


def test_nothing_is_drawn_in_the_first_second() -> None:
    """
    Most commands have ended by then.
    """
    stream, clock = Terminal(), seconds(0.0, 0.5, 0.99)
    with ProgressBar("verify", 100, stream=stream, clock=clock.__next__) as progress:
        progress.reach(50)
        progress.reach(100)

    assert "" == stream.getvalue()


def test_a_bar_shows_the_label_and_is_cleared_at_the_end() -> None:
    """
    Only the result remains on the screen.
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
    A log file gets no bar.
    """
    for stream, total in ((io.StringIO(), 100), (Terminal(), 0)):
        clock = seconds(0.0, 5.0)
        with ProgressBar("x", total, stream=stream, clock=clock.__next__) as progress:
            progress.reach(50)

        assert "" == stream.getvalue()


def test_the_length_may_be_known_later() -> None:
    """
    The length of a store is known after it was opened.
    """
    stream, clock = Terminal(), seconds(0.0, 5.0)
    with ProgressBar("x", stream=stream, clock=clock.__next__) as progress:
        progress.reach(50, 100)

    assert "50%" in stream.getvalue()
