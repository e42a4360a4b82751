"""
RocketMQ reads the records of pystore, and would have written the same bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from interop.jvm import StoreTool
from interop.logs import append_all, message_again, new_log, records_at, records_of
from interop.messages import BORN_HOST, BORN_MS, java_again, java_batch
from interop.record_lines import message_of
from lib.oracle.golden_data import GoldenStore

from pystore.core.options import Route
from pystore.message.columns import gather_columns
from pystore.message.message import Message
from pystore.message.record import Record

IPV6_HOST = "[2001:db8:0:0:0:0:0:2]:10911"
CRC_BYTES = 20


def java_config(segment_size: int, *, property_crc: bool) -> dict[str, str]:
    """
    Returns a configuration of RocketMQ that requires the property CRC, or not.
    """
    return {
        "mappedFileSizeCommitLog": str(segment_size),
        "mappedFileSizeConsumeQueue": "2000",
        "maxHashSlotNum": "100",
        "maxIndexNum": "400",
        "enabledAppendPropCRC": str(property_crc).lower(),
        "forceVerifyPropCRC": str(property_crc).lower(),
    }


def segment_size(store: GoldenStore, options: dict[str, Any]) -> int:
    """
    Returns the segment size of *store*, or slightly more where records grow.

    The ``boundary`` stores hold records that just fit.
    """
    had_crc = "enabledAppendPropCRC" in store.expected["config"]
    grow = "store_host" in options or (options["property_crc"] and not had_crc)
    return store.segment_size + (64 if grow else 0)


def timeless(record: Record, *, property_crc: bool) -> bytes:
    """
    Returns the bytes of *record* without its store time and the CRC over it.
    """
    at = 48 + (20 if record.sys_flag & 0x10 else 8)
    end = len(record.data) - (CRC_BYTES if property_crc else 0)
    return record.data[:at] + bytes(8) + record.data[at + 8 : end]


@pytest.mark.parametrize(
    "options",
    [
        {"property_crc": True},
        {"property_crc": False},
        {"property_crc": True, "store_host": IPV6_HOST},
    ],
    ids=["crc", "no-crc", "crc-ipv6"],
)
def test_rocketmq_reads_every_kind_of_record_that_pystore_wrote(
    java: StoreTool,
    golden_store: GoldenStore,
    golden_root: Path,
    tmp_path: Path,
    options: dict[str, Any],
) -> None:
    """
    Pystore appends the messages of every golden store again; RocketMQ reads the same
    records and the same messages.
    """
    root, size = tmp_path / "ours", segment_size(golden_store, options)
    messages = [message_again(record) for record in records_at(golden_root)]
    with new_log(root, size, **options) as log:
        append_all(log, messages)
        written = [record.as_dict(plain=False) for record in records_of(log)]
        end = log.ends().published_end

    config = java_config(size, property_crc=options["property_crc"])
    store = java.open(root, config)
    report = store.report()
    read = report["records"]

    assert end == store.opened["maxPhyOffset"]
    assert [] == report["badRecords"]
    assert written == [{key: line[key] for key in written[0]} for line in read]
    assert [
        message_of(line | {"bornTimestamp": line["bornTimestamp"] or 1})
        for line in golden_store.records
    ] == [message_of(line) for line in read]


@pytest.mark.parametrize("property_crc", [True, False], ids=["crc", "no-crc"])
def test_both_programs_write_the_same_bytes_for_the_same_messages(
    java: StoreTool,
    golden_store: GoldenStore,
    golden_root: Path,
    tmp_path: Path,
    property_crc: bool,
) -> None:
    """
    Offsets, blanks, queue offsets and all bytes are equal, except the store time.
    """
    size = segment_size(golden_store, {"property_crc": property_crc})
    records = records_at(golden_root)
    with new_log(tmp_path / "ours", size, property_crc=property_crc) as log:
        append_all(log, [message_again(record) for record in records])

    store = java.open(tmp_path / "java", java_config(size, property_crc=property_crc))
    store.append([java_again(record) for record in records])
    ours, theirs = records_at(tmp_path / "ours"), records_at(tmp_path / "java")

    assert [record.offset for record in theirs] == [record.offset for record in ours]
    assert [timeless(record, property_crc=property_crc) for record in theirs] == [
        timeless(record, property_crc=property_crc) for record in ours
    ]


@pytest.mark.parametrize("property_crc", [True, False], ids=["crc", "no-crc"])
def test_both_programs_split_a_client_batch_in_the_same_way(
    java: StoreTool,
    tmp_path: Path,
    property_crc: bool,
) -> None:
    """
    A batch of messages becomes the same records, also at the start of a segment.
    """
    batches = [
        b"".join(
            Message(
                "T",
                f"{batch}-{number}".encode() * (1 + number * 7),
                queue_id=3,
                keys=f"k{number}",
                properties={"user": "x" * number} if number else None,
                flag=number,
            ).client_form
            for number in range(20)
        )
        for batch in range(9)
    ]
    with new_log(tmp_path / "ours", 16384, property_crc=property_crc) as log:
        for batch in batches:
            log.append_client_batch(
                Route("T", 3, born_ms=BORN_MS, born_host=BORN_HOST), batch
            )
        ours = records_of(log)

    store = java.open(tmp_path / "java", java_config(16384, property_crc=property_crc))
    store.append([java_batch("T", batch, queueId=3) for batch in batches])
    theirs = records_at(tmp_path / "java")

    assert 180 == len(ours)
    assert [record.offset for record in theirs] == [record.offset for record in ours]
    assert [timeless(record, property_crc=property_crc) for record in theirs] == [
        timeless(record, property_crc=property_crc) for record in ours
    ]


@pytest.mark.parametrize("property_crc", [True, False], ids=["crc", "no-crc"])
def test_rocketmq_reads_what_pystore_appended_as_columns(
    java: StoreTool,
    tmp_path: Path,
    property_crc: bool,
) -> None:
    """
    Bodies, keys, tags, properties, flags and queues are those of the columns.
    """
    count, size = 500, 16384
    bodies = [f"body {number}".encode() * (number % 9) for number in range(count)]
    columns = gather_columns(
        "T",
        bodies,
        keys=[f"key{number}".encode() for number in range(count)],
        tags=[b"" if number % 3 else b"tag" for number in range(count)],
        properties=[b"user\x01%d\x02" % number for number in range(count)],
        queue_ids=[number % 4 for number in range(count)],
        flags=list(range(count)),
    )
    with new_log(tmp_path, size, property_crc=property_crc) as log:
        log.append_columns(columns)
        written = [record.as_dict(plain=True) for record in records_of(log)]

    report = java.open(tmp_path, java_config(size, property_crc=property_crc)).report()
    read = report["records"]

    assert [] == report["badRecords"]
    assert len(report["blanks"]) > 1
    assert written == read
    assert list(range(count)) == [line["flag"] for line in read]
    assert [number % 4 for number in range(count)] == [line["queueId"] for line in read]
    assert [
        {"KEYS": f"key{number}", "user": str(number)}
        | ({} if number % 3 else {"TAGS": "tag"})
        for number in range(count)
    ] == [message_of(line)["properties"] for line in read]
