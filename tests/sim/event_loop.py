"""
The event loop of asyncio over a kernel: its time, its sockets, its wake-ups.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Any

from sim.kernel import Kernel
from sim.sockets import Listener, Net, Stream

__all__ = ["VirtualLoop"]

_NS = 1_000_000_000
_HIGH = 64 << 10


class VirtualLoop(asyncio.BaseEventLoop):
    """
    For one thread of a virtual process.
    """

    def __init__(self, kernel: Kernel, net: Net) -> None:
        super().__init__()
        self._kernel, self._net = kernel, net
        self._selector = self  # what BaseEventLoop asks for events
        self._arrived: list[Callable[[], object]] = []
        self._is_woken = False

    # -- what BaseEventLoop needs ------------------------------------------------

    def time(self) -> float:
        """
        As of any loop.
        """
        return self._kernel.now_ns / _NS

    def select(self, timeout: float | None) -> list[Callable[[], object]]:
        """
        Waits for events.
        """
        # A timer is due when the clock is past it, however it is rounded.
        limit_ns = (
            None if timeout is None else int(timeout * _NS) + bool(timeout) * 1000
        )
        if not self._is_woken:
            self._kernel.wait(lambda: self._is_woken, limit_ns)
        self._is_woken = False
        found, self._arrived = self._arrived, []
        return found

    def _process_events(self, event_list: list[Callable[[], object]]) -> None:
        for event in event_list:
            self.call_soon(event)

    def _write_to_self(self) -> None:
        self._is_woken = True

    def arrived(self, event: Callable[[], object]) -> None:
        """
        Something came from outside: it is handled in a turn of the loop.
        """
        self._arrived.append(event)
        self._is_woken = True

    # -- what the product needs ----------------------------------------------------

    def remove_reader(self, fd: object) -> bool:
        """
        The transport reads by itself.
        """
        return bool(fd)

    async def getaddrinfo(  # type: ignore[override]
        self, host: str, port: int, **more: Any
    ) -> list[tuple[Any, ...]]:
        """
        Of addresses.
        """
        return socket.getaddrinfo(host, port, type=more.get("type", 0))

    async def create_connection(  # type: ignore[override]
        self,
        factory: Callable[[], asyncio.BufferedProtocol],
        host: str,
        port: int,
        *,
        ssl: None = None,
    ) -> tuple[Transport, asyncio.BufferedProtocol]:
        """
        As of any loop; there is no TLS here.
        """
        assert ssl is None
        stream = self._net.connect(host, port)
        made = self.create_future()

        def changed() -> None:
            if not made.done():
                made.set_result(None)

        stream.changed = lambda: self.arrived(changed)
        try:
            await made
        except BaseException:
            # Any: nobody waits for the connection any more.
            stream.abort()
            raise
        if stream.error:
            raise ConnectionRefusedError(stream.error, os.strerror(stream.error))
        protocol = factory()
        return Transport(self, stream, protocol), protocol

    async def create_server(  # type: ignore[override]
        self,
        factory: Callable[[], asyncio.BufferedProtocol],
        host: str | None,
        port: int,
        *,
        backlog: int,
        start_serving: bool = True,
    ) -> Server:
        """
        As of any loop.
        """
        assert backlog > 0
        assert start_serving
        return Server(self, self._net.listen(host or "", port), factory)


class Server:
    """
    What the product uses of an `asyncio.Server`. It is its only socket, too.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        listener: Listener,
        factory: Callable[[], asyncio.BufferedProtocol],
    ) -> None:
        self._loop, self._listener, self._factory = loop, listener, factory
        self._file = os.open(os.devnull, os.O_RDONLY)
        self.sockets = (self,)
        listener.changed = lambda: loop.arrived(self._accept)

    def fileno(self) -> int:
        """
        Of a file that may be duplicated.
        """
        return self._file

    def getsockname(self) -> tuple[str, int]:
        """
        Where it listens.
        """
        return self._listener.address

    def close(self) -> None:
        """
        Accepts no more.
        """
        self._listener.close()

    async def wait_closed(self) -> None:
        """
        It is closed at once.
        """

    def _accept(self) -> None:
        while self._listener.accepted:
            stream = self._listener.accepted.popleft()
            Transport(self._loop, stream, self._factory())


class _NoFile:
    """
    The socket of a transport: the product looks how high the numbers of files are.
    """

    def fileno(self) -> int:
        return 3


class Transport(asyncio.Transport):
    """
    A connection in a loop.
    """

    def __init__(
        self, loop: VirtualLoop, stream: Stream, protocol: asyncio.BufferedProtocol
    ) -> None:
        super().__init__({"peername": stream.peer, "socket": _NoFile()})
        self._loop, self._stream, self._protocol = loop, stream, protocol
        self._unsent = bytearray()
        self._high = _HIGH
        self._is_paused = self._is_closing = self._is_reading_paused = False
        self._is_lost = False
        stream.changed = lambda: loop.arrived(self._changed)
        loop.call_soon(protocol.connection_made, self)
        loop.call_soon(self._changed)

    # -- as of any transport ---------------------------------------------------

    def is_closing(self) -> bool:
        """
        As of any transport.
        """
        return self._is_closing

    def set_write_buffer_limits(
        self, high: int | None = None, _: int | None = None
    ) -> None:
        """
        As of any transport.
        """
        self._high = _HIGH if high is None else high

    def get_write_buffer_size(self) -> int:
        """
        As of any transport.
        """
        return len(self._unsent)

    def pause_reading(self) -> None:
        """
        As of any transport.
        """
        self._is_reading_paused = True

    def resume_reading(self) -> None:
        """
        As of any transport.
        """
        if self._is_reading_paused:
            self._is_reading_paused = False
            self._loop.call_soon(self._changed)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """
        As of any transport.
        """
        if self._is_lost or self._is_closing:
            return
        self._unsent += data
        self._flush()
        if len(self._unsent) > self._high and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()

    def close(self) -> None:
        """
        As of any transport: what is unsent goes first.
        """
        if not self._is_closing:
            self._is_closing = True
            if not self._unsent:
                self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        """
        As of any transport.
        """
        self._is_closing = True
        self._unsent.clear()
        self._loop.call_soon(self._lose, None)

    # -- inside ----------------------------------------------------------------

    def _flush(self) -> None:
        try:
            while self._unsent and self._stream.is_writable:
                del self._unsent[: self._stream.send([self._unsent])]
        except OSError:
            # It broke: `_changed` ends it.
            self._unsent.clear()

    def _changed(self) -> None:
        stream = self._stream
        if self._is_lost:
            return
        if self._unsent:
            self._flush()
            if self._is_paused and not self._unsent:
                self._is_paused = False
                self._protocol.resume_writing()
            if self._is_closing and not self._unsent:
                self._lose(None)
                return
        while stream.data and not self._is_reading_paused and not self._is_closing:
            room = memoryview(self._protocol.get_buffer(-1))
            found = stream.take(min(len(room), 64 << 10))
            room[: len(found)] = found
            self._protocol.buffer_updated(len(found))
        if stream.error and not stream.data:
            self._is_closing = True
            self._lose(OSError(stream.error, os.strerror(stream.error)))
        elif stream.is_ended and not stream.data and not self._is_closing:
            self._is_closing = True
            self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._stream.close()
            self._protocol.connection_lost(error)
