"""
Reading a log from Python: records, rows, blocks, and what is refused.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lib.oracle.golden_data import GoldenStore
from lib.store.logs import SEGMENT_SIZE, make_root, open_log

from pystore.bindings.ffi import Check, Stop
from pystore.core import log_reader
from pystore.core.log_reader import LogReader
from pystore.core.log_writer import LogHandle
from pystore.core.options import LogOptions
from pystore.errors import (
    ClosedError,
    CorruptError,
    InvalidError,
    NotAStoreError,
    OffsetOutOfRange,
)
from pystore.message.message import Message

EVERYTHING = Check.BODY | Check.PROPERTY | Check.OFFSET | Check.TAGS | Check.TOPIC


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogHandle]:
    """
    A log of three hundred records in several segments.
    """
    with open_log(make_root(tmp_path)) as log:
        for number in range(300):
            body = bytes([number % 256]) * number * 2
            log.append(Message(f"T{number % 3}", body, tags=str(number)).form)
        yield log


def test_a_store_of_java_is_read_record_by_record(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    Rows have every record and topic; records have Java's fields.
    """
    with LogReader(golden_root) as store:
        start, end = (golden_store.expected[f"{m}PhyOffset"] for m in ("min", "max"))
        rows = np.concatenate(list(store.scan(start)))
        wanted = [line["offset"] for line in golden_store.records]
        assert wanted == rows["offset"][rows["offset"] < end].tolist()
        for line in golden_store.records:
            shown = store.read(line["offset"]).as_dict()
            assert shown == {k: line[k] for k in shown}


def test_rows_have_the_fields_of_the_records(log: LogHandle) -> None:
    """
    A scan and a read use the same parser.
    """
    rows = np.concatenate(list(log.scan(0, checks=EVERYTHING, rows=7)))

    assert 300 == len(rows)
    for row in rows:
        record = log.read(int(row["offset"]))
        assert (row["size"], row["queue_offset"]) == (record.size, record.queue_offset)
        assert row["tags_code"] == record.tags_code
        assert log.topic(int(row["topic_id"])) == record.topic
        body = record.data[row["body_at"] :][: row["body_size"]]
        assert body == record.body


@pytest.mark.parametrize("rows", [1, 7, 299, 300, 301, 8192])
def test_arrays_of_any_size_give_the_same_rows(log: LogHandle, rows: int) -> None:
    """
    Where one array ends and the next begins does not matter.
    """
    scan = log.scan(0, rows=rows)
    arrays = list(scan)

    assert 300 == sum(map(len, arrays))
    assert all(0 < len(array) <= rows for array in arrays)
    assert scan.cursor == log.scan(0).finish()
    assert 300 == scan.cursor.records
    assert log.ends().published_end == scan.cursor.record_end
    assert not scan.cursor.stop.is_bad


def test_arrays_of_a_scan_are_the_callers(log: LogHandle) -> None:
    """
    The next array does not overwrite the last one.
    """
    first, second, *_ = log.scan(0, rows=10)

    assert first["offset"][-1] < second["offset"][0]
    first["offset"] = 0
    assert not np.shares_memory(first, second)


def test_a_scan_stops_at_its_limit(log: LogHandle) -> None:
    """
    A record that is not wholly below the limit is not among the rows.
    """
    rows = np.concatenate(list(log.scan(0)))
    limit = int(rows[10]["offset"])

    for to_offset, count in ((limit, 10), (limit + 1, 10), (limit - 1, 9)):
        scan = log.scan(0, to_offset)
        assert count == sum(map(len, scan))
        assert Stop.LIMIT == scan.cursor.stop
    assert log.scan(0, limit).finish() == log.scan(0, limit + 1).finish()


def test_a_cursor_before_the_first_step_has_found_nothing(log: LogHandle) -> None:
    """
    Nothing is scanned before the first iteration.
    """
    cursor = log.scan(0).cursor

    assert (0, Stop.ROWS, None, 0, 0) == (
        cursor.offset,
        cursor.stop,
        cursor.record_start,
        cursor.record_end,
        cursor.records,
    )


