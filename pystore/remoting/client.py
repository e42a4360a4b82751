"""
The client of the remoting protocol: one connection per address, opened when needed.

Source: formats 3.1, client protocol 0; docs/remoting.md.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pystore.errors import ClosedError
from pystore.net.address import parse_address
from pystore.net.tls import ClientTls
from pystore.remoting.admission import Signs, unsigned
from pystore.remoting.binding import CHALLENGE, RequestBinding
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection, ConnectionOwner, Handler
from pystore.remoting.errors import NoAnswer, NotSent
from pystore.remoting.limits import RemotingLimits
from pystore.remoting.shutdown import close_all

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["CALL_TIMEOUT_MS", "RemotingClient"]

CALL_TIMEOUT_MS = 3000
"""How long brokers wait for a controller."""


class RemotingClient:
    """
    A client for any number of peers. An asynchronous context manager, for one event
    loop.

    Args:
        limits: of memory and time.
        handlers: of requests that peers send on the same connections.
        say: receives one line for people.
        signs: signs each request; a server of pystore is asked for a challenge first,
            which binds the requests to the connection. ``None``: nothing is signed.
        tls: of all its connections; ``None``: plain bytes.
    """

    def __init__(
        self,
        limits: RemotingLimits | None = None,
        handlers: Mapping[int, Handler] | None = None,
        *,
        say: Callable[[str], object] = bool,
        signs: Signs[Connection] | None = None,
        tls: ClientTls | None = None,
    ) -> None:
        self._tls = tls
        self._is_signed = signs is not None
        self._limits = limits or RemotingLimits()
        self._open_ones: set[Connection] = set()
        self._owner = ConnectionOwner(
            handlers or {},
            self._limits,
            say,
            self._opened,
            self._closed,
            signs=signs or unsigned,
        )
        self._connections: dict[str, asyncio.Task[Connection]] = {}
        self._is_closed = False

    @property
    def addresses(self) -> set[str]:
        """
        The addresses with an open or opening connection.
        """
        return set(self._connections)

    async def call(
        self, address: str, request: RemotingCommand, timeout_ms: int = CALL_TIMEOUT_MS
    ) -> RemotingCommand:
        """
        Sends a request and waits for the answer, which may be a refusal.

        Args:
            address: ``host:port``.
            request: this method sets its opaque and flag.
            timeout_ms: for everything, with the connection set-up.

        Raises:
            NotSent: the request was not carried out: the peer is unreachable, accepts
                no bytes, or shuts down.
            NoAnswer: it may have been carried out.
            InvalidError: an invalid address, or a request that does not fit a frame.
            ClosedError: the client was closed.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        connection = await self._connect(address, timeout_ms)
        response = await connection.call(request, _left_ms(deadline))
        if response.code == ResponseCode.GO_AWAY:
            self._forget(connection)
            connection.retire()
            raise NotSent(f"{address} shuts down; try again, or another peer")
        return response

    async def send(
        self, address: str, request: RemotingCommand, timeout_ms: int = CALL_TIMEOUT_MS
    ) -> None:
        """
        Sends a one-way request.

        Args:
            address: ``host:port``.
            request: this method sets its opaque and flag.
            timeout_ms: until the network takes it.

        Raises:
            NotSent: the peer is unreachable or accepts no bytes.
            InvalidError: an invalid address, or a request that does not fit a frame.
            ClosedError: the client was closed.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        connection = await self._connect(address, timeout_ms)
        await connection.send(request, _left_ms(deadline))

    def disconnect(self) -> None:
        """
        Ends all connections; pending calls fail. The next call connects again.
        """
        for one in tuple(self._open_ones):
            self._forget(one)
            one.abort()

    async def close(self) -> None:
        """
        Closes all connections within `RemotingLimits.close_timeout_ms`; pending calls
        fail. Idempotent.
        """
        self._is_closed = True
        tasks, self._connections = list(self._connections.values()), {}
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await close_all(self._owner, frozenset(self._open_ones))

    async def __aenter__(self) -> RemotingClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _connect(self, address: str, timeout_ms: int) -> Connection:
        if self._is_closed:
            raise ClosedError("the remoting client is closed")
        made = self._connections.get(address)
        stands = None if made is None else _connection(made)
        if made is None or (made.done() and (stands is None or stands.is_closed)):
            host, port = parse_address(address)
            made = asyncio.create_task(self._open(address, host, port))
            made.add_done_callback(lambda task: self._forget_failed(address, task))
            self._connections[address] = made
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                # Other calls may wait for the same connection.
                return await asyncio.shield(made)
        except TimeoutError as error:
            # It may still open, for the next call.
            raise NotSent(
                f"{address} did not accept a connection in {timeout_ms} ms"
            ) from error
        except asyncio.CancelledError:
            # A cancelled task means a closed client; our own cancellation passes on.
            task = asyncio.current_task()
            if made.cancelled() and not (task and task.cancelling()):
                raise ClosedError("the remoting client is closed") from None
            raise

    def _forget_failed(self, address: str, task: asyncio.Task[Connection]) -> None:
        failed = task.cancelled() or task.exception() is not None
        if failed and self._connections.get(address) is task:
            del self._connections[address]

    def _opened(self, connection: Connection) -> None:
        self._open_ones.add(connection)
        if self._is_closed:
            # It opened while the client was closing.
            connection.abort()

    def _closed(self, connection: Connection) -> None:
        self._open_ones.discard(connection)
        self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        for address, made in list(self._connections.items()):
            if _connection(made) is connection:
                del self._connections[address]

    async def _open(self, address: str, host: str, port: int) -> Connection:
        timeout_ms = self._limits.connect_timeout_ms
        loop = asyncio.get_running_loop()
        context = None if self._tls is None else self._tls.context()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._owner), host, port, ssl=context
                )
        except TimeoutError as error:
            # No such host, or a firewall drops the packets.
            raise NotSent(
                f"{address} did not accept a connection in {timeout_ms} ms"
            ) from error
        except OSError as error:
            # Refused, or an unknown name.
            raise NotSent(f"{address} cannot be reached: {_reason(error)}") from error
        if self._is_signed:
            await self._bind(connection, timeout_ms)
        return connection

    async def _bind(self, connection: Connection, timeout_ms: int) -> None:
        """
        Asks a server for the challenge of the connection; RocketMQ's have none.
        """
        request = RemotingCommand(RequestCode.GET_CHALLENGE)
        try:
            answer = await connection.call(request, timeout_ms)
        except NoAnswer as error:
            # Nothing of the caller's was sent.
            connection.abort()
            raise NotSent(str(error)) from error
        challenge = answer.ext_fields.get(CHALLENGE)
        if answer.code == ResponseCode.SUCCESS and challenge:
            connection.binding = RequestBinding(challenge)


def _reason(error: OSError) -> str:
    """
    Returns the system's own text: `asyncio` puts the address in its place.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    is_of_name = isinstance(error, socket.gaierror)
    return (
        error.strerror or str(error)
        if is_of_name or not error.errno
        else os.strerror(error.errno)
    )


def _connection(made: asyncio.Task[Connection]) -> Connection | None:
    """
    Returns the open connection of a task; ``None``: it is not open yet, or failed.
    """
    if not made.done() or made.cancelled() or made.exception() is not None:
        return None
    return made.result()


def _left_ms(deadline: float) -> int:
    return max(1, int((deadline - asyncio.get_running_loop().time()) * 1000))
