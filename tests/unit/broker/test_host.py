"""
A host: nodes that start, fail and end, under a real controller.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lib.broker_process import node_text
from lib.controller.controller_server import running
from lib.free_ports import free_port
from lib.hosted_nodes import holds

from pystore.broker.control_client import ControlClient
from pystore.broker.control_socket import ControlSocket
from pystore.broker.host import BrokerHost
from pystore.broker.settings import NodeSettings, host_of_toml
from pystore.errors import BusyError, PystoreError
from pystore.events.event import Event
from pystore.events.node_events import NodeFailed
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.store.commit_log import CommitLog

WAIT_S = 20


class Hosting:
    """
    A host at work.

    Attributes:
        host: the host.
        task: its run.
        said: its lines, and that of each failure.
        events: of its nodes and their stores.
        ready: the names of nodes that listen.
    """

    def __init__(self, folder: Path, text: str) -> None:
        self.path = folder / "socket"
        head = f'[host]\nsocket = "{self.path}"\ndrainTimeout = 100\n'
        self.said: list[str] = []
        self.events: list[Event] = []
        self.ready: list[str] = []
        config = host_of_toml(head + text, "f")
        self.host = BrokerHost(config, self.said.append, self._hear)
        self.task = asyncio.create_task(self.host.run(self._listens))

    def _hear(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, NodeFailed):
            self.said.append(event.text)

    def _listens(self, node: NodeSettings) -> None:
        self.ready.append(node.name)

    async def status(self) -> dict[str, dict[str, Any]]:
        """
        Returns the status by node, asked over the socket.
        """

        def asked() -> list[dict[str, Any]]:
            with ControlClient(self.path) as client:
                return client.status()

        return {one["node"]: one for one in await asyncio.to_thread(asked)}

    async def await_roles(self, **roles: str) -> dict[str, dict[str, Any]]:
        """
        Waits until the nodes have these roles.
        """
        async with asyncio.timeout(WAIT_S):
            while True:
                now = await self.status()
                if all(now[name]["role"] == role for name, role in roles.items()):
                    return now
                await asyncio.sleep(0.02)

    async def end(self) -> None:
        """
        Ends it as a signal does.
        """
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def hosting(folder: Path, *nodes: str) -> AsyncIterator[Hosting]:
    """
    A host with these nodes.
    """
    found = Hosting(folder, "".join(f"[[node]]\n{one}" for one in nodes))
    try:
        yield found
    finally:
        await found.end()


def node(folder: Path, name: str, controller: str, **more: str | int) -> str:
    """
    One node of a set of its own, with its store in ``folder/name``.
    """
    named = {"name": name, "brokerName": name, **more}
    return node_text(folder / name, controller, **named)


def is_clean(store: Path) -> bool:
    """
    Whether a store was closed cleanly.
    """
    with CommitLog(store) as log:
        return log.recovery.is_clean


def test_nodes_of_a_host_serve_side_by_side_and_end_clean(tmp_path: Path) -> None:
    """
    Each is master of its own set; at the end the socket is gone.
    """

    async def main() -> None:
        async with running() as at:
            nodes = (node(tmp_path, name, at.address) for name in ("a", "b"))
            async with hosting(tmp_path, *nodes) as found:
                await holds(found.path.exists)
                now = await found.await_roles(a="master", b="master")
                assert ["a", "b"] == sorted(found.ready)
                assert now["a"]["address"] != now["b"]["address"]
                await found.end()
                assert found.task.cancelled()
                assert not found.path.exists()
                assert not found.host.has_failed

    asyncio.run(main())
    assert is_clean(tmp_path / "a")
    assert is_clean(tmp_path / "b")


def test_a_node_that_cannot_start_stops_no_other(tmp_path: Path) -> None:
    """
    The line and the status say which one, and why.
    """

    async def main() -> None:
        async with running() as at:
            other = CommitLog(tmp_path / "b")
            nodes = (node(tmp_path, name, at.address) for name in ("a", "b"))
            async with hosting(tmp_path, *nodes) as found:
                await holds(lambda: found.said)
                now = await found.await_roles(a="master", b="failed")
                assert "has the store open for writing" in now["b"]["problem"]
                assert found.host.has_failed
                assert not found.task.done()
                other.close()
            assert ["a"] == found.ready
            failures = [line for line in found.said if "has failed" in line]
            assert [True] == [
                line.startswith("b has failed and is closed: ") for line in failures
            ]

    asyncio.run(main())


def test_a_port_in_use_releases_the_store(tmp_path: Path) -> None:
    """
    The host ends, since it has no other node.
    """

    async def main() -> None:
        port = free_port()
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
        text = node(tmp_path, "a", "127.0.0.1:9", address=f"127.0.0.1:{port}")
        async with hosting(tmp_path, text) as found:
            await asyncio.wait_for(found.task, WAIT_S)
            assert "a has failed and is closed: remoting cannot listen" in found.said[0]
            assert not found.path.exists()
        server.close()

    asyncio.run(main())
    assert is_clean(tmp_path / "a")


def test_a_node_that_fails_later_is_closed(tmp_path: Path) -> None:
    """
    The store of another set: the identity in it does not fit. The other node goes on.
    """

    async def main() -> None:
        async with running() as at:
            first = node(tmp_path, "b", at.address)
            async with hosting(tmp_path, first) as found:
                await holds(found.path.exists)
                await found.await_roles(b="master")
            renamed = first.replace('brokerName = "b"', 'brokerName = "x"')
            async with hosting(
                tmp_path, node(tmp_path, "a", at.address), renamed
            ) as found:
                await holds(found.path.exists)
                now = await found.await_roles(a="master", b="failed")
                assert now["b"]["problem"]
                # Closed: another process may open it now.
                CommitLog(tmp_path / "b").close()
                assert any("b has failed and is closed" in line for line in found.said)

    asyncio.run(main())


def test_the_socket_is_made_before_a_store_is_opened(tmp_path: Path) -> None:
    """
    A second process with the same configuration touches nothing.
    """

    async def main() -> None:
        living = ControlSocket(tmp_path / "socket")
        found = Hosting(tmp_path, "[[node]]\n" + node(tmp_path, "a", "127.0.0.1:9"))
        with pytest.raises(BusyError, match="a living process listens on"):
            await found.task
        assert not (tmp_path / "a").exists()
        living.close()

    asyncio.run(main())


def test_the_end_waits_for_an_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A store that is opened while the signal comes is closed clean.
    """
    opened: list[str] = []
    init = ReplicaLog.__init__

    def slow(*arguments: Any, **options: Any) -> None:
        opened.append("begun")
        init(*arguments, **options)
        opened.append("open")

    monkeypatch.setattr(ReplicaLog, "__init__", slow)

    async def main() -> None:
        async with hosting(tmp_path, node(tmp_path, "a", "127.0.0.1:9")) as found:
            await holds(lambda: opened)
            await found.end()
            assert not found.host.has_failed

    asyncio.run(main())
    assert ["begun", "open"] == opened
    assert is_clean(tmp_path / "a")