def test_a_bad_record_ends_a_scan_with_where_and_why(tmp_path: Path) -> None:
    """
    It is in the cursor, not an exception; the text is one line.
    """
    root = make_root(tmp_path)
    with open_log(root) as log:
        ends = [log.append(Message("T", b"body" * 9).form).end for _ in range(5)]
        segment = root / "commitlog" / f"{0:020}"
        with segment.open("r+b") as file:
            file.seek(ends[2] + 100)
            file.write(b"!")

        scan = log.scan(0, checks=EVERYTHING)
        rows = np.concatenate(list(scan))
        cursor = scan.cursor

        assert 3 == len(rows) == cursor.records
        assert (Stop.BODY, ends[2]) == (cursor.stop, cursor.offset)
        assert cursor.stop.is_bad
        assert cursor.text
        assert "\n" not in cursor.text
        assert cursor == log.scan(0, checks=EVERYTHING).finish()
        assert 5 == log.scan(0).finish().records


def test_a_record_larger_than_the_scratch_is_read_whole(tmp_path: Path) -> None:
    """
    The buffer of a call grows when a record needs it.
    """
    with open_log(make_root(tmp_path), segment_size=1 << 20) as log:
        body = os.urandom(300_000)
        log.append(Message("T", body).form)

        assert body == log.read(0).body


def test_reading_where_no_record_is_raises(log: LogHandle) -> None:
    """
    Each kind of wrong offset has its error.
    """
    end = log.ends().published_end
    with pytest.raises(OffsetOutOfRange) as raised:
        log.read(end)
    assert end == raised.value.offset
    with pytest.raises(CorruptError) as corrupt:
        log.read(1)
    assert 1 == corrupt.value.offset
    wrong: Any
    for wrong in (-1, 2**64, "0", None):
        with pytest.raises(InvalidError, match="offset "):
            log.read(wrong)
        with pytest.raises(InvalidError, match="from_offset "):
            log.scan(wrong)
        with pytest.raises(InvalidError, match="ps_block_acquire cannot take"):
            log.acquire(wrong)
    with pytest.raises(InvalidError, match="rows must be at least 1"):
        log.scan(0, rows=0)


def test_blocks_are_the_bytes_of_the_files(log: LogHandle) -> None:
    """
    Joined, they are the log, and none spans segments.
    """
    end = log.ends().published_end
    root = Path(log.path)
    files = b"".join(
        (root / "commitlog" / f"{base:020}").read_bytes() for base in log.segments()
    )

    for size in (1000, 1 << 20):
        blocks = list(log.blocks(0, size_max=size))
        assert files[:end] == b"".join(block.view for block in blocks)
        for block in blocks:
            assert len(block.view) <= size
            last = block.offset + len(block.view) - 1
            assert block.offset // SEGMENT_SIZE == last // SEGMENT_SIZE
    some = b"".join(block.view for block in log.blocks(5, 100_000))
    assert files[5:100_000] == some


def test_rows_find_bodies_in_blocks(log: LogHandle) -> None:
    """
    Bulk readers take positions from rows and bytes from views.
    """
    rows = np.concatenate(list(log.scan(0)))
    for base in log.segments():
        view = log.acquire(base, SEGMENT_SIZE)
        for row in rows[rows["offset"] // SEGMENT_SIZE == base // SEGMENT_SIZE]:
            at = int(row["offset"]) - base + int(row["body_at"])
            body = bytes(view[at : at + int(row["body_size"])])
            assert log.read(int(row["offset"])).body == body


def test_a_view_cannot_be_written(log: LogHandle) -> None:
    """
    The mapping is read-only: a write would end the process.
    """
    view = log.acquire(0)

    assert view.readonly
    assert not np.frombuffer(view, np.uint8).flags.writeable


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "view": lambda view: view,
    "slice": lambda view: view[100:][5:10],
    "array": lambda view: np.frombuffer(view, np.uint8)[7:],
    "view of an array": lambda view: memoryview(np.frombuffer(view, np.uint8).data),
}


