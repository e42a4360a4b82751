"""
The requests of the control socket, over real nodes and a real controller.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lib.controller.controller_server import running
from lib.free_ports import free_port
from lib.hosted_nodes import await_master, holds, hosted_node, made

from pystore.broker.control_requests import ControlRequests
from pystore.broker.node_status import HostedNode
from pystore.errors import (
    ClosedError,
    CorruptError,
    CutError,
    FullError,
    PoisonedError,
    PystoreError,
    StorageError,
    UnavailableError,
)

Json = dict[str, Any]
Ask = Callable[..., Json]


def asking(*nodes: HostedNode, said: list[str] | None = None) -> Ask:
    """
    Returns what sends a request and returns its answer.
    """
    lines = [] if said is None else said
    requests = ControlRequests({one.name: one for one in nodes}, lines.append)

    def ask(**request: object) -> Json:
        found: Json = json.loads(requests.answer(json.dumps(request).encode()))
        assert 1 == found["schemaVersion"]
        return found

    return ask


async def later(ask: Ask, **request: object) -> Json:
    """
    Sends a request in a thread, as the server does.
    """
    return await asyncio.to_thread(lambda: ask(**request))


def messages(*bodies: str) -> list[Json]:
    """
    Messages of the topic ``t``.
    """
    return [{"topic": "t", "body": body} for body in bodies]


def test_an_append_names_the_place_of_each_record(tmp_path: Path) -> None:
    """
    And what was promised and reached; reading gives the same records.
    """

    async def main() -> None:
        async with running() as at, hosted_node(tmp_path, "s", at.address) as one:
            await await_master(one)
            ask = asking(one)
            given = [
                {
                    "topic": "t",
                    "queueId": 3,
                    "body": "ä",
                    "keys": "k",
                    "tags": "x",
                    "properties": {"p": "q"},
                },
                {"topic": "u", "bodyBase64": base64.b64encode(b"\xff\x00").decode()},
                {"topic": "t", "queueId": 3},
            ]
            done = await later(ask, request="append", messages=given)
            assert ("all", "all", "reached") == (
                done["ack"],
                done["promised"],
                done["outcome"],
            )
            assert [1] == done["receivedBy"]
            assert [0, 0, 1] == done["queueOffsets"]
            assert 1 == done["masterEpoch"]
            assert (3, 0) == (done["records"], done["offset"])
            read = await later(ask, request="read", offset=0)
            assert done["offsets"] == [row["offset"] for row in read["records"]]
            assert done["endOffset"] == read["nextOffset"] == read["confirmOffset"]
            first, second, third = read["records"]
            assert ("ä", "k", "q") == (
                first["body"],
                first["keys"],
                first["properties"]["p"],
            )
            assert "/wA=" == second["bodyBase64"]
            assert "" == third["body"]
            queue = await later(
                ask, request="read", topic="t", queueId=3, queueOffset=1, bodies=False
            )
            assert 2 == queue["nextQueueOffset"]
            assert [third["offset"]] == [row["offset"] for row in queue["records"]]
            assert "body" not in queue["records"][0]

    asyncio.run(main())


BAD: list[tuple[Json, str, str]] = [
    ({}, "bad-request", "None is no request: expected status, append, read, mend"),
    ({"request": "cut"}, "bad-request", "'cut' is no request"),
    ({"request": "status", "node": "x"}, "unknown-node", "no node 'x': expected s"),
    ({"request": "status", "node": 1}, "bad-request", "node is not of type str"),
    ({"request": "append"}, "bad-request", "messages is not a list"),
    ({"request": "append", "messages": []}, "bad-request", "there is none"),
    ({"request": "append", "messages": [1]}, "bad-request", "message is not an object"),
    ({"request": "append", "messages": [{}]}, "bad-request", "topic is missing"),
    (
        {"request": "append", "ack": "some"},
        "bad-request",
        "one of leader, leader-synced",
    ),
    ({"request": "append", "timeoutMs": 0}, "bad-request", "timeoutMs: expected 1 to"),
    ({"request": "append", "timeoutMs": True}, "bad-request", "not of type int"),
    (
        {"request": "read", "maxBytes": 1 << 30},
        "bad-request",
        "maxBytes: expected 1 to",
    ),
    ({"request": "read", "offset": "0"}, "bad-request", "offset is not of type int"),
    ({"request": "read", "offset": -1}, "out-of-range", "offset -1 is not within 0"),
    ({"request": "read", "offset": 1 << 62}, "out-of-range", "is not within 0 and"),
    ({"request": "read", "topic": "x"}, "out-of-range", "no such queue"),
    ({"request": "rates", "repairLatencyMs": -1}, "bad-request", "expected 0 to"),
    ({"request": "rates", "repairLatencyMs": "1"}, "bad-request", "not of type int"),
]

BAD_MESSAGES: list[tuple[Json, str]] = [
    ({"topic": "t", "body": 1}, "body is not of type str"),
    ({"topic": "t", "body": "\ud800"}, "body: not Unicode"),
    ({"topic": "t", "bodyBase64": "?"}, "not Base64"),
    ({"topic": "t", "properties": {"a": 1}}, "properties: expected texts"),
    ({"topic": "t", "queueId": -1}, "queue"),
    ({"topic": ""}, "topic"),
    ({"topic": "t", "body": "x" * 1_100_000}, "segment"),
]


def test_a_bad_request_is_answered_with_its_code(tmp_path: Path) -> None:
    """
    Nothing is appended, and the next request is answered.
    """

    async def main() -> None:
        said: list[str] = []
        async with running() as at, hosted_node(tmp_path, "s", at.address) as one:
            await await_master(one)
            ask = asking(one, said=said)
            for request, code, text in BAD:
                found = (await later(ask, **request))["error"]
                assert (code, True) == (found["code"], text in found["text"]), found
            for given, text in BAD_MESSAGES:
                request = {"request": "append", "messages": [*messages("a"), given]}
                found = (await later(ask, **request))["error"]
                assert ("bad-request", True) == (found["code"], text in found["text"])
            assert 0 == (await later(ask, request="status"))["nodes"][0]["endOffset"]
        assert [] == said

    asyncio.run(main())


def test_a_content_that_is_no_json_is_a_bad_request() -> None:
    """
    The frame was whole, so the connection goes on.
    """
    found = json.loads(ControlRequests({}, print).answer(b"{"))

    assert "bad-request" == found["error"]["code"]


def test_a_slave_names_the_master_and_reads_what_is_confirmed(tmp_path: Path) -> None:
    """
    A program appends there instead.
    """

    async def main() -> None:
        async with (
            running() as at,
            hosted_node(tmp_path, "1", at.address) as one,
            hosted_node(tmp_path, "2", at.address) as two,
        ):
            master, (slave,) = await await_master(one, two)
            ask = asking(one, two)
            on = {"request": "append", "messages": messages("a")}
            assert "unknown-node" == (await later(ask, **on))["error"]["code"]
            refused = await later(ask, node=slave.name, **on)
            assert "not-master" == refused["error"]["code"]
            now = master.status()
            assert now["brokerId"] == refused["masterId"]
            assert now["address"] == refused["masterAddress"]
            assert now["masterEpoch"] == refused["masterEpoch"]
            done = await later(ask, node=master.name, **on)
            assert [1, 2] == done["receivedBy"]
            await holds(lambda: slave.status()["confirmOffset"] == done["endOffset"])
            for each in (master, slave):
                read = await later(ask, request="read", node=each.name)
                assert ["a"] == [row["body"] for row in read["records"]]

    asyncio.run(main())


def test_too_few_replicas_are_unavailable(tmp_path: Path) -> None:
    """
    Nothing is appended.
    """

    async def main() -> None:
        async with (
            running() as at,
            hosted_node(tmp_path, "1", at.address, minInSyncReplicas=2) as one,
        ):
            await await_master(one)
            ask = asking(one)
            found = await later(ask, request="append", messages=messages("a"))
            assert "unavailable" == found["error"]["code"]
            assert 0 == one.status()["endOffset"]

    asyncio.run(main())


def test_a_node_that_is_not_registered_takes_and_gives_nothing(tmp_path: Path) -> None:
    """
    The reason is in the answer: no controller, or why the node has failed.
    """
    hosted = made(tmp_path, "s", f"127.0.0.1:{free_port()}")
    ask = asking(hosted)
    for request in ("append", "read"):
        found = ask(request=request, messages=messages("a"))["error"]
        assert ("not-registered", True) == (
            found["code"],
            "no controller has given it" in found["text"],
        )
    hosted.failure = "its disk is gone"
    for request in ("append", "read"):
        found = ask(request=request, messages=messages("a"))["error"]
        assert "s: its disk is gone" == found["text"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FullError("e"), "full"),
        (PoisonedError("e"), "poisoned"),
        (StorageError("e"), "storage"),
        (CorruptError("e"), "corrupt"),
        (CutError("e"), "cut"),
        (ClosedError("e"), "closed"),
        (UnavailableError("e"), "unavailable"),
        (PystoreError("e"), "internal"),
        (ZeroDivisionError("e"), "internal"),
    ],
)
def test_each_error_has_a_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    """
    A defect is answered, too, and said to the operator.
    """
    said: list[str] = []
    hosted = made(tmp_path, "s", f"127.0.0.1:{free_port()}")

    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(HostedNode, "status", fail)
    found = asking(hosted, said=said)(request="status")["error"]

    assert code == found["code"]
    assert (not isinstance(error, PystoreError)) == bool(said)
