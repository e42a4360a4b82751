"""
Receives from a socket without sleeping for bytes that come at once.

Both ends of a busy link wait for each other's next frame, which arrives after some tens
of microseconds. Waking a sleeping thread takes longer than that. So the receiver polls
for a while before it sleeps; on a link with rare frames it sleeps at once.

Source: csrc/receive.h.
"""

from __future__ import annotations

import errno
import os
import socket

from pystore.bindings.ffi import ffi, lib

__all__ = ["Receiver"]

_LOOK_NS = 500_000
"""How long it polls before it sleeps, in ns: a round trip with an append."""

_ps_receive = lib.ps_receive


class Receiver:
    """
    Receives from one socket. One thread.

    Args:
        connected: a blocking socket; its owner closes it.
    """

    def __init__(self, connected: socket.socket) -> None:
        # Read the descriptor each time: after a close it may be another file's.
        self._socket = connected
        self._patience = ffi.new("ps_spin *")
        self._patience.spin_ns = _LOOK_NS

    def receive_into(self, room: memoryview, *, is_waiting: bool = True) -> int:
        """
        Receives bytes; waits for them as long as the socket's SO_RCVTIMEO.

        Args:
            room: the buffer.
            is_waiting: whether to wait at all.

        Returns:
            how many bytes; 0: the peer has closed.

        Raises:
            BlockingIOError: none came in time.
            OSError: the connection broke.
        """
        file, asked = self._socket.fileno(), len(room)
        with ffi.from_buffer("uint8_t[]", room) as given:
            while True:
                size: int = _ps_receive(file, given, asked, is_waiting, self._patience)
                if size >= 0:
                    return size
                if -size != errno.EINTR:  # a signal: its handler runs here
                    raise OSError(-size, os.strerror(-size))
