"""
Reads a commit log slowly and plainly: the oracle of the C scan.

Nothing here is shared with pystore but the names of the columns and of the
reasons. It is written from docs/format.md with `struct` and `zlib` alone, one
record at a time, so that a mistake is not made twice.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

V1, V2, BLANK = 0xDAA320A7, 0xDAA320AB, 0xCBD43194
NO_OFFSET = 2**64 - 1
NO_TOPIC = 2**32 - 1

# What is checked, and why a scan stops: the words of csrc/pystore.h.
BODY, PROPERTY, OFFSET, TAGS, TOPIC, NEED_PROPERTY, PASS_COPIED = (
    1 << n for n in (0, 1, 2, 4, 5, 6, 8)
)
(
    STOP_ROWS,
    STOP_LIMIT,
    STOP_ZERO,
    STOP_LAST,
    STOP_SIZE,
    STOP_MAGIC,
    STOP_LENGTHS,
    STOP_BODY,
    STOP_PROPERTY,
    STOP_OFFSET,
    STOP_UNREADABLE,
    STOP_BLANK,
) = (*range(1, 11), 13, 14)

LEAST_SIZE = 91
DELAYS_S: tuple[int, ...] = (1, 5, 10, 30, *range(60, 660, 60), 1200, 1800, 3600, 7200)

ROW = np.dtype(
    [("offset", "=u8")]
    + [(name, "=i8") for name in ("queue_offset", "store_ms", "born_ms")]
    + [(name, "=i8") for name in ("tags_code", "prepared_offset")]
    + [("size", "=u4"), ("queue_id", "=i4"), ("flag", "=i4"), ("sys_flag", "=u4")]
    + [("reconsume_times", "=i4"), ("body_crc", "=u4"), ("body_at", "=u4")]
    + [(name, "=u4") for name in ("body_size", "topic_at", "topic_id")]
    + [("properties_at", "=u4"), ("topic_size", "=u2"), ("properties_size", "=u2")]
    + [("version", "=u2"), ("proof", "=u2"), ("reserved", "=u4")]
)


class BadRecord(Exception):
    """
    The bytes at a record's start are none; the argument is the reason.
    """


@dataclass
class Record:
    """
    One record, its row and the bytes that a row only points at.
    """

    row: dict[str, int]
    topic: bytes
    properties: bytes
    body: bytes


def crc(data: bytes) -> int:
    """
    The CRC-32 with bit 31 cleared.
    """
    return zlib.crc32(data) & 0x7FFFFFFF


def hash_of(text: str) -> int:
    """
    Java's hash of a string.
    """
    value: int = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return value - (value >> 31 << 32)


def properties_of(raw: bytes) -> dict[str, str]:
    """
    The properties as RocketMQ's parser reads them.
    """
    found = {}
    for chunk in raw.split(b"\x02"):
        name, split, value = chunk.partition(b"\x01")
        if name and split and value:
            found[name.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
    return found


def tags_code_of(topic: bytes, properties: dict[str, str], store_ms: int) -> int:
    """
    The tags code of a queue entry.
    """
    delay = properties.get("DELAY", "0")
    if topic == b"SCHEDULE_TOPIC_XXXX" and delay.isascii() and delay.isdigit():
        level = min(int(delay), len(DELAYS_S))
        if level:
            return store_ms + 1000 * DELAYS_S[level - 1]
    return hash_of(properties.get("TAGS", ""))


def crc_area_of(properties: bytes) -> str:
    """
    Whether the properties end with a property CRC: whole, damaged or none.
    """
    area = properties[-20:]
    if len(area) < 20:
        return "none"
    wrong = sum(a != b for a, b in zip(area[:9], b"__CRC32#\x01", strict=True))
    wrong += sum(not 0x30 <= digit <= 0x39 for digit in area[9:19])
    wrong += area[19] != 2
    return "whole" if wrong == 0 else "damaged" if wrong <= 3 else "none"


def parse(data: bytes, at: int, offset: int, checks: int) -> Record:
    """
    Reads the record at ``data[at]``; ``data`` ends where its segment ends.

    Args:
        data: a segment.
        at: the position in it.
        offset: where the record is in the log.
        checks: which of ``BODY`` .. ``NEED_PROPERTY``.

    Raises:
        BadRecord: it is none, or fails a check.
    """
    left = len(data) - at
    size, magic = struct.unpack_from(">iI", data, at)
    if magic not in (V1, V2):
        raise BadRecord(STOP_MAGIC)
    if not LEAST_SIZE <= size <= left:
        raise BadRecord(STOP_SIZE)
    record = _fields(data[at : at + size], offset)
    whole = data[at : at + size]
    if checks & OFFSET and struct.unpack_from(">Q", whole, 28)[0] != offset:
        raise BadRecord(STOP_OFFSET)
    if checks & BODY:
        if crc(record.body) != record.row["body_crc"] and record.body:
            raise BadRecord(STOP_BODY)
        record.row["proof"] |= 1
    _check_property(record, whole, checks)
    if checks & TAGS:
        record.row["tags_code"] = tags_code_of(
            record.topic, properties_of(record.properties), record.row["store_ms"]
        )
    return record


def _fields(whole: bytes, offset: int) -> Record:
    names = (
        "body_crc",
        "queue_id",
        "flag",
        "queue_offset",
        "sys_flag",
        "born_ms",
    )
    row = dict(zip(names, struct.unpack_from(">IiiqxxxxxxxxIq", whole, 8), strict=True))
    row |= {"offset": offset, "size": len(whole), "tags_code": 0, "reserved": 0}
    row |= {"topic_id": NO_TOPIC, "proof": 0}
    row["version"] = 1 if whole[7] == V1 & 0xFF else 2
    at = 48 + (20 if row["sys_flag"] & 0x10 else 8)
    store = 20 if row["sys_flag"] & 0x20 else 8
    try:
        (row["store_ms"],) = struct.unpack_from(">q", whole, at)
        at += 8 + store
        row["reconsume_times"], row["prepared_offset"], body = struct.unpack_from(
            ">iqi", whole, at
        )
        at += 16
        topic_at = at + body
        topic = int.from_bytes(
            whole[topic_at : topic_at + row["version"]], "big", signed=True
        )
        properties_at = topic_at + row["version"] + topic + 2
        (properties,) = struct.unpack_from(">h", whole, properties_at - 2)
    except struct.error:
        # The lengths lead out of the record.
        raise BadRecord(STOP_LENGTHS) from None
    if min(body, topic, properties) < 0 or properties_at + properties != len(whole):
        raise BadRecord(STOP_LENGTHS)
    row |= {"body_at": at, "body_size": body}
    row |= {"topic_at": topic_at + row["version"], "topic_size": topic}
    row |= {"properties_at": properties_at, "properties_size": properties}
    return Record(
        row,
        whole[row["topic_at"] : row["topic_at"] + topic],
        whole[properties_at:],
        whole[at : at + body],
    )


def _check_property(record: Record, whole: bytes, checks: int) -> None:
    area = crc_area_of(record.properties)
    if area == "whole":
        record.row["proof"] |= 4
        if checks & PROPERTY:
            if int(whole[-2:-12:-1]) == crc(whole[:-20]):
                record.row["proof"] |= 2
            else:
                _pass_copied(record, checks)
    elif checks & NEED_PROPERTY:
        raise BadRecord(STOP_PROPERTY)
    elif checks & PROPERTY and area == "damaged":
        _pass_copied(record, checks)


def _pass_copied(record: Record, checks: int) -> None:
    """
    The property CRC differs: it may be that of another record.
    """
    if not checks & PASS_COPIED:
        raise BadRecord(STOP_PROPERTY)
    if record.body and crc(record.body) != record.row["body_crc"]:
        raise BadRecord(STOP_BODY)
    record.row["proof"] |= 1 | 8


@dataclass
class Tail:
    """
    How a scan ended: the fields of ``ps_cursor``.
    """

    offset: int
    stop: int = 0
    record_start: int | None = None
    record_end: int | None = None
    record_ms: int | None = None
    records: int = 0
    unproved: int = 0
    differs: int = 0
    blanks: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Job:
    """
    The arguments and the state of a scan.
    """

    checks: int
    limit: int
    rows: list[dict[str, int]] | None
    tail: Tail


@dataclass
class ReferenceLog:
    """
    All segments of a store, in memory.

    Attributes:
        bases: where the segments begin.
        segment_size: in bytes.
        topics: names by topic id.
    """

    bases: list[int]
    segment_size: int
    segments: dict[int, bytes]
    topics: list[bytes] = field(default_factory=list)

    @classmethod
    def open(cls, root: Path, segment_size: int) -> ReferenceLog:
        """
        Reads ``<root>/commitlog``; an empty last file is as good as none.
        """
        names = sorted(path.name for path in (root / "commitlog").iterdir())
        if names and not (root / "commitlog" / names[-1]).stat().st_size:
            names.pop()
        segments = {int(n): (root / "commitlog" / n).read_bytes() for n in names}
        return cls(list(segments), segment_size, segments)

    def raw(self, offset: int, size: int) -> bytes:
        """
        Up to ``size`` bytes from ``offset``, within its segment.
        """
        base = offset - offset % self.segment_size
        return self.segments.get(base, b"")[offset - base : offset - base + size]

    def topic_id(self, topic: bytes) -> int:
        """
        The id of a topic, given out in the order of their appearance.
        """
        if topic not in self.topics:
            self.topics.append(topic)
        return self.topics.index(topic)

    def rows(
        self, offset: int, checks: int = BODY | PROPERTY | OFFSET | TAGS | TOPIC
    ) -> Iterator[np.ndarray]:
        """
        The records from ``offset`` to where a scan stops, as one block.
        """
        found: list[dict[str, int]] = []
        self.scan(offset, checks, rows=found)
        block = np.zeros(len(found), ROW)
        for name in ROW.names or ():
            block[name] = [row[name] for row in found]
        yield block

    def topic(self, topic_id: int) -> str:
        """
        The topic of an id in rows.
        """
        return self.topics[topic_id].decode("utf-8", "surrogateescape")

    def scan_end(self, offset: int, checks: int, limit: int = NO_OFFSET) -> Tail:
        """
        How a scan from ``offset`` ends.
        """
        return self.scan(offset, checks, limit=limit)

    def scan(
        self,
        offset: int,
        checks: int,
        limit: int = NO_OFFSET,
        rows: list[dict[str, int]] | None = None,
    ) -> Tail:
        """
        Reads records from ``offset`` until something stops it.
        """
        tail = Tail(offset)
        job = Job(checks, limit, rows, tail)
        while not tail.stop:
            base = tail.offset - tail.offset % self.segment_size
            if base not in self.segments:
                tail.stop = STOP_LAST
                break
            self._step(job, base)
        return tail

    def _step(self, job: Job, base: int) -> None:
        tail = job.tail
        data, at = self.segments[base], tail.offset - base
        left = len(data) - at
        if tail.offset >= job.limit:
            tail.stop = STOP_LIMIT
        elif not any(data[at : at + 8]):
            tail.stop = STOP_ZERO
        elif left < 8:
            tail.stop = STOP_SIZE
        elif int.from_bytes(data[at + 4 : at + 8], "big") == BLANK:
            if int.from_bytes(data[at : at + 4], "big") != left:
                tail.stop = STOP_BLANK
            else:
                tail.blanks.append((tail.offset, left))
                tail.offset = base + len(data)
        else:
            self._record(job, data, at)

    def _record(self, job: Job, data: bytes, at: int) -> None:
        tail = job.tail
        try:
            record = parse(data, at, tail.offset, job.checks)
        except BadRecord as bad:
            # The scan's answer, not a failure of it.
            tail.stop = bad.args[0]
            return
        row = record.row
        end = tail.offset + row["size"]
        if end > job.limit:
            tail.stop = STOP_LIMIT
            return
        if job.checks & TOPIC:
            row["topic_id"] = self.topic_id(record.topic)
        if job.rows is not None:
            job.rows.append(row)
        tail.records += 1
        tail.unproved += row["proof"] & 12 != 4
        tail.differs += bool(row["proof"] & 8)
        tail.record_start, tail.record_end = tail.offset, end
        tail.record_ms, tail.offset = row["store_ms"], end
