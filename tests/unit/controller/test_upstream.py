"""
What RocketMQ's own tests of its controller show, shown of ours: the T numbers are those
of docs/rocketmq-tests.md. Its brokers have no incarnations.
"""

from __future__ import annotations

import pytest
from lib.controller.broker_set_driver import Brokers, alive

from pystore.controller.model.codec import decode, encode
from pystore.controller.model.commands import AlterSet, Clean, Elect, Register, Trigger
from pystore.controller.model.replies import Done, Election, RegistrationReply
from pystore.controller.model.views import replica_info, sync_state
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import Member, ids_of


def _three() -> Brokers:
    """
    Three brokers, the first of which was elected and has admitted the others.
    """
    brokers = Brokers()
    brokers.join(1)
    brokers.join(2)
    brokers.join(3)
    brokers.elect(1)
    brokers.admit(Member(2), Member(3))
    return brokers


def _master_of(brokers: Brokers, command: Elect) -> int:
    leadership = brokers.do(command, Election).leadership
    assert leadership is not None
    return leadership.master.broker_id


def _by(broker_id: int) -> Elect:
    return Elect(Trigger.BROKER, broker_id)


def _operator(broker_id: int) -> Elect:
    return Elect(Trigger.OPERATOR, broker_id)


SCAN = Elect(Trigger.CONTROLLER)


def test_t1_three_brokers_register_and_the_first_to_ask_is_elected() -> None:
    """Ids 1, 2, 3; epoch 1; later requests get that master; all three are in sync."""
    brokers = Brokers()
    assert [1, 2, 3] == [brokers.join(one).broker_id for one in (1, 2, 3)]
    elected = brokers.do(_by(1), Election)
    assert (ResponseCode.SUCCESS, 1, 1) == (
        elected.code,
        brokers.state.epoch,
        elected.agreed.set_epoch,
    )
    assert ((1, "host:1"), (2, "host:2"), (3, "host:3")) == elected.addresses

    for later in (2, 3):
        assert (
            brokers.do(_by(later), Election).code
            is ResponseCode.CONTROLLER_MASTER_STILL_EXIST
        )
    brokers.admit(Member(2), Member(3))
    view = sync_state(brokers.state, brokers.facts)
    assert 2 == view.info.agreed.set_epoch
    assert ([1, 2, 3], ()) == (
        [one.broker_id for one in view.in_sync],
        view.not_in_sync,
    )


def test_t2_a_broker_that_registers_after_the_election_gets_the_master() -> None:
    """And it is listed as not in sync."""
    brokers = Brokers()
    brokers.join(1)
    brokers.elect(1)
    brokers.join(2)
    told = brokers.do(Register(2, "host:2"), RegistrationReply)

    assert told.leadership is not None
    assert (1, "host:1") == (told.leadership.master.broker_id, told.leadership.address)
    view = sync_state(brokers.state, brokers.facts)
    assert [2] == [one.broker_id for one in view.not_in_sync]


def test_t3_the_only_member_that_is_alive_takes_over() -> None:
    """Epoch 2, and a set of itself in version 3."""
    brokers = _three()
    brokers.die(1, 2)

    assert _master_of(brokers, _by(3)) == 3
    assert (2, 3) == (brokers.state.epoch, brokers.state.agreed.set_epoch)
    assert {3} == ids_of(brokers.state.agreed.members)


def test_t4_a_scan_leaves_a_living_master_alone() -> None:
    """The answer names the master, and nothing changes."""
    brokers = _three()
    before = brokers.state

    assert brokers.do(SCAN, Election).code is ResponseCode.CONTROLLER_MASTER_STILL_EXIST
    assert brokers.state is before


def test_t8_only_the_broker_named_by_an_operator_is_elected() -> None:
    """Of a dead one nothing comes, the living master stays, a member is taken."""
    brokers = _three()
    brokers.die(1)
    assert _master_of(brokers, SCAN) in {2, 3}
    master = brokers.master.broker_id
    other = ({2, 3} - {master}).pop()

    assert brokers.code(_operator(1)) is ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert (
        brokers.do(_operator(master), Election).code
        is ResponseCode.CONTROLLER_MASTER_STILL_EXIST
    )
    brokers.admit(Member(other))
    brokers.die(master)
    assert _master_of(brokers, _operator(other)) == other
    assert brokers.state.epoch == 3


@pytest.mark.parametrize("times", [1, 3])
def test_t9_a_scan_without_an_electable_broker_ends_the_mastership_once(
    times: int,
) -> None:
    """RMQ-T9, RMQ-R62: epoch 2, however often it looks; the set stays."""
    brokers = Brokers()
    brokers.join(1)
    brokers.elect(1)
    brokers.die(1)

    for _ in range(times):
        brokers.ask(SCAN)
    assert (None, 2) == (brokers.state.master, brokers.state.epoch)
    assert {1} == ids_of(brokers.state.agreed.members)
    assert brokers.code(SCAN) is ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE


