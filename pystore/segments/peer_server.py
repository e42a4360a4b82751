"""
Serves the segments of one store to repairs on other machines, read only.

Each connection has a thread, and looks at the store as of its own ``describe``. Only
settled segments are served, and where proofs are required, only to brokers of the set
and to those who show a certificate of our authorities. A peer that sends nothing for a
time is closed, and so is the oldest one when there are too many.

Source: docs/autorecovery.md, *Copies on other machines*.
"""

from __future__ import annotations

import base64
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from pystore.errors import InvalidError, PystoreError, RemoteViolation
from pystore.fs.layout import segment_path
from pystore.ha.wire.proof import OPEN, LinkGuard
from pystore.net.tls import ServerTls, TlsMode
from pystore.net.tls_channel import TLS_FIRST_BYTE
from pystore.rates.joint_rate import JointRate
from pystore.rates.shared_rate import SharedRate
from pystore.remoting.json_body import read_list, read_value
from pystore.seals import BLOCK_BYTES
from pystore.segments.peer_proof import (
    CHALLENGE_TEXT,
    SegmentSide,
    challenge_of,
    is_proof,
    segment_proof,
)
from pystore.segments.peer_protocol import (
    DIGESTS_MAX,
    HEAD_BYTES,
    REQUEST_BYTES_MAX,
    content_bytes,
    decode_message,
    encode_message,
    facts_json,
)
from pystore.segments.store_copy import StoreCopy
from pystore.store.mend import PIECE_BYTES

__all__ = ["SegmentServer"]

_CONNECTIONS_MAX = 16
_IDLE_S = 60.0
_BACKLOG = 16
_LEAST_BYTES = 4096
_PAUSE_S = 0.1
_REFUSED = "the request is refused"


