"""
Sockets of TCP between virtual processes: what the product uses of `socket`.

A stream carries bytes in order, in pieces, or breaks. A sender has a window: bytes that
the other process has not taken yet fill it.
"""

from __future__ import annotations

import errno
import itertools
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, BinaryIO

from sim.kernel import Kernel, current

__all__ = [
    "Listener",
    "Net",
    "Stream",
    "VirtualSocket",
    "create_server",
    "net",
    "select_sockets",
]

WINDOW = 256 << 10
_TAKEN = 32 << 10
_TIMEVAL = struct.Struct("@ll")


class Stream:
    """
    One end of a connection.

    Attributes:
        number: of this end, in this process.
        mine: address of this end.
        peer: address of the other.
        data: what was received and not taken.
        is_open: whether the connection was made.
        is_ended: the other end sends no more.
        error: of the system; 0: none.
        changed: is called after each change from outside.
    """

    def __init__(
        self,
        number: int,
        mine: tuple[str, int],
        peer: tuple[str, int],
        *,
        is_open: bool,
    ) -> None:
        self.number = number
        self.mine, self.peer = mine, peer
        self.data = bytearray()
        self.is_open = is_open
        self.is_ended = False
        self.is_finished = False
        self.error = 0
        self.changed: Callable[[], object] = bool
        self._unsettled = 0
        self._untold = 0

    @property
    def room(self) -> int:
        """
        How many bytes may be sent now.
        """
        return WINDOW - self._unsettled

    @property
    def is_readable(self) -> bool:
        """
        Whether a receive does not wait.
        """
        return bool(self.data) or self.is_ended or bool(self.error)

    @property
    def is_writable(self) -> bool:
        """
        Whether a send does not wait.
        """
        return bool(self.error) or (self.is_open and self.room > 0)

    def send(self, pieces: Iterable[bytes | bytearray | memoryview]) -> int:
        """
        Sends what fits the window; returns how many bytes.

        Raises:
            OSError: the connection broke, or was ended here.
        """
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        if self.is_finished or not self.is_open:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        data = b"".join(pieces)[: self.room]
        if data:
            self._unsettled += len(data)
            _kernel().say("data", self.number, data)
        return len(data)

    def take(self, size: int) -> bytes:
        """
        Takes received bytes; empty: the other end has ended.

        Raises:
            OSError: the connection broke.
        """
        if self.error and not self.data:
            raise OSError(self.error, os.strerror(self.error))
        found = bytes(self.data[:size])
        del self.data[:size]
        self._untold += len(found)
        if self._untold >= _TAKEN:
            _kernel().say("taken", self.number, self._untold)
            self._untold = 0
        return found

    def finish(self) -> None:
        """
        Sends no more.
        """
        if not self.is_finished and self.is_open:
            self.is_finished = True
            _kernel().say("fin", self.number)

    def close(self) -> None:
        """
        Ends both directions: what the other end still sends breaks it there.
        """
        net().forget(self)
        if self.error:
            return
        self.error = errno.EBADF
        # As Linux: bytes that nobody took make it a reset.
        _kernel().say(
            "reset" if self.data or not self.is_open else "close", self.number
        )

    def abort(self) -> None:
        """
        Ends both directions at once.
        """
        net().forget(self)
        if not self.error:
            self.error = errno.EBADF
            _kernel().say("reset", self.number)

    def settled(self, size: int) -> None:
        """
        The other process took bytes.
        """
        self._unsettled -= size


