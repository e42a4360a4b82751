"""
A TCP stream to a master; no call blocks for long, also not for a name that resolves
slowly.

Waiting for bytes and receiving them is one system call with a timeout, since every
call between the bytes and the ack costs latency. Received
bytes stand in one buffer and are taken from its front frame by frame; only the rest of
a frame is moved. Sending never waits: bytes that the system does not accept at once are
queued.
"""

from __future__ import annotations

import errno
import os
import queue
import select
import socket
import struct
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pystore.ha.wire.codes import FRAME_BYTES_MAX
from pystore.net.receiver import Receiver
from pystore.net.tls import ClientTls
from pystore.net.tls_channel import TlsChannel

if TYPE_CHECKING:
    from types import TracebackType

__all__ = [
    "CONNECT_MS",
    "SLICE_MS",
    "MasterStream",
    "StreamLost",
    "connect",
]

CONNECT_MS = 5_000
"""How long connecting may take, in ms."""

SLICE_MS = 200
"""The longest wait between two checks whether to stop, in ms."""

_BUFFER_BYTES = 1 << 20
_BUFFER_BYTES_MAX = 2 * FRAME_BYTES_MAX
_UNSENT_BYTES_MAX = 1 << 20
_TIMEVAL = struct.Struct("@ll")
_KEEPALIVE = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))


NameLookup = Callable[..., list[tuple[Any, ...]]]
"""Returns the addresses of a host, as `socket.getaddrinfo`."""


class StreamLost(Exception):
    """
    The link ended, or cannot be made; the text says why. This is no error of a store.
    """


def connect(
    host: str,
    port: int,
    is_stopping: Callable[[], bool],
    now_ms: Callable[[], int],
    *,
    resolve: NameLookup = socket.getaddrinfo,
    tls: ClientTls | None = None,
) -> MasterStream:
    """
    Opens a stream to the first address of the host that answers.

    Args:
        host: a name or an address.
        port: of the master's HA listener.
        is_stopping: called at least every `SLICE_MS`.
        now_ms: a clock that never steps back.
        resolve: returns the addresses of a name; may take as long as it wants.
        tls: of the stream; ``None``: plain bytes.

    Raises:
        StreamLost: no address or no answer within `CONNECT_MS`, or the follower stops.
    """
    found = _addresses_of(host, port, is_stopping, now_ms, resolve)
    problem = f"{host}: no address"
    for family, kind, protocol, _, address in found:
        stream = MasterStream(socket.socket(family, kind, protocol))
        try:
            stream.open(address, is_stopping, now_ms)
            if tls is not None:
                stream.begin_tls(tls, host, is_stopping, now_ms)
        except StreamLost as error:
            # The next address may answer; otherwise the last reason is reported.
            stream.close()
            problem = str(error)
        else:
            return stream
    raise StreamLost(f"cannot connect to {host}:{port}: {problem}")


def _addresses_of(
    host: str,
    port: int,
    is_stopping: Callable[[], bool],
    now_ms: Callable[[], int],
    resolve: NameLookup,
) -> list[tuple[Any, ...]]:
    """
    Returns the addresses of a host. A name is resolved in a thread of its own, which is
    left alone if it takes too long: no call of the system resolves with a timeout, and
    each change of roles waits for this (B13).
    """
    kind = socket.SOCK_STREAM
    try:
        return list(
            socket.getaddrinfo(host, port, type=kind, flags=socket.AI_NUMERICHOST)
        )
    except (OSError, UnicodeError):
        # No address, so it is a name.
        pass
    results: queue.SimpleQueue[list[tuple[Any, ...]] | Exception] = queue.SimpleQueue()

    def run() -> None:
        try:
            results.put(resolve(host, port, type=kind))
        except Exception as error:
            # Any error: the caller waits for one, and a name may resolve later.
            results.put(error)

    threading.Thread(target=run, name="pystore-ha-resolve", daemon=True).start()
    deadline_ms = now_ms() + CONNECT_MS
    while True:
        try:
            found = results.get(timeout=SLICE_MS / 1000)
        except queue.Empty:
            # Not resolved yet.
            if is_stopping():
                raise StreamLost("the follower stops") from None
            if now_ms() >= deadline_ms:
                raise StreamLost(
                    f"{host}: the name was not resolved within {CONNECT_MS // 1000} s"
                ) from None
            continue
        if isinstance(found, Exception):
            text = getattr(found, "strerror", None) or found
            raise StreamLost(f"{host}: {text}") from found
        return found


