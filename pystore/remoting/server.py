"""
The server of the remoting protocol.

It has no encryption. So it listens on the loopback address by
default, and warns if other machines can reach it.

Source: formats 3.1; docs/remoting.md.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pystore.errors import StorageError
from pystore.net.address import exposure_warning
from pystore.net.tls import ServerTls
from pystore.remoting.acceptor import TlsAcceptor
from pystore.remoting.admission import Admission, OpenAdmission
from pystore.remoting.connection import Connection, ConnectionOwner, Handler
from pystore.remoting.limits import RemotingLimits
from pystore.remoting.shutdown import close_all

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["RemotingServer"]

_BACKLOG = 1024
_ACCEPTED_AT_ONCE = 16
_FILES_KEPT = 320
"""Open files that are reserved for records, logs, and connections that the loop
accepts before the limit is checked: a few turns, each with `_ACCEPTED_AT_ONCE`."""
_ACCEPTING_TURNS = 3  # of the loop, from an accepted socket to its connection


def _files_max() -> int:
    """
    Returns the first file descriptor that no connection may have. Without free
    descriptors the server could neither accept nor refuse, and new peers would wait.
    """
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(allowed - _FILES_KEPT, allowed // 2)


class RemotingServer:
    """
    A server, from `start` to `close`. An asynchronous context manager.

    Args:
        handlers: by request code; other codes are answered as not supported.
        limits: of memory and time.
        say: receives one line for people.
        opened: called with a connection before the first read.
        closed: called with it once, whichever side closed it.
        admission: decides over each request; the default lets all pass.
        tls: with which its peers may or must speak; ``None``: plain bytes only.
    """

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        limits: RemotingLimits | None = None,
        *,
        say: Callable[[str], object] = bool,
        opened: Callable[[Connection], object] = bool,
        closed: Callable[[Connection], object] = bool,
        admission: Admission[Connection] | None = None,
        tls: ServerTls | None = None,
    ) -> None:
        self._tls = tls
        self._acceptor: TlsAcceptor | None = None
        self._limits = limits or RemotingLimits()
        self._say = say
        self._opened = opened
        self._closed = closed
        self._connections: set[Connection] = set()
        self._files_max = sys.maxsize
        self._is_full = False
        self._is_open = False
        self._owner = ConnectionOwner(
            handlers,
            self._limits,
            say,
            self._accept,
            self._forget,
            admission=admission or OpenAdmission(),
        )
        self._server: asyncio.Server | None = None

    @property
    def connections(self) -> frozenset[Connection]:
        """
        The open connections.
        """
        return frozenset(self._connections)

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> tuple[str, int]:
        """
        Starts listening, and returns the address.

        Args:
            host: an address of this machine; empty: all of them.
            port: 0: any free port.

        Raises:
            StorageError: it cannot listen on the address.
        """
        loop = asyncio.get_running_loop()
        self._files_max = _files_max()
        self._is_open = True
        try:
            self._server = await loop.create_server(
                lambda: Connection(self._owner),
                host or None,
                port,
                backlog=_ACCEPTED_AT_ONCE,
                start_serving=self._tls is None,
            )
            self._listen(self._server)
        except OSError as error:
            # In use, not ours, or an unknown name.
            raise StorageError(
                f"remoting cannot listen on {host}:{port}: {error.strerror}",
                errno=error.errno,
            ) from error
        found: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        warning = exposure_warning(
            host, found[1], "remoting", "a stranger can send any request"
        )
        if warning and self._tls is None:
            self._say(warning)
        return found

    def _listen(self, server: asyncio.Server) -> None:
        # asyncio has one number for both: few accepted at once, many in the queue.
        some = [socket.socket(fileno=os.dup(one.fileno())) for one in server.sockets]
        for listener in some:
            listener.listen(_BACKLOG)
        if self._tls is None:
            for listener in some:
                listener.close()
            return
        self._acceptor = TlsAcceptor(
            some, self._tls, lambda: Connection(self._owner), self._say
        )

    async def close(self) -> None:
        """
        Stops listening, cancels handlers and closes connections, within
        `RemotingLimits.close_timeout_ms`. Idempotent.
        """
        server, self._server = self._server, None
        if server is None:
            return
        self._is_open = False
        if self._acceptor is not None:
            self._acceptor.close()
        try:
            # asyncio loses just accepted sockets when its server closes at once: they
            # would stay open without an owner.
            loop = asyncio.get_running_loop()
            for one in server.sockets:
                loop.remove_reader(one)
            for _ in range(_ACCEPTING_TURNS):
                await asyncio.sleep(0)
            server.close()
            await close_all(self._owner, frozenset(self._connections))
        finally:
            # Also after a cancellation.
            server.close()
            for connection in self.connections:
                connection.abort()
        await server.wait_closed()

    async def __aenter__(self) -> RemotingServer:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _accept(self, connection: Connection) -> None:
        if not self._is_open:
            # It opened after the server stopped listening.
            connection.abort()
            return
        # The system allocates the lowest free descriptor, so a high one shows how many
        # files are open.
        is_last = connection.descriptor >= self._files_max
        if is_last or len(self._connections) >= self._limits.connections_max:
            if not self._is_full:
                more = ", and more open files are not allowed (ulimit -n)"
                self._say(
                    f"connection of {connection.peer} refused: "
                    f"{len(self._connections)} connections are open"
                    f"{more * is_last}"
                )
            self._is_full = True
            connection.abort()
            return
        self._connections.add(connection)
        self._opened(connection)

    def _forget(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._is_full = False
            self._closed(connection)
