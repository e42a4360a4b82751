"""
The validity of heartbeats.
"""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.controller.broker_set_driver import Brokers, incarnation, start

from pystore.controller.decide.dispatch import decide
from pystore.controller.liveness.heartbeats import Heartbeat, Heartbeats
from pystore.controller.model.commands import Elect, Trigger
from pystore.controller.model.decision import Accepted
from pystore.controller.model.facts import Facts, LastHeartbeat
from pystore.controller.model.limits import (
    CONNECTION_BROKERS_MAX,
    STRANGERS_MAX,
    UNLED_BROKERS_MAX,
)
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.replies import Election
from pystore.remoting.codes import ResponseCode

SECOND = 1_000_000_000
SET, TWIN = ("cluster", "set"), ("other", "set")
BEAT = Heartbeat(1, 5, incarnation(2), "boot", 100, LogEnd(3, 70), 60, 9)
JAVA = Heartbeat(1, 5, position=LogEnd(3, 70), timeout_ms=3_000)


def _kill(liveness: Heartbeats, broker_id: int, connection: int) -> None:
    """
    Its connection ends, and there is evidence that its process has ended.
    """
    liveness.close(connection)
    suspected = liveness.suspected(SET, broker_id, 0)
    assert suspected is not None
    assert liveness.end(SET, suspected, 0, is_replaced=False)


def _heard(*beats: Heartbeat, at: int = 0) -> Heartbeats:
    liveness = Heartbeats()
    for one in beats:
        liveness.receive(SET, one, at)
    return liveness


def test_a_heartbeat_counts_for_as_long_as_it_says() -> None:
    """
    RMQ-R234: by the controller's clock, to its last moment; 10 s if it says nothing.
    """
    liveness = _heard(JAVA, Heartbeat(2, 6), replace(JAVA, broker_id=3, timeout_ms=-1))

    assert {1, 2, 3} == liveness.last_heartbeats(SET, 3 * SECOND).keys()
    assert {2, 3} == liveness.last_heartbeats(SET, 3 * SECOND + 1).keys()
    assert {} == liveness.last_heartbeats(SET, 10 * SECOND + 1)


def test_decisions_use_the_values_of_the_heartbeat() -> None:
    """All that ranks and excludes."""
    liveness = _heard(replace(BEAT, disk_problem="EIO"))

    last_heartbeat = LastHeartbeat(incarnation(2), LogEnd(3, 70), 9, is_ill=True)
    assert {1: last_heartbeat} == liveness.last_heartbeats(SET, 0)
    assert {} == liveness.last_heartbeats(TWIN, 0)


def test_a_broker_that_dies_during_a_decision_is_alive_in_it() -> None:
    """RMQ-R71: the live brokers are read once per decision."""
    brokers = Brokers()
    brokers.join(1, start(1))
    liveness = Heartbeats()
    liveness.receive(SET, Heartbeat(1, 5, incarnation(1)), 0)
    facts = Facts(liveness.last_heartbeats(SET, 0))
    _kill(liveness, 1, 5)
    decision = decide(brokers.state, Elect(Trigger.BROKER, 1), facts)

    assert {} == liveness.last_heartbeats(SET, 0)
    assert isinstance(decision, Accepted)
    assert isinstance(decision.reply, Election)
    assert ResponseCode.SUCCESS is decision.reply.code


def test_a_new_process_is_reported_as_new() -> None:
    """
    A first heartbeat and one after a silence are new, and one of another process once
    the one before is not heard.
    """
    liveness = Heartbeats()

    assert liveness.receive(SET, BEAT, 0)
    assert not liveness.receive(SET, replace(BEAT, sent_ns=101), SECOND)
    assert liveness.receive(SET, replace(BEAT, sent_ns=102), 12 * SECOND)
    newer = replace(BEAT, incarnation=incarnation(3), sent_ns=7, connection=6)
    assert not liveness.receive(SET, newer, 22 * SECOND)
    assert liveness.receive(SET, newer, 23 * SECOND)