def test_a_store_that_cannot_be_closed_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The other stores are closed, and the process says which one is not clean.
    """

    def fail(_: ReplicaLog) -> None:
        close(_)
        raise PystoreError("no close")

    close = ReplicaLog.close
    monkeypatch.setattr(ReplicaLog, "close", fail)

    async def main() -> None:
        async with hosting(tmp_path, node(tmp_path, "a", "127.0.0.1:9")) as found:
            await holds(lambda: found.ready)
            await found.end()
            assert found.host.has_failed
            assert "a is closed, but not cleanly: no close" == found.said[-1]
            monkeypatch.undo()

    asyncio.run(main())


def test_the_events_of_a_node_and_its_store_are_in_its_history(tmp_path: Path) -> None:
    """
    Beside the store; what is told at once, and what the file has, is the same.
    """

    async def main() -> None:
        async with running() as at:
            text = node(tmp_path, "a", at.address)
            async with hosting(tmp_path, text) as found:
                await holds(found.path.exists)
                await found.await_roles(a="master")
                await holds(lambda: "LeaseGranted" in names_of(found.events))
                await found.end()
            told = names_of(found.events)
            lines = (tmp_path / "a.events.jsonl").read_text().splitlines()
            kept = [json.loads(line) for line in lines]

        assert told == [one["event"] for one in kept]
        expected = {"StoreOpened", "NodeRegistered", "RoleChanged", "StoreClosed"}
        assert expected <= set(told)
        roles = [one["new"] for one in kept if one["event"] == "RoleChanged"]
        assert ["master", "shutdown"] == roles
        assert {"a", None} == {one.get("brokerName") for one in kept}

    asyncio.run(main())


def names_of(events: list[Event]) -> list[str]:
    """
    Returns the names of the events that are no debugging.
    """
    return [type(one).__name__ for one in events if one.level > logging.DEBUG]
