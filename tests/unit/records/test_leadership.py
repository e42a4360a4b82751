"""
Terms and their proofs, over a scripted backend.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from pystore.clocks import boottime_ns
from pystore.errors import ClosedError, UnknownOutcomeError
from pystore.records.leadership import Leadership, Made
from pystore.records.ops import KeyOps
from pystore.records.record_store import StoredRecord


class Scripted:
    """A backend with scripted answers."""

    def __init__(self, *answers: Made | Exception | None) -> None:
        self.answers = list(answers)
        self.waited: list[str] = []
        self.found: StoredRecord | None = None
        self.leadership = Leadership(
            self.commit, lambda _key: self.found, self.waited.append, lambda: 50
        )

    def commit(self, _keys: Mapping[str, KeyOps]) -> Made | None:
        """The next answer."""
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_an_answer_that_comes_late_does_not_set_a_term_back() -> None:
    """
    Commits of several threads are answered in any order.
    """
    backend = Scripted(Made(5, 100), Made(6, 300), Made(6, 200))
    term = backend.leadership.campaign("leader", "me")
    assert (5, 100, 150) == (term.number, term.sent_ns, term.proven_until_ns)

    backend.leadership.commit([term.check])
    backend.leadership.commit([term.check])

    assert 300 == term.sent_ns


def test_a_commit_of_unknown_outcome_proves_nothing() -> None:
    """
    It may have been refused.
    """
    backend = Scripted(Made(5, 100), UnknownOutcomeError("lost"))
    term = backend.leadership.campaign("leader", "me")

    with pytest.raises(UnknownOutcomeError):
        backend.leadership.commit([term.check])

    assert 100 == term.sent_ns


def test_a_campaign_waits_while_another_store_leads() -> None:
    """
    And tries at once where the record is gone already.
    """
    backend = Scripted(None, None, Made(9, 1))
    backend.found = StoredRecord("leader", b"other", 4)

    def vanish(path: str) -> None:
        backend.waited.append(path)
        backend.found = None

    backend.leadership = Leadership(
        backend.commit, lambda _key: backend.found, vanish, lambda: None
    )

    assert 9 == backend.leadership.campaign("leader", "me").number
    assert ["leader"] == backend.waited


def test_an_ended_term_is_not_returned_again() -> None:
    """
    The record is another's now, though the path is the same.
    """
    backend = Scripted(Made(5, 100), None, Made(8, 400))
    first = backend.leadership.campaign("leader", "me")
    backend.found = StoredRecord("leader", b"other", 7)

    second = backend.leadership.campaign("leader", "me")

    assert (5, 8) == (first.number, second.number)


def test_a_campaign_during_the_close_does_not_lead() -> None:
    """
    Its holds are gone already.
    """
    backend = Scripted(Made(5, 100))
    backend.leadership.end()

    with pytest.raises(ClosedError):
        backend.leadership.campaign("leader", "me")


def test_a_session_that_becomes_shorter_shortens_the_terms() -> None:
    """
    Servers may grant less when a client connects again; never do they grant more.
    """
    backend = Scripted(Made(5, 100))
    term = backend.leadership.campaign("leader", "me")
    backend.leadership.shorten(70)
    assert 150 == term.proven_until_ns
    backend.leadership.shorten(30)

    assert 130 == term.proven_until_ns


def test_the_clock_only_rises() -> None:
    """
    It counts from the start of the machine, in every thread.
    """
    times = [boottime_ns()]
    thread = threading.Thread(target=lambda: times.append(boottime_ns()))
    thread.start()
    thread.join()
    times.append(boottime_ns())

    assert sorted(times) == times
