"""
Replays ``tests/golden/controller``: the decisions of RocketMQ's own classes, and ours
on the same state, with the same facts.

RocketMQ knows sets by name alone (RMQ-R37), and neither incarnations nor candidates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from lib.oracle.golden_data import GOLDEN, read_lines
from pystore.controller.decide.dispatch import decide
from pystore.controller.model.apply import apply_all
from pystore.controller.model.commands import (
    AlterSet,
    ApplyId,
    Clean,
    Command,
    Elect,
    GetNextId,
    Register,
    Trigger,
)
from pystore.controller.model.decision import Rejected
from pystore.controller.model.facts import Facts, LastHeartbeat
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.replica import RegisteredBroker
from pystore.controller.model.replies import (
    Election,
    MasterRecord,
    NewSet,
    NextBrokerId,
    RegistrationReply,
)
from pystore.controller.model.state import SetState
from pystore.controller.model.views import replica_info, sync_state
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import AgreedSet, Member, ids_of

__all__ = ["Answer", "Step", "ours", "steps"]

_NUMBERS = re.compile(r"[\d; ]*")

_BY_REQUEST = {1003, 1011, 1013}
"""Where RocketMQ takes the cluster from the request, and not from its tables."""

_ALIVE_IN = "c1"
"""The cluster in whose name the recorded liveness speaks."""


@dataclass(frozen=True)
class Answer:
    """
    What a controller answered, and what its tables of that set were then.

    Attributes:
        code: of the answer.
        fields: those that mean something, by RocketMQ's names.
        table: of the set; empty: it is not known.
    """

    code: int
    fields: dict[str, Any]
    table: dict[str, Any]


@dataclass(frozen=True)
class Step:
    """
    One recorded decision.

    Attributes:
        request: code, extFields, body.
        name: of the set that it is about.
        before: RocketMQ's tables of that set.
        theirs: what RocketMQ made of it.
        facts: as RocketMQ saw them.
        asked_cluster: that the request names.
        place: sequence and step, for messages.
    """

    request: dict[str, Any]
    name: str
    before: dict[str, Any]
    theirs: Answer
    facts: Facts
    asked_cluster: str
    place: str


def steps() -> Iterator[Step]:
    """
    Yields every recorded decision about one set; a question about several is one step
    for each.
    """
    for line in read_lines(GOLDEN / "controller" / "sequences.jsonl.gz"):
        tables: dict[str, Any] = {"replicas": {}, "syncState": {}}
        is_unclean = line["enableElectUncleanMaster"]
        for step in line["steps"]:
            fields = step["request"]["extFields"] or {}
            names = [fields["brokerName"]] if fields else _names(step)
            for name in names:
                before = _table(tables, name)
                named = fields.get("clusterName", "")
                cluster = before.get("clusterName", named)
                if step["request"]["code"] in _BY_REQUEST:
                    cluster = named
                yield Step(
                    request=step["request"],
                    name=name,
                    before=before,
                    theirs=_theirs(step, name),
                    facts=_facts(step, name, cluster, is_unclean=is_unclean),
                    asked_cluster=cluster,
                    place=f"{line['sequence']}/{step['step']}",
                )
            tables = step["stateAfter"]


def ours(step: Step, state: SetState) -> tuple[Answer, SetState]:
    """
    Returns what we make of a recorded request, and the state afterwards.
    """
    code = step.request["code"]
    if code == 1004:
        if not state.is_known:
            return Answer(
                ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, {}, {}
            ), state
        fields = _leading(replica_info(state).leadership)
        fields |= {"masterEpoch": state.epoch, **_set(state.agreed)}
        return Answer(0, fields, table_of(state)), state
    if code == 1011 and not _NUMBERS.fullmatch(_cleaned_ids(step)):
        # It is not a command: the decoder of the request refuses it.
        return Answer(
            ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, {}, table_of(state)
        ), state
    if code == 1006:
        return Answer(0, _view(state, step.facts), table_of(state)), state
    decision = decide(state, _command(step), step.facts)
    if isinstance(decision, Rejected):
        return Answer(decision.code, {}, table_of(state)), state
    after = apply_all(state, decision.events)
    answer = _answer(decision.reply)
    return replace(answer, table=table_of(after)), after


def state_of(step: Step) -> SetState:
    """
    Returns RocketMQ's tables as a state of ours.
    """
    table = step.before
    if not table:
        return SetState(step.asked_cluster, step.name)
    master = table["masterBrokerId"]
    return SetState(
        table["clusterName"],
        step.name,
        next_id=table["nextBrokerId"],
        replicas=tuple(
            RegisteredBroker(broker_id, code, address)
            for broker_id, (address, code) in sorted(table["brokers"].items())
        ),
        is_founded=table["masterEpoch"] > 0,
        master=None if master is None else Member(master),
        epoch=table["masterEpoch"],
        agreed=AgreedSet(
            frozenset(map(Member, table["syncStateSet"])), table["syncStateSetEpoch"]
        ),
    )


def table_of(state: SetState) -> dict[str, Any]:
    """
    Returns a state of ours as RocketMQ's tables.
    """
    if not state.is_known:
        return {}
    return {
        "clusterName": state.cluster,
        "nextBrokerId": state.next_id,
        "brokers": {
            one.broker_id: (one.address, one.check_code) for one in state.replicas
        },
        "masterBrokerId": state.master.broker_id if state.master else None,
        "masterEpoch": state.epoch,
        **_set(state.agreed),
    }


def _set(agreed: AgreedSet) -> dict[str, Any]:
    ids = sorted(ids_of(agreed.members))
    return {"syncStateSet": ids, "syncStateSetEpoch": agreed.set_epoch}


def _leading(leadership: MasterRecord | None) -> dict[str, Any]:
    if leadership is None:
        return {}
    return {
        "masterBrokerId": leadership.master.broker_id,
        "masterAddress": leadership.address,
    }


def _names(step: dict[str, Any]) -> list[str]:
    return list(json.loads(step["request"]["body"] or "[]"))


def _table(tables: dict[str, Any], name: str) -> dict[str, Any]:
    """
    Returns both of RocketMQ's tables of a set as one; what one lacks is empty.
    """
    broker = tables["replicas"].get(name)
    sync = tables["syncState"].get(name)
    if broker is None and sync is None:
        return {}
    known = broker or {"clusterName": sync["clusterName"], "nextBrokerId": 1}
    sync = sync or {
        "masterBrokerId": None,
        "masterEpoch": 0,
        "syncStateSetEpoch": 0,
        "syncStateSet": [],
        "isMissing": True,
    }
    return {
        "clusterName": known["clusterName"],
        "nextBrokerId": known["nextBrokerId"],
        "brokers": {
            int(number): (one["address"], one["registerCheckCode"])
            for number, one in known.get("brokers", {}).items()
        },
        "masterBrokerId": sync["masterBrokerId"],
        "masterEpoch": sync["masterEpoch"],
        "syncStateSet": sorted(sync["syncStateSet"]),
        "syncStateSetEpoch": sync["syncStateSetEpoch"],
        **({"isMissing": True} if "isMissing" in sync or broker is None else {}),
    }


def _facts(step: dict[str, Any], name: str, cluster: str, *, is_unclean: bool) -> Facts:
    alive = step["alive"].get(name, []) if cluster == _ALIVE_IN else []
    live = {one["brokerId"]: one for one in step["live"] if one["brokerName"] == name}
    last_heartbeats = {
        number: LastHeartbeat(
            position=LogEnd(live[number]["epoch"], live[number]["maxOffset"]),
            priority=live[number]["electionPriority"],
        )
        if number in live
        else LastHeartbeat()
        for number in alive
    }
    return Facts(last_heartbeats, is_unclean_allowed=is_unclean)


def _command(step: Step) -> Command:
    fields = step.request["extFields"]
    match step.request["code"]:
        case 1001:
            body = json.loads(step.request["body"])
            return AlterSet(
                Member(int(fields["masterBrokerId"])),
                int(fields["masterEpoch"]),
                body["syncStateSetEpoch"],
                frozenset(map(Member, body["syncStateSet"])),
            )
        case 1002:
            broker_id = int(fields.get("brokerId", -1))
            return _elect(broker_id, fields["designateElect"] == "true")
        case 1003:
            return Register(int(fields["brokerId"]), fields["brokerAddress"])
        case 1011:
            ids = _cleaned_ids(step).split(";")
            return Clean(
                frozenset(int(one) for one in ids if one.strip()),
                fields["isCleanLivingBroker"] == "true",
            )
        case 1013:
            return ApplyId(int(fields["appliedBrokerId"]), fields["registerCheckCode"])
    return GetNextId()


def _elect(broker_id: int, is_named: bool) -> Elect:
    if broker_id == -1:
        return Elect(Trigger.CONTROLLER)
    return Elect(Trigger.OPERATOR if is_named else Trigger.BROKER, broker_id)


def _cleaned_ids(step: Step) -> str:
    return step.request["extFields"].get("brokerControllerIdsToClean") or ""


def _answer(reply: object) -> Answer:
    match reply:
        case NextBrokerId():
            return Answer(0, {"nextBrokerId": reply.broker_id}, {})
        case NewSet():
            epoch = {"newSyncStateSetEpoch": reply.agreed.set_epoch}
            return Answer(0, epoch | _set(reply.agreed), {})
        case RegistrationReply():
            return Answer(0, _led(reply.leadership, reply.agreed), {})
        case Election():
            fields = _led(reply.leadership, reply.agreed) if reply.leadership else {}
            if reply.addresses:
                fields["brokerAddrs"] = dict(reply.addresses)
            return Answer(reply.code, fields, {})
    return Answer(0, {}, {})


def _led(leadership: MasterRecord | None, agreed: AgreedSet) -> dict[str, Any]:
    fields = _leading(leadership)
    if leadership is not None:
        fields["masterEpoch"] = leadership.epoch
    return fields | _set(agreed)


def _view(state: SetState, facts: Facts) -> dict[str, Any]:
    if not state.is_known:
        return {}
    view = sync_state(state, facts)
    return {
        **_leading(view.info.leadership),
        "masterEpoch": view.info.epoch,
        "syncStateSetEpoch": view.info.agreed.set_epoch,
        **{
            name: [(one.broker_id, one.address, one.is_alive) for one in some]
            for name, some in (
                ("inSyncReplicas", view.in_sync),
                ("notInSyncReplicas", view.not_in_sync),
            )
        },
    }


def _theirs(step: dict[str, Any], name: str) -> Answer:
    response = step["response"]
    table = _table(step["stateAfter"], name)
    if step["request"]["code"] == 1006:
        shown = (
            json.loads(response["body"])["replicasInfoTable"]
            if response["body"]
            else {}
        )
        return Answer(response["code"], _their_view(shown.get(name)), table)
    fields: dict[str, Any] = {}
    for key, text in (response["extFields"] or {}).items():
        if key not in {"clusterName", "brokerName"}:
            fields[key] = text if key == "masterAddress" else int(text)
    if response["code"] in (0, 2011):
        fields |= _their_body(response["body"])
    elif step["request"]["code"] != 1002:
        fields = {}
    return Answer(response["code"], fields, table)


def _their_body(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    body = json.loads(re.sub(r"([{,])(\d+):", r'\1"\2":', text))
    fields: dict[str, Any] = {"syncStateSet": sorted(body["syncStateSet"])}
    if "syncStateSetEpoch" in body:
        fields["syncStateSetEpoch"] = body["syncStateSetEpoch"]
    group = body.get("brokerMemberGroup")
    if group is not None:
        addresses = group["brokerAddrs"].items()
        fields["brokerAddrs"] = {int(one): address for one, address in addresses}
    return fields


def _their_view(shown: dict[str, Any] | None) -> dict[str, Any]:
    if shown is None:
        return {}
    kept = ("masterBrokerId", "masterAddress", "masterEpoch", "syncStateSetEpoch")
    return {key: shown[key] for key in kept if key in shown} | {
        name: sorted(
            (one["brokerId"], one["brokerAddress"], one["alive"]) for one in shown[name]
        )
        for name in ("inSyncReplicas", "notInSyncReplicas")
    }
