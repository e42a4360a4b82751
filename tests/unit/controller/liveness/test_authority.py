"""
The authority of a term (C2, C3).
"""

from __future__ import annotations

from pystore.controller.liveness.authority import Authority
from pystore.records.term import Term

SECOND = 1_000_000_000


def _authority(length_s: int | None = 11) -> Authority:
    length_ns = None if length_s is None else length_s * SECOND
    return Authority(
        Term("controller", "one", 7, 100 * SECOND, length_ns), 102 * SECOND
    )


def test_a_term_is_proven_from_when_the_commit_was_sent() -> None:
    """For less than the session, because its clock may be faster."""
    authority = _authority()

    assert 109 * SECOND == authority.until_ns
    assert authority.is_proven(109 * SECOND - 1)
    assert not authority.is_proven(109 * SECOND)


def test_only_a_commit_proves_it_again() -> None:
    """C2: time that passes, and whatever was read meanwhile, do not."""
    authority = _authority()
    assert not authority.is_proven(120 * SECOND)

    authority.term.sent_ns = 119 * SECOND

    assert authority.is_proven(120 * SECOND)
    assert not authority.is_proven(128 * SECOND)


def test_a_commit_is_due_with_every_third_of_the_session() -> None:
    """C2: the whole session, whatever its clock; so two may fail."""
    authority = _authority(12)

    assert 104 * SECOND == authority.prove_at_ns


def test_a_process_lock_proves_the_term_for_the_life_of_the_process() -> None:
    """LMDB: no other process gets the lock."""
    authority = _authority(None)

    assert authority.until_ns is None
    assert authority.prove_at_ns is None
    assert authority.is_proven(10**9 * SECOND)


def test_a_new_term_replaces_no_master() -> None:
    """C3, RMQ-R226: during the longest lease after the answer of the campaign."""
    authority = _authority()

    assert not authority.may_replace(112 * SECOND - 1)
    assert authority.may_replace(112 * SECOND)
