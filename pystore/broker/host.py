"""
A host: the process around broker nodes. It starts them in one event loop, serves the
control socket and the host port, and closes all of them.

A node that cannot start, or that ends because of an error, is reported and closed; the
others go on. When no node is left, a host without a host port ends. Each event of a
node is told, and written to its history file.

Source: docs/operations.md, *Running brokers*, *Hosts*.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from pystore.broker.control_requests import ControlRequests
from pystore.broker.control_server import ControlServer
from pystore.broker.host_port import HostPort
from pystore.broker.node import BrokerNode
from pystore.broker.node_status import HostedNode
from pystore.broker.settings import HostConfig, NodeSettings
from pystore.errors import InvalidError, PystoreError
from pystore.events.event import Event
from pystore.events.event_history import EventHistory
from pystore.events.node_events import NodeFailed, log_node_event
from pystore.events.node_teller import NodeTeller
from pystore.rates.host_rates import LOOK_MS, HostRates

__all__ = ["BrokerHost"]


class BrokerHost:
    """
    A host. For one event loop, and to be run once.

    Args:
        config: of the host and its nodes.
        say: receives one line for the operator, of what is no event, from any thread.
        tell: takes each event of the nodes and their stores, in any thread.

    Attributes:
        rates: of repairs and of catch-up, which its nodes share.
    """

    def __init__(
        self,
        config: HostConfig,
        say: Callable[[str], object],
        tell: Callable[[Event], object] = log_node_event,
    ) -> None:
        self._config = config
        self._say = say
        self._tell = tell
        self._histories: dict[str, EventHistory] = {}
        self._sinks: dict[str, Callable[[Event], object]] = {}
        self.rates = HostRates(config.limits)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._nodes = {one.name: self._hosted(one) for one in config.nodes}
        self._ready: Callable[[NodeSettings], object] = bool
        requests = ControlRequests(self._nodes, say, self.rates)
        self._control = ControlServer(config.socket, requests.answer)
        self._port: HostPort | None = None

    @property
    def has_failed(self) -> bool:
        """
        Whether a node could not start, ended because of an error, or was not closed
        cleanly.
        """
        return any(one.failure for one in self._nodes.values())

    @property
    def nodes(self) -> Mapping[str, HostedNode]:
        """
        The nodes by name.
        """
        return self._nodes

    async def run(
        self,
        ready: Callable[[NodeSettings], object] = bool,
        host_ready: Callable[[str], object] = bool,
    ) -> None:
        """
        Serves until it is cancelled, or, without a host port, until all nodes have
        failed.

        Args:
            ready: called with each node when it listens.
            host_ready: called with the address of the host port when it listens.

        Raises:
            PystoreError: the control socket cannot be made, and no store was opened; or
                the host port cannot be served.
        """
        self._ready = ready
        # Before the stores: a second process with this configuration ends here.
        await self._control.start()
        looking = asyncio.create_task(self._keep_yielding())
        try:
            if self._config.port is not None:
                self._port = HostPort(self._config.port, self, self._say)
                await self._take_stored(self._port)
            tasks = [self._run_node(one) for one in self._nodes.values()]
            if self._port is None:
                await asyncio.gather(*tasks)
            else:
                await self._port.serve(host_ready)
        finally:
            looking.cancel()
            if self._port is not None:
                await self._port.close()
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # Requests are answered until the last node is closed.
            await asyncio.gather(*(self._close(one) for one in self._nodes.values()))
            await self._control.close()
            for history in self._histories.values():
                # At the end of the process nothing waits for this loop.
                history.close()

    async def _keep_yielding(self) -> None:
        """
        Lets repairs yield to writers.
        """
        while True:
            await asyncio.sleep(LOOK_MS / 1000)
            self.rates.look()

    # -- nodes that come and go ------------------------------------------------

    def check(self, settings: NodeSettings) -> None:
        """
        Makes sure that a node fits to those that are there.

        Raises:
            InvalidError: it has a name, a store, a port or a history of another one.
        """
        others = (one.settings for one in self._nodes.values())
        replace(self._config, nodes=(*others, settings))

    async def begin(self, settings: NodeSettings) -> None:
        """
        Starts a node.

        Raises:
            PystoreError: it cannot start, and is not there.
            OSError: as that.
        """
        try:
            hosted = self._hosted(settings)
            await hosted.node.start()
        except BaseException:
            # Any error: as if it had never been there.
            self._forget(settings.name)
            raise
        self._nodes[settings.name] = hosted
        self._run_node(hosted, is_started=True)

    async def end(self, name: str) -> None:
        """
        Closes a node; it is not there any more. Problems are told as events.
        """
        hosted, task = self._nodes[name], self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._close(hosted)
        del self._nodes[name]
        self._forget(name)

    def _forget(self, name: str) -> None:
        self._sinks.pop(name, None)
        history = self._histories.pop(name, None)
        if history is not None:
            history.close()

    async def _take_stored(self, port: HostPort) -> None:
        """
        Makes the nodes those that the host had when it ended.
        """
        configured = {name: one.settings for name, one in self._nodes.items()}
        wanted = await port.sets.stored(configured)
        for name in [*configured]:
            if wanted.get(name) is not configured[name]:
                del self._nodes[name]
                self._forget(name)
        for name, settings in wanted.items():
            if name in self._nodes:
                continue
            try:
                self.check(settings)
            except InvalidError as error:
                # The configuration file was changed: its nodes go first.
                self._say(f"node {name} is not started: {error}")
            else:
                self._nodes[name] = self._hosted(settings)

    # -- the life of one node --------------------------------------------------

    def _run_node(
        self, hosted: HostedNode, *, is_started: bool = False
    ) -> asyncio.Task[None]:
        task = asyncio.create_task(self._serve(hosted, is_started=is_started))
        self._tasks[hosted.name] = task
        return task

    def _hosted(self, settings: NodeSettings) -> HostedNode:
        def say(line: str) -> None:
            self._say(f"{settings.name}: {line}")

        tell = self._tell
        if settings.history is not None:
            history = EventHistory(settings.history, say)
            self._histories[settings.name] = history
            tell = _both(tell, history.tell)
        self._sinks[settings.name] = tell
        options = settings.options.copy()
        options["on_event"] = tell
        config = settings.access.applied(settings.config, say)
        config = replace(config, rates=self.rates)
        return HostedNode(settings, BrokerNode(config, say, tell, **options))

    async def _serve(self, hosted: HostedNode, *, is_started: bool) -> None:
        """
        Runs one node until it fails.
        """
        starting: asyncio.Task[None] | None = None
        try:
            if not is_started:
                starting = asyncio.create_task(hosted.node.start())
                # An opening is not interrupted: its store could not be closed cleanly.
                await asyncio.shield(starting)
            self._ready(hosted.settings)
            await hosted.node.serve()
        except asyncio.CancelledError:
            # The host ends, or the node is removed.
            if starting is not None:
                await asyncio.gather(starting, return_exceptions=True)
            raise
        except Exception as error:
            # Any error: the other nodes go on.
            self._fail(hosted, error)
            await self._close(hosted)

    async def _close(self, hosted: HostedNode) -> None:
        try:
            await hosted.node.close(self._config.drain_ms)
        except Exception as error:
            # Any error: the other nodes are closed, too.
            self._fail(hosted, error, is_closing=True)

    def _fail(
        self, hosted: HostedNode, error: Exception, *, is_closing: bool = False
    ) -> None:
        is_known = isinstance(error, PystoreError | OSError)
        text = str(error) if is_known else f"{type(error).__name__}: {error}"
        hosted.failure = hosted.failure or text
        config, replica = hosted.settings.config, hosted.node.replica
        teller = NodeTeller(
            config.cluster,
            config.broker_name,
            None if replica is None else replica.me.broker_id,
            self._sinks[hosted.name],
        )
        teller(NodeFailed, node=hosted.name, reason=text, is_closing=is_closing)


def _both(
    one: Callable[[Event], object], other: Callable[[Event], object]
) -> Callable[[Event], None]:
    def tell(event: Event) -> None:
        one(event)
        other(event)

    return tell
