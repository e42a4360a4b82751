"""
Our name server beside RocketMQ's: the same talk, the same broker, the same clients.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from interop.broker_set import free_ports
from interop.jvm import RIG
from interop.name_server_talk import CLIENT, Line, Step, routes, talk
from interop.own_name_server import serving
from name_server_peers import said

READY_S = 60
AGREE_S = 10


class Rig:
    """
    RocketMQ's processes, on free ports of this machine.

    Args:
        folder: where they work.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_ports()
        self.broker_port = self.port + 12

    def start(self, kind: str, port: int, *words: str) -> None:
        """
        Starts one, and waits until it is ready.
        """
        place = ("--dir", str(self._folder / kind), "--port", str(port))
        self.run("start", kind, *place, "--timeout", str(READY_S), *words)

    def run(self, *words: str) -> None:
        """
        Runs a command of the rig to its end.
        """
        subprocess.run(
            [str(RIG / "rig"), *words],
            check=True,
            env=os.environ | {"RIG_REGISTRY": str(self._folder / "registry")},
            timeout=READY_S + 60,
        )


@pytest.fixture(scope="module")
def rig(
    compiled_tool: None,  # noqa: ARG001
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Rig]:
    """
    RocketMQ's name server.
    """
    made = Rig(tmp_path_factory.mktemp("rig"))
    with ExitStack() as stack:
        stack.callback(made.run, "stop", "--all", "--kill")
        made.start("namesrv", made.port)
        yield made


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """
    Of our name server.
    """
    with serving() as found:
        yield found


class Both:
    """
    Two name servers that are told the same.
    """

    def __init__(self, ours: int, theirs: int) -> None:
        self._ports = ours, theirs
        self._lines: dict[str, tuple[Line, Line]] = {}

    def take(self, step: Step) -> None:
        """
        One step; both answer the same, theirs after a while.
        """
        if step.request is None:
            for line in self._lines.pop(step.peer):
                line.close()
            return
        if step.peer not in self._lines:
            self._lines[step.peer] = Line(self._ports[0]), Line(self._ports[1])
        ours, theirs = self._lines[step.peer]
        self._agree(step, ours, theirs)

    def _agree(self, step: Step, ours: Line, theirs: Line) -> None:
        # Both see the end of a connection, and theirs carries out 104, in the
        # background: what is asked is asked until they agree.
        assert step.request is not None
        deadline = time.monotonic() + (AGREE_S if step.peer == CLIENT else 0)
        while True:
            found = said(theirs.ask(step.request)), said(ours.ask(step.request))
            if found[0] == found[1] or time.monotonic() > deadline:
                assert found[0] == found[1], step.request
                return

    def close(self) -> None:
        """
        All brokers go.
        """
        for lines in self._lines.values():
            for line in lines:
                line.close()


def test_both_name_servers_answer_the_same_to_the_same_talk(
    rig: Rig, port: int
) -> None:
    """
    Masters, slaves, elections, old masters, wiped permissions, closed connections.
    """
    both = Both(port, rig.port)
    try:
        for step in talk():
            both.take(step)
    finally:
        both.close()


def test_a_java_broker_registers_with_both_and_a_producer_works_through_ours(
    rig: Rig, port: int
) -> None:
    """
    The producer's topic is made on the way, and the routes are the same.
    """
    ours = f"127.0.0.1:{port}"
    servers = f"{ours};127.0.0.1:{rig.port}"
    rig.start("broker", rig.broker_port, "--namesrv", servers)
    rig.run("produce", f"namesrv={ours}", "count=10", "retry=1", "quiet")
    both = Both(port, rig.port)
    try:
        for step in routes("RigTopic", "TBW102", cluster="rig", broker="broker-a"):
            both.take(step)
    finally:
        both.close()
