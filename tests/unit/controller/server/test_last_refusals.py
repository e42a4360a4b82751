"""
The refusals that are committed to the record.
"""

from __future__ import annotations

from dataclasses import replace

from lib.controller.broker_set_driver import Brokers, start

from pystore.controller.model.decision import Rejected
from pystore.controller.model.state import NotedRefusal, SetState
from pystore.controller.server.last_refusals import LastRefusals, RefusalRate
from pystore.remoting.codes import ResponseCode

SECOND = 1_000_000_000
CODE = ResponseCode.CONTROLLER_INVALID_REQUEST


def _state() -> SetState:
    brokers = Brokers()
    brokers.join(1, start(1))
    return brokers.state


def _refused(reason: str, broker_id: int = 1) -> Rejected:
    return Rejected(CODE, reason, frozenset({broker_id}))


def test_the_last_refusal_is_known_but_not_each_one_is_committed() -> None:
    """One in ten seconds, and none that the record has."""
    refusals, state = LastRefusals(), _state()
    first = NotedRefusal(CODE, "one", 1)

    assert first == refusals.note(state, _refused("one"), 0)
    assert None is refusals.note(state, _refused("two", 2), 10 * SECOND - 1)
    assert NotedRefusal(CODE, "two", 2) == refusals.last(state)
    assert NotedRefusal(CODE, "3", 2) == refusals.note(
        state, _refused("3", 2), 10 * SECOND
    )
    written = replace(state, refusal=first)
    assert None is refusals.note(written, _refused("again"), 99 * SECOND)
    assert NotedRefusal(CODE, "again", 1) == refusals.last(written)


def test_the_recorded_refusal_counts_until_the_next_one() -> None:
    """It may be of an earlier term."""
    before = NotedRefusal(CODE, "before", 1)

    assert before == LastRefusals().last(replace(_state(), refusal=before))


def test_a_set_that_is_not_known_has_none() -> None:
    """Requests may name any set."""
    refusals, unknown = LastRefusals(), SetState("cluster", "set")

    assert None is refusals.note(unknown, _refused("one"), 0)
    assert None is refusals.last(unknown)


def test_a_repeated_refusal_is_told_once_an_hour_and_after_a_change() -> None:
    """
    A broker with a wrong id asks each second, for days.
    """
    rate, key = RefusalRate(), ("c", "b")

    assert rate.is_due(key, _refused("no"), "h:1", 0)
    assert not rate.is_due(key, _refused("no"), "h:1", 3599 * SECOND)
    assert rate.is_due(key, _refused("no"), "h:1", 3600 * SECOND)
    rate.changed(key)
    assert rate.is_due(key, _refused("no"), "h:1", 3660 * SECOND)


def test_an_own_command_that_is_refused_for_a_moment_is_not_told() -> None:
    """
    After the begin of a term no set has an electable broker yet.
    """
    rate, key = RefusalRate(), ("c", "b")

    assert not rate.is_due(key, _refused("too early"), "", 0)
    assert not rate.is_due(key, _refused("nobody"), "", 5 * SECOND)
    rate.changed(key)
    assert not rate.is_due(key, _refused("nobody"), "", 10 * SECOND)
    assert rate.is_due(key, _refused("nobody"), "", 15 * SECOND)
    assert not rate.is_due(key, _refused("nobody"), "", 20 * SECOND)


def test_refusals_that_alternate_are_told_once_a_minute_for_a_broker_and_a_host() -> (
    None
):
    """
    Its port is another one with each connection.
    """
    rate, key = RefusalRate(), ("c", "b")
    told = [
        rate.is_due(key, _refused(f"reason {number}"), f"h:{number}", number * SECOND)
        for number in range(120)
    ]

    assert [0, 60] == [number for number, one in enumerate(told) if one]
    assert rate.is_due(key, _refused("x", 2), "h:1", 119 * SECOND)
    assert rate.is_due(key, _refused("y"), "g:1", 119 * SECOND)


def test_made_up_sets_take_no_memory() -> None:
    """
    What is kept is bounded.
    """
    rate = RefusalRate()
    for number in range(3000):
        rate.is_due(("c", f"b{number}"), _refused("no"), "h:1", 0)

    assert len(rate._told_ns) == len(rate._last) == 1024


def test_refusals_about_any_names_are_told_a_few_times_a_minute() -> None:
    """
    A stranger may name a new set in each request; those of known sets are told.
    """
    rate = RefusalRate()

    def told(first: int, at: int) -> int:
        return sum(
            rate.is_due(("c", f"b{number}"), _refused("no"), "h:1", at, is_unknown=True)
            for number in range(first, first + 1000)
        )

    assert 32 == told(0, 0)
    assert 0 == told(1000, 60 * SECOND - 1)
    assert rate.is_due(("c", "known"), _refused("no"), "h:1", SECOND)
    assert 32 == told(2000, 60 * SECOND)
