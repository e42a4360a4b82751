"""
The changes of a SyncStateSet (RMQ-R101 to RMQ-R112; B1, B2, B4, B7).
"""

from __future__ import annotations

from dataclasses import replace

from lib.controller.broker_set_driver import Brokers, incarnation, start

from pystore.controller.model.commands import (
    AlterSet,
    ChangeBroker,
    Elect,
    Readmit,
    StepDown,
    Trigger,
)
from pystore.controller.model.log_end import LogBegin
from pystore.controller.model.replica import LogStanding
from pystore.controller.model.replies import Done, NewSet
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import Member


def _three() -> tuple[Brokers, Member, Member, Member]:
    brokers = Brokers()
    a, b, c = (brokers.join(number, start(1)) for number in (1, 2, 3))
    brokers.elect(1)
    brokers.admit(b, c)
    return brokers, a, b, c


def _wanted(brokers: Brokers, *members: Member) -> AlterSet:
    agreed = brokers.state.agreed
    return AlterSet(
        brokers.master,
        brokers.state.epoch,
        agreed.set_epoch,
        frozenset(members),
        agreed.candidates,
    )


def test_a_change_of_another_version_or_epoch_is_refused() -> None:
    """RMQ-R104, RMQ-R105: also a late one that was sent before."""
    brokers, a, b, _ = _three()
    late = _wanted(brokers, a, b)
    brokers.do(late, NewSet)

    assert brokers.code(late) is ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
    late = replace(late, members=frozenset({a}))
    assert brokers.code(late) is ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH
    late = replace(late, set_epoch=brokers.state.agreed.set_epoch, epoch=0)
    assert brokers.code(late) is ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH


def test_only_the_process_that_was_elected_changes_the_set() -> None:
    """RMQ-R103, B1: not another start of the same broker."""
    brokers, a, b, _ = _three()
    former = replace(_wanted(brokers, a, b), master=Member(1, incarnation(0)))
    assert brokers.code(former) is ResponseCode.CONTROLLER_INVALID_MASTER

    late = _wanted(brokers, a, b)
    brokers.do(StepDown(a, 1), Done)
    assert brokers.code(late) is ResponseCode.CONTROLLER_INVALID_MASTER


def test_two_dead_members_may_be_removed_one_by_one() -> None:
    """RMQ-R110: a remaining member need not be alive; its removal follows."""
    brokers, a, b, _ = _three()
    brokers.die(2, 3)
    brokers.do(_wanted(brokers, a, b), NewSet)
    brokers.do(_wanted(brokers, a), NewSet)

    assert frozenset({a}) == brokers.state.agreed.members


def test_added_members_have_to_be_alive_and_the_refusal_names_the_dead_ones() -> None:
    """RMQ-R107, RMQ-R111: so that the master does not request them again at once."""
    brokers, a, b, c = _three()
    brokers.admit()
    brokers.die(2, 3)
    refusal = brokers.refused(_wanted(brokers, a, b, c))

    assert (ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, frozenset({2, 3})) == (
        refusal.code,
        refusal.broker_ids,
    )


def test_a_process_that_has_ended_is_not_admitted() -> None:
    """B1: it restarted between the ack and the change."""
    brokers, a, b, _ = _three()
    brokers.admit()
    brokers.register(2, start(2))

    assert (
        brokers.code(_wanted(brokers, a, b)) is ResponseCode.CONTROLLER_INVALID_REPLICAS
    )


def test_an_admission_makes_up_for_a_restart() -> None:
    """B2, B4: the master knows that it holds everything now."""
    brokers, a, _, c = _three()
    b = brokers.register(2, start(2, is_lossy=True))
    brokers.do(_wanted(brokers, a, b, c), NewSet)

    assert brokers.state.replicas[1].standing is LogStanding.SOUND
    assert frozenset({a, b, c}) == brokers.state.agreed.members


def test_a_copied_store_is_admitted_only_after_an_operator_re_admits_it() -> None:
    """B1: a copy refused as a voter, then filled and admitted."""
    brokers, a, _, c = _three()
    brokers.die(2)
    b = brokers.register(2, start(1, bits=7))
    assert (
        brokers.code(_wanted(brokers, a, b, c))
        is ResponseCode.CONTROLLER_INVALID_REPLICAS
    )

    brokers.do(Readmit(2), Done)
    assert frozenset({a, c}) == brokers.state.agreed.members
    brokers.do(_wanted(brokers, a, b, c), NewSet)
    assert brokers.state.replicas[1].standing is LogStanding.SOUND


def test_a_learner_is_not_admitted() -> None:
    """RMQ-R203: until an operator makes it a voter."""
    brokers, a, b, c = _three()
    brokers.do(ChangeBroker(2, is_learner=True), Done)
    assert frozenset({a, c}) == brokers.state.agreed.members
    assert (
        brokers.code(_wanted(brokers, a, b, c))
        is ResponseCode.CONTROLLER_INVALID_REPLICAS
    )

    brokers.do(ChangeBroker(2, is_learner=False), Done)
    brokers.do(_wanted(brokers, a, b, c), NewSet)