class Listener:
    """
    A port that accepts.

    Attributes:
        accepted: connections that nobody took yet.
        changed: as of a `Stream`.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.accepted: deque[Stream] = deque()
        self.is_closed = False
        self.changed: Callable[[], object] = bool

    def close(self) -> None:
        """
        Accepts no more.
        """
        if not self.is_closed:
            self.is_closed = True
            net().listeners.pop(self.address[1], None)
            _kernel().say("unlisten", self.address[1])
            for one in self.accepted:
                one.abort()


class Net:
    """
    All ends in this process.

    Args:
        host: the address of this machine.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self.listeners: dict[int, Listener] = {}
        self._streams: dict[int, Stream] = {}
        self._numbers = itertools.count(1)
        self._ports = itertools.count(30_000)

    def listen(self, host: str, port: int) -> Listener:
        """
        Listens.

        Raises:
            OSError: the port is taken.
        """
        port = port or next(self._ports)
        if port in self.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        found = self.listeners[port] = Listener((host or self.host, port))
        _kernel().say("listen", port)
        return found

    def connect(self, host: str, port: int) -> Stream:
        """
        Begins a connection.
        """
        number = next(self._numbers)
        mine = self.host, next(self._ports)
        stream = Stream(number, mine, (host, port), is_open=False)
        self._streams[number] = stream
        _kernel().say("connect", number, host, port, mine[1])
        return stream

    def forget(self, stream: Stream) -> None:
        """
        The end is closed.
        """
        self._streams.pop(stream.number, None)

    def arrived(self, kind: str, number: int, *more: Any) -> None:
        """
        Takes a message from the network.
        """
        if kind == "accept":
            self._accepted(number, *more)
            return
        stream = self._streams.get(number)
        if stream is None:
            return
        match kind:
            case "connected":
                stream.is_open = True
            case "broken":
                stream.error = more[0]
            case "data":
                stream.data += more[0]
            case "fin":
                stream.is_ended = True
            case "taken":
                stream.settled(more[0])
        stream.changed()

    def _accepted(self, number: int, port: int, host: str, their: int) -> None:
        listener = self.listeners.get(port)
        stream = Stream(number, (self.host, port), (host, their), is_open=True)
        if listener is None:
            stream.abort()
            return
        self._streams[number] = stream
        listener.accepted.append(stream)
        listener.changed()


class VirtualSocket:
    """
    What the product uses of a `socket.socket`.
    """

    def __init__(
        self,
        family: int = socket.AF_INET,
        type: int = socket.SOCK_STREAM,  # noqa: A002
        proto: int = 0,
        fileno: int | None = None,
        *,
        stream: Stream | None = None,
    ) -> None:
        self.family, self.type, self.proto = family, type, proto
        self._file = fileno
        self._stream = stream
        self._patience_ns: int | None = None
        self._send_patience_ns: int | None = None
        self._timeout_ns: int | None = None
        self._is_closed = False

    def __enter__(self) -> VirtualSocket:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def stream(self) -> Stream:
        """
        Its end of the connection.
        """
        if self._is_closed or self._stream is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._stream

    def fileno(self) -> int:
        """
        No file; -1 once it is closed.
        """
        return -1 if self._is_closed else 1 << 20

    def listen(self, backlog: int = 0) -> None:
        """
        The backlog has no limit here.
        """

    def settimeout(self, seconds: float | None) -> None:
        """
        As of a socket, for `connect`, `recv_into` and `sendall`; those of links to
        slaves have the limits of `setsockopt`.
        """
        self._timeout_ns = None if seconds is None else int(seconds * 1e9)

    def connect(self, address: tuple[str, int]) -> None:
        """
        As of a socket.
        """
        self.connect_ex(address)
        stream = self.stream
        self._await(lambda: stream.is_open or stream.error)
        if stream.error:
            raise ConnectionRefusedError(stream.error, os.strerror(stream.error))

    def connect_ex(self, address: tuple[str, int]) -> int:
        """
        Begins to connect.
        """
        self._stream = net().connect(*address[:2])
        return errno.EINPROGRESS

    def getsockopt(self, _: int, option: int) -> int:
        """
        The error of the connection alone.
        """
        assert option == socket.SO_ERROR
        return self.stream.error

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        """
        The limits of waits; other options do nothing here.
        """
        if level != socket.SOL_SOCKET or not isinstance(value, bytes):
            return
        seconds, micros = _TIMEVAL.unpack(value)
        limit = (seconds * 1_000_000 + micros) * 1_000 or None
        if option == socket.SO_RCVTIMEO:
            self._patience_ns = limit
        elif option == socket.SO_SNDTIMEO:
            self._send_patience_ns = limit

    def getpeername(self) -> tuple[str, int]:
        """
        As of a socket.
        """
        return self.stream.peer

    def getsockname(self) -> tuple[str, int]:
        """
        As of a socket.
        """
        return self.stream.mine

    def receive_into(self, room: memoryview, *, is_waiting: bool) -> int:
        """
        As `pystore.net.receiver.Receiver.receive_into`.
        """
        stream = self.stream
        if is_waiting and not stream.is_readable:
            _kernel().wait(lambda: stream.is_readable, self._patience_ns)
        if not stream.is_readable:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        found = stream.take(len(room))
        room[: len(found)] = found
        return len(found)

    def recv_into(self, room: memoryview) -> int:
        """
        As of a socket.
        """
        stream = self.stream
        self._await(lambda: stream.is_readable)
        found = stream.take(len(room))
        room[: len(found)] = found
        return len(found)

    def recv(self, size: int) -> bytes:
        """
        As of a socket.
        """
        room = bytearray(size)
        return bytes(room[: self.recv_into(memoryview(room))])

    def sendall(self, data: bytes | bytearray | memoryview) -> None:
        """
        As of a socket.
        """
        left, stream = memoryview(data), self.stream
        while left:
            self._await(lambda: stream.is_writable)
            left = left[stream.send([left]) :]

    def sendfile(self, file: BinaryIO, offset: int, count: int) -> int:
        """
        As of a socket.
        """
        data = os.pread(file.fileno(), count, offset)
        self.sendall(data)
        return len(data)

    def _await(self, ready: Callable[[], object]) -> None:
        if not ready() and not _kernel().wait(ready, self._timeout_ns):
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

    def send(self, data: bytes | bytearray, flags: int = 0) -> int:
        """
        As of a socket.
        """
        return self.sendmsg([data], (), flags)

    def sendmsg(
        self,
        pieces: Sequence[bytes | bytearray | memoryview],
        _: Sequence[Any] = (),
        flags: int = 0,
    ) -> int:
        """
        As of a socket.
        """
        stream = self.stream
        if not stream.is_writable:
            if not flags & socket.MSG_DONTWAIT:
                _kernel().wait(lambda: stream.is_writable, self._send_patience_ns)
            if not stream.is_writable:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return stream.send(pieces)

    def shutdown(self, how: int) -> None:
        """
        As of a socket.
        """
        stream = self.stream
        stream.finish()
        if how == socket.SHUT_RDWR:
            stream.is_ended = True

    def close(self) -> None:
        """
        As of a socket.
        """
        if self._is_closed:
            return
        self._is_closed = True
        if self._file is not None:
            os.close(self._file)
        if self._stream is not None:
            self._stream.close()


