"""
The writer finds the master, and keeps only what was acknowledged.

The hosts are sockets that answer as the test says.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lib.broker_process import until
from lib.demo_library import make_library

from pystore.broker.control_protocol import (
    HEAD_BYTES,
    ControlCode,
    ControlError,
    encode_answer,
    encode_frame,
    refusal,
)
from pystore.demo.ack_channel import ACK_DTYPE
from pystore.demo.corpus import read_corpus
from pystore.demo.stream_writer import StreamedAck, StreamWriter, ack_array
from pystore.demo.workload import AppendJobs

Answer = Callable[[dict[str, Any]], bytes | None]


@pytest.fixture
def jobs(tmp_path: Path) -> AppendJobs:
    """
    Some jobs.
    """
    library = make_library(tmp_path / "library", files=2, lines=10)
    return AppendJobs(read_corpus(library), lines_max=5)


@contextmanager
def host(path: Path, answer: Answer) -> Iterator[Path]:
    """
    A host that answers each request; where that is nothing, it hangs up.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            while True:
                one, _ = listener.accept()
                with one:
                    while head := one.recv(HEAD_BYTES, socket.MSG_WAITALL):
                        size = int.from_bytes(head)
                        content = one.recv(size, socket.MSG_WAITALL)
                        if content == b"{}":
                            return
                        found = answer(json.loads(content))
                        if found is None:
                            break
                        one.sendall(encode_frame(found))

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            yield path
        finally:
            with socket.socket(socket.AF_UNIX) as last:
                last.connect(str(path))
                last.sendall(encode_frame(b"{}"))
            serving.join()


def acked(broker: int, request: dict[str, Any], end: int = 100) -> bytes:
    """
    The answer of a master.
    """
    count = len(request["messages"])
    where = {"offset": end - count, "endOffset": end, "records": count}
    return encode_answer({"brokerId": broker, **where})


def refused(code: ControlCode, **more: object) -> bytes:
    """
    A refusal.
    """
    return refusal(ControlError(code, "no", more))


def run(
    tmp_path: Path, jobs: AppendJobs, answers: dict[int, Answer], count: int
) -> tuple[StreamWriter, list[tuple[int, int]]]:
    """
    Lets a writer run until it has so many acks.
    """
    told: list[tuple[int, int]] = []
    with ExitStack() as stack:
        sockets = {
            broker: stack.enter_context(host(tmp_path / str(broker), answer))
            for broker, answer in answers.items()
        }
        with StreamWriter(sockets, jobs, lambda *one: told.append(one)) as writer:
            until(lambda: len(told) >= count)
    return writer, told


def test_the_jobs_are_appended_in_order_and_again(
    tmp_path: Path, jobs: AppendJobs
) -> None:
    """
    Each record with its key, its topic and its queue, and the ack `all`.
    """
    sent: list[dict[str, Any]] = []

    def answer(request: dict[str, Any]) -> bytes:
        sent.append(request)
        return acked(1, request)

    writer, told = run(tmp_path, jobs, {1: answer}, 6)

    assert 4 == jobs.count
    assert list(range(len(writer.acks))) == [one.job for one in writer.acks]
    assert [(1, one.count) for one in writer.acks] == told
    assert {"all"} == {one["ack"] for one in sent}
    assert sent[0]["messages"] == sent[4]["messages"]
    file = jobs.piece(1).file
    first = sent[1]["messages"][0]
    assert f"{file.name}:6" == first["keys"]
    assert (file.topic, file.queue_id) == (first["topic"], first["queueId"])
    assert 0 == writer.retries


def test_a_slave_names_the_master(tmp_path: Path, jobs: AppendJobs) -> None:
    """
    The writer goes there at once.
    """

    def slave(_: dict[str, Any]) -> bytes:
        return refused(ControlCode.NOT_MASTER, masterId=3)

    def nobody(_: dict[str, Any]) -> bytes:
        raise AssertionError

    answers: dict[int, Answer] = {
        1: slave,
        2: nobody,
        3: lambda request: acked(3, request),
    }
    writer, told = run(tmp_path, jobs, answers, 2)

    assert {3} == {broker for broker, _ in told}
    assert 1 == writer.retries


def test_a_slave_that_knows_no_master_leads_to_the_next_broker(
    tmp_path: Path, jobs: AppendJobs
) -> None:
    """
    So does a broker that hangs up.
    """
    answers: dict[int, Answer] = {
        1: lambda _: refused(ControlCode.NOT_MASTER, masterId=None),
        2: lambda _: None,
        3: lambda request: acked(3, request),
    }
    writer, told = run(tmp_path, jobs, answers, 2)

    assert {3} == {broker for broker, _ in told}
    assert 2 == writer.retries


def test_an_append_without_an_ack_is_made_again(
    tmp_path: Path, jobs: AppendJobs
) -> None:
    """
    At the same master; its records count once.
    """
    asked: list[int] = []

    def answer(request: dict[str, Any]) -> bytes:
        asked.append(len(asked))
        if len(asked) == 2:
            return refused(ControlCode.NOT_REACHED, offset=1, endOffset=9)
        return acked(1, request, 100 * len(asked))

    writer, _ = run(tmp_path, jobs, {1: answer, 2: lambda _: None}, 3)

    assert [0, 1, 2] == [one.job for one in writer.acks][:3]
    assert [100, 300, 400] == [one.end for one in writer.acks][:3]


def test_acks_are_rows_for_the_comparison() -> None:
    """
    Without the broker.
    """
    rows = ack_array([StreamedAck(7, 10, 30, 2, 1), StreamedAck(8, 30, 50, 2, 3)])

    assert np.array([(7, 10, 30, 2), (8, 30, 50, 2)], ACK_DTYPE).tolist() == (
        rows.tolist()
    )