@pytest.mark.parametrize("keep", HOLDERS.values(), ids=HOLDERS)
def test_a_block_is_held_until_its_last_view_is_gone(
    log: LogHandle, keep: Callable[[Any], Any]
) -> None:
    """
    A cut waits a second while a view, a slice or an array of it lives, and then leaves
    it what it shows (B14).
    """
    held = keep(log.acquire(0))
    shown = bytes(held)
    gc.collect()

    before = time.monotonic()
    log.cut_begin(0)
    waited = time.monotonic() - before
    log.cut_publish(1)
    log.cut_apply()
    log.cut_end(is_done=True)
    assert 1 <= waited < 10
    assert shown == bytes(held)
    assert 0 == log.ends().published_end


def test_a_view_outlives_its_log(tmp_path: Path) -> None:
    """
    The bytes stay readable after the log is closed and dropped.
    """
    log = open_log(make_root(tmp_path))
    log.append(Message("T", b"body").form)
    view = log.acquire(0)
    before = bytes(view)
    log.close()
    del log
    gc.collect()

    assert before == bytes(view)


def test_segments_are_listed_by_their_bases(log: LogHandle) -> None:
    """
    Oldest first, one segment size apart.
    """
    bases = log.segments()

    assert list(range(0, len(bases) * SEGMENT_SIZE, SEGMENT_SIZE)) == bases
    assert len(bases) == log.ends().segments


def test_more_segments_than_one_call_lists_are_all_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The list grows until it holds them.
    """
    monkeypatch.setattr(log_reader, "_SEGMENTS", 3)
    with open_log(make_root(tmp_path), segment_size=4096) as log:
        for _ in range(9):
            log.append(Message("T", b"").form)
            log.roll()

        assert list(range(0, 40960, 4096)) == log.segments()


def test_an_unknown_topic_id_is_refused(log: LogHandle) -> None:
    """
    Ids come from rows only.
    """
    with pytest.raises(OffsetOutOfRange):
        log.topic(1000)


def test_a_limit_hides_the_records_above(log: LogHandle) -> None:
    """
    A reader without a live page gets the end from its caller; a writer knows it.
    """
    end = int(np.concatenate(list(log.scan(0)))[5]["offset"])
    with LogReader(log.path) as other:
        other.limit(end)

        assert end == other.ends().published_end
        assert 5 == other.scan(0).finish().records
        with pytest.raises(OffsetOutOfRange):
            other.read(end)
    with pytest.raises(InvalidError):
        log.limit(end)


def test_read_bytes_are_valid_while_there_is_no_cut(log: LogHandle) -> None:
    """
    Readers call it after a read.
    """
    ends = log.ends()

    log.unchanged(ends.cut_generation, ends.published_end)


def test_a_closed_reader_refuses_every_call(tmp_path: Path) -> None:
    """
    A second close is allowed, also with a block in use.
    """
    root = make_root(tmp_path)
    open_log(root).close()
    log = LogReader(root)
    log.close()
    log.close()

    calls: list[Any] = [
        log.ends,
        log.segments,
        lambda: log.read(0),
        lambda: next(log.scan(0)),
        lambda: log.scan(0).finish(),
        lambda: log.acquire(0),
        lambda: next(log.blocks(0)),
        lambda: log.topic(0),
        lambda: log.limit(0),
        lambda: log.unchanged(0, 0),
    ]
    for call in calls:
        with pytest.raises(ClosedError):
            call()


def _segment(folder: Path, base: int, size: int, first: bytes = b"") -> None:
    (folder / f"{0:020}").write_bytes(bytes(4096))
    (folder / f"{base:020}").write_bytes(first + bytes(size - len(first)))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda root: root.rmdir(), "commitlog"),
        (lambda root: (root / "x").write_bytes(b""), "x"),
        (lambda root: _segment(root, 4096, 9), f"{4096:020}"),
        (lambda root: _segment(root, 8192, 4096, b"\1"), f"{4096:020}"),
        (lambda root: (root / f"{1:020}").write_bytes(bytes(9)), f"{1:020}"),
    ],
    ids=["missing", "foreign name", "wrong size", "gap", "no base"],
)
def test_the_error_of_a_directory_without_a_log_names_the_file(
    tmp_path: Path, make: Any, text: str
) -> None:
    """
    The line says which file, and the error carries the root.
    """
    root = make_root(tmp_path)
    make(root / "commitlog")

    with pytest.raises(NotAStoreError, match=text) as raised:
        LogReader(root, LogOptions())

    assert os.fspath(root) == raised.value.path
