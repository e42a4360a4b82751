"""
Exported records of broker sets as the bytes of one file. Pure.

The first line is a magic, the format version, the UUID of the record store (``-``:
none), the number of records, and a checksum of the rest; then one record a line, as
`pystore.controller.model.codec` has it. So people can read it, and half a file is none.

Source: docs/operations.md, *All controllers are lost*.
"""

from __future__ import annotations

from collections.abc import Sequence

import xxhash

from pystore.controller.model.codec import decode, encode
from pystore.controller.model.state import SetState
from pystore.errors import FormatError

__all__ = ["decode_export", "encode_export"]

_MAGIC = b"pystore-sets"
_VERSION = b"1"
_NO_CLUSTER = "-"
_PARTS = 5


def encode_export(cluster_id: str, states: Sequence[SetState]) -> bytes:
    """
    Returns the content of a file.

    Args:
        cluster_id: the UUID of the record store; empty: it has none.
        states: of the sets.
    """
    body = b"".join(encode(one) + b"\n" for one in states)
    told = (cluster_id or _NO_CLUSTER).encode()
    return b"%s %s %s %d %s\n%s" % (
        _MAGIC,
        _VERSION,
        told,
        len(states),
        _checksum(body),
        body,
    )


def decode_export(raw: bytes, where: str) -> tuple[str, list[SetState]]:
    """
    Returns the UUID of the record store (empty: none) and the sets of a file.

    Args:
        raw: the content.
        where: the file, for the message.

    Raises:
        FormatError: it is no such file, is not whole, is damaged, or is of a later
            version.
    """
    head, _, body = raw.partition(b"\n")
    parts = head.split(b" ")
    if parts[0] != _MAGIC or len(parts) < _PARTS:
        raise _bad(where, "it is no export of broker sets")
    _, version, told, count, checksum = parts[:_PARTS]
    if version != _VERSION:
        raise _bad(where, "a later pystore wrote it; update")
    lines = body.splitlines()
    if checksum != _checksum(body) or count != b"%d" % len(lines):
        raise _bad(where, "it is damaged, or not whole: take another export")
    cluster_id = told.decode("ascii", "replace")
    states = [
        decode(one, f"{where}, line {number}") for number, one in enumerate(lines, 2)
    ]
    return "" if cluster_id == _NO_CLUSTER else cluster_id, states


def _checksum(body: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(body).encode()


def _bad(where: str, what: str) -> FormatError:
    return FormatError(f"{where}: {what}", path=where)
