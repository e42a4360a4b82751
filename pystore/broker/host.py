"""
A host: the process around broker nodes. It starts them in one event loop, serves the
control socket, and closes all of them.

A node that cannot start, or that ends because of an error, is reported and closed; the
others go on. When no node is left, the host ends. Each event of a node is told, and
written to its history file.

Source: docs/operations.md, *Running brokers*.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pystore.broker.control_requests import ControlRequests
from pystore.broker.control_server import ControlServer
from pystore.broker.node import BrokerNode
from pystore.broker.node_status import HostedNode
from pystore.broker.settings import HostConfig, NodeSettings
from pystore.errors import PystoreError
from pystore.events.event import Event
from pystore.events.event_history import EventHistory
from pystore.events.node_events import NodeFailed, log_node_event
from pystore.events.node_teller import NodeTeller

__all__ = ["BrokerHost"]


class BrokerHost:
    """
    A host. For one event loop, and to be run once.

    Args:
        config: of the host and its nodes.
        say: receives one line for the operator, of what is no event, from any thread.
        tell: takes each event of the nodes and their stores, in any thread.
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
        self._histories: list[EventHistory] = []
        self._sinks: dict[str, Callable[[Event], object]] = {}
        self._nodes = {one.name: self._hosted(one) for one in config.nodes}
        requests = ControlRequests(self._nodes, say)
        self._control = ControlServer(config.socket, requests.answer)

    @property
    def has_failed(self) -> bool:
        """
        Whether a node could not start, ended because of an error, or was not closed
        cleanly.
        """
        return any(one.failure for one in self._nodes.values())

    async def run(self, ready: Callable[[NodeSettings], object] = bool) -> None:
        """
        Serves until it is cancelled, or until all nodes have failed.

        Args:
            ready: called with each node when it listens.

        Raises:
            PystoreError: the control socket cannot be made; no store was opened.
        """
        # Before the stores: a second process with this configuration ends here.
        await self._control.start()
        tasks = [
            asyncio.create_task(self._serve(one, ready)) for one in self._nodes.values()
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # Requests are answered until the last node is closed.
            await asyncio.gather(*(self._close(one) for one in self._nodes.values()))
            await self._control.close()
            for history in self._histories:
                # At the end of the process nothing waits for this loop.
                history.close()

    def _hosted(self, settings: NodeSettings) -> HostedNode:
        def say(line: str) -> None:
            self._say(f"{settings.name}: {line}")

        tell = self._tell
        if settings.history is not None:
            history = EventHistory(settings.history, say)
            self._histories.append(history)
            tell = _both(tell, history.tell)
        self._sinks[settings.name] = tell
        options = settings.options.copy()
        options["on_event"] = tell
        config = settings.access.applied(settings.config, say)
        return HostedNode(settings, BrokerNode(config, say, tell, **options))

    async def _serve(
        self, hosted: HostedNode, ready: Callable[[NodeSettings], object]
    ) -> None:
        """
        Runs one node until it fails.
        """
        starting = asyncio.create_task(hosted.node.start())
        try:
            # An opening is not interrupted: its store could not be closed cleanly.
            await asyncio.shield(starting)
            ready(hosted.settings)
            await hosted.node.serve()
        except asyncio.CancelledError:
            # The host ends.
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
