"""
Accepts connections that speak TLS or plain bytes on one port: the first byte tells.

A frame begins with its length, below 16 MiB, so its first byte is 0 or 1; a handshake
begins with 22. The byte is looked at and stays in the socket. A peer that sends
nothing, or does not end its handshake, is closed after a time; of too many such peers
the oldest one of the address with the most of them is closed for the next. A handshake
takes 0.3 MiB, so few are under way at once, and the others wait: a peer of an address
with fewer of them takes the place of one with the most, and a slow one makes place for
any.

Source: RFC 8446 5.1; docs/security.md, *TLS*.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import traceback
from collections import Counter
from collections.abc import Callable, Sequence

from pystore.net.busiest import oldest_of_busiest
from pystore.net.tls import ServerTls, TlsMode
from pystore.remoting.connection import Connection
from pystore.remoting.line_rate import LineRate

__all__ = ["TlsAcceptor"]

_HANDSHAKE = 22
_AT_ONCE = 16
_PENDING_MAX = 1_024
_HANDSHAKES_MAX = 32
_SLOW_S = 0.5
_TIMEOUT_S = 5.0
_WITH = "it speaks TLS, which this port does not (tlsMode)"
_WITHOUT = "it does not speak TLS, which this port requires (tlsMode)"
_ENDED = "the peer ended the TLS handshake"
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
        self._unknown: dict[socket.socket, str] = {}
        self._timers: dict[socket.socket, asyncio.TimerHandle] = {}
        # Of the unknown ones, those that wait for the place of a handshake, by address.
        self._waiting: dict[str, dict[socket.socket, None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Of the tasks: the address of the peer, and when it began.
        self._handshakes: dict[asyncio.Task[None], tuple[str, float]] = {}
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
                connected, address = listener.accept()
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
                self._drop(oldest_of_busiest(self._unknown))
            timer = self._loop.call_later(_TIMEOUT_S, self._drop, connected)
            self._unknown[connected] = str(address[0])
            self._timers[connected] = timer
            self._loop.add_reader(connected, self._look, connected)

    def _resume(self, listener: socket.socket) -> None:
        if listener in self._listeners:
            self._loop.add_reader(listener, self._accept, listener)

    def _drop(self, connected: socket.socket) -> None:
        self._forget(connected)
        connected.close()

    def _forget(self, connected: socket.socket) -> str:
        self._loop.remove_reader(connected)
        self._timers.pop(connected).cancel()
        host = self._unknown.pop(connected)
        if host in self._waiting:
            self._waiting[host].pop(connected, None)
            if not self._waiting[host]:
                del self._waiting[host]
        return host

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
                self._refused(self._unknown[connected], _WITH if is_tls else _WITHOUT)
            self._drop(connected)
            return
        host = self._unknown[connected]
        if is_tls and not self._make_place(host):
            self._loop.remove_reader(connected)
            self._waiting.setdefault(host, {})[connected] = None
            self._loop.call_later(_SLOW_S, self._start_waiting)
            return
        self._start(connected, is_tls=is_tls)

    def _make_place(self, host: str) -> bool:
        """
        Makes place for a handshake of this address, by the end of another one if that
        has to go; returns whether there is a place.
        """
        if len(self._handshakes) < _HANDSHAKES_MAX:
            return True
        hosts = {one: found for one, (found, _) in self._handshakes.items()}
        surplus = oldest_of_busiest(hosts)
        busiest, began_s = self._handshakes[surplus]
        counts = Counter(hosts.values())
        is_fair = counts[host] + 1 < counts[busiest]
        if not is_fair and self._loop.time() - began_s < _SLOW_S:
            return False
        del self._handshakes[surplus]
        surplus.cancel()
        self._refused(busiest, "too many TLS handshakes at once")
        return True

    def _start(self, connected: socket.socket, *, is_tls: bool) -> None:
        host = self._forget(connected)
        context = self._tls.context() if is_tls else None
        task = self._loop.create_task(self._begin(connected, host, context))
        self._tasks.add(task)
        if is_tls:
            self._handshakes[task] = host, self._loop.time()
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._handshakes.pop(task, None)
        self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting:
            counts = Counter(host for host, _ in self._handshakes.values())
            host = min(self._waiting, key=counts.__getitem__)
            if not self._make_place(host):
                return
            self._start(next(iter(self._waiting[host])), is_tls=True)

    async def _begin(
        self, connected: socket.socket, host: str, context: ssl.SSLContext | None
    ) -> None:
        limit = None if context is None else _TIMEOUT_S
        try:
            await self._loop.connect_accepted_socket(
                self._make, connected, ssl=context, ssl_handshake_timeout=limit
            )
        except (OSError, asyncio.CancelledError) as error:
            # A failed handshake is one: `ssl.SSLError`, a reset, a time-out.
            if not isinstance(error, asyncio.CancelledError):
                self._refused(host, str(error) or _ENDED)
            # The error and the frames of asyncio hold each other, with the buffers.
            traceback.clear_frames(error.__traceback__)
            connected.close()

    def _refused(self, host: str, reason: str) -> None:
        line = f"connection of {host} refused: {reason}"
        self._lines.say(line, self._loop.time())
