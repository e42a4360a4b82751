"""
Receives from a socket without sleeping for bytes that come at once.

Both ends of a link that is busy wait for each other's next frame, which is there
after some tens of microseconds. A thread that sleeps for so short a time is woken
later than that, so it looks for a while first; on a link where bytes come seldom it
sleeps at once.

Source: csrc/receive.h.
"""

from __future__ import annotations

import errno
import os
import socket

from pystore.bindings.ffi import ffi, lib

__all__ = ["Receiver"]

_LOOK_NS = 500_000
"""So long it looks before it sleeps, in ns: a round trip with an append in it."""

_ps_receive = lib.ps_receive


class Receiver:
    """
    The way in of one socket. One thread.

    Args:
        connected: a blocking socket; stays its owner's.
    """

    def __init__(self, connected: socket.socket) -> None:
        # Asked for its number each time: a closed one's may be another's by then.
        self._socket = connected
        self._patience = ffi.new("ps_patience *")
        self._patience.look_ns = _LOOK_NS

    def receive_into(self, room: memoryview, *, is_waiting: bool = True) -> int:
        """
        Receives what is there; waits for it as long as the socket's SO_RCVTIMEO says.

        Args:
            room: where to.
            is_waiting: whether it waits at all.

        Returns:
            how many bytes; 0: the peer has ended.

        Raises:
            BlockingIOError: none came in time.
            OSError: the link broke.
        """
        file, asked = self._socket.fileno(), len(room)
        with ffi.from_buffer("uint8_t[]", room) as given:
            while True:
                size: int = _ps_receive(file, given, asked, is_waiting, self._patience)
                if size >= 0:
                    return size
                if -size != errno.EINTR:  # a signal: its handler runs here
                    raise OSError(-size, os.strerror(-size))
