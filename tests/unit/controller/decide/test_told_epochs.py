"""
No epoch is given twice, though the record is older than what its brokers tell.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from lib.controller.broker_set_driver import Brokers, incarnation, start

from pystore.controller.decide.told_epochs import (
    EPOCH_JUMP_MAX,
    furthest_above,
    leases_above,
    told_epoch,
)
from pystore.controller.model.commands import (
    ApplyId,
    Clean,
    Elect,
    EndLeases,
    GetNextId,
    Register,
    SeeEnds,
    Trigger,
)
from pystore.controller.model.decision import Accepted
from pystore.controller.model.facts import LastHeartbeat
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.state import LossRange, SetState
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import Member

SCAN = Elect(Trigger.CONTROLLER)


def restored(epoch: int = 4, end: int = 100) -> Brokers:
    """
    A set of two, whose record is one of epoch 1, while its brokers had three more
    masters: 1 is the only member of the record, and both are in that epoch.
    """
    brokers = Brokers()
    brokers.join(1, start(1))
    brokers.join(2, start(1))
    brokers.elect(1)
    brokers.reach(1, epoch, end)
    brokers.reach(2, epoch, end)
    return brokers


def test_a_new_master_has_an_epoch_above_all_that_are_told() -> None:
    """
    The recorded master knows a higher epoch, so it is none any more. The leases of such
    epochs are waited for.
    """
    brokers = restored()
    assert 4 == told_epoch(brokers.state, brokers.facts)
    both = {Member(1, incarnation(1)), Member(2, incarnation(1))}
    assert both == leases_above(brokers.state, brokers.facts)
    assert ResponseCode.SUCCESS == brokers.elect().code
    assert (5, 1) == (brokers.state.epoch, brokers.master.broker_id)
    assert {Member(2, incarnation(1))} == brokers.state.unreleased
    brokers.ask(EndLeases(5))
    assert not brokers.state.unreleased


@pytest.mark.parametrize("is_alive", [True, False])
def test_no_broker_is_elected_whose_log_ends_before_such_an_epoch(
    *, is_alive: bool
) -> None:
    """
    The record does not know who was in sync; an operator may accept the loss.
    """
    brokers = restored()
    brokers.reach(2, 4, 101)
    if not is_alive:
        brokers.die(2)
    refused = brokers.refused(SCAN)
    assert "broker 2 has a log of epoch 4 to 101" in refused.reason
    assert {2} == refused.broker_ids
    assert 1 == brokers.state.epoch
    if is_alive:
        named = brokers.ask(Elect(Trigger.OPERATOR, 2, is_unclean=True))
        assert isinstance(named, Accepted)
        assert (5, 2) == (brokers.state.epoch, brokers.master.broker_id)
        return
    brokers.ask(Elect(Trigger.OPERATOR, 1, is_unclean=True))
    assert (5, 1) == (brokers.state.epoch, brokers.master.broker_id)
    assert (LossRange(5, 100, 101, "unclean"),) == brokers.state.losses


def test_a_promised_epoch_counts_as_well() -> None:
    """
    A slave promises an epoch before it has a byte of it.
    """
    brokers = restored(1, 50)
    told = brokers.last_heartbeats[2]
    brokers.hear(2, replace(told, known_epoch=9))
    brokers.die(1)
    assert 9 == told_epoch(brokers.state, brokers.facts)
    assert (2, LogEnd(1, 50)) == furthest_above(brokers.state, brokers.facts)
    brokers.register(1, start(2, epoch=1, end=50, is_clean=True))
    brokers.elect()
    assert 10 == brokers.state.epoch


def test_a_newer_set_of_the_same_epoch_shows_an_older_record_as_well() -> None:
    """
    The record has a member that left the set before `all` acknowledged more.
    """
    brokers = Brokers()
    brokers.join(1, start(1))
    second = brokers.join(2, start(1))
    brokers.elect(1)
    brokers.admit(second)
    brokers.reach(1, 1, 100)
    brokers.reach(2, 1, 60)
    newer = brokers.state.agreed.set_epoch + 1
    told = replace(brokers.last_heartbeats[1], known_epoch=1, known_set_epoch=newer)
    brokers.hear(1, told)
    brokers.die(1)
    assert "broker 1 has a log of epoch 1 to 100" in brokers.refused(SCAN).reason
    brokers.hear(1, told)
    brokers.elect()
    assert (2, 1) == (brokers.state.epoch, brokers.master.broker_id)


def test_cleaned_brokers_have_told_their_epochs() -> None:
    """
    Their tombstones keep them.
    """
    brokers = restored(1, 50)
    brokers.reach(2, 6, 40)
    brokers.ask(Clean(frozenset({2}), with_living=True))
    brokers.die(2)
    assert 6 == told_epoch(brokers.state, brokers.facts)


def test_the_first_master_of_a_set_is_no_broker_with_a_shorter_log() -> None:
    """
    Brokers whose records were those of other controllers.
    """
    brokers = Brokers()
    for broker_id, end in ((1, 0), (2, 90)):
        brokers.join(broker_id)
        brokers.reach(broker_id, 7 if end else 0, end)
    assert (
        "broker 2 has a log of epoch 7"
        in brokers.refused(Elect(Trigger.BROKER, 1)).reason
    )
    brokers.elect(2)
    assert (8, 2) == (brokers.state.epoch, brokers.master.broker_id)


def test_only_brokers_with_an_id_of_the_record_are_believed() -> None:
    """
    Anyone can send a heartbeat.
    """
    brokers = restored(1, 50)
    brokers.hear(9, LastHeartbeat(incarnation(1), LogEnd(500, 1), known_epoch=500))
    assert 1 == told_epoch(brokers.state, brokers.facts)
    assert not leases_above(brokers.state, brokers.facts)


@pytest.mark.parametrize("above", [EPOCH_JUMP_MAX, EPOCH_JUMP_MAX + 1])
def test_a_jump_is_refused_and_named(above: int) -> None:
    """
    Neither elections nor the record take it, and a broker that tells it can be cleaned.
    """
    brokers = restored(1, 50)
    brokers.die(1)
    brokers.register(1, start(2, epoch=1, end=50, is_clean=True))
    epoch = brokers.state.epoch + above
    brokers.reach(2, epoch, 60)
    refused = brokers.refused(SCAN)
    assert {2} == refused.broker_ids
    if above == EPOCH_JUMP_MAX:
        assert "broker 2 has a log of epoch" in refused.reason
        return
    assert f"broker 2 tells epoch {epoch}, more than 1000 above" in refused.reason
    brokers.die(1)
    recovery = start(3, epoch=epoch, end=60)
    registered = brokers.refused(Register(1, "host:1", recovery))
    assert f"broker 1 has a log of epoch {epoch}" in registered.reason
    brokers.ask(SeeEnds())
    brokers.ask(Clean(frozenset({2}), with_living=True))
    assert 2 == told_epoch(brokers.state, brokers.facts)
    brokers.register(1, start(3, epoch=1, end=50, is_clean=True))
    brokers.elect()
    assert (3, 1) == (brokers.state.epoch, brokers.master.broker_id)


def test_a_living_master_goes_on_beside_a_foreign_log() -> None:
    """
    It fills the broker, whose log is cut.
    """
    brokers = restored(1, 50)
    brokers.reach(2, 7, 90)
    reply = brokers.elect()
    assert ResponseCode.CONTROLLER_MASTER_STILL_EXIST == reply.code
    assert 1 == brokers.state.epoch


@pytest.mark.parametrize("is_ours", [True, False])
def test_no_id_is_given_while_a_broker_has_one_that_the_record_lacks(
    *, is_ours: bool
) -> None:
    """
    It has to belong to the same record store: others say nothing about this one.
    """
    brokers = Brokers(SetState("cluster", "set"))
    brokers.join(1, start(1))
    brokers.hear(2, LastHeartbeat(incarnation(1), is_of_cluster=is_ours))
    for command in (GetNextId(), ApplyId(2, "host:2;1")):
        if is_ours:
            refused = brokers.refused(command)
            assert "broker 2 of set set is heard" in refused.reason
            assert ResponseCode.CONTROLLER_INVALID_REQUEST == refused.code
        else:
            assert isinstance(brokers.ask(command), Accepted)
    # One that applied already gets the same answer again.
    assert isinstance(brokers.ask(ApplyId(1, "host:1;1")), Accepted)
