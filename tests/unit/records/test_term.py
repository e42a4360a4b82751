"""
The values of a term.
"""

from __future__ import annotations

from pystore.records.ops import CheckVersion
from pystore.records.term import Term


def test_a_term_is_proven_for_its_length_from_the_sending_on() -> None:
    """
    C2: the send time of the last commit and the time-out that was granted.
    """
    term = Term("leader", "me", 7, 1000, 500)
    assert 1500 == term.proven_until_ns

    term.sent_ns = 1100

    assert 1600 == term.proven_until_ns
    assert CheckVersion("leader", 7) == term.check


def test_a_term_behind_a_lock_of_the_system_has_no_end() -> None:
    """
    No other process gets the lock while this one lives.
    """
    assert Term("leader", "me", 7, 1000, None).proven_until_ns is None
