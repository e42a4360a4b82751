"""
When a set is looked at, and which needs a master.
"""

from __future__ import annotations

from dataclasses import replace

from controlling import incarnation

from pystore.controller.due_sets import DueSets, needs_master
from pystore.controller.facts import Facts, Pulse
from pystore.controller.member import Member
from pystore.controller.replica import Replica
from pystore.controller.state import SetState

SECOND = 1_000_000_000
ONE, TWO = ("cluster", "one"), ("cluster", "two")
MASTER = Member(1, incarnation(1))
STATE = SetState(
    "cluster",
    "set",
    replicas=(Replica(1, "a", "", incarnation(1)), Replica(2, "b", "")),
    master=MASTER,
)
LIVING, OTHER = Facts({1: Pulse(incarnation(1))}), Facts({2: Pulse()})


def test_a_set_needs_a_master_until_it_has_one_that_is_alive() -> None:
    """And while nobody is alive, until that is recorded."""
    nobody = replace(STATE, master=None)

    assert not needs_master(STATE, LIVING)
    assert needs_master(STATE, OTHER)
    assert needs_master(STATE, Facts())
    assert needs_master(nobody, OTHER)
    assert not needs_master(nobody, Facts())


def test_a_set_that_elects_only_for_an_operator_needs_none() -> None:
    """Nor one that has no brokers."""
    assert not needs_master(replace(STATE, is_automatic=False), OTHER)
    assert not needs_master(SetState("cluster", "set"), OTHER)


def test_a_set_is_due_once_at_the_earliest_time_asked_for() -> None:
    """However often it is asked for."""
    due = DueSets()
    for key, at in ((ONE, 9), (TWO, 7), (ONE, 5), (ONE, 8)):
        due.look(key, at * SECOND)

    assert 5 * SECOND == due.next_ns
    assert [] == due.take(5 * SECOND - 1)
    assert [ONE, TWO] == due.take(8 * SECOND)
    assert [] == due.take(20 * SECOND)
    assert due.next_ns is None


def test_a_set_without_a_master_is_due_again_and_again() -> None:
    """R231: with pauses that chance keeps apart."""
    due = DueSets()
    due.retry(ONE, 0, 0.0)
    due.retry(TWO, 0, 0.5)

    assert [ONE] == due.take(SECOND)
    due.retry(ONE, SECOND, 1.0)
    assert [TWO] == due.take(3 * SECOND - 1)
    assert [ONE] == due.take(3 * SECOND)