@pytest.mark.parametrize(
    "late",
    [
        replace(BEAT, incarnation=incarnation(1), sent_ns=900, connection=9),
        replace(BEAT, incarnation=incarnation(3), sent_ns=900, connection=9),
        replace(BEAT, incarnation=incarnation(2, 8), sent_ns=900, connection=9),
        replace(BEAT, incarnation=None, sent_ns=None, connection=9),
        replace(BEAT, sent_ns=99, connection=9),
        replace(BEAT, connection=9),
    ],
)
def test_an_older_heartbeat_or_a_copy_never_replaces_the_last_one(
    late: Heartbeat,
) -> None:
    """
    B17: an older process, a newer one, a copy of this one, and what was overtaken on
    the way.
    """
    liveness = _heard(BEAT)

    assert not liveness.receive(SET, late, SECOND)
    assert [BEAT] == list(liveness.alive(SET, SECOND))
    assert {} == liveness.last_heartbeats(SET, 10 * SECOND + 1)


def test_an_older_process_stays_dead_after_the_newer_one_has_died() -> None:
    """Its heartbeats were under way for long."""
    liveness = _heard(replace(BEAT, incarnation=incarnation(3)))
    _kill(liveness, 1, 5)

    assert not liveness.receive(SET, replace(BEAT, connection=4), SECOND)
    assert {} == liveness.last_heartbeats(SET, SECOND)


def test_a_shorter_log_of_the_same_process_is_accepted() -> None:
    """RMQ-R72, RMQ-R243: it cut what it held; its rank falls."""
    liveness = _heard(BEAT, replace(BEAT, sent_ns=101, position=LogEnd(3, 50)))

    assert LogEnd(3, 50) == liveness.last_heartbeats(SET, 0)[1].position


def test_a_connection_that_ends_makes_its_brokers_suspects() -> None:
    """RMQ-R241: in all sets; they live until there is evidence, or silence."""
    liveness = _heard(BEAT, Heartbeat(2, 6))
    liveness.receive(TWIN, Heartbeat(7, 5), 0)

    assert [(SET, 1), (TWIN, 7)] == sorted(liveness.close(5))
    assert {1, 2} == liveness.last_heartbeats(SET, 10 * SECOND).keys()
    assert {} == liveness.last_heartbeats(SET, 10 * SECOND + 1)
    assert [] == liveness.close(5)
    assert not liveness.last_heartbeats(SET, 0)[1].is_connected
    assert liveness.suspected(SET, 2, 0) is None


def test_it_is_known_since_when_a_broker_is_alive_or_not() -> None:
    """From its first heartbeat to the end of the last one, or to evidence."""

    def since(now: int) -> tuple[bool, int]:
        one = liveness.heard_brokers(SET, now * SECOND)[1]
        return one.is_alive, one.since_ns // SECOND

    liveness = _heard(BEAT, at=5 * SECOND)
    liveness.receive(SET, replace(BEAT, sent_ns=101), 9 * SECOND)
    assert (True, 5) == since(19)
    assert (False, 19) == since(20) == since(99)
    liveness.receive(SET, replace(BEAT, sent_ns=102), 30 * SECOND)
    assert (True, 30) == since(31)

    for now in (33, 34):
        liveness.replaced(SET, 1, incarnation(3), now * SECOND)
        assert (False, 33) == since(now)
    newer = replace(BEAT, incarnation=incarnation(3), connection=6)
    liveness.receive(SET, newer, 35 * SECOND)
    assert (True, 35) == since(35)
    assert newer == liveness.heard_brokers(SET, 0)[1].heartbeat
    assert liveness.end(SET, newer, 37 * SECOND, is_replaced=True)
    assert liveness.end(SET, newer, 38 * SECOND, is_replaced=True)
    assert (False, 37) == since(60)
    assert {} == liveness.heard_brokers(TWIN, 0)


