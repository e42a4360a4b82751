"""
The bytes of incomplete requests have a sum, and the oldest request goes first.
"""

from __future__ import annotations

from pystore.remoting.unread import UnreadBytes


def test_the_request_that_is_incomplete_for_the_longest_time_is_in_excess() -> None:
    """However many bytes the others have."""
    unread = UnreadBytes[str](100)
    unread.note("a", 10)
    unread.note("b", 60)
    unread.note("a", 40)
    assert unread.excess() is None

    unread.note("c", 1)

    assert "a" == unread.excess()


def test_a_complete_request_is_not_counted() -> None:
    """The next one of its connection is a new one."""
    unread = UnreadBytes[str](100)
    unread.note("a", 50)
    unread.note("b", 60)
    unread.note("a", 0)
    assert (60, None) == (unread.total, unread.excess())

    unread.note("a", 50)

    assert (110, "b") == (unread.total, unread.excess())


def test_a_connection_without_bytes_may_be_forgotten() -> None:
    """Each connection ends once, whether it sent half a request or none."""
    unread = UnreadBytes[str](100)
    unread.note("a", 0)
    assert 0 == unread.total
