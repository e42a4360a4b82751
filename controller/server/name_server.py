"""
A name server in the process of a controller: on the same port or on another one.

On a shared port both receive 904. A broker sends its id to a controller only (formats
4.8), so a heartbeat with an id is for the controller.

Source: client protocol 1; docs/name-server.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from pystore.controller.server.config import ControllerConfig
from pystore.nameserver.service import EXPIRE_PERIOD_MS, name_server
from pystore.net.tls import ServerTls
from pystore.remoting.admission import Admission
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection, Handler
from pystore.remoting.dispatch import Handling
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer

__all__ = ["EmbeddedNameServer"]


class EmbeddedNameServer:
    """
    The embedded name server, if it is configured. For one event loop.

    Args:
        settings: of the controller: where the name server listens, if at all.
        clock_ns: boot time.
        say: receives one line for people.
        admission: decides over each request to its own port.
        tls: of its own port.

    Attributes:
        address: the address of its own port; empty: it has none.
    """

    def __init__(
        self,
        settings: ControllerConfig,
        clock_ns: Callable[[], int],
        say: Callable[[str], object],
        admission: Admission[Connection] | None = None,
        *,
        tls: ServerTls | None = None,
    ) -> None:
        self.address = ""
        self._settings = settings
        self._routes = name_server(lambda: clock_ns() // 1_000_000, say)
        self._server = RemotingServer(
            self._routes.handlers,
            say=say,
            closed=self._routes.closed,
            admission=admission,
            tls=tls,
        )

    def beside(self, controller: Mapping[int, Handler]) -> Mapping[int, Handler]:
        """
        Returns the handlers of a controller's port.
        """
        if not self._settings.shares_port:
            return controller
        routes = self._routes.handlers
        code = RequestCode.BROKER_HEARTBEAT
        shared = _heartbeats(controller[code], routes[code])
        return {**routes, **controller, code: shared}

    def closed(self, connection: Connection) -> None:
        """
        Takes note of the end of a connection to the controller's port.
        """
        self._routes.closed(connection)

    async def start(self) -> None:
        """
        Listens, if it has a port of its own.

        Raises:
            StorageError: it cannot listen on its address.
        """
        settings = self._settings
        if settings.nameserver and not settings.shares_port:
            host, port = await self._server.start(*settings.nameserver_at)
            self.address = f"{host}:{port}"

    async def run(self) -> None:
        """
        Removes silent brokers at intervals, until it is cancelled.
        """
        while True:
            await asyncio.sleep(EXPIRE_PERIOD_MS / 1000)
            self._routes.expire()

    async def aclose(self) -> None:
        """
        Closes its own port and the connections to it.
        """
        await self._server.close()


def _heartbeats(controller: Handler, routes: Handler) -> Handler:
    def beat(request: RemotingCommand, peer: Connection) -> Reply | Handling:
        handle = controller if "brokerId" in request.ext_fields else routes
        return handle(request, peer)

    return beat
