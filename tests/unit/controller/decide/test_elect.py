"""
Elections: their origins and their records (RMQ-R47 to RMQ-R62, C3).
"""

from __future__ import annotations

import pytest
from lib.controller.broker_set_driver import Brokers, incarnation, start

from pystore.controller.model.commands import (
    ApplyId,
    ChangePolicy,
    Clean,
    Elect,
    EndLeases,
    SeeEnds,
    StepDown,
    Trigger,
)
from pystore.controller.model.decision import Rejected
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.replies import Done, Election
from pystore.remoting.codes import ResponseCode

SCAN = Elect(Trigger.CONTROLLER)


def _pair() -> Brokers:
    brokers = Brokers()
    _, b = brokers.join(1, start(1)), brokers.join(2, start(1))
    brokers.elect(1)
    brokers.admit(b)
    return brokers


@pytest.mark.parametrize("trigger", Trigger)
def test_an_unknown_set_elects_no_master(trigger: Trigger) -> None:
    """RMQ-R47: for each origin."""
    command = Elect(trigger, None if trigger is Trigger.CONTROLLER else 1)

    assert (
        Brokers().code(command) is ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    )


def test_the_first_master_is_a_live_registered_broker() -> None:
    """RMQ-R48, RMQ-R50: neither an unknown id nor a dead broker."""
    brokers = Brokers()
    brokers.join(1, start(1))
    brokers.ask(ApplyId(2, "host:2;1"))
    for absent in (2, 99):
        assert (
            brokers.code(Elect(Trigger.BROKER, absent))
            is ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        )
    assert brokers.code(SCAN) is ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE

    assert brokers.elect(1).code is ResponseCode.SUCCESS


def test_the_epoch_rises_with_every_election() -> None:
    """Also if the same broker is elected again."""
    brokers = _pair()
    epochs = [brokers.state.epoch]
    for _ in range(3):
        brokers.do(StepDown(brokers.master, brokers.state.epoch), Done)
        brokers.die(2)
        brokers.elect()
        epochs.append(brokers.state.epoch)

    assert [1, 3, 5, 7] == epochs


def test_the_requesting_broker_is_not_preferred() -> None:
    """RMQ-R51: the best broker of the set is elected."""
    brokers = _pair()
    brokers.reach(2, 1, 9)
    brokers.do(StepDown(brokers.master, 1), Done)
    brokers.elect(1)

    assert brokers.master.broker_id == 2


def test_a_planned_switch_elects_the_named_broker() -> None:
    """RMQ-R55: the old master is alive; its lease has to expire, or it resigns (C3)."""
    brokers = _pair()
    old = brokers.master
    told = brokers.elect(2, Trigger.OPERATOR).leadership
    assert told is not None
    assert (2, True) == (told.master.broker_id, told.waits_for_lease)

    brokers.do(StepDown(old, 1), Done)
    again = brokers.elect(2).leadership
    assert again is not None
    assert not again.waits_for_lease


def test_a_new_controller_does_not_replace_a_master_without_heartbeats() -> None:
    """
    C3, RMQ-R226: neither by a scan nor for an operator; the mastership does not end.
    """
    brokers = _pair()
    brokers.die(1)
    brokers.may_replace = False
    before = brokers.state
    for command in (SCAN, Elect(Trigger.BROKER, 2), Elect(Trigger.OPERATOR, 2)):
        brokers.refused(command)
    assert brokers.state == before

    brokers.register(1, start(2, is_clean=True))
    assert brokers.elect().code is ResponseCode.SUCCESS


def test_a_new_controller_replaces_a_master_that_has_ended_at_once() -> None:
    """
    C3: there is evidence; the lease is waited for nevertheless.
    """
    brokers = _pair()
    old = brokers.master
    brokers.die(1, has_ended=True)
    brokers.may_replace = False

    assert brokers.elect().code is ResponseCode.SUCCESS
    assert 2 == brokers.master.broker_id
    assert frozenset({old}) == brokers.state.unreleased


def test_without_automatic_elections_only_an_operator_elects() -> None:
    """The set waits for the operator."""
    brokers = _pair()
    brokers.do(ChangePolicy(is_automatic=False), Done)
    brokers.die(1)
    assert brokers.code(SCAN) is ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
    assert (
        brokers.code(Elect(Trigger.BROKER, 2))
        is ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    )

    assert brokers.elect(2, Trigger.OPERATOR).code is ResponseCode.SUCCESS


