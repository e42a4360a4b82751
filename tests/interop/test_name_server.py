"""
The name server of pystore and that of RocketMQ get the same requests.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from interop.name_server_steps import CLIENT, RawConnection, Step, routes, set_steps
from interop.pystore_name_server import serving
from interop.rig import Rig, free_ports
from lib.remoting.name_server_peers import said

AGREE_S = 60


@pytest.fixture(scope="module")
def rig(
    compiled_tool: None,  # noqa: ARG001
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Rig]:
    """
    Runs RocketMQ's processes.
    """
    made = Rig(tmp_path_factory.mktemp("rig"))
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def their_port(rig: Rig) -> int:
    """
    The port of RocketMQ's name server.
    """
    found = free_ports()
    rig.start("namesrv", found)
    return found


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """
    The port of pystore's name server.
    """
    with serving() as found:
        yield found


class Both:
    """
    Two name servers that get the same requests.
    """

    def __init__(self, ours: int, theirs: int) -> None:
        self._ports = ours, theirs
        self._connections: dict[str, tuple[RawConnection, RawConnection]] = {}

    def take(self, step: Step) -> None:
        """
        Does one step; both give the same answer, RocketMQ's possibly later.
        """
        if step.request is None:
            for line in self._connections.pop(step.peer):
                line.close()
            return
        if step.peer not in self._connections:
            self._connections[step.peer] = (
                RawConnection(self._ports[0]),
                RawConnection(self._ports[1]),
            )
        ours, theirs = self._connections[step.peer]
        self._agree(step, ours, theirs)

    def _agree(self, step: Step, ours: RawConnection, theirs: RawConnection) -> None:
        # RocketMQ's name server handles the end of a connection and code 104 in the
        # background: the query is repeated until both agree.
        assert step.request is not None
        deadline = time.monotonic() + (AGREE_S if step.peer == CLIENT else 0)
        while True:
            found = said(theirs.ask(step.request)), said(ours.ask(step.request))
            if found[0] == found[1] or time.monotonic() > deadline:
                assert found[0] == found[1], step.request
                return

    def close(self) -> None:
        """
        Closes the connections of all brokers.
        """
        for lines in self._connections.values():
            for line in lines:
                line.close()


def test_both_name_servers_give_the_same_answers_to_the_same_requests(
    their_port: int, port: int
) -> None:
    """
    Masters, slaves, elections, old masters, wiped permissions, closed connections.
    """
    both = Both(port, their_port)
    try:
        for step in set_steps():
            both.take(step)
    finally:
        both.close()


def test_a_java_broker_registers_with_both_and_a_producer_works_with_ours(
    rig: Rig, their_port: int, port: int
) -> None:
    """
    The topic of the producer is created, and the routes are the same.
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
