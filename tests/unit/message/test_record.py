"""
A record shows what Java shows of the same bytes.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from lib.oracle.golden_data import STORES, GoldenStore

from pystore.bindings.ffi import RECORD_DTYPE
from pystore.message.message import Message
from pystore.message.record import Record

COMPRESSED = 1


def parse(data: bytes) -> Record:
    """
    Parses by the table of formats 1.3, independently of the C core.
    """
    version = 2 if data[7] == 0xAB else 1
    size, _, crc, queue, flag, queue_offset, offset, sys_flag, born = (
        struct.unpack_from(">IIIiiqqIq", data)
    )
    at = 48 + (20 if sys_flag & 0x10 else 8)
    (store_ms,) = struct.unpack_from(">q", data, at)
    at += 8 + (20 if sys_flag & 0x20 else 8)
    reconsumed, prepared, body_size = struct.unpack_from(">iqI", data, at)
    body_at = at + 16
    topic_at = body_at + body_size + version
    topic_size = int.from_bytes(data[topic_at - version : topic_at])
    properties_at = topic_at + topic_size + 2
    properties_size = int.from_bytes(data[properties_at - 2 : properties_at])
    return Record.of(
        (
            offset, queue_offset, store_ms, born, 0, prepared, size, queue, flag,
            sys_flag, reconsumed, crc, body_at, body_size, topic_at, 0xFFFFFFFF,
            properties_at, topic_size, properties_size, version, 0,
        ),
        data,
    )  # fmt: skip


def read(store: GoldenStore, root: Path) -> dict[int, Record]:
    """
    Returns the records that Java listed, by offset.
    """
    found = {}
    for line in store.records:
        offset, size = line["offset"], line["size"]
        base = offset - offset % store.segment_size
        with (root / "commitlog" / f"{base:020}").open("rb") as segment:
            segment.seek(offset - base)
            found[offset] = parse(segment.read(size))
    return found


def test_a_record_has_the_fields_of_a_row_and_its_bytes() -> None:
    """
    A row of a scan becomes a record field by field.
    """
    names = [*(RECORD_DTYPE.names or ()), "data"]
    names.remove("reserved")
    names[names.index("tags_code")] = "indexed_tags_code"

    assert tuple(names) == Record._fields


def test_every_record_of_java_is_shown_as_java_shows_it(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    Every key of the golden lines, for every record, except decompression.
    """
    records = read(golden_store, golden_root)

    for line in golden_store.records:
        wanted = {k: v for k, v in line.items() if not k.startswith("uncompressed")}
        assert wanted == records[line["offset"]].as_dict()


def test_compressed_bodies_are_shown_plain_as_java_saw_them(tmp_path: Path) -> None:
    """
    Length and digest of the plain body are Java's, for all four compressions.
    """
    pytest.importorskip("lz4.frame", reason="comes with the compression extra")
    pytest.importorskip("zstandard", reason="comes with the compression extra")
    (store,) = (store for store in STORES if store.name == "mixed-clean")
    records = read(store, store.extract(tmp_path))

    kinds = set()
    for line in store.records:
        shown = records[line["offset"]].as_dict(plain=True)
        assert line == shown
        if line["sysFlag"] & COMPRESSED:
            kinds.add(line["sysFlag"] >> 8)
    assert {0, 1, 2, 3} == kinds


def test_a_record_becomes_the_message_that_was_appended(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    Appending it again would store the same; the log's own parts are left out.
    """
    for record in read(golden_store, golden_root).values():
        message = record.message()
        properties = record.properties
        properties.pop("__CRC32#", None)
        shown: dict[str, Any] = {
            "topic": record.topic,
            "body": record.body,
            "properties": properties,
            "keys": record.keys,
            "tags": record.tags,
            "born_host": record.born_host,
            "born_ms": record.born_ms,
            "queue_id": record.queue_id,
            "flag": record.flag,
            "reconsume_times": record.reconsume_times,
            "prepared_offset": record.prepared_offset,
            "sys_flag": record.sys_flag & ~0x30,
        }

        assert shown == {name: getattr(message, name) for name in shown}
        assert message == Message.from_form(message.form)


def test_a_record_is_plain_where_it_was_never_compressed(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    A body without the bit is returned as it is; the end is exclusive.
    """
    for record in read(golden_store, golden_root).values():
        assert record.offset + len(record.data) == record.end
        if not record.sys_flag & COMPRESSED:
            assert record.body == record.plain_body


def test_a_record_shows_where_it_is_but_not_its_bytes(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    A log line with a record in it stays a line.
    """
    (record, *_) = read(golden_store, golden_root).values()

    assert repr(record).startswith(f"Record(offset={record.offset}, size=")
    assert len(repr(record)) < 400
