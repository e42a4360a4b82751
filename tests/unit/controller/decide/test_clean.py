"""
The removal of brokers from a set (RMQ-R250 to RMQ-R256).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from lib.controller.broker_set_driver import Brokers, start

from pystore.controller.model.codec import encode
from pystore.controller.model.commands import (
    ApplyId,
    ChangeBroker,
    Clean,
    DeleteSet,
    DropUnlisted,
    Elect,
    GetNextId,
    Readmit,
    Register,
    StepDown,
    Trigger,
)
from pystore.controller.model.facts import LastHeartbeat
from pystore.controller.model.log_end import NOWHERE
from pystore.controller.model.replica import LogStanding
from pystore.controller.model.replies import (
    Applied,
    Done,
    Election,
    NextBrokerId,
    RegistrationReply,
)
from pystore.controller.model.state import SetState
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import NO_SET, ids_of


def _three(*in_sync: int) -> Brokers:
    brokers = Brokers()
    members = [brokers.join(number, start(1)) for number in (1, 2, 3)]
    brokers.elect(1)
    if in_sync:
        brokers.admit(*(members[number - 1] for number in in_sync))
    return brokers


def _clean(*broker_ids: int, with_living: bool = False) -> Clean:
    return Clean(frozenset(broker_ids), with_living)


def test_live_brokers_are_cleaned_only_on_explicit_request() -> None:
    """RMQ-R251, RMQ-R252: and then the named ones, not the whole set."""
    brokers = _three(2)
    refusal = brokers.refused(_clean(2, 3))
    assert (
        ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
        frozenset({2, 3}),
    ) == (
        refusal.code,
        refusal.broker_ids,
    )

    brokers.do(_clean(2, with_living=True), Done)
    assert [1, 3] == [one.broker_id for one in brokers.state.replicas]
    assert {1} == ids_of(brokers.state.agreed.members)


@pytest.mark.parametrize("has_master", [True, False])
@pytest.mark.parametrize("alive", [(1, 2, 3), (2,), ()])
@pytest.mark.parametrize("named", [(), (1, 2, 3), (2,)])
def test_no_live_broker_is_cleaned_without_the_flag(
    named: tuple[int, ...], alive: tuple[int, ...], *, has_master: bool
) -> None:
    """Also while the set has no master: between two masters, or by manual elections."""
    brokers = _three(2)
    dead = [number for number in (1, 2, 3) if number not in alive]
    brokers.die(*dead, has_ended=True)
    if not has_master:
        brokers.do(StepDown(brokers.master, brokers.state.epoch), Done)
    before = brokers.state
    brokers.ask(_clean(*named))

    gone = {one.broker_id for one in before.replicas} - {
        one.broker_id for one in brokers.state.replicas
    }
    assert set() == gone & set(alive)
    if not alive and not has_master and not named:
        assert {1, 2, 3} == gone


def test_epochs_and_ids_go_on_after_a_whole_set_was_cleaned() -> None:
    """RMQ-R254: otherwise its brokers would refuse all roles of the new epochs."""
    brokers = _three(2, 3)
    epoch, version = brokers.state.epoch, brokers.state.agreed.set_epoch
    brokers.do(Clean(with_living=True), Done)
    assert not brokers.state.is_known
    assert brokers.do(GetNextId(), NextBrokerId).broker_id == 4

    brokers.last_heartbeats.clear()
    brokers.join(4, start(1))
    brokers.elect(4)
    assert brokers.state.epoch > epoch
    assert brokers.state.agreed.set_epoch > version


def _brought_back(*broker_ids: int) -> Brokers:
    """
    A set of which brokers 1 and 2 had records to 100 and broker 3 to 90, all three were
    cleaned, and some registered again by an operator's word.
    """
    brokers = _three(2)
    for number, end in ((1, 100), (2, 100), (3, 90)):
        brokers.reach(number, 1, end)
    brokers.do(Clean(with_living=True), Done)
    brokers.die(1, 2, 3)
    for number in broker_ids:
        brokers.do(Readmit(number), Done)
        brokers.register(number, start(1, end=90 if number == 3 else 100, epoch=1))
    return brokers


def test_a_set_that_was_cleaned_as_a_whole_is_brought_back_with_its_records() -> None:
    """Otherwise no broker that has them could ever be master again."""
    brokers = _brought_back(2)
    brokers.elect(2)

    assert 2 == brokers.master.broker_id
    assert () == brokers.state.losses


def test_no_new_broker_leads_a_set_of_which_another_one_has_records() -> None:
    """It would have them cut, and nothing would tell of the loss."""
    brokers = _brought_back(1)
    brokers.join(4, start(1))
    refusal = brokers.refused(Elect(Trigger.BROKER, 4))
    assert "broker 1 has records up to 100" in refusal.reason
    brokers.die(1)
    assert brokers.code(Elect(Trigger.BROKER, 4)) is refusal.code

    brokers.register(1, start(2, end=100, epoch=1))
    brokers.elect(1)
    assert 1 == brokers.master.broker_id


def test_a_broker_with_fewer_records_brings_no_set_back_unless_unclean() -> None:
    """The range is recorded then."""
    brokers = _brought_back(3)
    refusal = brokers.refused(Elect(Trigger.BROKER, 3))
    assert "broker 1 had records up to 100" in refusal.reason
    brokers.do(Elect(Trigger.OPERATOR, 3, is_unclean=True), Election)

    assert 3 == brokers.master.broker_id
    assert [(90, 100, "unclean")] == [
        (one.start, one.end, one.cause) for one in brokers.state.losses
    ]


def test_a_broker_that_is_brought_back_tells_its_log_before_it_is_elected() -> None:
    """Its election may be asked for before it has registered again."""
    brokers = _brought_back()
    brokers.do(Readmit(1), Done)
    brokers.hear(1, LastHeartbeat(None, NOWHERE))
    refusal = brokers.refused(Elect(Trigger.BROKER, 1))
    assert "had records up to 100, and tells of 0 now: wait" in refusal.reason


def test_a_set_that_begins_anew_records_what_its_cleaned_brokers_had() -> None:
    """RMQ-R73: an operator removed all its copies."""
    brokers = _brought_back()
    brokers.join(4, start(1))
    brokers.elect(4)

    assert [(0, 100)] == [(one.start, one.end) for one in brokers.state.losses]


def test_a_broker_that_restarted_before_its_first_election_is_elected() -> None:
    """Its log is as empty as before, whatever it cannot prove."""
    brokers = Brokers()
    brokers.join(1, start(1))
    brokers.register(1, start(3))
    (replica,) = brokers.state.replicas
    assert replica.standing is LogStanding.RESTARTED
    brokers.elect(1)
    assert 1 == brokers.master.broker_id


def test_the_last_members_are_cleaned_only_on_explicit_request() -> None:
    """RMQ-R255: the others stay registered, and no id is used again."""
    brokers = _three()
    brokers.die(1)
    assert (
        brokers.code(_clean(1)) is ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    )

    brokers.do(_clean(1, with_living=True), Done)
    brokers.do(Register(2, "host:2", start(1)), RegistrationReply)
    assert brokers.do(GetNextId(), NextBrokerId).broker_id == 4
    assert brokers.do(ApplyId(4, "host:4;1"), Applied).broker_id == 4
    assert [2, 3, 4] == [one.broker_id for one in brokers.state.replicas]


def test_no_other_broker_is_elected_after_all_members_were_cleaned() -> None:
    """RMQ-R255: what they acknowledged is gone; only unclean."""
    brokers = _three()
    brokers.do(_clean(1, with_living=True), Done)
    brokers.die(1)
    asked = Elect(Trigger.BROKER, 2)
    assert brokers.code(asked) is ResponseCode.CONTROLLER_ELECT_MASTER_FAILED

    brokers.is_unclean_allowed = True
    brokers.elect(2)
    assert brokers.master.broker_id == 2


def test_a_cleaned_master_is_master_no_more() -> None:
    """RMQ-R256: in a new epoch; its lease may run yet."""
    brokers = _three(2)
    master, epoch = brokers.master, brokers.state.epoch
    brokers.do(_clean(1, with_living=True), Done)

    assert (None, epoch + 1) == (brokers.state.master, brokers.state.epoch)
    assert frozenset({master}) == brokers.state.unreleased


def test_cleaning_an_unknown_broker_changes_nothing() -> None:
    """It was cleaned before."""
    brokers = _three(2)
    before = brokers.state
    brokers.do(_clean(8, 9), Done)

    assert brokers.state == before


def test_a_cleaned_broker_returns_with_its_id_after_a_re_admission() -> None:
    """RMQ-R44: not in the set, and as one that a master fills."""
    brokers = _three(2)
    brokers.do(_clean(2, with_living=True), Done)
    brokers.do(Readmit(2), Done)
    told = brokers.do(Register(2, "host:2", start(2, is_clean=True)), RegistrationReply)

    assert told.standing is LogStanding.RESTARTED
    assert {1} == ids_of(brokers.state.listed)
    assert () == brokers.state.tombstones


def test_a_set_with_a_live_broker_is_not_deleted() -> None:
    """It would register again at once, with an id that nothing knows any more."""
    brokers = _three(2)
    brokers.die(1, 2)
    refusal = brokers.refused(DeleteSet())

    assert (
        ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
        frozenset({3}),
    ) == (refusal.code, refusal.broker_ids)


@pytest.mark.parametrize("is_cleaned", [True, False])
def test_a_deleted_set_leaves_the_next_id_and_the_epochs(*, is_cleaned: bool) -> None:
    """Neither goes back if the name is used again; nothing else stays."""
    brokers = _three(2, 3)
    master, epoch = brokers.master, brokers.state.epoch
    set_epoch = brokers.state.agreed.set_epoch
    brokers.die(1, 2, 3)
    if is_cleaned:
        brokers.do(Clean(with_living=True), Done)
    brokers.do(DeleteSet(), Done)

    state = brokers.state
    stone = SetState("cluster", "set", state.version, next_id=4, epoch=epoch + 1)
    assert set_epoch < state.agreed.set_epoch
    # A lease of the last master may run yet.
    assert stone == replace(state, agreed=NO_SET, unreleased=frozenset())
    assert frozenset({master}) == state.unreleased
    assert len(encode(state)) < 500
    brokers.do(DeleteSet(), Done)
    assert state == brokers.state


def test_a_deleted_set_is_made_again_above_its_former_epoch() -> None:
    """A broker of the former set would refuse the roles of a lower one."""
    brokers = _three(2)
    epoch = brokers.state.epoch
    brokers.die(1, 2, 3)
    brokers.do(DeleteSet(), Done)
    assert brokers.code(Register(2, "host:2", start(2))) is (
        ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    )
    brokers.join(4, start(1))
    brokers.elect(4)

    assert brokers.state.epoch > epoch
    assert brokers.code(ApplyId(2, "host:2;1")) is (
        ResponseCode.CONTROLLER_BROKER_ID_INVALID
    )


def test_only_silent_brokers_that_were_never_in_a_set_are_dropped() -> None:
    """No acknowledged message depends on them; a learner is in no set by intention."""
    brokers = _three(2)
    for number in (4, 5, 6):
        brokers.join(number, start(1))
    brokers.do(ChangeBroker(5, is_learner=True), Done)
    brokers.die(2, 3, 5, 6)
    brokers.do(DropUnlisted(frozenset(range(1, 9))), Done)

    assert [1, 2, 4, 5] == [one.broker_id for one in brokers.state.replicas]
    assert [3, 6] == [one.broker_id for one in brokers.state.tombstones]
    assert 7 == brokers.state.next_id


def test_a_broker_that_left_the_set_is_not_dropped() -> None:
    """It may have acknowledged messages that nobody else has."""
    brokers = _three(2)
    brokers.admit()
    brokers.die(2)
    brokers.do(DropUnlisted(frozenset({2})), Done)

    assert brokers.state.replica(2) is not None
