"""
``pystore broker -c`` under ``pystore controller``: processes all, asked over their
sockets. What was acknowledged is there after the master was killed.
"""

from __future__ import annotations

import json
import signal
import socket
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from lib.broker_process import PATIENCE_S, BrokerProcess, node_text, until
from lib.command_line import run, run_process
from lib.controller.controller_process import ControllerProcess

from pystore.broker.control_protocol import ControlCode, ControlError
from pystore.errors import PystoreError

BATCH = 40


def bodies_of(first: int) -> list[bytes]:
    """
    The bodies of one batch.
    """
    return [b"body %d" % number for number in range(first, first + BATCH)]


def append(broker: BrokerProcess, first: int) -> dict[str, Any]:
    """
    Appends one batch with the ack `all`; returns the answer.
    """
    with broker.client() as client:
        return client.append("t", bodies_of(first), ack="all", timeout_ms=20_000)


class Appending:
    """
    A thread that appends batches to one broker, until that refuses or dies.

    Attributes:
        answers: of the acknowledged batches.
    """

    def __init__(self, broker: BrokerProcess) -> None:
        self.answers: list[dict[str, Any]] = []
        self._broker = broker
        self._some = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def await_answers(self, count: int) -> None:
        """
        Waits until so many more batches are acknowledged.
        """
        for _ in range(count):
            assert self._some.acquire(timeout=PATIENCE_S)

    def join(self) -> int:
        """
        Waits for the end; returns the number of the next body.
        """
        self._thread.join()
        return (len(self.answers) + 1) * BATCH

    def _run(self) -> None:
        while True:
            try:
                self.answers.append(append(self._broker, len(self.answers) * BATCH))
            except PystoreError:
                # It was killed: the last batch may be there, or not.
                return
            self._some.release()


def records(broker: BrokerProcess, end: int) -> list[dict[str, Any]]:
    """
    All records of a broker, once it knows them as confirmed.
    """
    until(lambda: broker.status()["confirmOffset"] == end)
    with broker.client() as client:
        return list(client.records())


def test_what_all_acknowledged_outlives_the_master(tmp_path: Path) -> None:
    """
    Three brokers, of which two must have each record. The master is killed, another one
    is elected and appends, the killed one follows it, and all three have the same
    records.
    """
    with ExitStack() as stack:
        words = ("--store", tmp_path / "records")
        controller = stack.enter_context(ControllerProcess(*words))
        brokers = [
            stack.enter_context(
                BrokerProcess.of(
                    tmp_path,
                    name,
                    node_text(
                        tmp_path / name,
                        controller.address,
                        name=name,
                        minInSyncReplicas=2,
                    ),
                )
            )
            for name in ("one", "two", "three")
        ]
        assert "pystore broker one listens on 127.0.0.1:" in brokers[0].ready[0]
        is_master = lambda: next(  # noqa: E731
            (
                one
                for one in brokers
                if one.child.poll() is None and one.status()["role"] == "master"
            ),
            None,
        )
        first: BrokerProcess = until(is_master)
        first.await_role("master", syncStateSet=[1, 2, 3])

        appending = Appending(first)
        appending.await_answers(5)
        first.kill()
        following = appending.join()
        answers = appending.answers
        assert [1, 2, 3] == answers[0]["receivedBy"]
        heir: BrokerProcess = until(is_master)
        assert heir is not first
        until(lambda: len(heir.status()["syncStateSet"]) == 2)
        numbers = [*range(0, following - BATCH, BATCH)]
        for number in range(following, following + 4 * BATCH, BATCH):
            numbers.append(number)
            answers.append(append(heir, number))

        # It finds the socket that the killed process left.
        first.restart()
        first.await_role("following")
        heir.await_role("master", syncStateSet=[1, 2, 3])
        _refused_by_a_slave(first, heir)

        acked = {
            offset: body.decode()
            for one, number in zip(answers, numbers, strict=True)
            for offset, body in zip(one["offsets"], bodies_of(number), strict=True)
        }
        logs = [records(broker, answers[-1]["endOffset"]) for broker in brokers]
        assert logs[0] == logs[1] == logs[2]
        found = {one["offset"]: one["body"] for one in logs[0]}
        assert acked == {offset: found.get(offset) for offset in acked}
        # Of the batch that was under way, all records are there, or none.
        assert len(found) - len(acked) in (0, BATCH)
        assert list(range(len(found))) == [one["queueOffset"] for one in logs[0]]
        assert [0, 0, 0] == [broker.stop() for broker in brokers]


def _refused_by_a_slave(slave: BrokerProcess, master: BrokerProcess) -> None:
    now = master.status()
    with pytest.raises(ControlError) as caught:
        append(slave, 0)
    error = caught.value
    assert ControlCode.NOT_MASTER is error.code
    assert now["brokerId"] == error.answer["masterId"]
    assert now["address"] == error.answer["masterAddress"]
    assert now["address"] in str(error)


def await_lease(broker: BrokerProcess) -> None:
    """
    Waits until it may acknowledge `leader`.
    """
    until(lambda: (broker.status()["leaseLeftMs"] or 0) > 0)


