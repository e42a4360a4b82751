"""
TLS over a blocking socket, for one thread that receives and one that sends.

A socket of the standard library's `ssl` may not be read and written at the same time,
and one that waits for bytes would hold the other side. So the TLS engine works in
memory, under a lock that is never held while a thread waits for the network.

Source: RFC 8446; docs/security.md, *TLS*.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from typing import cast

from pystore.net.receiver import Receiver

__all__ = ["TLS_FIRST_BYTE", "TlsChannel"]

TLS_FIRST_BYTE = b"\x16"
"""With which each TLS connection begins: a record of the handshake."""

_RAW_BYTES = 256 << 10
_HANDSHAKE_BYTES = 4 << 10
"""A peer that has proven nothing costs little memory."""


class TlsChannel:
    """
    The TLS of one connection. One thread receives, one encrypts and sends.

    Args:
        connected: a blocking socket; its owner closes it, and limits its waits.
        context: of the server or the client.
        server_name: which certificate a client expects; ``None``: the side of the
            server.
    """

    def __init__(
        self,
        connected: socket.socket,
        context: ssl.SSLContext,
        server_name: str | None = None,
    ) -> None:
        self._socket = connected
        self._receiver = Receiver(connected)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._engine = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_name is None,
            server_hostname=server_name,
        )
        self._raw = memoryview(bytearray(_HANDSHAKE_BYTES))
        self._lock = threading.Lock()
        self._failure: ssl.SSLError | None = None

    def handshake(self, check: Callable[[], object]) -> None:
        """
        Begins TLS; other calls follow.

        Args:
            check: called before each wait for bytes; raises when that takes too long.

        Raises:
            ssl.SSLError: the peer speaks no TLS, or its certificate is refused.
            OSError: the connection broke, or ended.
        """
        while True:
            try:
                self._engine.do_handshake()
                is_over = True
            except ssl.SSLWantReadError:
                # The next message of the peer is needed.
                is_over = False
            finally:
                # Also the alert that says why it failed.
                self._socket.sendall(self._outgoing.read())
            if is_over:
                self._raw = memoryview(bytearray(_RAW_BYTES))
                return
            check()
            try:
                if not self._fill(is_waiting=True):
                    raise ConnectionResetError("the peer ended the TLS handshake")
            except BlockingIOError:
                # A slice of the wait has passed.
                continue

    def _fill(self, *, is_waiting: bool) -> int:
        size = self._receiver.receive_into(self._raw, is_waiting=is_waiting)
        with self._lock:
            self._incoming.write(self._raw[:size])
        return size

    def receive_into(self, room: memoryview, *, is_waiting: bool = True) -> int:
        """
        Receives bytes, as `pystore.net.receiver.Receiver.receive_into`.

        Raises:
            BlockingIOError: none came in time.
            OSError: the connection broke, or bytes are not what was encrypted.
        """
        done = self._decrypt(room)
        while done < len(room):
            try:
                size = self._fill(is_waiting=is_waiting and not done)
                done += self._decrypt(room[done:])
            except OSError:
                # No more now, or the connection broke: what came before is whole.
                if done:
                    break
                raise
            # A read that was not full took all that there was.
            if not size or (done and size < len(self._raw)):
                break
        return done

    def _decrypt(self, room: memoryview) -> int:
        done = 0
        with self._lock:
            if self._failure is not None:
                raise self._failure
            try:
                while done < len(room):
                    # At most one record a call.
                    left = len(room) - done
                    size = cast("int", self._engine.read(left, room[done:]))
                    if not size:
                        break
                    done += size
            except ssl.SSLWantReadError:
                # All records that are whole were taken.
                return done
            except ssl.SSLZeroReturnError:
                # The peer ended TLS; the end of the connection follows.
                return done
            except ssl.SSLError as error:
                # What came before is whole; the engine reads no more.
                self._failure = error
                if not done:
                    raise
        return done

    def encrypt(self, pieces: Iterable[bytes | memoryview]) -> bytes:
        """
        Returns what to send for these bytes. What it returns has to be sent in this
        order, before the next call's.

        Raises:
            OSError: TLS has ended.
        """
        with self._lock:
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    # At most one record a call.
                    view = view[self._engine.write(view) :]
            return self._outgoing.read()
