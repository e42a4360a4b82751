"""
A broker's calls are RocketMQ's frames, and every answer becomes a value.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.oracle.golden_remoting import FRAMES, as_java_saw_it

from pystore.controller.model.commands import AlterSet, Recovery
from pystore.controller.model.replica import LogStanding
from pystore.controller.model.replies import Done, MasterRecord, NextBrokerId
from pystore.controller.protocol.calls import (
    AlterSyncStateSet,
    ApplyBrokerId,
    Call,
    CallRefused,
    CallUnanswered,
    ElectMaster,
    GetMetadata,
    GetNextBrokerId,
    GetReplicaInfo,
    HeartbeatAnswer,
    MasterInfo,
    Metadata,
    RegisterBroker,
    SendHeartbeat,
)
from pystore.controller.protocol.client_codec import (
    answer_of,
    command_of,
    master_info_of,
)
from pystore.controller.protocol.extensions import (
    HeartbeatExtension,
    LeaseGrant,
    heartbeat_extension_of,
    lease_fields,
    recovery_of,
    standing_fields,
)
from pystore.controller.protocol.set_extensions import (
    agreed_fields,
    alter_set_of,
    leadership_fields,
    learners_fields,
    refused_ids_fields,
)
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.controller_bodies import ElectMasterBody, SyncStateSet
from pystore.remoting.controller_headers import NotifyRoleChanged
from pystore.remoting.fields import MissingField, encode_fields
from pystore.replicaset import AgreedSet, Incarnation, Member

START = Incarnation(7, bytes(range(16)))
ME, JAVA = Member(1, START), Member(2)
CHANGE = AlterSet(ME, 5, 9, frozenset({ME, JAVA}))

# By the code of the request: the call, from the fields of RocketMQ's header objects.
CALLS: dict[int, Callable[[dict[str, Any], Any], Call]] = {
    904: lambda f, _: SendHeartbeat(
        f["clusterName"],
        f["brokerName"],
        f["brokerId"],
        f["brokerAddr"],
        f["epoch"],
        f["maxOffset"],
        f["confirmOffset"],
        f["heartbeatTimeoutMills"],
        f["electionPriority"],
    ),
    1001: lambda f, body: AlterSyncStateSet(
        f["brokerName"],
        AlterSet(
            Member(f["masterBrokerId"]),
            f["masterEpoch"],
            body["syncStateSetEpoch"],
            frozenset(map(Member, body["syncStateSet"])),
        ),
    ),
    1002: lambda f, _: ElectMaster(
        f["clusterName"], f["brokerName"], f["brokerId"], f["designateElect"]
    ),
    1003: lambda f, _: RegisterBroker(
        f["clusterName"], f["brokerName"], f["brokerId"], f["brokerAddress"]
    ),
    1004: lambda f, _: GetReplicaInfo(f["brokerName"]),
    1005: lambda *_: GetMetadata(),
    1012: lambda f, _: GetNextBrokerId(f["clusterName"], f["brokerName"]),
    1013: lambda f, _: ApplyBrokerId(
        f["clusterName"],
        f["brokerName"],
        f["appliedBrokerId"],
        f["registerCheckCode"],
    ),
}
WHOLE = [
    line
    for line in FRAMES
    if line["kind"] == "request"
    and line["command"] in CALLS
    and None not in (line["headerFields"] or {}).values()
    and (line["command"] != 1001 or line["body"] is not None)
]


@pytest.mark.parametrize("code", sorted(CALLS))
def test_a_call_is_the_frame_of_a_java_broker(code: int) -> None:
    """Golden ``remoting``: code, fields and body say the same, in whatever order."""
    lines = [line for line in WHOLE if line["command"] == code]

    assert len(lines) >= 2
    for line in lines:
        fields = line["headerFields"] or {}
        body = json.loads(line["body"]) if line["body"] else None
        ours = command_of(CALLS[code](fields, body), fields.get("invokeTime", 0))
        java = as_java_saw_it(line["decoded"])
        assert (java.code, _told(java)) == (ours.code, _told(ours))
        assert body == (json.loads(ours.body) if ours.body else None)


def _told(command: RemotingCommand) -> dict[str, str]:
    """Returns fields without empty text, which Java's binary headers do not have."""
    return {name: text for name, text in command.ext_fields.items() if text}


