"""
One stranger: a process that sends to each port of a set, and counts what it hears.
"""

from __future__ import annotations

import random
import re
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fuzz.stranger_inputs import Knowledge, StrangerInputs

from pystore.errors import PystoreError
from pystore.ha.master.proofs import stranger_refusal
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.frames import Challenge
from pystore.remoting.codes import ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.framing import CommandReader
from pystore.segments.peer_protocol import (
    ANSWER_BYTES_MAX,
    HEAD_BYTES,
    content_bytes,
    decode_message,
)

__all__ = ["ALERT", "HEARD", "SENT", "SetPorts", "send_inputs"]

HEARD = (
    "the challenge of a request",
    "the refusal of a request",
    "the challenge of a link",
    "the refusal of a link",
    "the challenge of segments",
    "the refusal of segments",
)
"""All that a stranger may hear, and does hear in some seconds."""

ALERT = "an alert of TLS"
"""What a stranger may hear besides, if its plain bytes begin as TLS does."""

SENT = ("connections", "inputs")
"""What a stranger counts beside."""

_ANSWER_S = 0.05
_INPUTS_MAX = 30
_READ_BYTES = 1 << 16
_ALERT_RECORD = re.compile(rb"\x15\x03[\x00-\x04]\x00\x02[\x01\x02].", re.DOTALL)
_REFUSAL = "the request is refused"


@dataclass(frozen=True)
class SetPorts:
    """
    The ports of a set on this machine.

    Attributes:
        requests: those of controller, name server and brokers.
        links: that of replication; only the master listens.
        segments: those where the brokers serve settled segments.
        authority: the file of the certificate authority.
    """

    requests: Sequence[int]
    links: Sequence[int]
    segments: Sequence[int]
    authority: str


def send_inputs(
    ports: SetPorts, known: Knowledge, seed: int, over: Any, heard: Any
) -> None:
    """
    Sends until it is over.

    Args:
        ports: of the set.
        known: what the stranger knows.
        seed: of all choices.
        over: an event.
        heard: a queue, which gets how often what was heard and sent.
    """
    draw = random.Random(seed)
    inputs = StrangerInputs(draw, known)
    context = ssl.create_default_context(cafile=ports.authority)
    found: Counter[str] = Counter()
    while not over.is_set():
        (kind,) = draw.choices(("links", "segments", "requests"), (4, 2, 4))
        port = draw.choice(getattr(ports, kind))
        count = draw.randrange(1, _INPUTS_MAX)
        if draw.random() < 0.05:
            sent = [inputs.noise()]
        elif kind == "links":
            sent = [inputs.frames() for _ in range(draw.randrange(1, 4))]
        elif kind == "segments":
            sent = [inputs.segments() for _ in range(draw.randrange(1, 4))]
        else:
            sent = [inputs.request(number + 1) for number in range(count)]
        is_plain = draw.random() < 0.1
        try:
            data = _exchanged(port, sent, None if is_plain else context)
        except OSError:
            # The server closed the connection, or takes none at the moment.
            continue
        found["connections"] += 1
        found["inputs"] += len(sent)
        if is_plain and _ALERT_RECORD.fullmatch(data):
            found[ALERT] += 1
        else:
            found.update(_TOLD[kind](data))
    heard.put(found)


def _exchanged(port: int, sent: list[bytes], context: ssl.SSLContext | None) -> bytes:
    received = bytearray()
    with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
        one = plain
        if context is not None:
            one = context.wrap_socket(plain, server_hostname="127.0.0.1")
        with one, suppress(OSError):  # closed by the server: what came before counts
            one.settimeout(_ANSWER_S)
            for data in sent:
                one.sendall(data)
            while data := one.recv(_READ_BYTES):
                received += data
    return bytes(received)


def _answers(data: bytes) -> list[str]:
    reader = CommandReader()
    found = []
    try:
        reader.feed(data)
        while (command := reader.take()) is not None:
            found.append(_told(command))
    except PystoreError as error:
        found.append(f"no frame: {error}")
    return found


def _told(command: RemotingCommand) -> str:
    if not command.flag & 1:
        return f"a request of the server: {command.code}"
    names = set(command.ext_fields)
    if command.code == ResponseCode.SUCCESS and names == {"pystoreChallenge"}:
        return "the challenge of a request"
    told = command.code, command.remark, command.body
    if told == (ResponseCode.NO_PERMISSION, _REFUSAL, b"") and not names:
        return "the refusal of a request"
    return f"answer {command.code}: {command.remark} {sorted(names)}"


def _frames(data: bytes) -> list[str]:
    found: list[str] = []
    view = memoryview(data)
    refusal = stranger_refusal(0)
    while view:
        try:
            frame, size = take_frame(view)
        except PystoreError as error:
            return [*found, f"no frame: {error}"]
        if frame is None:
            return [*found, f"a part of a frame: {bytes(view[:20]).hex()}"]
        view = view[size:]
        if isinstance(frame.body, Challenge):
            found.append("the challenge of a link")
        elif (frame.epoch, frame.body) == (refusal.epoch, refusal.body):
            found.append("the refusal of a link")
        else:
            found.append(f"frame {frame}")
    return found


def _segments(data: bytes) -> list[str]:
    found: list[str] = []
    while data:
        try:
            end = HEAD_BYTES + content_bytes(data[:HEAD_BYTES], ANSWER_BYTES_MAX)
            answer = decode_message(data[HEAD_BYTES:end])
        except (PystoreError, struct.error) as error:
            # Nothing that the protocol has.
            return [*found, f"no frame of segments: {error}"]
        data = data[end:]
        if answer.keys() == {"challenge", "proof"}:
            found.append("the challenge of segments")
        elif answer == {"error": _REFUSAL}:
            found.append("the refusal of segments")
        else:
            found.append(f"of segments: {answer}")
    return found


_TOLD = {"links": _frames, "segments": _segments, "requests": _answers}
