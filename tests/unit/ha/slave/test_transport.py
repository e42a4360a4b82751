"""
A stream to a master: what comes, what goes, and how it ends.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest

from pystore.ha.slave import transport as module
from pystore.ha.slave.transport import MasterStream, StreamLost, connect


class Clock:
    """
    A clock that moves on by a second whenever it is read.
    """

    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        """
        The time in ms.
        """
        self.now_ms += 1000
        return self.now_ms


def forever(act: Callable[[], object]) -> NoReturn:
    """
    Acts until that raises.
    """
    while True:
        act()


@contextmanager
def pair() -> Iterator[tuple[MasterStream, socket.socket]]:
    """
    A stream and the master's end of it.
    """
    ours, theirs = socket.socketpair()
    with theirs, MasterStream(ours) as stream:
        yield stream, theirs


def test_frames_are_taken_from_the_front() -> None:
    """
    What is left of a frame stands in front when the rest arrives.
    """
    with pair() as (stream, master):
        master.send(b"first fra")
        assert 9 == stream.wait(1000)
        stream.take(6)
        master.send(b"me")
        stream.wait(1000)

        assert b"frame" == bytes(stream.data)
        assert 11 == stream.received


def test_a_frame_larger_than_the_buffer_gets_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Moved to the front first, then with twice the room, up to a limit.
    """
    monkeypatch.setattr(module, "_BUFFER_BYTES", 16)
    monkeypatch.setattr(module, "_BUFFER_BYTES_MAX", 64)
    sent = bytes(range(70))
    with pair() as (stream, master):
        master.send(sent[:60])
        stream.wait(1000)
        stream.take(10)
        while stream.received < 60:
            stream.wait(1000)
        assert sent[10:60] == bytes(stream.data)
        master.send(sent[60:] + bytes(100))
        with pytest.raises(StreamLost, match="a frame of more than 64 bytes"):
            forever(lambda: stream.wait(1000))


def test_nothing_comes_within_the_time() -> None:
    """
    Waiting ends without bytes.
    """
    with pair() as (stream, _):
        assert 0 == stream.wait(1)
        assert 0 == stream.wait(-5)


def test_a_master_that_closes_is_lost() -> None:
    """
    After what it sent before.
    """
    with pair() as (stream, master):
        master.send(b"bye")
        master.close()
        assert 3 == stream.wait(1000)
        with pytest.raises(StreamLost, match="the master closed the connection"):
            stream.wait(1000)
        assert b"bye" == bytes(stream.data)


def test_what_the_system_does_not_take_is_sent_later() -> None:
    """
    In order, while the stream waits for bytes.
    """
    data = bytes(range(256)) * 3000
    with pair() as (stream, master):
        stream.send(data)
        stream.send(b"end")
        arrived = bytearray()
        while len(arrived) < len(data) + 3:
            stream.wait(0)
            arrived += master.recv(1 << 20)

    assert data + b"end" == bytes(arrived)


def test_a_master_that_reads_nothing_is_given_up() -> None:
    """
    What waits for it has a limit.
    """
    with (
        pair() as (stream, _),
        pytest.raises(StreamLost, match="does not read what is sent"),
    ):
        forever(lambda: stream.send(bytes(1 << 16)))


def test_a_stream_is_opened_to_a_listener() -> None:
    """
    Without delay of small frames, and with the system's own heartbeats.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with connect("localhost", port, lambda: False, Clock()) as stream:
            peer, _ = server.accept()
            with peer:
                stream.send(b"hello")
                assert b"hello" == peer.recv(10)
            options = [
                stream._socket.getsockopt(*option)
                for option in (
                    (socket.IPPROTO_TCP, socket.TCP_NODELAY),
                    (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                )
            ]
    assert all(options)


def test_a_closed_port_and_an_unknown_host_are_said() -> None:
    """
    One line that names the address.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(StreamLost, match=f"127.0.0.1:{port}: Connection refused"):
        connect("127.0.0.1", port, lambda: False, Clock())
    with pytest.raises(StreamLost, match=r"no\.such\.host\.invalid: "):
        connect("no.such.host.invalid", 1, lambda: False, Clock())


@contextmanager
def silent_listener() -> Iterator[int]:
    """
    The port of a listener whose queue is full: no connection gets through.
    """
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        address = server.getsockname()
        waiting = [socket.socket() for _ in range(8)]
        for one in waiting:
            one.setblocking(False)  # noqa: FBT003
            one.connect_ex(address)
        yield address[1]
        for one in waiting:
            one.close()


def test_no_answer_ends_after_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    By the clock that was given.
    """
    monkeypatch.setattr(module, "SLICE_MS", 1)
    clock = Clock()
    with silent_listener() as port, pytest.raises(StreamLost, match="within 5 s"):
        connect("127.0.0.1", port, lambda: False, clock)

    assert 5000 <= clock.now_ms <= 8000


def test_a_wish_to_stop_ends_the_connecting(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Long before the time is over.
    """
    monkeypatch.setattr(module, "SLICE_MS", 1)
    is_stopping = threading.Event()
    is_stopping.set()
    with (
        silent_listener() as port,
        pytest.raises(StreamLost, match="the follower stops"),
    ):
        connect("127.0.0.1", port, is_stopping.is_set, lambda: 0)


@contextmanager
def slow_resolver() -> Iterator[Callable[..., NoReturn]]:
    """
    Resolves no name before the test is over.
    """
    is_over = threading.Event()

    def resolve(*_: object, **__: object) -> NoReturn:
        is_over.wait()
        raise OSError("too late")

    yield resolve
    is_over.set()


def test_a_name_that_resolves_slowly_does_not_hold_a_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    B13: each change of roles waits for the follower to stop.
    """
    monkeypatch.setattr(module, "SLICE_MS", 1)
    with (
        slow_resolver() as resolve,
        pytest.raises(StreamLost, match="the follower stops"),
    ):
        connect("a.name", 1, lambda: True, Clock(), resolve=resolve)


def test_a_name_that_does_not_resolve_is_given_up_after_five_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    By the clock that was given; the next link resolves it again.
    """
    monkeypatch.setattr(module, "SLICE_MS", 1)
    clock = Clock()
    with (
        slow_resolver() as resolve,
        pytest.raises(StreamLost, match=r"a\.name: the name was not resolved within 5"),
    ):
        connect("a.name", 1, lambda: False, clock, resolve=resolve)

    assert 5000 <= clock.now_ms <= 8000


def test_an_address_is_not_resolved() -> None:
    """
    No thread begins for it.
    """

    def resolve(*_: object, **__: object) -> NoReturn:
        raise AssertionError("an address needs no name server")

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect("127.0.0.1", port, lambda: False, Clock(), resolve=resolve).close()


def test_a_name_that_is_none_is_said() -> None:
    """
    The resolver of Python raises another error for a label that is too long.
    """
    with pytest.raises(StreamLost, match=r"aaa.*: "):
        connect("a" * 70 + ".b", 1, lambda: False, Clock())
