"""
The client of a control socket: what it sends, and what ends a call.

The hosts are sockets that answer as the test says.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pystore.broker.control_client import ControlClient
from pystore.broker.control_protocol import (
    HEAD_BYTES,
    ControlCode,
    ControlError,
    encode_answer,
    encode_frame,
)
from pystore.errors import PystoreError, RemoteViolation, StorageError

Json = dict[str, Any]


@contextmanager
def host(
    folder: Path, answers: Sequence[Json | bytes]
) -> Iterator[tuple[Path, list[Json]]]:
    """
    A host that gives these answers, then closes. Bytes are sent as they are.
    """
    path, requests = folder / "s", list[Json]()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            one, _ = listener.accept()
            with one:
                for answer in answers:
                    size = int.from_bytes(one.recv(HEAD_BYTES, socket.MSG_WAITALL))
                    requests.append(json.loads(one.recv(size, socket.MSG_WAITALL)))
                    if not isinstance(answer, bytes):
                        answer = encode_frame(encode_answer(answer))  # noqa: PLW2901
                    one.sendall(answer)

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            yield path, requests
        finally:
            serving.join()


def test_requests_name_the_node_and_encode_bodies(tmp_path: Path) -> None:
    """
    A body is text if it is UTF-8, else Base64.
    """
    answers: list[Json | bytes] = [{"nodes": [{"node": "n"}]}, {"records": 2}, {}]
    with host(tmp_path, answers) as (path, sent), ControlClient(path, "n") as client:
        assert [{"node": "n"}] == client.status()
        done = client.append("t", [b"a", b"\xff"], queue_id=2, keys="k", tags="x")
        assert 2 == done["records"]
        client.read(7, bodies=False)

    shared = {"topic": "t", "queueId": 2, "keys": "k", "tags": "x"}
    assert [
        {"node": "n", "request": "status"},
        {
            "node": "n",
            "request": "append",
            "ack": "all",
            "timeoutMs": 3000,
            "messages": [{**shared, "body": "a"}, {**shared, "bodyBase64": "/w=="}],
        },
        {"node": "n", "request": "read", "offset": 7, "bodies": False},
    ] == sent


def test_each_record_may_have_keys_of_its_own(tmp_path: Path) -> None:
    """
    As many as there are bodies; empty ones are left out.
    """
    with host(tmp_path, [{}]) as (path, sent), ControlClient(path) as client:
        client.append("t", [b"a", b"b", b"c"], keys=["1", "", "3"])
        with pytest.raises(ValueError, match="zip"):
            client.append("t", [b"a", b"b"], keys=["1"])

    found = [message.get("keys") for message in sent[0]["messages"]]
    assert ["1", None, "3"] == found


@pytest.mark.parametrize(
    ("more", "name", "key"),
    [({}, "nextOffset", "offset"), ({"topic": "t"}, "nextQueueOffset", "queueOffset")],
)
def test_records_are_read_part_by_part(
    tmp_path: Path, more: dict[str, Any], name: str, key: str
) -> None:
    """
    Until there are no more.
    """
    rows: list[Json] = [{"offset": number} for number in range(3)]
    answers: list[Json | bytes] = [
        {"records": rows[:2], name: 20},
        {"records": rows[2:], name: 30},
        {"records": [], name: 30},
    ]
    with host(tmp_path, answers) as (path, sent), ControlClient(path) as client:
        assert rows == list(client.records(**more))

    assert [None, 20, 30] == [one.get(key) for one in sent]


def test_a_refusal_is_an_error_with_its_code_and_answer(tmp_path: Path) -> None:
    """
    The text is that of the host.
    """
    refused = {"masterId": 2, "error": {"code": "not-master", "text": "go to 2"}}
    with (
        host(tmp_path, [refused]) as (path, _),
        ControlClient(path) as client,
        pytest.raises(ControlError, match=r"^go to 2$") as caught,
    ):
        client.status()

    assert ControlCode.NOT_MASTER is caught.value.code
    assert 2 == caught.value.answer["masterId"]


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (b"", StorageError, "it closed the connection; the request may have been"),
        (b"\x00\x00", StorageError, "it closed the connection"),
        (b"\xff" * 8, RemoteViolation, "a frame of 4294967295 bytes"),
        (encode_frame(b"x"), RemoteViolation, "not JSON"),
        (encode_frame(b'{"error": 1}'), RemoteViolation, "with the code None"),
        ({"error": {"code": "new"}}, RemoteViolation, "with the code 'new'"),
    ],
)
def test_an_answer_of_another_kind_is_an_error(
    tmp_path: Path, answer: Json | bytes, kind: type[PystoreError], reason: str
) -> None:
    """
    Whether the request was carried out is not known then.
    """
    with (
        host(tmp_path, [answer]) as (path, _),
        ControlClient(path) as client,
        pytest.raises(kind, match=reason),
    ):
        client.status()


def test_a_silent_host_is_left_after_the_time_limit(tmp_path: Path) -> None:
    """
    The line says so.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        with (
            ControlClient(tmp_path / "s", timeout_s=0.05) as client,
            pytest.raises(StorageError, match="no answer of the broker: timed out"),
        ):
            client.status()


def _nothing(path: Path) -> None:
    assert not path.exists()


def _dead(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@pytest.mark.parametrize(
    ("make", "name", "reason"),
    [
        (_nothing, "s", "No such file"),
        (_dead, "s", "Connection refused"),
        (_nothing, "x" * 200, "AF_UNIX path too long"),
    ],
)
def test_without_a_host_the_error_names_the_path(
    tmp_path: Path, make: Callable[[Path], None], name: str, reason: str
) -> None:
    """
    And the reason of the system.
    """
    make(tmp_path / name)
    with pytest.raises(
        StorageError, match=f"{name}: no broker answers there: {reason}"
    ):
        ControlClient(tmp_path / name)
