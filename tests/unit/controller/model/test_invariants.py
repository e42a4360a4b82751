"""
The invariants of states and of steps.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from lib.controller.broker_set_driver import Brokers, start

from pystore.controller.model.invariants import regressions, violations
from pystore.controller.model.replica import Tombstone
from pystore.controller.model.state import LossRange, SetState
from pystore.replicaset import AgreedSet, Member


def _pair() -> SetState:
    brokers = Brokers()
    _, b = brokers.join(1, start(1)), brokers.join(2, start(1))
    brokers.elect(1)
    brokers.admit(b)
    return brokers.state


GOOD = _pair()
A, B = GOOD.replicas
FOREIGN = Member(7)


@pytest.mark.parametrize(
    ("state", "wrong"),
    [
        (replace(GOOD, replicas=(A, A)), "not unique"),
        (replace(GOOD, replicas=(B, A)), "not unique and ascending"),
        (replace(GOOD, tombstones=(Tombstone(2, ""),)), "registered and cleaned"),
        (replace(GOOD, next_id=2), "never allocated"),
        (replace(GOOD, agreed=AgreedSet(frozenset({FOREIGN}), 1)), "not registered"),
        (replace(GOOD, agreed=AgreedSet(frozenset({B.member}), 1)), "not in its set"),
        (
            replace(
                GOOD,
                agreed=AgreedSet(frozenset({A.member}), 1, frozenset({Member(1)})),
            ),
            "listed twice",
        ),
        (
            replace(
                GOOD,
                agreed=AgreedSet(frozenset({A.member}), 1, frozenset({A.member})),
            ),
            "listed twice",
        ),
        (replace(GOOD, is_founded=False), "never had a master"),
        (replace(GOOD, replicas=(replace(A, incarnation=None), B)), "registered"),
        (replace(GOOD, unreleased=frozenset({A.member})), "its own lease"),
        (replace(GOOD, epoch=-1), "negative"),
        (replace(GOOD, epoch=0), "without an epoch"),
        (replace(GOOD, losses=(LossRange(1, 5, 5, "power"),)), "loss is empty"),
        (replace(GOOD, losses=(LossRange(9, 1, 2, "power"),)), "future epoch"),
        (replace(GOOD, preferred_id=7), "preferred"),
        (replace(GOOD, copies=-1), "should have -1 replicas"),
        (replace(GOOD, copies=65), "should have 65 replicas"),
        (replace(GOOD, replicas=(A, replace(B, is_learner=True))), "learner 2"),
        (replace(GOOD, replicas=(A, replace(B, incarnation=None))), "another process"),
        (replace(GOOD, replicas=(A, replace(B, counter_max=0))), "recorded maximum"),
    ],
)
def test_each_broken_invariant_of_a_state_is_reported(
    state: SetState, wrong: str
) -> None:
    """Each invariant is broken once and reported."""
    assert () == violations(GOOD)
    assert any(wrong in line for line in violations(state)), violations(state)


@pytest.mark.parametrize(
    ("after", "wrong"),
    [
        (replace(GOOD, version=0), "version decreased"),
        (replace(GOOD, next_id=1), "next id decreased"),
        (replace(GOOD, epoch=0), "epoch decreased"),
        (replace(GOOD, agreed=AgreedSet()), "set epoch decreased"),
        (replace(GOOD, master=B.member), "two masters"),
        (
            replace(GOOD, agreed=replace(GOOD.agreed, members=frozenset())),
            "has two sets",
        ),
        (replace(GOOD, replicas=(A, replace(B, counter_max=0))), "start counter"),
        (replace(GOOD, replicas=(A, replace(B, check_code="x"))), "another broker"),
    ],
)
def test_each_decrease_is_reported(after: SetState, wrong: str) -> None:
    """Monotonic values never decrease."""
    assert () == regressions(GOOD, GOOD)
    assert any(wrong in line for line in regressions(GOOD, after))


def test_a_reused_id_is_reported() -> None:
    """RMQ-R255: unless it is a cleaned broker that comes back as itself."""
    without = replace(GOOD, replicas=(A,))
    assert any("allocated again" in line for line in regressions(without, GOOD))

    cleaned = replace(without, tombstones=(Tombstone(2, B.check_code),))
    assert () == regressions(cleaned, GOOD)
