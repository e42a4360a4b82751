"""
What a reader of segments and the broker that serves them prove each other: that both
are brokers of one set. Pure.

The controllers give each broker of a set one secret for each mastership. A proof covers
the epoch and random bytes of both sides, so none can be sent again, or back.

Source: RFC 2104; docs/security.md, *Segments*.
"""

from __future__ import annotations

import hmac
import struct
from enum import Enum

from pystore.errors import RemoteViolation

__all__ = ["CHALLENGE_TEXT", "SegmentSide", "challenge_of", "is_proof", "segment_proof"]

CHALLENGE_TEXT = 32
"""Hexadecimal digits of the random bytes of each side."""

_EPOCH = struct.Struct(">q")


class SegmentSide(Enum):
    """
    The side that proves itself.
    """

    READER = b"pystore segments: reader"
    SERVER = b"pystore segments: server"


def challenge_of(text: object) -> str:
    """
    Returns the random bytes of the other side, as their digits.

    Raises:
        RemoteViolation: they are none.
    """
    if not isinstance(text, str) or len(text) != CHALLENGE_TEXT or not text.isascii():
        raise RemoteViolation("a proof without random bytes")
    return text


def segment_proof(
    secret: bytes, side: SegmentSide, epoch: int, reader: str, server: str
) -> str:
    """
    Returns the proof of one side.

    Args:
        secret: of the set, in the epoch.
        side: that proves itself.
        epoch: of the mastership.
        reader: random bytes of the reader, as digits.
        server: of the server.
    """
    content = side.value + _EPOCH.pack(epoch) + (reader + server).encode()
    return hmac.new(secret, content, "sha256").hexdigest()


def is_proof(expected: str, given: object) -> bool:
    """
    Whether a peer sent the proof that is expected; how long that takes tells nothing.
    """
    return (
        isinstance(given, str)
        and given.isascii()
        and hmac.compare_digest(expected, given)
    )
