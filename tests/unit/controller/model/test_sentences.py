"""
The changes of a set in sentences.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from lib.controller.broker_set_driver import Brokers, incarnation, start

from pystore.controller.model import sentences
from pystore.controller.model.commands import Clean, Elect, Trigger
from pystore.controller.model.events import (
    BrokerRegistered,
    BrokersCleaned,
    Change,
    CopiesChanged,
    LeasesEnded,
    MasterElected,
    MastershipEnded,
    PolicyChanged,
    SetChanged,
    SetDeleted,
)
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.replica import LogStanding
from pystore.controller.model.sentences import change_text, request_text
from pystore.controller.model.state import LossRange, SetState
from pystore.replicaset import Member

ONE, TWO, THREE = (Member(number, incarnation(1)) for number in (1, 2, 3))


def _led() -> SetState:
    """
    Returns a set with brokers 1 to 3, and broker 1 as its master in epoch 1.
    """
    brokers = Brokers()
    for number in (1, 2, 3):
        brokers.join(number, start(1))
    return replace(
        brokers.state,
        master=ONE,
        epoch=1,
        is_founded=True,
        agreed=replace(brokers.state.agreed, members=frozenset({ONE, TWO})),
    )


def test_each_change_has_a_sentence() -> None:
    """
    One that has none would stop the controller that commits it.
    """
    assert set(get_args(Change)) == set(sentences._TEXTS)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            BrokerRegistered(
                2, "h:2", incarnation(4), "boot", LogStanding.SOUND,
                LogEnd(3, 12_345), LogEnd(3, 12_345),
            ),
            "broker 2 registered from h:2, its start 4: its log ends at 12,345 in "
            "epoch 3, sound",
        ),
        (
            BrokerRegistered(
                2, "h:2", None, "", LogStanding.SOUND, LogEnd(-1, -1), LogEnd(-1, -1)
            ),
            "broker 2 registered from h:2: its log has an unknown end, sound",
        ),
        (
            MasterElected(TWO, frozenset({ONE})),
            "broker 2 is master in epoch 2 instead of broker 1; candidates: broker 1",
        ),
        (
            MasterElected(TWO, losses=(LossRange(2, 400, 1000, "unclean"),)),
            "broker 2 is master in epoch 2 instead of broker 1; these bytes may be "
            "lost: 400 to 1,000 (unclean)",
        ),
        (
            MasterElected(TWO, told_epoch=9),
            "broker 2 is master in epoch 10 instead of broker 1",
        ),
        (
            MastershipEnded(is_released=True, is_resigned=True),
            "broker 1 is master no more: it resigned; epoch 2 has no master",
        ),
        (
            MastershipEnded(is_released=False),
            "broker 1 is master no more: it is not alive, and no other broker can be "
            "elected; epoch 2 has no master",
        ),
        (
            SetChanged(frozenset({ONE, THREE}), frozenset()),
            "broker 2 left the SyncStateSet; broker 3 joined the SyncStateSet: it is "
            "brokers 1, 3 now",
        ),
        (BrokersCleaned(frozenset({2, 3})), "brokers 2, 3 removed from the set"),
        (SetDeleted(), "the set was deleted: its next id stays 4"),
        (LeasesEnded(frozenset({TWO})), "the leases of broker 2 have ended"),
        (CopiesChanged(1), "the set should have 1 replica"),
        (CopiesChanged(3), "the set should have 3 replicas"),
        (CopiesChanged(0), "the set should have as many replicas as it has voters"),
        (
            PolicyChanged(2, is_automatic=False),
            "elections are on request of an operator only, and broker 2 is preferred",
        ),
    ],
)  # fmt: skip
def test_a_sentence_says_what_changed(change: Change, text: str) -> None:
    """
    With the names that an operator knows.
    """
    assert text == change_text(_led(), change)


def test_an_election_names_its_reason() -> None:
    """
    Other commands are known by their names.
    """
    assert "election by the controller" == request_text(Elect(Trigger.CONTROLLER))
    unclean = Elect(Trigger.OPERATOR, 2, is_unclean=True)
    assert "election by an operator, unclean" == request_text(unclean)
    assert "Clean" == request_text(Clean(frozenset({1})))