class _ListeningSocket:
    """
    What the product uses of a listening socket.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def getsockname(self) -> tuple[str, int]:
        return self._listener.address

    def accept(self) -> tuple[VirtualSocket, tuple[str, int]]:
        listener = self._listener
        _kernel().wait(lambda: listener.accepted or listener.is_closed)
        if not listener.accepted:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        stream = listener.accepted.popleft()
        return VirtualSocket(stream=stream), stream.peer

    def shutdown(self, how: int) -> None:  # noqa: ARG002
        self._listener.close()

    def close(self) -> None:
        self._listener.close()


def create_server(
    address: tuple[str, int], *, family: int = 0, backlog: int = 0
) -> _ListeningSocket:
    """
    As `socket.create_server`.
    """
    assert family in (0, socket.AF_INET), family
    assert backlog >= 0
    return _ListeningSocket(net().listen(*address))


def select_sockets(
    readers: Sequence[VirtualSocket],
    writers: Sequence[VirtualSocket],
    _: Sequence[VirtualSocket],
    timeout: float,
) -> tuple[list[VirtualSocket], list[VirtualSocket], list[VirtualSocket]]:
    """
    As `select.select`.
    """

    def found() -> tuple[list[VirtualSocket], list[VirtualSocket]]:
        return (
            [one for one in readers if one.stream.is_readable],
            [one for one in writers if one.stream.is_writable],
        )

    _kernel().wait(lambda: any(found()), int(timeout * 1e9))
    return (*found(), [])


class _Place:
    net: Net | None = None


place = _Place()


def net() -> Net:
    """
    Returns the network of this process.
    """
    assert place.net is not None
    return place.net


def _kernel() -> Kernel:
    found = current()
    assert found is not None
    return found
