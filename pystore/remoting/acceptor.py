"""
Accepts connections that speak TLS or plain bytes on one port: the first byte tells.

A frame begins with its length, below 16 MiB, so its first byte is 0 or 1; a handshake
begins with 22. The byte is looked at and stays in the socket. A peer that sends
nothing, or does not end its handshake, is closed after a time; of too many such peers
the first one is closed for the next.

Source: RFC 8446 5.1; docs/security.md, *TLS*.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence

from pystore.net.tls import ServerTls, TlsMode
from pystore.remoting.connection import Connection
from pystore.remoting.line_rate import LineRate

__all__ = ["TlsAcceptor"]

_HANDSHAKE = 22
_AT_ONCE = 16
_PENDING_MAX = 1_024
_TIMEOUT_S = 5.0
_REST_S = 0.5
"""After the system refused a connection, such as for a lack of descriptors."""


class TlsAcceptor:
    """
    The acceptor of one server. For one event loop.

    Args:
        listeners: sockets that listen.
        tls: the context, and which peers are taken.
        make: makes the protocol of a connection.
        say: receives one line for people about each failed handshake, not too often.
    """

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        tls: ServerTls,
        make: Callable[[], Connection],
        say: Callable[[str], object],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listeners = list(listeners)
        self._tls = tls
        self._make = make
        self._lines = LineRate(say)
        # Accepted, and neither plain nor TLS yet, in the order of their begin.
        self._unknown: dict[socket.socket, asyncio.TimerHandle] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        for one in self._listeners:
            one.settimeout(0)
            self._loop.add_reader(one, self._accept, one)

    def close(self) -> None:
        """
        Stops accepting, and closes what has not begun. Idempotent.
        """
        for one in self._listeners:
            self._loop.remove_reader(one)
            one.close()
        self._listeners.clear()
        for unknown in list(self._unknown):
            self._drop(unknown)
        for task in self._tasks:
            task.cancel()

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                connected, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError:
                # Without a free descriptor the listener stays readable: it rests.
                self._loop.remove_reader(listener)
                self._loop.call_later(_REST_S, self._resume, listener)
                return
            connected.settimeout(0)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if len(self._unknown) >= _PENDING_MAX:
                self._drop(next(iter(self._unknown)))
            timer = self._loop.call_later(_TIMEOUT_S, self._drop, connected)
            self._unknown[connected] = timer
            self._loop.add_reader(connected, self._look, connected)

    def _resume(self, listener: socket.socket) -> None:
        if listener in self._listeners:
            self._loop.add_reader(listener, self._accept, listener)

    def _drop(self, connected: socket.socket) -> None:
        self._forget(connected)
        connected.close()

    def _forget(self, connected: socket.socket) -> None:
        self._loop.remove_reader(connected)
        self._unknown.pop(connected).cancel()

    def _look(self, connected: socket.socket) -> None:
        try:
            first = connected.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            # It was reset.
            first = b""
        is_tls = first[:1] == bytes((_HANDSHAKE,))
        taken = TlsMode.DISABLED if is_tls else TlsMode.ENFORCING
        if not first or self._tls.mode is taken:
            if first:
                self._refused(connected, "TLS is disabled" if is_tls else "no TLS")
            self._drop(connected)
            return
        if is_tls and len(self._tasks) >= _PENDING_MAX:
            # The handshake that began first; its end frees the place.
            next(iter(self._tasks)).cancel()
        self._forget(connected)
        context = self._tls.context() if is_tls else None
        task = self._loop.create_task(self._begin(connected, context))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _begin(
        self, connected: socket.socket, context: ssl.SSLContext | None
    ) -> None:
        limit = None if context is None else _TIMEOUT_S
        try:
            await self._loop.connect_accepted_socket(
                self._make, connected, ssl=context, ssl_handshake_timeout=limit
            )
        except (OSError, asyncio.CancelledError) as error:
            # A failed handshake is one: `ssl.SSLError`, a reset, a time-out.
            if not isinstance(error, asyncio.CancelledError):
                self._refused(connected, str(error))
            connected.close()

    def _refused(self, connected: socket.socket, reason: str) -> None:
        try:
            host = str(connected.getpeername()[0])
        except OSError:
            # It has gone.
            host = "a peer"
        self._lines.say(f"connection of {host} refused: {reason}", self._loop.time())