def test_a_failed_election_by_a_broker_or_an_operator_changes_nothing() -> None:
    """RMQ-R60: only a scan records a failed election (RMQ-R59)."""
    brokers = _pair()
    brokers.die(1, 2)
    before = brokers.state
    for command in (Elect(Trigger.BROKER, 2), Elect(Trigger.OPERATOR, 2)):
        assert brokers.code(command) is ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert brokers.state == before

    assert (
        brokers.do(SCAN, Election).code is ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
    )
    assert (None, 2) == (brokers.state.master, brokers.state.epoch)
    assert before.agreed == brokers.state.agreed


def test_leases_end_with_the_epoch_they_were_waited_for_in() -> None:
    """An earlier wait proves nothing of a later mastership."""
    brokers = _pair()
    brokers.die(1)
    brokers.elect()
    assert brokers.state.unreleased
    assert brokers.code(EndLeases(1)) is ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH

    brokers.do(EndLeases(2), Done)
    assert not brokers.state.unreleased


def test_a_master_that_hands_over_has_no_lease_to_wait_for() -> None:
    """C3: the election is its step-down, also under a controller that began to lead."""
    for is_handed_over in (False, True):
        brokers = Brokers()
        _, b = (brokers.join(number, start(1)) for number in (1, 2))
        brokers.elect(1)
        brokers.admit(b)
        brokers.may_replace = not is_handed_over
        old = brokers.master
        own = (old.incarnation, brokers.state.epoch) if old.incarnation else None
        request = Elect(
            Trigger.OPERATOR, 2, handed_over=own if is_handed_over else None
        )
        brokers.do(request, Election)
        assert 2 == brokers.master.broker_id
        assert (frozenset() if is_handed_over else {old}) == brokers.state.unreleased


@pytest.mark.parametrize("other", ["epoch", "process"])
def test_only_the_present_master_hands_over(other: str) -> None:
    """A late request of another mastership elects nobody."""
    brokers = Brokers()
    _, b = (brokers.join(number, start(1)) for number in (1, 2))
    brokers.elect(1)
    brokers.admit(b)
    own = brokers.master.incarnation
    assert own is not None
    epoch = brokers.state.epoch - (other == "epoch")
    process = own if other == "epoch" else incarnation(9)
    rejected = brokers.ask(Elect(Trigger.OPERATOR, 2, handed_over=(process, epoch)))
    assert isinstance(rejected, Rejected)
    assert ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH == rejected.code
    assert 1 == brokers.master.broker_id


UNCLEAN = Elect(Trigger.OPERATOR, 3, is_unclean=True)


def _survivor(gone: str) -> Brokers:
    """
    Returns a set of which only broker 3 is alive, at 90 of 100 bytes, outside the set.
    """
    brokers = _pair()
    brokers.join(3, start(1))
    for number, end in ((1, 100), (2, 100), (3, 90)):
        brokers.reach(number, 1, end)
    if gone == "candidates":
        brokers.die(1, has_ended=True)
        brokers.elect(2)
        brokers.register(1, start(2, end=100, epoch=1))
    if gone != "unrecorded":
        # Otherwise only the last heartbeats tell the ends.
        brokers.ask(SeeEnds())
    if gone == "cleaned":
        brokers.do(Clean(frozenset({1, 2}), with_living=True), Done)
    brokers.die(1, 2, has_ended=True)
    return brokers


@pytest.mark.parametrize("gone", ["listed", "unrecorded", "candidates", "cleaned"])
def test_the_only_survivor_is_elected_unclean_on_request_and_the_loss_recorded(
    gone: str,
) -> None:
    """For one set: unclean elections stay off for all others, and for its next one."""
    brokers = _survivor(gone)
    assert brokers.code(Elect(Trigger.OPERATOR, 3)) is (
        ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    )
    brokers.do(UNCLEAN, Election)

    assert 3 == brokers.master.broker_id
    lost = [(one.start, one.end, one.cause) for one in brokers.state.losses]
    assert [(90, 100, "unclean")] == lost
    assert LogEnd(1, 90) == brokers.facts.position(brokers.state.replicas[-1])
    brokers.die(3)
    brokers.join(4, start(1))
    assert brokers.code(Elect(Trigger.OPERATOR, 4)) is (
        ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    )


@pytest.mark.parametrize("has_master", [True, False])
def test_no_unclean_election_on_request_while_one_without_loss_is_possible(
    *, has_master: bool
) -> None:
    """It would lose records that a live broker has."""
    brokers = _pair()
    brokers.join(3, start(1))
    brokers.reach(2, 1, 9)
    if not has_master:
        brokers.do(StepDown(brokers.master, 1), Done)
        brokers.die(1)
    refusal = brokers.refused(UNCLEAN)
    assert "needs no unclean election" in refusal.reason
    assert frozenset({1 if has_master else 2}) == refusal.broker_ids

    clean = Elect(Trigger.OPERATOR, 2, is_unclean=True)
    brokers.do(clean, Election)
    assert () == brokers.state.losses
