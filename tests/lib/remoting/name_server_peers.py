"""
Registrations of brokers at a name server, and its answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.json_body import parse_body


def topic(queues: int = 4, perm: int = 6) -> dict[str, object]:
    """
    A topic as a broker of RocketMQ 5.3 registers it.
    """
    return {
        "attributes": {},
        "order": False,
        "perm": perm,
        "readQueueNums": queues,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "writeQueueNums": queues,
    }


def topics(
    table: Mapping[str, dict[str, object]] | None = None,
    counter: int = 1,
    epoch: int = 0,
    **others: object,
) -> bytes:
    """
    The body of a registration; two topics, if nothing else is said.
    """
    table = {"T1": topic(), "T2": topic()} if table is None else table
    wrapper = {
        "dataVersion": {"counter": counter, "stateVersion": epoch, "timestamp": 1000},
        "topicConfigTable": {
            name: one | {"topicName": name} for name, one in table.items()
        },
    }
    body = {"filterServerList": [], "topicConfigSerializeWrapper": wrapper | others}
    return json.dumps(body).encode()


def registration(
    address: str, broker_id: int = 0, body: bytes | None = None, **fields: object
) -> RemotingCommand:
    """
    A broker of the set ``s`` registers.
    """
    known: dict[str, object] = {
        "brokerName": "s",
        "brokerAddr": f"{address}:1",
        "clusterName": "C",
        "haServerAddr": f"{address}:2",
        "brokerId": broker_id,
    }
    return request(
        RequestCode.REGISTER_BROKER,
        topics() if body is None else body,
        **(known | fields),
    )


def request(code: int, body: bytes = b"", **fields: object) -> RemotingCommand:
    """
    A request with its fields as text.
    """
    texts = {name: str(value) for name, value in fields.items()}
    return RemotingCommand(code, ext_fields=texts, body=body, version=479)


def said(answer: RemotingCommand) -> tuple[int, dict[str, str], object]:
    """
    What an answer says to a program: all but its remark and the order of its lists.
    """
    body = _ordered(parse_body(answer.body)) if answer.body else None
    return answer.code, dict(answer.ext_fields), body


def _ordered(value: Any) -> object:
    if isinstance(value, dict):
        return {name: _ordered(one) for name, one in value.items()}
    if isinstance(value, list):
        return sorted(map(_ordered, value), key=json.dumps)
    return value