def test_the_extensions_are_sent_beside_rocketmqs_fields() -> None:
    """The server reads it from the same frame."""
    found, extension = Recovery(START, "boot"), HeartbeatExtension(START, "boot", 4711)
    register = command_of(RegisterBroker("c", "b", 1, "a:1", found), 0)
    beat = command_of(SendHeartbeat("c", "b", 1, "a:1", extension=extension), 0)
    alter = command_of(AlterSyncStateSet("b", CHANGE), 0)

    assert found == recovery_of(register.ext_fields)
    assert extension == heartbeat_extension_of(beat.ext_fields)
    body = SyncStateSet.decode(alter.body)
    assert CHANGE == (alter_set_of(alter.ext_fields, 1, 5, body.broker_ids, body.epoch))


# -- answers -----------------------------------------------------------------

AGREED = AgreedSet(frozenset({ME, JAVA}), 10, frozenset({Member(3, START)}))
SET_BODY = SyncStateSet(frozenset({1, 2}), 10).encode()
LEAD = leadership_fields(MasterRecord(ME, "a:1", 5, waits_for_lease=True))
MASTER = {"masterBrokerId": "1", "masterAddress": "a:1", "masterEpoch": "5"}
SET_EPOCH = {"syncStateSetEpoch": "10"}
SHIP = MasterInfo(ME, "a:1", 5, AGREED, waits_for_lease=True)
ELECTED = ElectMasterBody(frozenset({1, 2})).encode()
IDS = frozenset({2, 3})
LEARN = learners_fields(IDS)


def _said(
    fields: dict[str, str] | None = None, body: bytes = b"", code: int = 0
) -> RemotingCommand:
    return RemotingCommand(code, ext_fields=fields or {}, body=body, remark="no\nway")


@pytest.mark.parametrize(
    ("request_", "said", "answer"),
    [
        (
            GetMetadata(),
            _said({"isLeader": "true", "controllerLeaderAddress": "a:1"}),
            Metadata(is_leader=True, leader_address="a:1"),
        ),
        (GetMetadata(), _said(), Metadata(is_leader=False)),
        (GetNextBrokerId("c", "b"), _said({"nextBrokerId": "3"}), NextBrokerId(3)),
        (ApplyBrokerId("c", "b", 1, "x"), _said(), Done()),
        (
            RegisterBroker("c", "b", 1, "a:1"),
            _said(
                MASTER
                | LEAD
                | agreed_fields(AGREED)
                | standing_fields(LogStanding.RESTARTED),
                SET_BODY,
            ),
            MasterInfo(
                ME,
                "a:1",
                5,
                AGREED,
                waits_for_lease=True,
                standing=LogStanding.RESTARTED,
            ),
        ),
        (
            RegisterBroker("c", "b", 1, "a:1"),
            _said({}, SET_BODY),
            MasterInfo(agreed=AgreedSet(frozenset({Member(1), JAVA}), 10)),
        ),
        (
            ElectMaster("c", "b"),
            _said(MASTER | SET_EPOCH | LEAD | agreed_fields(AGREED), ELECTED),
            MasterInfo(ME, "a:1", 5, AGREED, is_new=True, waits_for_lease=True),
        ),
        (
            ElectMaster("c", "b"),
            _said(MASTER | SET_EPOCH | LEAD | agreed_fields(AGREED), ELECTED, 2011),
            SHIP,
        ),
        (
            GetReplicaInfo("b"),
            _said(MASTER | LEAD | agreed_fields(AGREED), SET_BODY),
            SHIP,
        ),
        (
            GetReplicaInfo("b"),
            _said(MASTER | LEAD | agreed_fields(AGREED) | LEARN, SET_BODY),
            replace(SHIP, learners=IDS),
        ),
        (
            GetReplicaInfo("b"),
            _said({"masterEpoch": "6"} | agreed_fields(AGREED) | LEARN, SET_BODY),
            MasterInfo(None, "", 6, AGREED, learners=IDS),
        ),
        (
            AlterSyncStateSet("b", CHANGE),
            _said(agreed_fields(AGREED), SET_BODY),
            AGREED,
        ),
        (
            SendHeartbeat("c", "b", 1, "a:1"),
            _said(lease_fields(LeaseGrant(10_000, 5))),
            HeartbeatAnswer(LeaseGrant(10_000, 5)),
        ),
        (SendHeartbeat("c", "b", 1, "a:1"), _said(), HeartbeatAnswer(None)),
    ],
)
def test_an_answer_is_a_value(
    request_: Call, said: RemotingCommand, answer: object
) -> None:
    """Of a controller of pystore, and of RocketMQ with fewer fields."""
    assert answer == answer_of(request_, said)


