"""
The changes by an operator to a set and its brokers.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from lib.controller.broker_set_driver import Brokers, incarnation, start

from pystore.controller.decide.dispatch import decide
from pystore.controller.model.codec import decode, encode
from pystore.controller.model.commands import (
    ChangeBroker,
    ChangePolicy,
    Clean,
    Elect,
    Readmit,
    SeeEnds,
    SetCopies,
    Trigger,
)
from pystore.controller.model.decision import Rejected
from pystore.controller.model.replica import LogStanding
from pystore.controller.model.replies import Done, Election
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import ids_of


def _pair() -> Brokers:
    brokers = Brokers()
    _, b = brokers.join(1, start(1)), brokers.join(2, start(1))
    brokers.elect(1)
    brokers.admit(b)
    return brokers


def _standing(brokers: Brokers) -> LogStanding:
    return brokers.state.replicas[1].standing


def test_a_learner_leaves_the_set() -> None:
    """RMQ-T63: the attribute is of the broker, and the set follows."""
    brokers = _pair()
    brokers.do(ChangeBroker(2, is_learner=True), Done)

    assert brokers.state.replicas[1].is_learner
    assert {1} == ids_of(brokers.state.listed)


def test_each_change_of_who_is_a_learner_is_a_newer_decision() -> None:
    """Replicas take the newest set they are told, and with it whether they learn."""
    brokers = _pair()
    brokers.admit()
    epochs = [brokers.state.agreed.set_epoch]
    for is_learner in (True, True, False, False):
        brokers.do(ChangeBroker(2, is_learner=is_learner), Done)
        epochs.append(brokers.state.agreed.set_epoch)
    brokers.do(ChangeBroker(2, priority=3), Done)
    epochs.append(brokers.state.agreed.set_epoch)

    assert [0, 1, 1, 2, 2, 2] == [one - epochs[0] for one in epochs]


def test_neither_the_master_nor_the_last_member_becomes_a_learner() -> None:
    """No member would have the messages any more."""
    brokers = _pair()
    assert (
        brokers.code(ChangeBroker(1, is_learner=True))
        is ResponseCode.CONTROLLER_INVALID_REQUEST
    )

    brokers.admit()
    brokers.register(1, start(2, is_clean=True))
    assert (
        brokers.code(ChangeBroker(1, is_learner=True))
        is ResponseCode.CONTROLLER_INVALID_REQUEST
    )


def test_attributes_that_are_not_named_stay_unchanged() -> None:
    """A value that is set already changes nothing."""
    brokers = _pair()
    brokers.do(ChangeBroker(2, priority=7), Done)
    brokers.do(ChangePolicy(preferred_id=2), Done)
    brokers.do(ChangePolicy(is_automatic=False), Done)
    before = brokers.state
    brokers.do(ChangeBroker(2, is_learner=False), Done)
    brokers.do(ChangePolicy(preferred_id=2), Done)
    brokers.do(ChangePolicy(), Done)

    assert brokers.state == before
    assert (7, 2, False) == (
        before.replicas[1].priority,
        before.preferred_id,
        before.is_automatic,
    )
    brokers.do(ChangePolicy(preferred_id=0), Done)
    assert brokers.state.preferred_id is None


@pytest.mark.parametrize(
    "command", [ChangeBroker(9), ChangePolicy(preferred_id=9), Readmit(9)]
)
def test_an_unknown_broker_is_refused(
    command: ChangeBroker | ChangePolicy | Readmit,
) -> None:
    """The answer names it."""
    refusal = _pair().refused(command)

    assert refusal.code is ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert frozenset({9}) == refusal.broker_ids


@pytest.mark.parametrize("command", [ChangePolicy(is_automatic=False), SetCopies(3)])
def test_an_unknown_set_has_no_policy(command: ChangePolicy | SetCopies) -> None:
    """The request does not create it."""
    assert Brokers().code(command) is ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST


def test_a_set_wants_as_many_copies_as_it_has_voters_unless_an_operator_says() -> None:
    """They are a part of its record, also after its brokers are gone."""
    brokers = _pair()
    brokers.join(3, start(1))
    assert 3 == brokers.state.wanted_copies
    brokers.do(ChangeBroker(3, is_learner=True), Done)
    assert 2 == brokers.state.wanted_copies
    brokers.do(SetCopies(3), Done)
    before = brokers.state
    brokers.do(SetCopies(3), Done)
    assert before is brokers.state
    brokers.do(Clean(frozenset({2, 3}), with_living=True), Done)
    assert 3 == brokers.state.wanted_copies
    assert brokers.state == decode(encode(brokers.state), "key")
    brokers.do(SetCopies(0), Done)
    assert 1 == brokers.state.wanted_copies


@pytest.mark.parametrize("copies", [-1, 65])
def test_a_set_has_no_more_copies_than_brokers(copies: int) -> None:
    """It would never have them."""
    refusal = _pair().refused(SetCopies(copies))

    assert refusal.code is ResponseCode.CONTROLLER_INVALID_REQUEST
    assert "at most 64" in refusal.reason


def test_an_empty_disk_is_filled_after_a_re_admission() -> None:
    """It leaves the lists; otherwise no master would fill it."""
    brokers = _pair()
    brokers.reach(2, 1, 900)
    brokers.do(SeeEnds(), Done)
    brokers.die(2)
    brokers.register(2, start(1, bits=7))
    assert _standing(brokers) is LogStanding.WIPED
    assert {1, 2} == ids_of(brokers.state.listed)

    brokers.do(Readmit(2), Done)
    assert {1} == ids_of(brokers.state.listed)
    assert _standing(brokers) is LogStanding.RESTARTED


def test_a_restored_store_counts_on_after_its_re_admission() -> None:
    """
    B1: the store was restored from start 4, the record knows start 9. Once an operator
    has vouched for it and a master has admitted it, its next clean start is sound.
    """
    brokers = _pair()
    brokers.die(2)
    brokers.register(2, start(9))
    brokers.die(2)
    restored = brokers.register(2, start(5, bits=7))
    assert _standing(brokers) is LogStanding.COPIED
    brokers.do(Readmit(2), Done)
    brokers.admit(restored)
    brokers.die(2)
    brokers.register(2, start(6, bits=8, is_clean=True))

    assert _standing(brokers) is LogStanding.SOUND


def test_a_cleaned_broker_has_an_address_after_its_re_admission() -> None:
    """
    That with which it applied for its id: a broker of RocketMQ does not register again
    by itself.
    """
    brokers = Brokers()
    brokers.join(1)
    b = brokers.join(2)
    brokers.elect(1)
    brokers.do(Clean(frozenset({2}), with_living=True), Done)
    brokers.do(Readmit(2), Done)
    brokers.admit(b)
    told = brokers.do(Elect(Trigger.OPERATOR, 2), Election)

    assert told.leadership is not None
    assert "host:2" == told.leadership.address


def test_a_sound_broker_needs_no_operator() -> None:
    """Nothing of it is forgotten."""
    brokers = _pair()
    before = brokers.state
    brokers.do(Readmit(2), Done)

    assert brokers.state == before


def test_the_last_member_is_not_re_admitted() -> None:
    """An empty disk that was the whole set: what it acknowledged is lost, say so."""
    brokers = _pair()
    brokers.admit()
    brokers.reach(1, 1, 900)
    brokers.do(SeeEnds(), Done)
    brokers.die(1)
    brokers.register(1, start(1, bits=7))

    refused = decide(brokers.state, Readmit(1), brokers.facts)
    assert isinstance(refused, Rejected)
    assert refused.code is ResponseCode.CONTROLLER_INVALID_REQUEST
    assert "`pystore admin electMaster --unclean` shows what is lost" in refused.reason


def test_a_store_is_another_one_once_an_operator_vouched_for_its_copy() -> None:
    """
    However often it started meanwhile (B1).
    """
    brokers, first = _pair(), incarnation(1)
    brokers.die(2, has_ended=True)
    copy = start(2, bits=7, is_copy=True)
    brokers.register(2, replace(copy, starts=(first,)))
    brokers.do(Readmit(2), Done)
    brokers.die(2, has_ended=True)
    brokers.register(2, replace(start(9, bits=8), starts=(first, incarnation(8))))

    replica = brokers.state.replica(2)
    assert replica is not None
    assert LogStanding.COPIED is replica.standing