def test_evidence_that_comes_after_the_last_heartbeat_expired_is_no_later_death() -> (
    None
):
    """The death is when the controllers ceased to count it."""
    liveness = _heard(BEAT)
    liveness.replaced(SET, 1, incarnation(3), 50 * SECOND)
    assert 10 * SECOND == liveness.heard_brokers(SET, 60 * SECOND)[1].since_ns


def test_evidence_ends_the_process_that_was_asked_for_only() -> None:
    """C3: it connected again while it was asked."""
    liveness = _heard(BEAT)
    liveness.close(5)
    suspected = liveness.suspected(SET, 1, 0)
    assert BEAT == suspected
    again = replace(BEAT, sent_ns=101, connection=6)

    assert not liveness.receive(SET, again, 0)
    assert liveness.suspected(SET, 1, 0) is None
    assert not liveness.end(SET, BEAT, 0, is_replaced=False)
    assert {1} == liveness.last_heartbeats(SET, 0).keys()
    liveness.close(6)
    assert liveness.suspected(SET, 1, 11 * SECOND) is None
    assert liveness.end(SET, again, 0, is_replaced=False)
    assert liveness.former_heartbeats(SET, 0)[1].is_ended


def test_another_process_at_the_address_ends_one_that_seems_connected() -> None:
    """After a power cut no connection ends."""
    liveness = _heard(BEAT, replace(BEAT, sent_ns=101))
    assert not liveness.end(SET, BEAT, 0, is_replaced=False)
    assert {1} == liveness.last_heartbeats(SET, 0).keys()
    assert liveness.end(SET, BEAT, 0, is_replaced=True)

    assert liveness.heard(SET, 1, 0) is None
    newer = replace(BEAT, incarnation=incarnation(3), connection=6)
    assert liveness.receive(SET, newer, 0)
    assert not liveness.end(SET, BEAT, 0, is_replaced=True)
    assert newer == liveness.heard(SET, 1, 0)


def test_a_process_that_was_replaced_in_the_record_has_ended() -> None:
    """Its successor is heard at once."""
    liveness, newer = _heard(BEAT), replace(BEAT, incarnation=incarnation(3))
    liveness.close(5)
    liveness.replaced(SET, 1, incarnation(2), 0)
    liveness.replaced(SET, 2, incarnation(3), 0)
    assert {1} == liveness.last_heartbeats(SET, 0).keys()
    liveness.replaced(SET, 1, incarnation(3), 0)

    assert {} == liveness.last_heartbeats(SET, 0)
    assert liveness.receive(SET, replace(newer, connection=6), 0)


def test_the_newest_connection_counts() -> None:
    """RMQ-R244: the end of an older connection kills no broker."""
    liveness = _heard(JAVA, replace(JAVA, connection=8), JAVA)

    assert [] == liveness.close(5)
    assert {1} == liveness.last_heartbeats(SET, 0).keys()
    assert [(SET, 1)] == liveness.close(8)


def test_a_heartbeat_of_a_closed_connection_does_not_revive_its_broker() -> None:
    """A killed process would live on for ten seconds."""
    liveness = _heard(BEAT)
    _kill(liveness, 1, 5)

    assert not liveness.receive(SET, replace(BEAT, sent_ns=101), 0)
    assert {} == liveness.last_heartbeats(SET, 0)
    assert liveness.receive(SET, replace(BEAT, sent_ns=101, connection=6), 0)


def test_a_java_broker_that_is_left_on_an_older_connection_is_alive() -> None:
    """It had two, and the newer ended."""
    liveness = _heard(JAVA, replace(JAVA, connection=8))
    _kill(liveness, 1, 8)

    assert liveness.receive(SET, JAVA, SECOND)
    assert {1} == liveness.last_heartbeats(SET, SECOND).keys()


def test_rocketmq_takes_over_from_pystore_and_back() -> None:
    """As soon as the other one is dead."""
    liveness = _heard(BEAT)
    _kill(liveness, 1, 5)

    assert liveness.receive(SET, replace(JAVA, connection=6), 0)
    assert not liveness.receive(SET, replace(BEAT, connection=7), SECOND)
    assert liveness.receive(SET, replace(BEAT, connection=8), 4 * SECOND)


