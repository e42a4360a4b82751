"""
A controller that is asked in a thread of its own.
"""

from __future__ import annotations

import queue
import threading

from pystore.errors import LocalViolation
from pystore.ha.insync.set_change import SetChange
from pystore.ha.master.insync_monitor import SetRefusal
from pystore.ha.master.set_change_requests import SetChangeRequests
from pystore.replicaset import AgreedSet, Member

WAIT_S = 20
MEMBERS = frozenset({Member(1), Member(2)})
Answers = queue.SimpleQueue[tuple[int, AgreedSet | SetRefusal | None]]


def change(attempt: int) -> SetChange:
    """
    Returns what is asked for.
    """
    return SetChange(attempt, 3, 1, MEMBERS, frozenset(), "it has caught up")


def test_offering_a_change_does_not_wait_for_the_controller() -> None:
    """The answer comes later, by another thread."""
    answers: Answers = queue.SimpleQueue()
    may_answer = threading.Event()

    def ask(asked: SetChange) -> AgreedSet:
        assert may_answer.wait(WAIT_S)
        return AgreedSet(asked.members, 2)

    asking = SetChangeRequests(
        ask, lambda asked, it: answers.put((asked.attempt, it)), bool
    )
    asking.offer(change(1))
    assert answers.empty()
    may_answer.set()

    assert answers.get(timeout=WAIT_S) == (1, AgreedSet(MEMBERS, 2))
    asking.close()


def test_a_controller_that_fails_gave_no_answer() -> None:
    """
    RMQ-R119: it may have taken the change; the next one is asked for all the same.
    """
    answers: Answers = queue.SimpleQueue()
    said: list[str] = []

    def ask(asked: SetChange) -> SetRefusal:
        if asked.attempt == 1:
            raise OSError("connection refused")
        return SetRefusal()

    asking = SetChangeRequests(
        ask, lambda asked, it: answers.put((asked.attempt, it)), said.append
    )
    asking.offer(change(1))
    asking.offer(change(2))

    assert answers.get(timeout=WAIT_S) == (1, None)
    assert answers.get(timeout=WAIT_S) == (2, SetRefusal())
    assert said == ["the request to change the SyncStateSet failed: connection refused"]
    asking.close()


def test_an_answer_that_makes_no_sense_is_none() -> None:
    """A set without this master, say: it is told, and the thread goes on."""
    answers: Answers = queue.SimpleQueue()
    said: list[str] = []

    def answered(asked: SetChange, answer: AgreedSet | SetRefusal | None) -> None:
        if answer is not None:
            raise LocalViolation("the set lacks the master")
        answers.put((asked.attempt, answer))

    asking = SetChangeRequests(
        lambda _: AgreedSet(frozenset(), 9), answered, said.append
    )
    asking.offer(change(1))

    assert answers.get(timeout=WAIT_S) == (1, None)
    assert "is not usable: the set lacks the master" in said[0]
    asking.close()


def test_what_is_answered_after_the_end_is_dropped() -> None:
    """And closing does not wait for a controller that takes its time."""
    answers: Answers = queue.SimpleQueue()
    may_answer, has_answered = threading.Event(), threading.Event()
    asked_for: list[int] = []

    def ask(asked: SetChange) -> None:
        asked_for.append(asked.attempt)
        assert may_answer.wait(WAIT_S)
        has_answered.set()

    asking = SetChangeRequests(
        ask, lambda asked, it: answers.put((asked.attempt, it)), bool
    )
    asking.offer(change(1))
    thread = next(one for one in threading.enumerate() if one.name == "pystore-ha-ask")
    asking.close()
    may_answer.set()
    thread.join(WAIT_S)

    assert not thread.is_alive()
    assert has_answered.is_set() == bool(asked_for)
    assert answers.empty()
