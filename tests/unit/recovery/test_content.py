"""
What RocketMQ writes is content, whatever stands in it, and one wrong queue entry
is no proof against a log.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from lib.command_line import overwrite
from lib.oracle.golden_data import STORES

from pystore.store.commit_log import CommitLog
from pystore.store.store import Store
from pystore.verify import verify_store

RECORDS = 100
LAST_MS = 1700000000000 + RECORDS
ODD = {
    "a NUL in a property": b"k\x01a\0b\x02",
    "a copied property CRC": b"__CRC32#\x010123456789\x02",
    "properties without an entry": b"\x02\x02",
}


def write_store(
    root: Path,
    odd: bytes = b"k\x01v\x02",
    at: int = 0,
    *,
    is_killed: bool,
    steps: dict[int, int] | None = None,
) -> int:
    """
    A store as RocketMQ writes it, in which one record has odd properties; returns the
    end of its log.

    Args:
        root: of the store.
        odd: the property string of the record *at*.
        at: the number of that record.
        is_killed: whether RocketMQ did not close it.
        steps: by how many ms the clock steps before a record.
    """
    clock_ms = 1700000000000
    host, body = b"\x7f\0\0\x01\0\0\x10\0", b"payload"
    log, queue = b"", b""
    for number in range(RECORDS):
        properties = odd if number == at else b"k\x01v\x02"
        clock_ms += 1 + (steps or {}).get(number, 0)
        head = struct.pack(
            ">IiiiqqiQ8sQ8siqi",
            0xDAA320A7,
            zlib.crc32(body) & 0x7FFFFFFF,
            0,
            0,
            number,
            len(log),
            0,
            1,
            host,
            clock_ms,
            host,
            0,
            0,
            len(body),
        )
        tail = body + b"\x01t" + struct.pack(">H", len(properties)) + properties
        size = 4 + len(head) + len(tail)
        queue += struct.pack(">qiq", len(log), size, 0)
        log += struct.pack(">i", size) + head + tail
    for folder, data, size in (
        ("commitlog", log, 65536),
        ("consumequeue/t/0", queue, 6000),
    ):
        (root / folder).mkdir(parents=True)
        (root / folder / f"{0:020d}").write_bytes(data.ljust(size, b"\0"))
    times = [0, 0] if is_killed else [LAST_MS, LAST_MS]
    (root / "checkpoint").write_bytes(struct.pack(">qq", *times).ljust(4096, b"\0"))
    if is_killed:
        (root / "abort").write_text("12345")
    return len(log)


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("at", [0, RECORDS // 2, RECORDS - 1])
@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "clean"])
def test_a_record_with_odd_properties_is_kept_wherever_it_stands(
    tmp_path: Path, kind: str, at: int, *, is_killed: bool
) -> None:
    """
    The log keeps its end and its 100 records, and `verify` calls nothing bad.
    """
    root = tmp_path / "store"
    end = write_store(root, ODD[kind], at, is_killed=is_killed)
    before = verify_store(root)
    with CommitLog(root) as log:
        assert (end, 0) == (log.end_offset, log.recovery.cut_bytes)
        assert RECORDS == sum(len(rows) for rows in log.scan())
    after = verify_store(root)

    for report in (before, after):
        assert (RECORDS, ()) == (report.records, tuple(report.damages))
        assert "whole" == report.verdict
    assert [] == list(tmp_path.glob("store.lost-*"))


@pytest.mark.parametrize("entries", [0, 8, 30, RECORDS])
@pytest.mark.parametrize("at", [1, 20, RECORDS - 1])
@pytest.mark.parametrize("step_ms", [-5_000, -3_600_000, 3_600_000])
def test_a_step_of_the_clock_cuts_no_record_whose_queue_entry_is_missing(
    tmp_path: Path, entries: int, at: int, step_ms: int
) -> None:
    """
    RocketMQ's store times follow the wall clock, and its queues reach the disk late:
    the queue offsets go on, so nothing is stale.
    """
    root = tmp_path / "store"
    end = write_store(root, is_killed=True, steps={at: step_ms})
    queue = root / "consumequeue/t/0" / f"{0:020d}"
    overwrite(queue, 20 * entries, bytes(20 * (RECORDS - entries)))
    report = verify_store(root)
    with CommitLog(root) as log:
        assert (end, 0) == (log.end_offset, log.recovery.cut_bytes)
        assert RECORDS == sum(len(rows) for rows in log.scan())

    assert ("whole", RECORDS) == (report.verdict, report.records)
    assert [] == list(tmp_path.glob("store.lost-*"))


def test_one_wrong_queue_entry_does_not_refuse_a_whole_log(tmp_path: Path) -> None:
    """
    An entry that names bytes beyond every segment is a damaged queue: nothing is given
    up, and the store builds it again.
    """
    (golden,) = (one for one in STORES if one.name == "mixed-clean")
    root = golden.extract(tmp_path)
    whole = verify_store(root).queues.entries
    queue = next((root / "consumequeue/SCHEDULE_TOPIC_XXXX/13").iterdir())
    overwrite(queue, 3, b"\xff")
    with CommitLog(root) as log:
        assert 0 == log.recovery.cut_bytes
        assert len(golden.records) == sum(len(rows) for rows in log.scan())
    with Store(root):
        pass
    report = verify_store(root)

    assert ("whole", whole) == (report.verdict, report.queues.entries)
