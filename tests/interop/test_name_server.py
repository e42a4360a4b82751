"""
Our name server beside RocketMQ's: the same talk, the same broker, the same clients.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from interop.name_server_talk import CLIENT, Line, Step, routes, talk
from interop.own_name_server import serving
from interop.rig import Rig, free_ports
from lib.remoting.name_server_peers import said

AGREE_S = 60


@pytest.fixture(scope="module")
def rig(
    compiled_tool: None,  # noqa: ARG001
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Rig]:
    """
    RocketMQ's processes.
    """
    made = Rig(tmp_path_factory.mktemp("rig"))
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def their_port(rig: Rig) -> int:
    """
    Of RocketMQ's name server.
    """
    found = free_ports()
    rig.start("namesrv", found)
    return found


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
    their_port: int, port: int
) -> None:
    """
    Masters, slaves, elections, old masters, wiped permissions, closed connections.
    """
    both = Both(port, their_port)
    try:
        for step in talk():
            both.take(step)
    finally:
        both.close()


def test_a_java_broker_registers_with_both_and_a_producer_works_through_ours(
    rig: Rig, their_port: int, port: int
) -> None:
    """
    The producer's topic is made on the way, and the routes are the same.
    """
    ours = f"127.0.0.1:{port}"
    servers = f"{ours};127.0.0.1:{their_port}"
    rig.start("broker", free_ports(), "--namesrv", servers)
    rig.run("produce", f"namesrv={ours}", "count=10", "retry=1", "quiet")
    both = Both(port, their_port)
    try:
        for step in routes("RigTopic", "TBW102", cluster="rig", broker="broker-a"):
            both.take(step)
    finally:
        both.close()
