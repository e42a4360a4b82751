"""
What is found wrong with a state, and with a step.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from lib.controller.broker_set_driver import Brokers, start

from pystore.controller.model.invariants import backslides, violations
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
        (replace(GOOD, tombstones=(Tombstone(2, ""),)), "there and cleaned"),
        (replace(GOOD, next_id=2), "never given away"),
        (replace(GOOD, agreed=AgreedSet(frozenset({FOREIGN}), 1)), "not known"),
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
        (replace(GOOD, is_founded=False), "before it had a master"),
        (replace(GOOD, replicas=(replace(A, incarnation=None), B)), "registered"),
        (replace(GOOD, unreleased=frozenset({A.member})), "its own lease"),
        (replace(GOOD, epoch=-1), "negative"),
        (replace(GOOD, epoch=0), "without an epoch"),
        (replace(GOOD, losses=(LossRange(1, 5, 5, "power"),)), "loss is empty"),
        (replace(GOOD, losses=(LossRange(9, 1, 2, "power"),)), "still to come"),
        (replace(GOOD, preferred_id=7), "preferred"),
        (replace(GOOD, replicas=(A, replace(B, is_learner=True))), "learner 2"),
        (replace(GOOD, replicas=(A, replace(B, incarnation=None))), "another process"),
        (replace(GOOD, replicas=(A, replace(B, counter_max=0))), "as often"),
    ],
)
def test_a_broken_state_is_told(state: SetState, wrong: str) -> None:
    """Each rule is broken once, and says so."""
    assert () == violations(GOOD)
    assert any(wrong in line for line in violations(state)), violations(state)


@pytest.mark.parametrize(
    ("after", "wrong"),
    [
        (replace(GOOD, version=0), "version fell"),
        (replace(GOOD, next_id=1), "next id fell"),
        (replace(GOOD, epoch=0), "epoch fell"),
        (replace(GOOD, agreed=AgreedSet()), "set epoch fell"),
        (replace(GOOD, master=B.member), "two masters"),
        (replace(GOOD, agreed=replace(GOOD.agreed, members=frozenset())), "meanings"),
        (replace(GOOD, replicas=(A, replace(B, counter_max=0))), "forgot"),
        (replace(GOOD, replicas=(A, replace(B, check_code="x"))), "somebody else"),
    ],
)
def test_a_step_back_is_told(after: SetState, wrong: str) -> None:
    """Nothing that only rises ever falls."""
    assert () == backslides(GOOD, GOOD)
    assert any(wrong in line for line in backslides(GOOD, after))


def test_an_id_that_comes_again_is_told() -> None:
    """R255: unless it is a cleaned broker that comes back as itself."""
    without = replace(GOOD, replicas=(A,))
    assert any("away again" in line for line in backslides(without, GOOD))

    cleaned = replace(without, tombstones=(Tombstone(2, B.check_code),))
    assert () == backslides(cleaned, GOOD)
