"""
Leases: their holders, lengths and ends (C1 to C3).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from lib.controller.broker_set_driver import incarnation

from pystore.controller.liveness.authority import Authority
from pystore.controller.liveness.leases import Leases
from pystore.controller.model.state import SetState
from pystore.records.term import Term
from pystore.replicaset import Member

SECOND = 1_000_000_000
BEGAN = 100 * SECOND
NOW = 500 * SECOND
MASTER = Member(1, incarnation(4))
OTHER = Member(2, incarnation(1))
STATE = SetState("cluster", "set", master=MASTER, epoch=3)


def _leases(length_s: int | None = None, sent_ns: int = NOW) -> Leases:
    length_ns = None if length_s is None else length_s * SECOND
    return Leases(Authority(Term("controller", "one", 7, sent_ns, length_ns), BEGAN))


def test_the_master_is_granted_what_clocks_leave_of_a_heartbeat() -> None:
    """C1: 10 s are waited for; of a shorter heartbeat in proportion."""
    leases = _leases()

    assert 8_181 == leases.grant(STATE, MASTER, 3, 10_000, NOW)
    assert 8_181 == leases.grant(STATE, MASTER, 3, 60_000, NOW)
    assert 2_454 == leases.grant(STATE, MASTER, 3, 3_000, NOW)


@pytest.mark.parametrize(
    ("state", "requester", "epoch"),
    [
        (STATE, OTHER, 3),
        (STATE, Member(1, incarnation(5)), 3),
        (STATE, Member(1, incarnation(4, 9)), 3),
        (STATE, Member(1), 3),
        (STATE, MASTER, 2),
        (STATE, MASTER, 4),
        (replace(STATE, master=None), MASTER, 3),
        (replace(STATE, master=Member(1)), Member(1), 3),
        (replace(STATE, unreleased=frozenset({OTHER})), MASTER, 3),
    ],
)
def test_only_the_master_gets_a_lease(
    state: SetState, requester: Member, epoch: int
) -> None:
    """Nor the master in another epoch, or while a former one's lease may run."""
    leases = _leases()

    assert 0 == leases.grant(state, requester, epoch, 10_000, NOW)
    assert BEGAN + 10 * SECOND == leases.end_ns(state.key, requester)


def test_no_lease_is_longer_than_the_term_is_proven() -> None:
    """C2: it ends before another controller can lead; without proof there is none."""
    leases = _leases(11)

    assert 8_181 == leases.grant(STATE, MASTER, 3, 10_000, NOW)
    assert 3_999 == leases.grant(STATE, MASTER, 3, 10_000, NOW + 5 * SECOND + 1)
    assert 0 == leases.grant(STATE, MASTER, 3, 10_000, NOW + 9 * SECOND)
    assert 0 == leases.grant(STATE, MASTER, 3, 10_000, NOW + 60 * SECOND)


def test_a_lease_is_waited_for_from_the_answer_on() -> None:
    """The last end of its grants counts."""
    leases = _leases()
    leases.grant(STATE, MASTER, 3, 10_000, NOW)
    leases.grant(STATE, MASTER, 3, 1_000, NOW + SECOND)
    state = replace(STATE, master=OTHER, epoch=4, unreleased=frozenset({MASTER}))

    assert NOW + 9_999_000_000 == leases.due_ns(state)
    assert leases.due_ns(STATE) is None


def test_a_new_controller_waits_for_leases_that_it_does_not_know() -> None:
    """C3: the longest there can be, from the start of its term."""
    state = replace(STATE, master=OTHER, epoch=4, unreleased=frozenset({MASTER}))

    assert BEGAN + 10 * SECOND == _leases().due_ns(state)


def test_leases_of_sets_and_members_are_apart() -> None:
    """Names alone may be the same in two clusters (RMQ-R37)."""
    leases = _leases()
    leases.grant(STATE, MASTER, 3, 10_000, NOW)
    elsewhere = replace(STATE, cluster="other", unreleased=frozenset({MASTER}))
    both = replace(STATE, unreleased=frozenset({MASTER, OTHER}))

    assert BEGAN + 10 * SECOND == leases.due_ns(elsewhere)
    assert NOW + 9_999_000_000 == leases.due_ns(both)
    leases.forget(STATE.key)
    assert BEGAN + 10 * SECOND == leases.due_ns(both)