class MasterStream:
    """
    One connected socket. One thread. A context manager.

    Args:
        connected: the socket; the stream closes it.

    Attributes:
        received: how many bytes were received.
    """

    def __init__(self, connected: socket.socket) -> None:
        self.received = 0
        self._socket = connected
        self._socket.settimeout(None)
        self._receiver: Receiver | TlsChannel = Receiver(connected)
        self._tls: TlsChannel | None = None
        self._patience_ms = 0
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._start = self._end = 0
        self._unsent = bytearray()

    def __enter__(self) -> MasterStream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def open(
        self,
        address: tuple[object, ...],
        is_stopping: Callable[[], bool],
        now_ms: Callable[[], int],
    ) -> None:
        """
        Connects to one address, for `connect`.

        Raises:
            StreamLost: it cannot connect.
        """
        deadline_ms = now_ms() + CONNECT_MS
        self._socket.settimeout(0)
        code = self._socket.connect_ex(address)
        if code == errno.EINPROGRESS:
            while not select.select([], [self._socket], [], SLICE_MS / 1000)[1]:
                if is_stopping():
                    raise StreamLost("the follower stops")
                if now_ms() >= deadline_ms:
                    raise StreamLost(f"no answer within {CONNECT_MS // 1000} s")
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise StreamLost(os.strerror(code))
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):  # not on macOS
                option = getattr(socket, name)
                self._socket.setsockopt(socket.IPPROTO_TCP, option, value)

    def begin_tls(
        self,
        tls: ClientTls,
        host: str,
        is_stopping: Callable[[], bool],
        now_ms: Callable[[], int],
    ) -> None:
        """
        Begins TLS, for `connect`: the master has to show a certificate of this host.

        Raises:
            StreamLost: no TLS, or another certificate.
        """
        deadline_ms = now_ms() + CONNECT_MS
        self._set_patience(SLICE_MS)

        def check() -> None:
            if is_stopping():
                raise StreamLost("the follower stops")
            if now_ms() >= deadline_ms:
                raise StreamLost(f"no TLS within {CONNECT_MS // 1000} s")

        try:
            channel = TlsChannel(self._socket, tls.context(), host)
            channel.handshake(check)
        except (OSError, ValueError) as error:
            # The master speaks no TLS, or its certificate is refused.
            raise StreamLost(f"no TLS with the master: {error}") from error
        self._receiver = self._tls = channel

    def close(self) -> None:
        """
        Closes the socket; may be called again.
        """
        self._socket.close()

    # -- in ------------------------------------------------------------------

    @property
    def data(self) -> memoryview:
        """
        What was received and not taken; valid until `wait` is called.
        """
        return self._buffer[self._start : self._end].toreadonly()

    def take(self, size: int) -> None:
        """
        Drops the first *size* bytes: they were processed.
        """
        self._start += size
        if self._start == self._end:
            self._start = self._end = 0

    def wait(self, timeout_ms: int) -> int:
        """
        Waits for bytes, and sends what is unsent.

        Returns:
            how many bytes were received.

        Raises:
            StreamLost: the peer is gone, or sends a frame above the limit.
        """
        if self._unsent:
            _, writable, _ = select.select(
                [self._socket], [self._socket], [], max(0, timeout_ms) / 1000
            )
            if writable:
                self._flush()
            timeout_ms = 0
        if timeout_ms > 0:
            self._set_patience(timeout_ms)
        return self._receive(is_waiting=timeout_ms > 0)

    def _set_patience(self, timeout_ms: int) -> None:
        # The timeout is the same for nearly every wait.
        if timeout_ms != self._patience_ms:
            given = _TIMEVAL.pack(timeout_ms // 1000, timeout_ms % 1000 * 1000)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, given)
            self._patience_ms = timeout_ms

    def _receive(self, *, is_waiting: bool) -> int:
        self._make_room()
        try:
            size = self._receiver.receive_into(
                self._buffer[self._end :], is_waiting=is_waiting
            )
        except BlockingIOError:
            # Timeout.
            return 0
        except OSError as error:
            # An error of the socket: no disk is used here.
            raise StreamLost(f"the connection broke: {error.strerror}") from error
        if not size:
            raise StreamLost("the master closed the connection")
        self._end += size
        self.received += size
        return size

    def _make_room(self) -> None:
        """
        Moves the rest to the front; doubles the buffer if one frame fills it.
        """
        rest = self._end - self._start
        if self._start and self._end == len(self._buffer):
            self._buffer[:rest] = self._buffer[self._start : self._end]
        elif self._end == len(self._buffer):
            if len(self._buffer) >= _BUFFER_BYTES_MAX:
                raise StreamLost(f"a frame of more than {rest} bytes")
            larger = memoryview(bytearray(2 * len(self._buffer)))
            larger[:rest] = self._buffer
            self._buffer = larger
        else:
            return
        self._start, self._end = 0, rest

    # -- out -----------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """
        Sends now, or during `wait`.

        Raises:
            StreamLost: the peer is gone, or does not read.
        """
        if self._tls is not None:
            data = self._encrypted(data)
        if not self._unsent:
            data = data[self._send_some(data) :]
        if not data:
            return
        self._unsent += data
        self._flush()
        if len(self._unsent) > _UNSENT_BYTES_MAX:
            raise StreamLost("the master does not read what is sent to it")

    def _encrypted(self, data: bytes) -> bytes:
        assert self._tls is not None
        try:
            return self._tls.encrypt([data])
        except OSError as error:
            # The master ended TLS.
            raise StreamLost(f"TLS with the master ended: {error}") from error

    def _flush(self) -> None:
        while self._unsent:
            sent = self._send_some(self._unsent)
            if not sent:
                return  # `wait` sends the rest
            del self._unsent[:sent]

    def _send_some(self, data: bytes | bytearray) -> int:
        try:
            return self._socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            # The buffers of the system are full.
            return 0
        except OSError as error:
            # An error of the socket: no disk is used here.
            raise StreamLost(f"the connection broke: {error.strerror}") from error