def test_an_operator_switches_the_master_without_a_lost_record(tmp_path: Path) -> None:
    """
    `pystore admin switchMaster` there and back, after appends with the ack `leader`.
    """
    with ExitStack() as stack:
        words = ("--store", tmp_path / "records")
        controller = stack.enter_context(ControllerProcess(*words))
        both = [
            stack.enter_context(
                BrokerProcess.of(
                    tmp_path, name, node_text(tmp_path / name, controller.address)
                )
            )
            for name in ("one", "two")
        ]
        is_led = lambda: "master" in {one.status()["role"] for one in both}  # noqa: E731
        until(is_led)
        acknowledged: dict[int, str] = {}
        number = 0
        for _ in range(2):
            (master,) = (one for one in both if one.status()["role"] == "master")
            (slave,) = {*both} - {master}
            master.await_role("master", syncStateSet=[1, 2])
            await_lease(master)
            with master.client() as client:
                for _ in range(20):
                    body = f"body {number}"
                    answer = client.append("t", [body.encode()], ack="leader")
                    acknowledged[answer["offset"]] = body
                    number += 1
            target = slave.status()["brokerId"]
            name = ("-bn", slave.status()["brokerName"], "-b", str(target))
            run("admin", "switchMaster", "-a", controller.address, *name)
            slave.await_role("master")
            await_lease(slave)
            with slave.client() as client:
                found = {one["offset"]: one["body"] for one in client.records()}
            assert acknowledged.items() <= found.items()


def test_an_ack_that_is_not_reached_says_where_the_records_are(tmp_path: Path) -> None:
    """
    The slave stands still. No reader gets the records until it has them, too.
    """
    with ExitStack() as stack:
        words = ("--store", tmp_path / "records")
        controller = stack.enter_context(ControllerProcess(*words))
        one, two = (
            stack.enter_context(
                BrokerProcess.of(
                    tmp_path, name, node_text(tmp_path / name, controller.address)
                )
            )
            for name in ("one", "two")
        )
        both = (one, two)
        master = until(
            lambda: next((b for b in both if b.status()["role"] == "master"), None)
        )
        (slave,) = {*both} - {master}
        master.await_role("master", syncStateSet=[1, 2])
        slave.child.send_signal(signal.SIGSTOP)
        with master.client() as client, pytest.raises(ControlError) as caught:
            client.append("t", [b"a", b"b"], timeout_ms=100)
        found = caught.value.answer
        assert ControlCode.NOT_REACHED is caught.value.code
        assert ("timed-out", "all", 2) == (
            found["outcome"],
            found["promised"],
            found["records"],
        )
        assert [master.status()["brokerId"]] == found["receivedBy"]
        with master.client() as client:
            assert [] == client.read()["records"]
        slave.child.send_signal(signal.SIGCONT)
        for broker in both:
            read = records(broker, found["endOffset"])
            assert found["offsets"] == [one["offset"] for one in read]


def test_strangers_on_the_socket_delay_no_append(tmp_path: Path) -> None:
    """
    Garbage, half frames and a hundred connections, with appends and `status` beside
    them.
    """
    with ExitStack() as stack:
        words = ("--store", tmp_path / "records")
        controller = stack.enter_context(ControllerProcess(*words))
        text = node_text(tmp_path / "s", controller.address)
        broker = stack.enter_context(BrokerProcess.of(tmp_path, "s", text))
        broker.await_role("master")
        client = stack.enter_context(broker.client())
        client.append("t", bodies_of(0))
        for number in range(100):
            stranger = stack.enter_context(socket.socket(socket.AF_UNIX))
            stranger.connect(str(broker.path))
            stranger.sendall((b"\xff" * 64, b"\0\0\1\0{", b"")[number % 3])
        for number in range(BATCH, 5 * BATCH, BATCH):
            assert "reached" == append(broker, number)["outcome"]
            assert "master" == broker.status()["role"]
        expected = [body.decode() for n in range(5) for body in bodies_of(n * BATCH)]
        with broker.client() as reading:
            assert expected == [one["body"] for one in reading.records()]
        assert 0 == broker.stop()
        assert "Traceback" not in broker.said


def test_the_commands_append_and_read_as_those_of_a_store(tmp_path: Path) -> None:
    """
    One record for each line; what is read is what `pystore dump` prints of the closed
    store.
    """
    with (
        ControllerProcess("--store", tmp_path / "records") as controller,
        BrokerProcess.of(
            tmp_path, "s", node_text(tmp_path / "s", controller.address)
        ) as broker,
    ):
        broker.await_role("master")
        place = ("--socket", tmp_path / "s.sock")
        words = ("append", *place, "--topic", "t", "--tags", "x", "--json")
        lines = b"".join(b"line %d\n" % number for number in range(1000))
        appended = run_process("broker", *words, stdin=lines)
        assert (0, b"") == (appended.returncode, appended.stderr)
        assert 1000 == json.loads(appended.stdout)["records"]
        status = run("broker", "status", *place)
        assert (0, 3) == (status.exit_code, len(status.output.splitlines()))
        read = run("broker", "read", *place, "--bodies")
        queue = run("broker", "read", *place, "--topic", "t", "--bodies")
        rest = run("broker", "read", *place, "--topic", "t", "--queue-offset", "990")
        assert 0 == broker.stop()
        assert not (tmp_path / "s.sock").exists()
        dumped = run("dump", tmp_path / "s", "--bodies")

    assert dumped.output == read.output == queue.output
    assert 10 == len(rest.output.splitlines())
