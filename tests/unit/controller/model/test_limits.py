"""
The limits of what a controller takes from its peers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import fields, is_dataclass

import pytest
from lib.controller.broker_set_driver import Brokers, start
from lib.remoting.headers import HEADERS

from pystore.controller.decide.dispatch import decide
from pystore.controller.model.commands import ApplyId, Clean
from pystore.controller.model.limits import (
    BROKERS_MAX,
    FIELD_CHARS,
    FIELD_CHARS_MAX,
    check_fields,
)
from pystore.controller.model.replies import Applied, Done
from pystore.controller.protocol import extensions, set_extensions
from pystore.controller.protocol.server_codec import COMMANDS
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.controller_bodies import decode_broker_names
from pystore.remoting.fields import MissingField, wire_name

_ANSWERS = {"pystoreMasterIncarnation"}
"""Texts of our own answers."""


def _texts() -> set[str]:
    """
    Returns the names of all texts in requests to a controller.
    """
    # 7120 to 7124 go to brokers, 7126 to hosts.
    hosts = RequestCode.DESCRIBE_HOSTS, RequestCode.FORGET_HOST
    ours = *range(7101, 7120), *hosts
    codes = [RequestCode.BROKER_HEARTBEAT, *range(1001, 1014), *ours]
    kinds = [HEADERS[code].request for code in HEADERS if code in codes]
    for module in (extensions, set_extensions):
        kinds += [
            one
            for name, one in vars(module).items()
            if name.endswith("Header") and is_dataclass(one) and isinstance(one, type)
        ]
    return {
        wire_name(one.name)
        for kind in kinds
        if kind is not None
        for one in fields(kind)
        if "str" in str(one.type)
    } - _ANSWERS


def test_every_text_of_a_request_has_a_limit() -> None:
    """A new field enters the table, and none stays that no request has."""
    told = {"masterAddress"}  # by the controller, with 1008

    assert set() == _texts() - told ^ FIELD_CHARS.keys()


@pytest.mark.parametrize("name", FIELD_CHARS)
def test_a_text_is_refused_above_its_limit_only(name: str) -> None:
    """With one code and one line, which names the field."""
    limit = FIELD_CHARS[name]
    check_fields({name: "x" * limit, "unknown": "x" * 10_000})
    with pytest.raises(MissingField, match=f"{name} has {limit + 1} char") as refusal:
        check_fields({name: "x" * (limit + 1)})

    assert ResponseCode.CONTROLLER_INVALID_REQUEST == refusal.value.code
    assert limit >= FIELD_CHARS_MAX


def _decided(code: RequestCode, added: dict[str, str], body: bytes = b"") -> None:
    request = RemotingCommand(
        code, ext_fields={"clusterName": "c", "brokerName": "b"} | added, body=body
    )
    brokers = Brokers()
    for number in (1, 2, 3):
        brokers.join(number, start(1))
    brokers.elect(1)
    decide(brokers.state, COMMANDS[code](request).command, brokers.facts)


def _ids(count: int) -> list[int]:
    return list(range(1, count + 1))


def _altered(count: int, name: str) -> None:
    own = f"1@{start(1).incarnation.text}"
    members = f"{own};" + ";".join(
        f"{one}@{start(one).incarnation.text}" for one in _ids(count)[1:]
    )
    fields = {
        "masterBrokerId": "1",
        "masterEpoch": "1",
        "pystoreIncarnation": start(1).incarnation.text,
        "pystoreMembers": own,
        name: members,
    }
    ids = _ids(count) if name == "pystoreMembers" else [1]
    body = json.dumps({"syncStateSet": ids, "syncStateSetEpoch": 1}).encode()
    _decided(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, fields, body)


def _java_altered(count: int) -> None:
    body = json.dumps({"syncStateSet": _ids(count), "syncStateSetEpoch": 1}).encode()
    fields = {"masterBrokerId": "1", "masterEpoch": "1"}
    _decided(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, fields, body)


def _cleaned(count: int) -> None:
    ids = ";".join(map(str, _ids(count)))
    _decided(RequestCode.CLEAN_BROKER_DATA, {"brokerControllerIdsToClean": ids})


def _listed(count: int) -> None:
    decode_broker_names(json.dumps([f"set-{one}" for one in _ids(count)]).encode())


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda count: _altered(count, "pystoreMembers"), id="members"),
        pytest.param(lambda count: _altered(count, "pystoreCandidates"), id="candid."),
        pytest.param(_java_altered, id="ids of a Java master"),
        pytest.param(_cleaned, id="ids to clean"),
        pytest.param(_listed, id="names of sets"),
    ],
)
def test_twice_as_long_a_list_takes_less_than_three_times_as_long(
    work: Callable[[int], None],
) -> None:
    """
    Else a request of some KiB keeps heartbeats waiting; also above the limits. A cost
    that grows with the square is four times as high at each try.
    """

    def cost_s(count: int) -> float:
        times = []
        for _ in range(5):
            began = time.thread_time()
            work(count)
            times.append(time.thread_time() - began)
        return min(times)

    work(8)
    assert any(cost_s(16_000) < 3 * cost_s(8_000) for _ in range(10))


def test_a_set_gets_no_more_ids_than_it_may_have_brokers() -> None:
    """Dead ones count, too; cleaning makes room, and ids go on."""
    brokers = Brokers()
    for number in range(1, BROKERS_MAX + 1):
        brokers.join(number)
    refusal = brokers.refused(ApplyId(BROKERS_MAX + 1, "host:65;1"))
    assert ResponseCode.CONTROLLER_INVALID_REQUEST == refusal.code
    assert "64 brokers" in refusal.reason
    brokers.die(1, 2)
    brokers.do(Clean(frozenset({1})), Done)
    brokers.do(ApplyId(BROKERS_MAX + 1, "host:65;1"), Applied)
    # A broker that has an id keeps it.
    brokers.do(ApplyId(5, "host:5;1"), Applied)
