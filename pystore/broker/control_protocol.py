"""
The protocol of the control socket: frames, the codes of refusals, and limits. Pure.

A frame is the size of its content as a 32-bit number, big-endian, and the content, one
JSON object. Each request has one answer, and the next request of a connection is read
after it. A refusal is an answer with an ``error``.

Source: docs/operations.md, *The control socket*.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, NoReturn

from pystore.errors import InvalidError, PystoreError, RemoteViolation
from pystore.remoting.json_body import read_object
from pystore.text import SCHEMA_VERSION

__all__ = [
    "ANSWER_BYTES_MAX",
    "HEAD_BYTES",
    "TIMEOUT_MS_MAX",
    "ControlCode",
    "ControlError",
    "ControlLimits",
    "content_size",
    "encode_answer",
    "encode_frame",
    "parse_content",
    "refusal",
]

_HEAD = struct.Struct(">I")
HEAD_BYTES = _HEAD.size
ANSWER_BYTES_MAX = 1 << 27
"""The longest answer: a record of the largest body, each byte of it escaped."""
TIMEOUT_MS_MAX = 60_000
"""The longest that an append may wait for its ack."""


class ControlCode(Enum):
    """
    Why a request was refused. A program decides by it what to do.
    """

    BAD_REQUEST = "bad-request"
    """It cannot be answered, today or tomorrow."""
    UNKNOWN_NODE = "unknown-node"
    NOT_REGISTERED = "not-registered"
    """No controller has given the broker its id yet, or the node has failed."""
    NOT_MASTER = "not-master"
    """Append to ``masterId``, at ``masterAddress``."""
    FENCED = "fenced"
    """The master may not acknowledge this now: its lease or its mastership is over."""
    UNAVAILABLE = "unavailable"
    """The ack could not be reached, so nothing was appended."""
    NOT_REACHED = "not-reached"
    """Appended, but the ack was not reached: the records may be lost or stay."""
    OUT_OF_RANGE = "out-of-range"
    FULL = "full"
    """The disk is full: nothing was appended."""
    POISONED = "poisoned"
    """A write-back failed: check the disk, and start the broker again."""
    CORRUPT = "corrupt"
    CUT = "cut"
    """The log was cut during the read: read again."""
    BUSY = "busy"
    """Too many connections, or too many bytes under way: try again later."""
    CLOSED = "closed"
    """The store is closing, or is opened again after a cut."""
    STORAGE = "storage"
    """The system refused."""
    INTERNAL = "internal"
    """A defect of pystore; the broker's log has the details."""


class ControlError(PystoreError):
    """
    A request was refused.

    Attributes:
        code: for programs.
        answer: the whole answer.
    """

    def __init__(
        self, code: ControlCode, text: str, answer: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(text)
        self.code = code
        self.answer = dict(answer or {})


@dataclass(frozen=True, slots=True)
class ControlLimits:
    """
    The bounds of memory and time of a control socket. All are at least 1.

    Attributes:
        connections_max: at once. Each has one request under way at most. For one more,
            the connection that is idle for the longest time is closed.
        frame_bytes_max: the longest content of a request.
        bytes_max: of all requests under way; further ones are not read until there is
            room.
        frame_timeout_ms: from the first byte of a request to its last.
        send_timeout_ms: how long the peer may take to read an answer.

    Raises:
        InvalidError: a number is below 1, or a frame could never be read.
    """

    connections_max: int = 64
    frame_bytes_max: int = 16 << 20
    bytes_max: int = 64 << 20
    frame_timeout_ms: int = 10_000
    send_timeout_ms: int = 10_000

    def __post_init__(self) -> None:
        for one in fields(self):
            if getattr(self, one.name) < 1:
                raise InvalidError(f"{one.name} is {getattr(self, one.name)}")
        if self.bytes_max < self.frame_bytes_max:
            raise InvalidError(
                f"a frame of {self.frame_bytes_max} bytes is not read: bytes_max is "
                f"{self.bytes_max}"
            )


def encode_frame(content: bytes) -> bytes:
    """
    Returns a frame with this content.
    """
    return _HEAD.pack(len(content)) + content


def content_size(head: bytes, most: int) -> int:
    """
    Returns the size of the content that follows a head.

    Args:
        head: `HEAD_BYTES` bytes.
        most: the longest content to read.

    Raises:
        RemoteViolation: it is longer, or there is none.
    """
    size: int = _HEAD.unpack(head)[0]
    if not 0 < size <= most:
        raise RemoteViolation(f"a frame of {size} bytes: expected 1 to {most}")
    return size


def parse_content(content: bytes) -> dict[str, Any]:
    """
    Returns the object of a frame.

    Raises:
        RemoteViolation: it is none.
    """
    try:
        value: object = json.loads(content.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        # The text names the position; or it is not UTF-8, or nested too deeply.
        raise RemoteViolation(f"the content is not JSON: {error}") from error
    return read_object(value, "frame")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def encode_answer(values: Mapping[str, Any]) -> bytes:
    """
    Returns the content of an answer; ``schemaVersion`` comes first.
    """
    whole = {"schemaVersion": SCHEMA_VERSION, **values}
    # Text that is not Unicode, as in a path, stays readable.
    return json.dumps(whole, ensure_ascii=False).encode("utf-8", "backslashreplace")


def refusal(error: ControlError) -> bytes:
    """
    Returns the content of the answer that refuses a request.
    """
    text = " ".join(str(error).split("\n"))
    found = {"code": error.code.value, "text": text}
    return encode_answer({**error.answer, "error": found})