class SegmentServer:
    """
    A listener and its connections. A context manager; it serves from its begin.

    Args:
        root: of the store.
        host: to listen on.
        port: 0: any free one.
        tls: ``None``: plain bytes.
        guard: returns what is known of proofs; by default nothing is proven.
        say: receives one line for people about each refused connection.
        rate: of what is served, which other parts of the host may share; ``None``: no
            limit.

    Attributes:
        address: ``HOST:PORT`` that it listens on.

    Raises:
        PystoreError: it is no store.
        OSError: the system refused the port.
    """

    def __init__(
        self,
        root: Path,
        host: str,
        port: int = 0,
        *,
        tls: ServerTls | None = None,
        guard: Callable[[], LinkGuard] = lambda: OPEN,
        say: Callable[[str], object] = bool,
        rate: SharedRate | JointRate | None = None,
    ) -> None:
        StoreCopy(root)  # its error is that of the start
        self._rate: SharedRate | JointRate = rate or SharedRate()
        self._root, self._tls, self._guard, self._say = root, tls, guard, say
        self._listener = socket.create_server((host, port), backlog=_BACKLOG)
        self.address = f"{host}:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._peers: dict[socket.socket, None] = {}
        self._is_closed = False
        self._thread = threading.Thread(
            target=self._accept, name="pystore-segments", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> SegmentServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """
        Ends all connections. Idempotent.
        """
        with self._lock:
            self._is_closed = True
            peers = list(self._peers)
        for one in (self._listener, *peers):
            _end(one)
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                peer, place = self._listener.accept()
            except OSError as error:
                # Closed; or the peer went, or the system has no descriptors now.
                if self._is_closed:
                    return
                self._say(f"no connection for segments is taken: {error}")
                time.sleep(_PAUSE_S)
                continue
            with self._lock:
                if self._is_closed:
                    _end(peer)
                    return
                oldest = next(iter(self._peers), None)
                if oldest is not None and len(self._peers) >= _CONNECTIONS_MAX:
                    del self._peers[oldest]
                    _end(oldest)
                self._peers[peer] = None
            threading.Thread(
                target=self._serve,
                args=(peer, place[0]),
                name="pystore-segments-peer",
                daemon=True,
            ).start()

    def _serve(self, peer: socket.socket, host: str) -> None:
        channel: socket.socket = peer
        try:
            peer.settimeout(_IDLE_S)
            if self._tls is not None and _begins_tls(peer, self._tls.mode):
                channel = self._tls.context().wrap_socket(peer, server_side=True)
            _Connection(self._root, channel, self._guard, self._rate).run()
        except (OSError, ssl.SSLError, PystoreError) as error:
            # The peer went, sent what is no request, or could not prove itself.
            self._say(f"connection of {host} ended: {error}")
        finally:
            with self._lock:
                self._peers.pop(peer, None)
            _end(channel)
            _end(peer)


def _begins_tls(peer: socket.socket, mode: TlsMode) -> bool:
    """
    Whether a peer speaks TLS, where plain bytes are allowed, too.
    """
    if mode is not TlsMode.PERMISSIVE:
        return True
    return peer.recv(1, socket.MSG_PEEK) == TLS_FIRST_BYTE


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        # It wakes the thread that waits in it.
        one.shutdown(socket.SHUT_RDWR)
    one.close()


class _Connection:
    """
    One peer and its view of the store.
    """

    def __init__(
        self,
        root: Path,
        channel: socket.socket,
        guard: Callable[[], LinkGuard],
        rate: SharedRate | JointRate,
    ) -> None:
        self._root, self._channel = root, channel
        self._guard, self._rate = guard, rate
        # Its certificate was verified with our authorities.
        self._is_proven = isinstance(channel, ssl.SSLSocket) and bool(
            channel.getpeercert()
        )
        self._expected = ""
        self._known: StoreCopy | None = None

    @property
    def _copy(self) -> StoreCopy:
        if self._known is None:
            self._known = StoreCopy(self._root, self._rate.use)
        return self._known

    def run(self) -> None:
        """
        Answers requests until the peer ends the connection.
        """
        while head := _received(self._channel, HEAD_BYTES):
            size = content_bytes(head, REQUEST_BYTES_MAX)
            request = decode_message(_received(self._channel, size))
            try:
                self._answer(request)
            except RemoteViolation:
                # It ends the connection.
                raise
            except PystoreError as error:
                # Refused: the peer may ask for something else.
                self._send({"error": str(error)})

    def _send(self, values: dict[str, Any]) -> None:
        self._channel.sendall(encode_message(values))

    def _answer(self, request: dict[str, Any]) -> None:
        what = request.get("request")
        if what == "challenge":
            self._challenge(request)
            return
        if what == "prove":
            self._prove(request.get("proof"))
            return
        if self._guard().is_required and not self._is_proven:
            self._send({"error": _REFUSED})
            raise RemoteViolation("it did not prove that it is a broker of this set")
        if what == "describe":
            self._known = None
            self._send(facts_json(self._copy.facts))
            return
        base = read_value(request, "segment", int)
        if not self._copy.facts.has(base) or base % self._copy.facts.segment_size:
            raise InvalidError(f"there is no settled segment at {base}", offset=base)
        match what:
            case "stat":
                seal = self._copy.seal(base)
                text = seal and base64.b64encode(seal.encode()).decode()
                self._send({"problem": self._copy.problem(base), "seal": text})
            case "digests":
                blocks = read_list(request.get("blocks"), "blocks")
                if len(blocks) > DIGESTS_MAX or not all(map(self._is_block, blocks)):
                    raise RemoteViolation(f"blocks: {str(blocks)[:64]}")
                found = self._copy.digests(base, blocks)
                self._send({"digests": [found[one] for one in blocks]})
            case "damaged":
                self._send({"blocks": sorted(self._copy.damaged_blocks(base))})
            case "block":
                self._send_block(base, read_value(request, "block", int))
            case _:
                raise RemoteViolation(f"{str(what)[:32]!r} is no request")

    def _challenge(self, request: dict[str, Any]) -> None:
        epoch = read_value(request, "epoch", int)
        theirs = challenge_of(request.get("challenge"))
        mine = secrets.token_hex(CHALLENGE_TEXT // 2)
        secret, proof = self._guard().set_secret(epoch), ""
        self._expected = ""
        if secret:
            names = epoch, theirs, mine
            proof = segment_proof(secret, SegmentSide.SERVER, *names)
            self._expected = segment_proof(secret, SegmentSide.READER, *names)
        self._send({"challenge": mine, "proof": proof})

    def _prove(self, given: object) -> None:
        expected, self._expected = self._expected, ""
        if not expected or not is_proof(expected, given):
            self._send({"error": _REFUSED})
            raise RemoteViolation("it did not prove that it is a broker of this set")
        self._is_proven = True
        self._send({})

    def _is_block(self, number: object) -> bool:
        size = self._copy.facts.segment_size
        return isinstance(number, int) and 0 <= number * BLOCK_BYTES < size

    def _send_block(self, base: int, index: int) -> None:
        if not self._is_block(index):
            raise RemoteViolation(f"block: {index}")
        at = index * BLOCK_BYTES
        size = min(BLOCK_BYTES, self._copy.facts.segment_size - at)
        path = segment_path(self._root, base)
        try:
            file = path.open("rb")
        except OSError as error:
            # Retention may have deleted it.
            raise InvalidError(f"{path}: {error.strerror}", offset=base) from error
        with file:
            self._send({"bytes": size})
            end = at + size
            while at < end:
                piece = min(self._piece_bytes(), end - at)
                # The peer compares them with the digest: the page cache is as good.
                if self._channel.sendfile(file, at, piece) != piece:
                    raise RemoteViolation(f"{path}: the file ends early")
                self._rate.use(piece)
                at += piece

    def _piece_bytes(self) -> int:
        """
        How much is sent at once: a block, or what the rate allows within a short time,
        so that the peer never waits for long.
        """
        rate = self._rate.bytes_per_second
        return min(PIECE_BYTES, max(rate // 8, _LEAST_BYTES)) if rate else BLOCK_BYTES


def _received(channel: socket.socket, size: int) -> bytes:
    """
    The next bytes; fewer at the end of the stream.
    """
    pieces = []
    while size and (piece := channel.recv(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