def test_a_set_without_its_master_is_refused() -> None:
    """RMQ-R108."""
    brokers, _, b, c = _three()

    assert (
        brokers.code(_wanted(brokers, b, c))
        is ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
    )


def test_a_broker_is_listed_once() -> None:
    """Not as two processes, and not as member and candidate."""
    brokers, a, b, c = _three()
    brokers.ask(Elect(Trigger.OPERATOR, 2))
    assert frozenset({a, c}) == brokers.state.agreed.candidates
    twice = _wanted(brokers, b, a)
    assert brokers.code(twice) is ResponseCode.CONTROLLER_INVALID_REPLICAS

    brokers.do(replace(twice, candidates=frozenset({c})), NewSet)
    assert frozenset({a, b}) == brokers.state.agreed.members


def test_a_change_adds_no_candidates() -> None:
    """B7: only an election makes them."""
    brokers, a, b, c = _three()
    wanted = replace(_wanted(brokers, a, b), candidates=frozenset({c}))

    assert brokers.code(wanted) is ResponseCode.CONTROLLER_INVALID_REPLICAS


def test_a_fence_raises_the_version_and_nothing_else() -> None:
    """Afterwards no earlier request can be taken any more (RMQ-R112)."""
    brokers, a, b, c = _three()
    late = _wanted(brokers, a, b)
    before = brokers.state.agreed
    fence = replace(_wanted(brokers, a, b, c), is_fence=True)
    agreed = brokers.do(fence, NewSet).agreed

    assert (before.members, before.set_epoch + 1) == (agreed.members, agreed.set_epoch)
    assert brokers.code(late) is ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH


def test_a_java_master_means_the_processes_that_are_registered() -> None:
    """It names ids; a slave of pystore has an incarnation all the same."""
    brokers = Brokers()
    brokers.join(1)
    b = brokers.join(2, start(1))
    brokers.elect(1)
    brokers.admit(Member(2))

    assert frozenset({Member(1), b}) == brokers.state.agreed.members


def test_a_set_of_more_brokers_than_are_registered_costs_and_says_little() -> None:
    """
    One request named 40,000 brokers: the controller stood still for ten seconds, and
    the reason of 269 KB went into the record.
    """
    brokers, a, b, c = _three()
    strangers = (Member(number) for number in range(10, 200_010))
    refused = brokers.refused(_wanted(brokers, a, b, c, *strangers))

    assert refused.code is ResponseCode.CONTROLLER_INVALID_REPLICAS
    assert "10, 11, 12" in refused.reason
    assert "and 199900 more" in refused.reason
    assert len(refused.reason) < 600
    assert frozenset(range(10, 110)) == refused.broker_ids


def test_a_broker_that_is_named_twice_is_refused() -> None:
    """
    As member and candidate, or in two incarnations.
    """
    brokers, a, b, _ = _three()
    wanted = replace(_wanted(brokers, a, b), candidates=frozenset({b}))
    assert frozenset({2}) == brokers.refused(wanted).broker_ids
    former = Member(2, incarnation(0))
    twice = _wanted(brokers, a, b, former)
    assert frozenset({2}) == brokers.refused(twice).broker_ids
    assert brokers.code(_wanted(brokers, a, b, former, Member(3))) is (
        ResponseCode.CONTROLLER_INVALID_REPLICAS
    )


def test_a_filling_member_is_added_once_its_heartbeats_tell_it() -> None:
    """
    B11: it begins late in the link of which the master tells. An election before its
    next heartbeat would take it for whole. A member that stays was heard before.
    """
    brokers = Brokers()
    a, b = (brokers.join(number, start(1)) for number in (1, 2))
    brokers.elect(1)
    set_epoch = brokers.state.agreed.set_epoch
    command = AlterSet(a, 1, set_epoch, frozenset({a, b}), filling=frozenset({2}))
    refused = brokers.refused(command)
    assert (ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, frozenset({2})) == (
        refused.code,
        refused.broker_ids,
    )
    assert "tell first that it is filling" in refused.reason
    heard = brokers.last_heartbeats[2]
    late = LogBegin(4096, is_filling=True)
    brokers.last_heartbeats[2] = replace(heard, begin=late)
    brokers.do(command, NewSet)
    c = brokers.join(3, start(1))
    brokers.last_heartbeats[2] = heard
    more = replace(command, set_epoch=set_epoch + 1, members=frozenset({a, b, c}))
    brokers.do(more, NewSet)
    assert {1, 2, 3} == {one.broker_id for one in brokers.state.agreed.members}