def test_t10_dead_brokers_are_cleaned() -> None:
    """Living ones, a set with a master and an unknown one are not."""
    brokers = _three()
    brokers.die(3)
    assert (
        brokers.code(Clean(frozenset({2, 3})))
        is ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    )
    assert (
        brokers.code(Clean()) is ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    )
    assert (
        Brokers().code(Clean()) is ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    )

    brokers.do(Clean(frozenset({3})), Done)
    assert {1, 2} == ids_of(brokers.state.agreed.members)
    brokers.do(Clean(with_living=True), Done)
    assert not brokers.state.is_known


def test_t11_a_set_survives_encoding_and_decoding() -> None:
    """By its values, not only its keys."""
    state = _three().state

    assert state == decode(encode(state), "key")


def test_t14_without_unclean_only_a_member_comes_back_as_master() -> None:
    """No broker, then not 2, which was never in sync, then 1 in epoch 3."""
    brokers = Brokers()
    for number in (1, 2, 3):
        brokers.join(number)
    brokers.elect(1)
    last_heartbeats = dict(brokers.last_heartbeats)
    brokers.die(1, 2, 3)
    brokers.ask(SCAN)
    assert (None, 2) == (brokers.state.master, brokers.state.epoch)
    assert {1} == ids_of(brokers.state.agreed.members)

    brokers.last_heartbeats = {2: last_heartbeats[2]}
    assert brokers.code(_by(2)) is ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    brokers.last_heartbeats = last_heartbeats
    assert _master_of(brokers, _by(1)) == 1
    assert brokers.state.epoch == 3


def test_t15_with_unclean_another_is_elected() -> None:
    """And the set is that one alone."""
    brokers = Brokers()
    for number in (1, 2, 3):
        brokers.join(number)
    brokers.elect(1)
    brokers.die(1)
    brokers.is_unclean_allowed = True
    other = _master_of(brokers, SCAN)

    assert other in {2, 3}
    assert {other} == ids_of(brokers.state.agreed.members)
    assert brokers.state.epoch == 2


def test_t16_another_controller_answers_the_same() -> None:
    """All it needs is the record."""
    brokers = _three()
    state = decode(encode(brokers.state), "key")
    successor = Brokers(state)
    successor.last_heartbeats = brokers.last_heartbeats

    assert replica_info(brokers.state) == replica_info(successor.state)
    assert brokers.do(SCAN, Election) == successor.do(SCAN, Election)


def test_t17_the_second_broker_gets_the_master_and_takes_over_later() -> None:
    """Once the master's heartbeats have ended."""
    brokers = Brokers()
    brokers.join(1)
    brokers.join(2)
    assert _master_of(brokers, _by(1)) == 1
    told = brokers.do(_by(2), Election)
    assert told.code is ResponseCode.CONTROLLER_MASTER_STILL_EXIST
    assert told.leadership is not None
    assert (1, "host:1", 1) == (
        told.leadership.master.broker_id,
        told.leadership.address,
        told.leadership.epoch,
    )

    brokers.admit(Member(2))
    brokers.die(1)
    assert _master_of(brokers, SCAN) == 2


def test_t57_the_old_master_comes_back_as_a_slave() -> None:
    """It registers, and gets the new master of epoch 2."""
    brokers = _three()
    brokers.die(1)
    new = _master_of(brokers, SCAN)
    told = brokers.do(Register(1, "host:1"), RegistrationReply)

    assert told.leadership is not None
    assert (new, 2) == (told.leadership.master.broker_id, told.leadership.epoch)


def test_t58_another_address_is_the_same_broker() -> None:
    """It keeps its id, and is elected again: in a new epoch (RMQ-R152)."""
    brokers = Brokers()
    brokers.join(1)
    brokers.elect(1)
    brokers.die(1)
    brokers.do(Register(1, "host:99"), RegistrationReply)
    brokers.last_heartbeats |= alive(1)
    assert _master_of(brokers, _by(1)) == 1

    info = replica_info(brokers.state).leadership
    assert info is not None
    assert ("host:99", 3) == (info.address, info.epoch)


def test_a_set_change_is_checked_in_rocketmqs_order() -> None:
    """The recorded scenario: each refusal by its code, then the set of version 2."""
    brokers = Brokers()
    brokers.join(1)
    brokers.join(2)
    one, two, five = Member(1), Member(2), Member(5)
    brokers.elect(1)

    def asked(master: Member, epoch: int, version: int, *members: Member) -> AlterSet:
        return AlterSet(master, epoch, version, frozenset(members))

    for expected, command in (
        (ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, asked(one, 1, 1, one)),
        (ResponseCode.CONTROLLER_INVALID_MASTER, asked(two, 9, 9, one, two)),
        (ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH, asked(one, 9, 9, one, two)),
        (
            ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
            asked(one, 1, 9, one, two),
        ),
        (ResponseCode.CONTROLLER_INVALID_REPLICAS, asked(one, 1, 1, one, five)),
        (ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, asked(one, 1, 1, two)),
    ):
        assert brokers.code(command) is expected
    brokers.die(2)
    assert (
        brokers.code(asked(one, 1, 1, one, two))
        is ResponseCode.CONTROLLER_BROKER_NOT_ALIVE
    )
    brokers.register(2)
    brokers.ask(asked(one, 1, 1, one, two))
    assert brokers.state.agreed.set_epoch == 2
