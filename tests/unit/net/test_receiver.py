"""
Bytes of a socket come at once, in time, or not at all.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from pystore.net.receiver import Receiver

Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Two sockets, connected."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def _limit(ours: socket.socket, timeout_ms: int) -> None:
    given = struct.pack("@ll", 0, timeout_ms * 1000)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, given)


def test_what_is_there_comes_at_once(ends: Ends) -> None:
    """As much as there is room for; the rest the next time; then the end."""
    ours, theirs = ends
    receiver, room = Receiver(ours), bytearray(4)
    theirs.sendall(b"abcdef")
    theirs.close()

    assert receiver.receive_into(memoryview(room)) == 4
    assert room == b"abcd"
    assert receiver.receive_into(memoryview(room), is_waiting=False) == 2
    assert room[:2] == b"ef"
    assert receiver.receive_into(memoryview(room)) == 0


def test_a_receive_without_bytes_raises_blocking_io_error(ends: Ends) -> None:
    """So does a receive that waits longer than the socket's own limit."""
    ours, _ = ends
    receiver, room = Receiver(ours), memoryview(bytearray(4))
    with pytest.raises(BlockingIOError):
        receiver.receive_into(room, is_waiting=False)
    _limit(ours, 10)

    with pytest.raises(BlockingIOError):
        receiver.receive_into(room)


def test_bytes_that_come_while_it_waits_end_the_wait(ends: Ends) -> None:
    """Whether it looks for them or sleeps: a thousand bytes, one by one."""
    ours, theirs = ends
    receiver, room = Receiver(ours), memoryview(bytearray(1))

    def echo() -> None:
        while theirs.recv(1):
            theirs.send(b"x")

    thread = threading.Thread(target=echo, daemon=True)
    thread.start()
    for _ in range(1000):
        ours.send(b"y")
        assert receiver.receive_into(room) == 1
    ours.shutdown(socket.SHUT_WR)
    thread.join(10)

    assert not thread.is_alive()


def test_a_broken_link_says_why(ends: Ends) -> None:
    """By the number of the system."""
    ours, _ = ends
    receiver, room = Receiver(ours), memoryview(bytearray(4))
    ours.close()

    with pytest.raises(OSError, match="Bad file descriptor"):
        receiver.receive_into(room)


def test_a_signal_is_handled_while_it_waits(ends: Ends) -> None:
    """Its handler runs, and may end the wait; the bytes come after it."""
    ours, theirs = ends
    receiver, room = Receiver(ours), memoryview(bytearray(1))
    seen: list[int] = []

    def handler(number: int, _: object) -> None:
        seen.append(number)
        theirs.send(b"x")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        assert receiver.receive_into(room) == 1
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert seen == [signal.SIGUSR1]
