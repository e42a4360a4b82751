"""
A copy of a log that a peer serves.

While a segment is read block by block, the next block is asked for before the bytes of
one arrive: it comes while that one is compared and written.

Source: docs/autorecovery.md, *Copies on other machines*.
"""

from __future__ import annotations

import base64
import binascii
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from pystore.errors import PystoreError, RemoteViolation, UnavailableError
from pystore.ha.wire.proof import OPEN, LinkGuard
from pystore.net.address import parse_address
from pystore.net.tls import ClientTls
from pystore.remoting.json_body import read_list, read_value
from pystore.seals import BLOCK_BYTES, Seal, parse_seal
from pystore.segments.copy import CopyFacts, block_count
from pystore.segments.peer_proof import (
    CHALLENGE_TEXT,
    SegmentSide,
    challenge_of,
    is_proof,
    segment_proof,
)
from pystore.segments.peer_protocol import (
    ANSWER_BYTES_MAX,
    DIGESTS_MAX,
    HEAD_BYTES,
    content_bytes,
    decode_message,
    encode_message,
    facts_of,
)

__all__ = ["PeerCopy"]

_CONNECT_S = 5.0
_ANSWER_S = 60.0


class PeerCopy:
    """
    The copy of one peer. For one thread; it connects when it is asked, and again after
    its connection failed.

    Args:
        address: ``HOST:PORT``.
        tls: ``None``: plain bytes.
        guard: returns what is known of proofs; by default nothing is proven.

    Attributes:
        name: the address.
        facts: as of now.

    Raises:
        InvalidError: no address.
        UnavailableError: the peer does not answer.
        RemoteViolation: it speaks another protocol.
    """

    def __init__(
        self,
        address: str,
        tls: ClientTls | None = None,
        guard: Callable[[], LinkGuard] = lambda: OPEN,
    ) -> None:
        self.name = address
        self._guard = guard
        self._place = parse_address(address)
        self._tls = tls
        self._channel: socket.socket | None = None
        self._buffer = bytearray(BLOCK_BYTES)
        # The block that was read last, and the one that was asked for ahead.
        self._last: tuple[int, int] | None = None
        self._ahead: tuple[int, int] | None = None
        self._until_s = 0.0
        try:
            self.facts: CopyFacts = facts_of(self._ask("describe"))
        except PystoreError:
            # No caller gets this handle.
            self.close()
            raise

    def close(self) -> None:
        """
        Ends the connection. Idempotent.
        """
        channel, self._channel = self._channel, None
        self._ahead = None
        if channel is not None:
            channel.close()

    def abort(self) -> None:
        """
        Wakes the thread that waits for an answer: it gets none. Any thread.
        """
        channel = self._channel
        if channel is not None:
            with suppress(OSError):
                # It may be closed by now.
                channel.shutdown(socket.SHUT_RDWR)

    def problem(self, base: int) -> str:
        """
        As `pystore.segments.copy.LogCopy.problem`.
        """
        return str(read_value(self._ask("stat", segment=base), "problem", str))

    def seal(self, base: int) -> Seal | None:
        """
        As `pystore.segments.copy.LogCopy.seal`.
        """
        text = self._ask("stat", segment=base).get("seal")
        if text is None:
            return None
        try:
            return parse_seal(base64.b64decode(text, validate=True), self.name)
        except (PystoreError, TypeError, binascii.Error, ValueError):
            # What does not prove itself is no seal.
            return None

    def block(self, base: int, index: int) -> memoryview:
        """
        As `pystore.segments.copy.LogCopy.block`.

        Raises:
            UnavailableError: the peer does not answer.
        """
        place, before = (base, index), self._last
        self._last = None
        size = self._size_ahead(place)
        if size is None:
            answer = self._ask("block", segment=base, block=index)
            size = read_value(answer, "bytes", int)
        if not 0 < size <= BLOCK_BYTES:
            self.close()
            raise RemoteViolation(f"{self.name}: a block of {size} bytes")
        if before == (base, index - 1):
            self._ask_ahead(base, index + 1)
        found = memoryview(self._buffer)[:size]
        self._fill(found)
        self._last = place
        return found

    def _ask_ahead(self, base: int, index: int) -> None:
        if index >= block_count(self.facts.segment_size) or self._channel is None:
            return
        request = {"request": "block", "segment": base, "block": index}
        try:
            self._channel.sendall(encode_message(request))
        except OSError:
            # What is to be read now says why.
            return
        self._ahead = base, index

    def _size_ahead(self, place: tuple[int, int]) -> int | None:
        """
        The size of a block that was asked for ahead, whose bytes follow; ``None``: it
        was not, or what was asked for did not come.
        """
        if self._ahead != place:
            return None
        self._ahead = None
        try:
            return int(read_value(self._answer(), "bytes", int))
        except UnavailableError:
            # The peer has refused it, or waited too long for this side to read: it is
            # asked again.
            return None

    def _drop_ahead(self) -> None:
        """
        Reads what was asked for ahead, and is of no use now.
        """
        if self._ahead is None:
            return
        size = self._size_ahead(self._ahead)
        if size is not None and 0 < size <= BLOCK_BYTES:
            self._fill(memoryview(self._buffer)[:size])
        elif size is not None:
            self.close()

    def digests(self, base: int, indexes: Iterable[int]) -> dict[int, int | None]:
        """
        As `pystore.segments.copy.LogCopy.digests`.
        """
        found: dict[int, int | None] = {}
        wanted = list(indexes)
        for at in range(0, len(wanted), DIGESTS_MAX):
            some = wanted[at : at + DIGESTS_MAX]
            answer = self._ask("digests", segment=base, blocks=some)
            digests = read_list(answer.get("digests"), "digests")
            if len(digests) != len(some):
                raise RemoteViolation(f"{self.name}: {len(digests)} digests")
            found.update(zip(some, digests, strict=True))
        return found

    def damaged_blocks(self, base: int) -> set[int]:
        """
        As `pystore.segments.copy.LogCopy.damaged_blocks`.
        """
        answer = self._ask("damaged", segment=base)
        return set(read_list(answer.get("blocks"), "blocks"))

    def _ask(self, request: str, **more: object) -> dict[str, Any]:
        with suppress(UnavailableError):
            # The peer is asked anew, and then says why it gives no answer.
            self._drop_ahead()
        if self._channel is None:
            self._connect()
        return self._exchange(request, **more)

    def _exchange(self, request: str, **more: object) -> dict[str, Any]:
        channel = self._channel
        assert channel is not None
        try:
            channel.sendall(encode_message({"request": request, **more}))
        except OSError as error:
            # Refused or reset; TLS says why it ended.
            self.close()
            raise self._gone(str(error.strerror or error)) from error
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        self._until_s = time.monotonic() + _ANSWER_S
        try:
            head = self._received(HEAD_BYTES)
            size = content_bytes(head, ANSWER_BYTES_MAX)
            answer = decode_message(self._received(size))
        except OSError as error:
            # Reset, or silent for too long; TLS says why it ended.
            self.close()
            raise self._gone(str(error.strerror or error)) from error
        except RemoteViolation as error:
            # What follows is no answer either.
            self.close()
            raise RemoteViolation(f"{self.name}: {error}") from error
        if "error" in answer:
            raise UnavailableError(f"{self.name}: {str(answer['error'])[:400]}")
        return answer

    def _connect(self) -> None:
        try:
            self._channel = self._connected()
        except OSError as error:
            # Refused; TLS says why it ended.
            raise self._gone(str(error.strerror or error)) from error
        try:
            self._prove()
        except PystoreError:
            # Bytes of a stranger count for nothing.
            self.close()
            raise

    def _prove(self) -> None:
        """
        Proves to be a broker of the peer's set, and lets the peer prove the same, as
        far as there is a secret. A server with a certificate has proven itself.

        Raises:
            UnavailableError: proofs are required, and are not given.
        """
        guard = self._guard()
        needs_proof = guard.is_required and self._tls is None
        epoch = guard.secrets.epoch if guard.secrets is not None else 0
        secret = guard.set_secret(epoch)
        if not secret:
            if needs_proof:
                raise self._gone("this broker has no secret of its set yet")
            return
        mine = secrets.token_hex(CHALLENGE_TEXT // 2)
        answer = self._exchange("challenge", epoch=epoch, challenge=mine)
        names = epoch, mine, challenge_of(answer.get("challenge"))
        theirs, given = (
            segment_proof(secret, SegmentSide.SERVER, *names),
            answer.get("proof"),
        )
        if is_proof(theirs, given):
            own = segment_proof(secret, SegmentSide.READER, *names)
            self._exchange("prove", proof=own)
        elif needs_proof or given:
            raise self._gone("it did not prove that it is a broker of this set")

    def _connected(self) -> socket.socket:
        channel = socket.create_connection(self._place, _CONNECT_S)
        try:
            if self._tls is not None:
                context = self._tls.context()
                channel = context.wrap_socket(channel, server_hostname=self._place[0])
            channel.settimeout(_ANSWER_S)
        except (OSError, ssl.SSLError):
            # The caller says why.
            with suppress(OSError):
                channel.close()
            raise
        return channel

    def _received(self, size: int) -> bytes:
        buffer = bytearray(size)
        self._fill(memoryview(buffer))
        return bytes(buffer)

    def _fill(self, view: memoryview) -> None:
        channel, done = self._channel, 0
        assert channel is not None
        while done < len(view):
            if time.monotonic() > self._until_s:
                self.close()
                raise self._gone(f"it is not whole after {_ANSWER_S:.0f} s")
            try:
                got = channel.recv_into(view[done:])
            except OSError as error:
                # Reset, or silent for too long.
                self.close()
                raise self._gone(str(error.strerror or error)) from error
            if not got:
                self.close()
                raise self._gone("it ended the connection")
            done += got

    def _gone(self, reason: str) -> UnavailableError:
        return UnavailableError(f"{self.name}: no answer: {reason}")
