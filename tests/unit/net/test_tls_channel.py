"""
TLS over a blocking socket, read and written at the same time.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from lib.certificates import Authority

from pystore.net import tls_channel
from pystore.net.tls_channel import TlsChannel

Pair = tuple[TlsChannel, TlsChannel]


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected sockets."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        with client, accepted:
            yield accepted, client


@pytest.fixture
def contexts(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a server at 127.0.0.1, and of a client that knows its authority."""
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(authority.path)
    return server, client


def in_thread(run: Callable[[], object]) -> threading.Thread:
    """Starts a thread."""
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


@pytest.fixture
def pair(
    sockets: tuple[socket.socket, socket.socket],
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> Pair:
    """Both ends, after the handshake."""
    server = TlsChannel(sockets[0], contexts[0])
    client = TlsChannel(sockets[1], contexts[1], "127.0.0.1")
    other = in_thread(lambda: server.handshake(bool))
    client.handshake(bool)
    other.join(20)
    return server, client


def received(channel: TlsChannel, size: int) -> bytes:
    """Returns so many bytes."""
    room = memoryview(bytearray(size))
    done = 0
    while done < size:
        done += channel.receive_into(room[done:])
    return bytes(room)


def test_both_ends_send_and_receive_at_the_same_time(
    pair: Pair, sockets: tuple[socket.socket, socket.socket]
) -> None:
    """Megabytes in both directions, in pieces of any size."""
    sent = [secrets.token_bytes(3_000_000) for _ in pair]
    sizes = [1, 16_384, 16_385, 300_000]

    def send(number: int) -> None:
        view, at = memoryview(sent[number]), 0
        while at < len(view):
            size = secrets.choice(sizes)
            pieces: list[bytes | memoryview] = [view[at : at + size], b""]
            pieces.append(view[at + size : at + 2 * size])
            sockets[number].sendall(pair[number].encrypt(pieces))
            at += 2 * size

    threads = [in_thread(partial(send, number)) for number in (0, 1)]
    found: dict[int, bytes] = {}

    def read(number: int) -> None:
        found[number] = received(pair[number], len(sent[1 - number]))

    threads += [in_thread(partial(read, number)) for number in (0, 1)]
    for thread in threads:
        thread.join(30)
    assert found == {0: sent[1], 1: sent[0]}


def test_without_bytes_nothing_waits_that_must_not(pair: Pair) -> None:
    """As a plain receiver."""
    with pytest.raises(BlockingIOError):
        pair[0].receive_into(memoryview(bytearray(9)), is_waiting=False)


def test_the_end_of_the_connection_is_told(
    pair: Pair, sockets: tuple[socket.socket, socket.socket]
) -> None:
    """After the bytes before it."""
    sockets[1].sendall(pair[1].encrypt([b"last"]))
    sockets[1].shutdown(socket.SHUT_WR)
    assert received(pair[0], 4) == b"last"
    assert pair[0].receive_into(memoryview(bytearray(9))) == 0


def test_changed_bytes_end_the_channel(
    pair: Pair, sockets: tuple[socket.socket, socket.socket]
) -> None:
    """One bit on the way."""
    raw = bytearray(pair[1].encrypt([b"a record"]))
    raw[-1] ^= 1
    sockets[1].sendall(raw)
    with pytest.raises(ssl.SSLError):
        pair[0].receive_into(memoryview(bytearray(9)))


def test_a_name_that_the_certificate_lacks_is_refused(
    sockets: tuple[socket.socket, socket.socket],
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    """The client says so, and the server learns it."""
    server = TlsChannel(sockets[0], contexts[0])
    client = TlsChannel(sockets[1], contexts[1], "127.0.0.2")
    failed: list[Exception] = []

    def serve() -> None:
        try:
            server.handshake(bool)
            received(server, 1)
        except OSError as error:
            # The alert of the client.
            failed.append(error)

    other = in_thread(serve)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"127\.0\.0\.2"):
        client.handshake(bool)
    other.join(20)
    assert "alert" in str(failed[0])


def test_a_peer_that_sends_nothing_is_waited_for_as_the_caller_says(
    sockets: tuple[socket.socket, socket.socket],
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    """The check is called before each wait."""

    def check() -> None:
        raise TimeoutError("too long")

    with pytest.raises(TimeoutError, match="too long"):
        TlsChannel(sockets[0], contexts[0]).handshake(check)
    sockets[1].close()
    with pytest.raises(ConnectionError, match="ended the TLS handshake"):
        TlsChannel(sockets[0], contexts[0]).handshake(bool)


@pytest.fixture
def short_reads(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Pair:
    """Both ends, each of whose reads takes 1,000 bytes of the network at most."""
    monkeypatch.setattr(tls_channel, "_RAW_BYTES", 1000)
    pair: Pair = request.getfixturevalue("pair")
    return pair


def test_bytes_that_wait_are_received_at_once_whatever_a_read_takes(
    sockets: tuple[socket.socket, socket.socket], short_reads: Pair
) -> None:
    """A caller has work for each call, so few calls are cheaper."""
    server, client = short_reads
    sent = secrets.token_bytes(40_000)
    sockets[0].sendall(server.encrypt([sent]))
    room = memoryview(bytearray(50_000))
    assert client.receive_into(room) == len(sent)
    assert room[: len(sent)] == sent
    with pytest.raises(BlockingIOError):
        client.receive_into(room, is_waiting=False)


def test_bytes_before_the_changed_ones_are_received(
    sockets: tuple[socket.socket, socket.socket], short_reads: Pair
) -> None:
    """The last frames of a link may say why it ends."""
    server, client = short_reads
    sent = secrets.token_bytes(5_000)
    sockets[0].sendall(server.encrypt([sent]) + bytes(5_000))
    room = memoryview(bytearray(50_000))
    assert client.receive_into(room) == len(sent)
    for _ in range(2):
        with pytest.raises(ssl.SSLError):
            client.receive_into(room)
