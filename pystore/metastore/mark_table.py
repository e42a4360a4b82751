"""
Tables of queue marks: one row for each queue, so that a change writes the rows of the
queues that changed, however many there are. Pure.

A row is its XXH3-64 with its key, then the number. The head of a table has the number
of its rows and the exclusive or of their digests, so that a missing row is seen.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

import xxhash

from pystore.errors import FormatError
from pystore.fs.layout import META_ADVICE
from pystore.metastore.values import QueueMark

__all__ = ["MarkTable", "Rows", "TableHead"]

_SHORT, _LONG = b"\x00", b"\x01"
_QUEUE_ID = struct.Struct(">i")
_VALUE = struct.Struct(">q")
_PROOF_BYTES = 8
_KEY_BYTES_MAX = 511  # of LMDB
_ERRORS = "surrogateescape"

Rows = dict[bytes, bytes]
"""Keys and bytes."""


@dataclass(frozen=True, slots=True)
class TableHead:
    """
    The record of a whole table.

    Attributes:
        as_of: the end of the log that its rows are of.
        rows: their number.
        proof: the exclusive or of their digests.
        old: the marks in the form of older pystores, which had no rows.
    """

    as_of: int = 0
    rows: int = 0
    proof: int = 0
    old: tuple[QueueMark, ...] | None = None

    @classmethod
    def of(cls, as_of: int, rows: Rows) -> TableHead:
        """
        The head of a table with these rows.
        """
        proof = 0
        for value in rows.values():
            proof ^= _digest_in(value)
        return cls(as_of, len(rows), proof)

    def put(self, stored: bytes | None, value: bytes) -> TableHead:
        """
        The head after one row got another value; ``None``: it was not there.
        """
        rows, proof = self.rows + 1, self.proof ^ _digest_in(value)
        if stored is not None:
            rows, proof = rows - 1, proof ^ _digest_in(stored)
        return TableHead(self.as_of, rows, proof)


class MarkTable:
    """
    The form of one table.

    Args:
        name: of its head; the keys of its rows begin with it.
        only_rises: whether a lower number than the stored one is out of date.
    """

    __slots__ = ("name", "only_rises", "prefix")

    def __init__(self, name: str, *, only_rises: bool = False) -> None:
        self.name = name
        self.only_rises = only_rises
        self.prefix = name.encode() + b":"

    def encode(self, mark: QueueMark) -> tuple[bytes, bytes]:
        """
        The key and the bytes of a row.
        """
        topic = mark.topic.encode("utf-8", _ERRORS)
        key = b"".join((self.prefix, _SHORT, topic, _QUEUE_ID.pack(mark.queue_id)))
        content = _VALUE.pack(mark.value)
        if len(key) > _KEY_BYTES_MAX:
            name = xxhash.xxh3_128_digest(topic)
            key = b"".join((self.prefix, _LONG, name, _QUEUE_ID.pack(mark.queue_id)))
            content += topic
        return key, xxhash.xxh3_64_digest(key + content) + content

    def value_in(self, key: bytes, stored: bytes, path: str) -> int:
        """
        The number in a row.

        Raises:
            FormatError: the bytes do not prove themselves.
        """
        content = stored[_PROOF_BYTES:]
        if stored[:_PROOF_BYTES] != xxhash.xxh3_64_digest(key + content):
            raise self._damaged(path)
        value: int = _VALUE.unpack_from(content)[0]
        return value

    def decode(
        self, rows: Iterable[tuple[bytes, bytes]], head: TableHead, path: str
    ) -> tuple[QueueMark, ...]:
        """
        The marks of all rows.

        Raises:
            FormatError: a row does not prove itself, or the rows are not those of the
                head.
        """
        count = proof = 0
        marks = []
        for key, stored in rows:
            value = self.value_in(key, stored, path)
            (queue_id,) = _QUEUE_ID.unpack(key[-_QUEUE_ID.size :])
            at = len(self.prefix)
            topic = (
                key[at + 1 : -_QUEUE_ID.size]
                if key[at : at + 1] == _SHORT
                else stored[_PROOF_BYTES + _VALUE.size :]
            )
            marks.append(QueueMark(topic.decode("utf-8", _ERRORS), queue_id, value))
            count, proof = count + 1, proof ^ _digest_in(stored)
        if (count, proof) != (head.rows, head.proof):
            raise self._damaged(path)
        return tuple(marks)

    def _damaged(self, path: str) -> FormatError:
        return FormatError(
            f"{path}: the rows of '{self.name}' are damaged: {META_ADVICE}", path=path
        )


def _digest_in(stored: bytes) -> int:
    return int.from_bytes(stored[:_PROOF_BYTES], "big")