def test_an_expired_broker_is_returned_once() -> None:
    """Neither a broker with a new heartbeat nor one that was removed."""
    liveness = _heard(BEAT, replace(JAVA, broker_id=2), Heartbeat(3, 7))
    _kill(liveness, 3, 7)
    liveness.receive(SET, replace(BEAT, sent_ns=101), 8 * SECOND)

    assert 3 * SECOND == liveness.expires_ns
    assert [] == liveness.expire(3 * SECOND)
    assert [(SET, 2)] == liveness.expire(3 * SECOND + 1)
    assert [] == liveness.expire(18 * SECOND)
    assert [(SET, 1)] == liveness.expire(18 * SECOND + 1)
    assert liveness.expires_ns is None


def test_a_time_out_that_becomes_shorter_is_noticed_in_time() -> None:
    """Its operator changed the configuration."""
    liveness = _heard(Heartbeat(1, 5), Heartbeat(1, 5, timeout_ms=1_000))

    assert [(SET, 1)] == liveness.expire(2 * SECOND)
    assert [] == liveness.expire(20 * SECOND)


def test_a_cleaned_broker_is_like_a_new_one() -> None:
    """Nothing is left to compare with."""
    liveness = _heard(BEAT)
    liveness.forget(SET, 1)
    liveness.forget(SET, 2)

    assert [] == liveness.close(5)
    assert [] == liveness.expire(20 * SECOND)
    assert liveness.receive(SET, replace(BEAT, incarnation=incarnation(1)), 0)


beats = st.builds(
    Heartbeat,
    st.integers(1, 2),
    st.integers(1, 3),
    st.none() | st.builds(incarnation, st.integers(1, 2), st.integers(0, 1)),
    sent_ns=st.none() | st.integers(0, 20),
    timeout_ms=st.integers(1, 4),
)


@given(st.lists(st.tuples(st.integers(0, 3), beats | st.integers(1, 3) | st.none())))
def test_every_death_is_returned_and_the_heap_stays_small(
    steps: list[tuple[int, Heartbeat | int | None]],
) -> None:
    """In any order of events the last heartbeat decides."""
    liveness, now, alive = Heartbeats(), 0, set[int]()
    for pause, step in steps:
        now += pause * 1_000_000
        for _, broker_id in liveness.expire(now):
            assert broker_id in alive
            alive.remove(broker_id)
        if isinstance(step, Heartbeat):
            if liveness.receive(SET, step, now):
                alive.add(step.broker_id)
        elif step is not None:
            for _, broker_id in liveness.close(step):
                suspected = liveness.suspected(SET, broker_id, now)
                if suspected is not None and broker_id % 2:
                    assert liveness.end(SET, suspected, 0, is_replaced=False)
                    alive.remove(broker_id)
        assert alive == liveness.last_heartbeats(SET, now).keys()
        assert liveness.expires_ns is not None or not alive
    now += 5_000_000
    assert alive == {one for _, one in liveness.expire(now)}
    assert liveness.expires_ns is None


def test_a_late_registration_is_detected_by_its_connection() -> None:
    """
    Its process is dead, and the next one registered or sent heartbeats on a newer
    connection: the newest connection decides.
    """
    liveness, first, second = Heartbeats(), incarnation(1), incarnation(2)

    assert liveness.may_register(SET, 1, first, 5)
    liveness.registered(SET, 1, first, 5)
    assert liveness.may_register(SET, 1, second, 7)
    assert liveness.may_register(SET, 1, first, 5)
    liveness.registered(SET, 1, second, 7)
    assert not liveness.may_register(SET, 1, first, 5)
    liveness.receive(SET, replace(JAVA, connection=8), 0)
    liveness.close(8)
    assert not liveness.may_register(SET, 1, second, 7)
    assert liveness.may_register(SET, 2, first, 1)
    assert liveness.may_register(TWIN, 1, first, 1)
    liveness.forget(SET, 1)
    assert liveness.may_register(SET, 1, first, 1)


