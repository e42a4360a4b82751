"""
Results of commands as RocketMQ's answers.
"""

from __future__ import annotations

from lib.controller.broker_set_driver import Brokers, start

from pystore.controller.model.commands import (
    AlterSet,
    ApplyId,
    ChangeBroker,
    Clean,
    Command,
    Elect,
    GetNextId,
    Register,
    Trigger,
)
from pystore.controller.model.replies import Done
from pystore.controller.model.state import SetState
from pystore.controller.model.views import leadership_of
from pystore.controller.protocol.server_codec_answers import (
    answer,
    encode_notification,
    replica_info_answer,
    sync_state_answer,
)
from pystore.remoting.codes import ResponseCode
from pystore.remoting.replica_bodies import decode_replicas
from pystore.remoting.reply import Reply
from pystore.replicaset import Member

NAMES = {"clusterName": "cluster", "brokerName": "set"}
LED = {"masterBrokerId": "1", "masterAddress": "host:1", "masterEpoch": "1"}


def said(brokers: Brokers, command: Command) -> Reply:
    """
    Returns the answer to a command.
    """
    decision = brokers.ask(command)
    return answer(command, decision, brokers.state)


def java_set() -> Brokers:
    """
    Two Java brokers, the first of them master.
    """
    brokers = Brokers()
    brokers.join(1)
    brokers.join(2)
    brokers.elect(1)
    return brokers


def test_answers_to_java_are_rocketmqs_field_by_field() -> None:
    """As in formats 4.16, except for the extensions that Java ignores."""
    brokers = Brokers()
    next_id = said(brokers, GetNextId())
    assert NAMES | {"nextBrokerId": "1"} == next_id.ext_fields
    assert NAMES == said(brokers, ApplyId(1, "host:1;1")).ext_fields
    taken = said(brokers, ApplyId(1, "host:9;9"))
    assert (ResponseCode.CONTROLLER_BROKER_ID_INVALID, NAMES) == (
        taken.code,
        rocketmqs(taken),
    )
    brokers.register(1)
    assert b'{"syncStateSet":[],"syncStateSetEpoch":0}' == (
        said(brokers, Register(1, "host:1")).body
    )
    elected = said(brokers, Elect(Trigger.BROKER, 1))
    assert LED | {"syncStateSetEpoch": "1"} == rocketmqs(elected)
    assert (
        b'{"brokerMemberGroup":{"brokerAddrs":{"1":"host:1"},"brokerName":"set",'
        b'"cluster":"cluster"},"syncStateSet":[1]}'
    ) == elected.body
    again = said(brokers, Elect(Trigger.BROKER, 1))
    assert ResponseCode.CONTROLLER_MASTER_STILL_EXIST == again.code
    assert b'{"syncStateSet":[1]}' == again.body
    registered = said(brokers, Register(1, "host:2"))
    assert NAMES == rocketmqs(registered)


def test_an_accepted_set_is_returned_and_a_refusal_names_its_brokers() -> None:
    """RMQ-R111; with a fence the master sees what it missed."""
    brokers = java_set()
    wanted = AlterSet(Member(1), 1, 1, frozenset({Member(1), Member(2)}))
    changed = said(brokers, wanted)
    assert {"newSyncStateSetEpoch": "2"} == rocketmqs(changed)
    assert b'{"syncStateSet":[1,2],"syncStateSetEpoch":2}' == changed.body
    stale = said(brokers, AlterSet(Member(1), 1, 1, frozenset({Member(1)})))
    assert ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH == stale.code
    assert {"newSyncStateSetEpoch": "0"} == rocketmqs(stale)
    assert changed.body == stale.body
    brokers.die(2)
    strange = AlterSet(Member(1), 1, 2, frozenset({Member(1), Member(9)}))
    refused = said(brokers, strange)
    assert ResponseCode.CONTROLLER_INVALID_REPLICAS == refused.code
    assert "9" == refused.ext_fields["pystoreBrokerIds"]


def test_brokers_of_pystore_get_the_incarnation_of_the_master() -> None:
    """1004 and 1008 say the same, and who is a learner."""
    brokers = Brokers()
    brokers.join(1, start(1))
    brokers.join(2, start(1))
    brokers.elect(1)
    brokers.do(ChangeBroker(2, is_learner=True), Done)
    info = replica_info_answer(brokers.state)
    leadership = leadership_of(brokers.state)
    assert leadership is not None
    fields, body = encode_notification(
        leadership, brokers.state.agreed, brokers.state.learners
    )

    assert LED == rocketmqs(info)
    assert LED | {"syncStateSetEpoch": "2"} == rocketmqs(Reply(ext_fields=fields))
    assert info.body == body
    added = {name for name in fields if name.startswith("pystore")}
    assert added == {name for name in info.ext_fields if name.startswith("pystore")}
    assert "pystoreMasterIncarnation" in added
    assert "2" == fields["pystoreLearners"]


def test_who_registers_or_asks_for_an_election_hears_who_is_a_learner() -> None:
    """1002, of a master that stays, and 1003: a slave's next link says it."""
    brokers = Brokers()
    brokers.join(1, start(1))
    brokers.join(2, start(1))
    brokers.elect(1)
    elect = Elect(Trigger.BROKER, 1)
    assert "pystoreLearners" not in said(brokers, elect).ext_fields
    brokers.do(ChangeBroker(2, is_learner=True), Done)
    for command in (elect, Register(2, "host:2", start(1))):
        assert "2" == said(brokers, command).ext_fields["pystoreLearners"]


def test_a_set_that_does_not_exist_is_refused_or_left_out() -> None:
    """2008 for one (RMQ-R247), silence in a list (RMQ-R248)."""
    unknown = replica_info_answer(SetState("c", "b"))

    assert ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST == unknown.code
    assert {} == decode_replicas(sync_state_answer([]).body)
    assert {} == said(Brokers(), Clean()).ext_fields


def test_a_list_of_sets_has_the_live_brokers() -> None:
    """1006 is for people."""
    brokers = java_set()
    brokers.die(2)
    (row,) = decode_replicas(
        sync_state_answer([(brokers.state, brokers.facts)]).body
    ).values()

    assert [(1, True)] == [(one.broker_id, one.is_alive) for one in row.in_sync]
    assert [(2, False)] == [(one.broker_id, one.is_alive) for one in row.not_in_sync]
    assert 1 == row.master_broker_id


def rocketmqs(reply: Reply) -> dict[str, str]:
    """
    Returns the fields that Java reads.
    """
    return {
        name: text
        for name, text in reply.ext_fields.items()
        if not name.startswith("pystore")
    }