def test_a_refusal_names_its_brokers_and_a_stale_master_gets_the_set() -> None:
    """RMQ-R111, RMQ-R112: 2000 and 2001 settle what was asked before and lost."""
    alter = AlterSyncStateSet("b", CHANGE)
    for code in (2000, 2001):
        said = _said(agreed_fields(AGREED), SET_BODY, code)
        assert CallRefused(code, "no\nway", agreed=AGREED) == answer_of(alter, said)
        assert CallRefused(code, "no\nway") == answer_of(alter, _said({}, b"", code))
    said = _said(refused_ids_fields(IDS), b"", 2003)
    assert CallRefused(2003, "no\nway", IDS) == answer_of(alter, said)


@pytest.mark.parametrize("code", [1, 2015])
def test_a_controller_that_could_not_commit_leaves_the_outcome_open(code: int) -> None:
    """RMQ-R28, formats 4.1: a time-out within the controller is not a refusal."""
    answer = answer_of(AlterSyncStateSet("b", CHANGE), _said(code=code))

    reason = f"the controller answered with code {code}: no way"
    assert CallUnanswered(reason, may_be_done=True) == answer


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (GetNextBrokerId("c", "b"), _said()),
        (RegisterBroker("c", "b", 1, "a:1"), _said({}, b"{")),
        (RegisterBroker("c", "b", 1, "a:1"), _said({"pystoreStanding": "?"}, SET_BODY)),
        (ElectMaster("c", "b"), _said(SET_EPOCH, ELECTED)),
        (AlterSyncStateSet("b", CHANGE), _said()),
        (
            AlterSyncStateSet("b", CHANGE),
            _said({"pystoreMembers": "1;3"}, SET_BODY),
        ),
        (AlterSyncStateSet("b", CHANGE), _said(refused_ids_fields(IDS), b"[", 2001)),
    ],
)
def test_a_malformed_answer_leaves_the_outcome_open(
    request_: Call, said: RemotingCommand
) -> None:
    """It may have been done."""
    answer = answer_of(request_, said)

    assert isinstance(answer, CallUnanswered)
    assert answer.may_be_done


EVERY = [
    GetMetadata(),
    GetNextBrokerId("c", "b"),
    ApplyBrokerId("c", "b", 1, "x"),
    RegisterBroker("c", "b", 1, "a:1"),
    ElectMaster("c", "b"),
    GetReplicaInfo("b"),
    AlterSyncStateSet("b", CHANGE),
    SendHeartbeat("c", "b", 1, "a:1"),
]
NAMES = [*MASTER, *SET_EPOCH, *LEAD, *agreed_fields(AGREED), "nextBrokerId"]
MORE = ["pystoreBrokerIds", "pystoreStanding", "pystoreLeaseMs", "isLeader"]
TEXTS = st.sampled_from(["", "1", "-1", "2;3", "1@7-00", START.text, "true", "\0"])
BODIES = [b"", b"{}", b"null", b"[1]", SET_BODY, ELECTED, SET_BODY[:-1], b"\xff"]


@given(
    st.sampled_from(EVERY),
    st.sampled_from([0, 1, 3, 2000, 2001, 2003, 2007, 2011, 2015, -1]),
    st.dictionaries(st.sampled_from(NAMES + MORE), TEXTS),
    st.sampled_from(BODIES),
)
def test_every_answer_has_a_result(
    request_: Call, code: int, fields: dict[str, str], body: bytes
) -> None:
    """Each is an answer of that request, a refusal or unanswered."""
    command = RemotingCommand(code, ext_fields=fields, body=body)

    answer = answer_of(request_, command)

    if code not in (0, 2011):
        assert isinstance(answer, CallRefused | CallUnanswered)


def test_a_notification_names_the_master() -> None:
    """1008 of a controller of ours and of RocketMQ's; one without a set is none."""
    code = RequestCode.NOTIFY_BROKER_ROLE_CHANGED
    fields = encode_fields(NotifyRoleChanged("a:1", 1, 5, 10))
    ours = RemotingCommand(
        code, ext_fields=fields | LEAD | agreed_fields(AGREED), body=SET_BODY
    )
    java = RemotingCommand(code, ext_fields=fields, body=SET_BODY)

    assert SHIP == master_info_of(ours)
    agreed = AgreedSet(frozenset({Member(1), JAVA}), 10)
    assert MasterInfo(Member(1), "a:1", 5, agreed) == master_info_of(java)
    with pytest.raises(MissingField):
        master_info_of(
            RemotingCommand(code, ext_fields={"pystoreMembers": "7"}, body=SET_BODY)
        )