def test_a_process_may_register_on_the_older_of_its_connections() -> None:
    """One connection to the configured address, and one to the address from 1005."""
    liveness = Heartbeats()
    for process in (incarnation(1), None):
        for connection in (20, 11, 20):
            assert liveness.may_register(SET, 1, process, connection)
            liveness.registered(SET, 1, process, connection)
        liveness.forget(SET, 1)


def _strange(count: int, liveness: Heartbeats, *, timeout_ms: int = 60_000) -> None:
    """
    As many brokers send one heartbeat each, on connections of their own.
    """
    for number in range(count):
        beat = replace(BEAT, connection=number, timeout_ms=timeout_ms)
        liveness.receive(("cluster", f"set-{number}"), beat, number)


@pytest.mark.parametrize("leads", [True, False])
def test_brokers_without_a_record_take_a_bounded_memory(*, leads: bool) -> None:
    """The last ones are kept: a broker sends heartbeats before it registers."""
    most = STRANGERS_MAX if leads else UNLED_BROKERS_MAX
    liveness = Heartbeats(lambda *_: False if leads else None)
    _strange(most + 100, liveness)

    def is_kept(number: int) -> bool:
        return liveness.heard(("cluster", f"set-{number}"), 1, most + 100) is not None

    assert [False] * 100 == [is_kept(number) for number in range(100)]
    assert all(is_kept(number) for number in range(100, most + 100))


def test_names_that_nobody_registered_do_not_fill_the_memory_for_good() -> None:
    """Neither the heartbeats nor the heap of their ends."""
    liveness = Heartbeats(lambda *_: False)
    _strange(5_000, liveness)
    tracemalloc.start()
    try:
        _strange(20_000, liveness)
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    # They replace those of before, of which nothing is traced.
    assert grown < 3_000 * STRANGERS_MAX


def test_a_registered_broker_is_kept_however_many_strangers_are_heard() -> None:
    """Also if it was silent for long, or was heard before it registered."""
    liveness = Heartbeats(lambda key, _: key == SET)
    liveness.receive(SET, replace(BEAT, connection=10**6), 0)
    _strange(5 * STRANGERS_MAX, liveness)

    assert 1 in liveness.last_heartbeats(SET, SECOND)


def test_a_stranger_that_is_heard_again_is_not_the_first_to_go() -> None:
    """It may register at its next step."""
    liveness = Heartbeats(lambda *_: False)
    for number in range(3 * STRANGERS_MAX):
        liveness.receive(SET, replace(BEAT, connection=10**6, sent_ns=number), number)
        beat = replace(BEAT, connection=number)
        liveness.receive(("cluster", f"set-{number}"), beat, number)

    assert liveness.heard(SET, 1, 3 * STRANGERS_MAX) is not None


def test_a_new_leader_keeps_the_registered_of_the_brokers_it_heard_before() -> None:
    """Before, it did not know which they are; a few go with each heartbeat."""
    leads = False
    liveness = Heartbeats(lambda key, _: key == SET if leads else None)
    liveness.receive(SET, replace(BEAT, connection=10**6), 0)
    _strange(3 * STRANGERS_MAX, liveness)
    leads = True
    _strange(6 * STRANGERS_MAX, liveness)

    assert 1 in liveness.last_heartbeats(SET, SECOND)
    old = [liveness.heard(("cluster", f"set-{one}"), 1, SECOND) for one in range(100)]
    assert [None] * 100 == old


def test_a_connection_carries_the_heartbeats_of_so_many_brokers_only() -> None:
    """Those that it carries go on."""
    liveness = Heartbeats()
    for number in range(1, CONNECTION_BROKERS_MAX + 1):
        assert liveness.has_room(5, SET, number)
        liveness.receive(SET, replace(BEAT, broker_id=number), 0)

    assert not liveness.has_room(5, TWIN, 1)
    assert liveness.has_room(5, SET, 1)
    assert liveness.has_room(6, TWIN, 1)
