"""
Reads one segment without the core: the same rows, record by record in Python.

For executors without the wheel, which have only pystore's Python files
(``--py-files``). It is a hundred times slower than the core. It checks the same:
structure, embedded offset, and both checksums if requested.

Layout: docs/format.md, message record.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import zlib
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.row import RECORD_DTYPE, Check, Proof, Stop
from pystore.errors import CorruptError, StorageError
from pystore.fs.layout import COMMIT_LOG
from pystore.message.constants import (
    AT_BODY,
    AT_RECONSUME_TIMES,
    AT_STORE_MS,
    BLANK_SIZE,
    CRC_MASK,
    CRC_NAME,
    CRC_SIZE,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
    TOPIC_SIZE_MAX_V1,
    TOPIC_SIZE_MAX_V2,
    born_host_size,
    store_host_size,
)
from pystore.message.java import decode_java
from pystore.message.properties import (
    TAGS,
    delivery_ms,
    parse_properties,
    tags_code,
)
from pystore.spark.plan.split import (
    Damaged,
    Split,
    past_end_text,
    segment_gone,
    unwritten_text,
)
from pystore.spark.scan.cut_watch import CutWatch

__all__ = ["PythonSegment"]

# size, magic, body CRC, queue id, flag, queue offset, offset, system flag, born
_HEAD = struct.Struct(">IIIiiqQIq")
# the store time follows the born host; reconsume times, prepared offset and body size
# follow the store host
_STORE_MS = struct.Struct(">q")
_MIDDLE = struct.Struct(">iqI")
_MAGICS = re.compile(
    b"|".join(
        re.escape(magic.to_bytes(4)) for magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK)
    )
)
_AT_MAGIC = 4
_CRC_HEAD = CRC_NAME.encode() + b"\x01"
_DAMAGED_MAX = 3  # wrong bytes; with more, it was never a property CRC
_SIZED = (Stop.BODY, Stop.PROPERTY, Stop.OFFSET)


class _Bad(Exception):
    """
    There is no valid record: the reason as a code of the core, and as text.
    """

    def __init__(self, stop: Stop, text: str) -> None:
        super().__init__(text)
        self.stop = stop


class PythonSegment:
    """
    As `pystore.spark.scan.core_segment.CoreSegment`.
    """

    def __init__(self, split: Split, checks: Check, rows: int) -> None:
        self._split = split
        self._checks = checks
        self._rows = rows
        self._topics: dict[bytes, int] = {}
        self._watch = CutWatch(split)
        self.unchanged()
        path = split.path
        try:
            with open(path, "rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        except FileNotFoundError as error:
            # The segment was deleted, or the log was cut below it.
            names = sorted(os.listdir(os.path.join(split.store, COMMIT_LOG)))
            raise segment_gone(split, [int(name) for name in names]) from error
        except (OSError, ValueError) as error:  # an empty file cannot be mapped
            raise StorageError(
                f"{path}: cannot read this segment: {error}", path=path
            ) from error
        self._data = memoryview(self._map)
        if len(self._data) < split.limit - split.base:
            raise CorruptError(
                f"{path}: the file ends before byte {split.limit - split.base}: "
                "another program truncated it",
                offset=split.base + len(self._data),
                path=path,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The mapping lives as long as the views of callers.
        self._data.release()
        self._watch.close()

    def unchanged(self) -> None:
        """
        Makes sure that the log was not cut below the split's end.

        Raises:
            CutError: it was cut since the split was planned.
        """
        self._watch.unchanged()

    def topic(self, topic_id: int) -> str:
        """
        Returns the name of a row's topic.
        """
        return decode_java(list(self._topics)[topic_id])

    def data(self, offset: int, size: int) -> memoryview:
        """
        Returns bytes of the segment, without a copy.
        """
        at = offset - self._split.base
        return memoryview(self._map)[at : at + size]

    def pieces(self) -> Iterator[NDArray[Any] | Damaged]:
        """
        Yields rows and damaged ranges, in offset order.
        """
        split = self._split
        rows: list[tuple[Any, ...]] = []
        offset = split.first
        while offset < min(split.limit, split.to_offset):
            try:
                row = self._row(offset)
            except _Bad as bad:
                # As in the core's scan: first the rows before it, then the damage.
                if rows:
                    yield np.array(rows, RECORD_DTYPE)
                    rows = []
                behind = self._behind(offset, bad.stop)
                if offset >= split.from_offset:
                    size = (behind or split.limit) - offset
                    yield Damaged(offset, size, str(bad))
                if behind is None:
                    return
                offset = behind
                continue
            if row is None:  # a blank record: the segment ends
                break
            if offset >= split.from_offset:
                rows.append(row)
            offset += row[6]
            if len(rows) == self._rows:
                yield np.array(rows, RECORD_DTYPE)
                rows = []
        if rows:
            yield np.array(rows, RECORD_DTYPE)

    def _behind(self, offset: int, stop: Stop) -> int | None:
        """
        The start of the next record behind a bad one; ``None``: it is not known.
        """
        if stop in _SIZED:
            at = offset - self._split.base
            behind = offset + int.from_bytes(self._data[at : at + 4])
            if behind >= self._split.limit:
                return None
            try:
                self._row(behind, Check.OFFSET)
            except _Bad as bad:
                # Zeros are no damage: the log may end there.
                if not bad.stop.is_bad:
                    return behind
            else:
                return behind
        return self._search(offset + 1)

    def _search(self, offset: int) -> int | None:
        """
        The next bytes that prove to be a record or a blank record at their place, as
        the core finds them.
        """
        base, limit = self._split.base, self._split.limit
        at = offset - base + _AT_MAGIC
        for found in _MAGICS.finditer(self._data, at, limit - base):
            start = base + found.start() - _AT_MAGIC
            try:
                row = self._row(start, Check.OFFSET)
            except (_Bad, struct.error):
                continue  # bytes of a body that look like a magic
            if row is not None or base + self._split.segment_size <= limit:
                return start
        return None

    def _row(self, offset: int, checks: Check | None = None) -> tuple[Any, ...] | None:
        """
        The row of the record at an offset; ``None`` for a blank one.
        """
        split, checks = self._split, self._checks if checks is None else checks
        at, rest = offset - split.base, split.base + split.segment_size - offset
        if rest < BLANK_SIZE:
            if any(self._data[at : at + rest]):
                raise _Bad(
                    Stop.SIZE,
                    f"record at offset {offset}: {rest} bytes remain in the segment, "
                    "none starts in so few",
                )
            raise _Bad(Stop.ZERO, unwritten_text(offset))
        if offset + BLANK_SIZE > split.limit and len(self._data) < at + BLANK_SIZE:
            raise _Bad(Stop.LIMIT, past_end_text(offset, split.limit))
        size, magic = struct.unpack_from(">II", self._data, at)
        if magic not in (MAGIC_V1, MAGIC_V2):
            _check_blank(offset, size, magic, rest)
            return None
        if not RECORD_SIZE_MIN <= size <= min(rest, 2**31 - 1):
            raise _Bad(
                Stop.SIZE,
                f"record at offset {offset}: size {_signed(size)} is not from "
                f"{RECORD_SIZE_MIN} to the {rest} that remain",
            )
        if offset + size > split.limit:
            raise _Bad(Stop.LIMIT, past_end_text(offset, split.limit))
        record = self._data[at : at + size]
        row = _fields(record, offset)
        row["proof"] = _proof(record, row, offset, checks)
        if checks & Check.TOPIC or checks & Check.TAGS:
            self._name(record, row, checks)
        return tuple(row.values())

    def _name(self, record: memoryview, row: dict[str, int], checks: Check) -> None:
        topic = _part(record, row, "topic")
        if checks & Check.TOPIC:
            row["topic_id"] = self._topics.setdefault(topic, len(self._topics))
        if checks & Check.TAGS:
            found = parse_properties(_part(record, row, "properties"))
            name = decode_java(topic)
            due = delivery_ms(name, found, row["store_ms"])
            row["tags_code"] = tags_code(found.get(TAGS)) if due is None else due


def _check_blank(offset: int, size: int, magic: int, rest: int) -> None:
    """
    Checks that bytes that are no record are a blank record.
    """
    if size == magic == 0:
        raise _Bad(Stop.ZERO, unwritten_text(offset))
    if magic != MAGIC_BLANK:
        raise _Bad(
            Stop.MAGIC,
            f"record at offset {offset}: magic 0x{magic:08x} is neither of a record "
            "nor of a blank record",
        )
    if size != rest:
        raise _Bad(
            Stop.BLANK,
            f"blank record at offset {offset}: size {_signed(size)} is not the {rest} "
            "that remain in the segment",
        )


def _signed(size: int) -> int:
    return size - ((size & 0x80000000) << 1)


def _part(record: memoryview, row: dict[str, int], name: str) -> bytes:
    at = row[f"{name}_at"]
    return bytes(record[at : at + row[f"{name}_size"]])


def _fields(record: memoryview, offset: int) -> dict[str, int]:
    """
    The fields in the order of ``RECORD_DTYPE``.
    """
    size, magic, body_crc, queue_id, flag, queue_offset, _, sys_flag, born_ms = (
        _HEAD.unpack_from(record)
    )
    wide = int(magic == MAGIC_V2)
    born = born_host_size(sys_flag)
    hosts = born + store_host_size(sys_flag)
    body_at = AT_BODY + hosts
    around = body_at + 1 + wide + 2
    what = f"record at offset {offset}:"
    if size < around:
        raise _Bad(
            Stop.LENGTHS,
            f"{what} size {size} is below the {around} that its hosts need",
        )
    times, prepared, body_size = _MIDDLE.unpack_from(record, AT_RECONSUME_TIMES + hosts)
    if body_size > size - around:
        raise _Bad(
            Stop.LENGTHS,
            f"{what} body size {_signed(body_size)} does not fit size {size}",
        )
    tail = body_at + body_size
    topic_size = int.from_bytes(record[tail : tail + 1 + wide])
    left = size - around - body_size
    if topic_size > min(left, TOPIC_SIZE_MAX_V2 if wide else TOPIC_SIZE_MAX_V1):
        signed = topic_size - (1 << 8 * (1 + wide))
        shown = signed if topic_size >> 8 * (1 + wide) - 1 else topic_size
        raise _Bad(
            Stop.LENGTHS,
            f"{what} topic size {shown} does not fit size {size} with a body of "
            f"{body_size}",
        )
    topic_at = tail + 1 + wide
    at = topic_at + topic_size
    properties_size = int.from_bytes(record[at : at + 2], signed=True)
    left -= topic_size
    if properties_size != left:
        raise _Bad(
            Stop.LENGTHS,
            f"{what} properties size {properties_size}, but size {size} leaves {left} "
            f"behind a body of {body_size} and a topic of {topic_size}",
        )
    (store_ms,) = _STORE_MS.unpack_from(record, AT_STORE_MS + born)
    return {
        "offset": offset,
        "queue_offset": queue_offset,
        "store_ms": store_ms,
        "born_ms": born_ms,
        "tags_code": 0,
        "prepared_offset": prepared,
        "size": size,
        "queue_id": queue_id,
        "flag": flag,
        "sys_flag": sys_flag,
        "reconsume_times": times,
        "body_crc": body_crc,
        "body_at": body_at,
        "body_size": body_size,
        "topic_at": topic_at,
        "topic_id": 2**32 - 1,
        "properties_at": at + 2,
        "topic_size": topic_size,
        "properties_size": properties_size,
        "version": 1 + wide,
        "proof": 0,
        "reserved": 0,
    }


def _proof(
    record: memoryview, row: dict[str, int], offset: int, checks: Check
) -> Proof:
    """
    Checks the offset and the checksums, and returns what they prove.
    """
    what = f"record at offset {offset}:"
    stored_offset = int.from_bytes(record[28:36])
    if checks & Check.OFFSET and stored_offset != offset:
        raise _Bad(Stop.OFFSET, f"{what} it says it is at {stored_offset}")
    area = bytes(record[-CRC_SIZE:]) if row["properties_size"] >= CRC_SIZE else b""
    wrong = _wrong_in_area(area)
    proof = Proof(0)
    if checks & Check.BODY:
        body = record[row["body_at"] : row["body_at"] + row["body_size"]]
        found = zlib.crc32(body) & CRC_MASK
        if found != row["body_crc"]:
            raise _Bad(
                Stop.BODY,
                f"{what} body CRC 0x{row['body_crc']:08x} stored, 0x{found:08x} "
                f"computed over {row['body_size']} bytes",
            )
        proof |= Proof.BODY
    if not wrong:
        proof |= Proof.HAS_PROPERTY
    elif wrong <= _DAMAGED_MAX and checks & Check.PROPERTY:
        raise _Bad(Stop.PROPERTY, f"{what} its property CRC is no longer one")
    if not wrong and checks & Check.PROPERTY:
        stored = int(area[9:19][::-1])
        found = zlib.crc32(record[:-CRC_SIZE]) & CRC_MASK
        if stored != found:
            raise _Bad(
                Stop.PROPERTY,
                f"{what} property CRC {stored} stored, {found} computed",
            )
        proof |= Proof.PROPERTY
    return proof


def _wrong_in_area(area: bytes) -> int:
    """
    The number of bytes that differ from the form of a property CRC.
    """
    if len(area) < CRC_SIZE:
        return CRC_SIZE
    wrong = sum(a != b for a, b in zip(area[:9], _CRC_HEAD, strict=True))
    wrong += sum(not 0x30 <= digit <= 0x39 for digit in area[9:19])
    return wrong + (area[19] != 2)
