"""
The protocol between a repair and a peer that serves the segments of a store. Pure.

A frame is the size of its content as a 32-bit number, big-endian, and the content, one
JSON object. Each request has one answer; the answer to ``block`` is followed by the
bytes of the block. A refusal is an answer with an ``error``, one line. ``challenge`` and
``prove`` come first where both sides are brokers of a set
(`pystore.segments.peer_proof`).

| request | keys | answer |
|---|---|---|
| `challenge` | `epoch`, `challenge` | `challenge`, `proof` of the server, empty if it has none |
| `prove` | `proof` of the reader | |
| `describe` | | `version`, `beginOffset`, `endOffset`, `settledEnd`, `segmentSize`, `epochs`, `identity` |
| `stat` | `segment` | `problem`, `seal` as Base64 or null |
| `digests` | `segment`, `blocks`, at most 16 | `digests`, null for a block that cannot be read |
| `damaged` | `segment` | `blocks` |
| `block` | `segment`, `block` | `bytes`, then so many |

Source: docs/autorecovery.md, *Copies on other machines*.
"""  # noqa: E501

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

from pystore.epochs.table import EpochTable
from pystore.errors import RemoteViolation
from pystore.remoting.json_body import read_list, read_object, read_value
from pystore.rocketmq.identity_file import BrokerIdentity
from pystore.segments.copy import CopyFacts

__all__ = [
    "ANSWER_BYTES_MAX",
    "DIGESTS_MAX",
    "HEAD_BYTES",
    "PEER_VERSION",
    "REQUEST_BYTES_MAX",
    "content_bytes",
    "decode_message",
    "encode_message",
    "facts_json",
    "facts_of",
]

PEER_VERSION = 1
HEAD_BYTES = 4
REQUEST_BYTES_MAX = 4096
ANSWER_BYTES_MAX = 16 << 20
DIGESTS_MAX = 16
"""Blocks of one request: 64 MiB are read in less than the time of an answer."""

_HEAD = struct.Struct(">I")


def encode_message(values: Mapping[str, Any]) -> bytes:
    """
    Returns the frame of a request or an answer.
    """
    content = json.dumps(values, separators=(",", ":")).encode()
    return _HEAD.pack(len(content)) + content


def content_bytes(head: bytes, most: int) -> int:
    """
    Returns the size of the content that follows a head.

    Raises:
        RemoteViolation: it is larger than *most*, or the stream ended within the head.
    """
    if len(head) != HEAD_BYTES:
        raise RemoteViolation(f"{len(head)} bytes, and no frame: the stream ended")
    size: int = _HEAD.unpack(head)[0]
    if size > most:
        raise RemoteViolation(f"a frame of {size} bytes: at most {most} are read")
    return size


def decode_message(content: bytes) -> dict[str, Any]:
    """
    Returns the content of a frame.

    Raises:
        RemoteViolation: it is no JSON object.
    """
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        # Bytes of another protocol, or made to be costly.
        raise RemoteViolation(f"the content of a frame is no JSON: {error}") from error
    return read_object(found, "frame")


def facts_json(facts: CopyFacts) -> dict[str, Any]:
    """
    Returns the facts of a copy as the answer to ``describe``.
    """
    who = facts.identity
    return {
        "version": PEER_VERSION,
        "beginOffset": facts.begin,
        "endOffset": facts.end,
        "settledEnd": facts.settled_end,
        "segmentSize": facts.segment_size,
        "epochs": facts.epochs.pairs(),
        "identity": None if who is None else [who.cluster, who.broker, who.broker_id],
    }


def facts_of(answer: dict[str, Any]) -> CopyFacts:
    """
    Returns the facts in an answer to ``describe``.

    Raises:
        RemoteViolation: the answer is malformed, or of another version.
    """
    version = read_value(answer, "version", int)
    if version != PEER_VERSION:
        raise RemoteViolation(
            f"the peer speaks version {version} of this protocol, and not "
            f"{PEER_VERSION}: use the same pystore on both machines"
        )
    numbers = ("beginOffset", "endOffset", "settledEnd", "segmentSize")
    begin, end, settled, size = (read_value(answer, name, int) for name in numbers)
    if not 0 <= begin <= end or settled > end or size <= 0:
        raise RemoteViolation(f"no log ends so: {begin}, {end}, {settled}, {size}")
    try:
        epochs = EpochTable.of(
            (int(epoch), int(start))
            for epoch, start in read_list(answer.get("epochs"), "epochs")
        )
        who = answer.get("identity")
        identity = None if who is None else BrokerIdentity(*who)
    except (TypeError, ValueError) as error:
        # A row of another shape.
        raise RemoteViolation(f"malformed facts of a copy: {error}") from error
    return CopyFacts(begin, end, settled, size, epochs, identity)
