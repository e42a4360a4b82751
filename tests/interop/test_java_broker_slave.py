"""
A broker of RocketMQ is the slave of a pystore master, and then its successor.

Both are in one set, with a controller and a name server of pystore.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from interop.controlled_set import until
from interop.mqadmin import MqAdmin
from interop.pystore_broker import PystoreBroker, Setting
from interop.pystore_name_server import serving
from interop.record_lines import written_bytes
from interop.rig import READY_S, Rig, free_ports
from lib.command_line import PYSTORE
from lib.store.stores import bodies, message

from pystore.fs.layout import EPOCH_FILE
from pystore.store.commit_log import CommitLog

SEGMENT = 1 << 20
NAME = "broker-a"
FAST = (
    "syncBrokerMetadataPeriod=500",
    "syncControllerMetadataPeriod=500",
    "checkSyncStateSetPeriod=500",
)


class MixedSet:
    """
    A broker of pystore and a broker of RocketMQ in the set ``broker-a``.

    Args:
        folder: the working directory of the processes.
        name_server: the port of the name server.

    Attributes:
        stores: the stores of both; the first is that of pystore.
    """

    def __init__(self, folder: Path, name_server: int) -> None:
        first = free_ports()
        self._controller, self._own, self.java = (
            f"127.0.0.1:{first + step}" for step in (0, 3, 10)
        )
        self._name_server = f"127.0.0.1:{name_server}"
        self._folder, self._rig = folder / "java", Rig(folder)
        self._records = folder / "records"
        self.stores = folder / "own", self._folder / "store"
        self.admin = MqAdmin()

    @contextmanager
    def running(self) -> Iterator[PystoreBroker]:
        """
        Runs all processes; our broker is master. The other may still be starting.
        """
        with ExitStack() as stack:
            stack.callback(self.admin.close)
            stack.callback(self._rig.stop)
            command = [*PYSTORE, "controller", "--listen", self._controller]
            controller = subprocess.Popen(
                [*command, "--store", str(self._records)], stdout=subprocess.DEVNULL
            )
            stack.callback(controller.wait)
            stack.callback(controller.kill)
            own = PystoreBroker(
                Setting(
                    cluster="rig",
                    broker=NAME,
                    address=self._own,
                    controller=self._controller,
                    name_server=self._name_server,
                    store=str(self.stores[0]),
                    segment_size=SEGMENT,
                )
            )
            stack.callback(own.kill)
            yield own

    def start_java(self) -> None:
        """
        Starts the broker of RocketMQ, and returns when it has its role.
        """
        words = ["--namesrv", self._name_server, "--controllers", self._controller]
        for one in FAST:
            words += ["--set", one]
        place = ("--dir", str(self._folder), "--port", self.java[-5:])
        self._rig.run("start", "broker", *place, "--name", NAME, "--all-ack", *words)

    def await_master(self) -> None:
        """
        Blocks until the broker of RocketMQ is master, also for the controller.
        """
        self._rig.run("wait", self._folder, "--role", "master")

    def kill_java(self) -> None:
        """
        Kills the broker of RocketMQ with SIGKILL.
        """
        self._rig.run("stop", "--kill", self._folder)

    def produce(self, count: int) -> None:
        """
        Sends messages; all members of the set acknowledge each of them.
        """
        words = [f"namesrv={self._name_server}", f"count={count}", "retry=3", "quiet"]
        self._rig.run("produce", *words)

    def epochs(self) -> dict[str, list[tuple[int, int, int]]]:
        """
        Returns epoch, start and end of each broker from mqadmin.
        """
        output = self.admin.run("getBrokerEpoch", "-n", self._name_server, "-b", NAME)
        found: dict[str, list[tuple[int, int, int]]] = {}
        entries: list[tuple[int, int, int]] = []
        for line in output.splitlines():
            if match := re.search(r"#brokerAddr\s+(\S+)", line, re.IGNORECASE):
                entries = found.setdefault(match[1], [])
            numbers = re.findall(r"(\w+)=(\d+)", line)
            if line.startswith("#Epoch") and numbers:
                by_name = {name: int(value) for name, value in numbers}
                names = ("epoch", "startOffset", "endOffset")
                epoch, start, end = (by_name[name] for name in names)
                entries.append((epoch, start, end))
        assert found, output
        return found

    def status(self) -> dict[str, str]:
        """
        Returns the status of the broker of RocketMQ from mqadmin.
        """
        words = ("-n", self._name_server, "-b", self.java)
        lines = self.admin.run("brokerStatus", *words).splitlines()
        pairs = (line.partition(":") for line in lines)
        return {name.strip(): value.strip() for name, _, value in pairs}

    @contextmanager
    def following(self) -> Iterator[subprocess.Popen[bytes]]:
        """
        Our store follows the broker of RocketMQ.
        """
        host, port = self.java.split(":")
        command = [*PYSTORE, "replica", str(self.stores[0])]
        words = ["--master", f"{host}:{int(port) + 1}", "--cluster", "rig"]
        words += ["--protocol", "legacy", "--learner", "--json"]
        with subprocess.Popen([*command, *words], stdout=subprocess.PIPE) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture
def brokers(compiled_tool: None, tmp_path: Path) -> Iterator[MixedSet]:  # noqa: ARG001
    """
    A set without running processes.
    """
    with serving() as name_server:
        yield MixedSet(tmp_path, name_server)


def test_a_java_broker_follows_our_master_and_is_elected_after_it(
    brokers: MixedSet,
) -> None:
    """
    Before the master is killed it has every record that all members acknowledged. Then
    our store follows it, to the same bytes and epochs.
    """
    with brokers.running() as own:
        alone = own.append(2000, 0)
        assert ["REACHED"] == alone["outcomes"]
        brokers.start_java()
        until(lambda: own.standing()["set"] == [1, 2] or None)
        both = own.append(1000, 2000)
        assert (["REACHED"], [1, 2]) == (both["outcomes"], both["set"])
        end = both["end"]
        assert alone["end"] < end == both["confirm"]

        shown = until(lambda: _same(brokers.epochs()))
        ((epoch, start),) = both["epochs"]
        assert {brokers.java: [(epoch, start, end)]}.items() <= shown.items()
        assert 2 == len(shown)
        assert str(end) == brokers.status()["commitLogMaxOffset"]

        acked = own.kill_while_appending(100_000, 3000)
        brokers.await_master()
        brokers.produce(100)
        ((before, now),) = brokers.epochs().values()
        assert (epoch, start) == before[:2]
        assert (epoch + 1, before[2]) == now[:2]
        with brokers.following() as replica:
            _read_until(replica, now[2])
            replica.terminate()
            assert 0 == replica.wait(READY_S)
        brokers.kill_java()
    ours, theirs = brokers.stores
    assert written_bytes(ours / "commitlog") == written_bytes(theirs / "commitlog")
    assert (ours / EPOCH_FILE).read_bytes() == (theirs / EPOCH_FILE).read_bytes()
    with CommitLog(ours, mode="r") as log:
        found = bodies(log)
    ours_count = 0
    while found[ours_count] == message(ours_count).body:
        ours_count += 1
    assert 3000 + acked <= ours_count
    # Messages that the producer repeated after a timeout may be stored twice.
    assert ours_count + 100 <= len(found)


def _same(
    shown: dict[str, list[tuple[int, int, int]]],
) -> dict[str, list[tuple[int, int, int]]] | None:
    """
    Returns the value, if both brokers have the same one.
    """
    values = list(shown.values())
    return shown if len(values) == 2 and values[0] == values[1] else None


def _read_until(replica: subprocess.Popen[bytes], end: int) -> None:
    assert replica.stdout is not None
    for line in replica.stdout:
        report: dict[str, Any] = json.loads(line)
        if report["endOffset"] >= end:
            return
    raise AssertionError(f"the replica ended with {replica.wait()}")
