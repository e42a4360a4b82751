"""
Scans of one segment for its latest records.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lib.store.logs import make_root, open_log

from pystore.core.options import LogOptions
from pystore.message.message import Message
from pystore.spark.compact import scan
from pystore.spark.compact.counts import (
    CompactionDamage,
    QueueCount,
    parse_note,
    queue_hash,
)
from pystore.spark.compact.scan import NOTE, RECORD, SCANNED_SCHEMA, scan_segment
from pystore.spark.plan.split import Split
from pystore.store.open_reader import open_reader


def scanned(root: Path, topics: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """
    The rows of a store of one segment.
    """
    log, _ = open_reader(root, LogOptions())
    with log:
        end = log.ends().published_end
    split = Split(str(root), 0, 65536, 0, min(end, 65536), end)
    batches = list(scan_segment(split, topics))
    assert all(batch.schema == SCANNED_SCHEMA for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def store(folder: Path, *messages: Message) -> tuple[Path, list[int]]:
    """
    A store of these messages, and their offsets.
    """
    root = make_root(folder)
    with open_log(root) as log:
        return root, [log.append(message.form).offset for message in messages]


def records(rows: list[dict[str, Any]]) -> dict[tuple[int, bytes], tuple[int, int]]:
    """
    Offset and value for each queue and key.
    """
    return {
        (row["queue"], row["key"]): (row["offset"], row["value"])
        for row in rows
        if row["kind"] == RECORD
    }


def test_the_latest_record_of_each_key_of_each_queue_is_found(tmp_path: Path) -> None:
    """
    With its size, and whether it is a tombstone.
    """
    root, offsets = store(
        tmp_path,
        Message("T", b"1", keys="a"),
        Message("T", b"2", keys="a", queue_id=1),
        Message("U", b"3", keys="a"),
        Message("T", b"4", keys="b"),
        Message("T", b"", keys="a"),
    )

    rows = scanned(root)

    one = offsets[1] - offsets[0]
    assert records(rows) == {
        (queue_hash("T", 0), b"a"): (offsets[4], (one - 1) * 2 + 1),
        (queue_hash("T", 1), b"a"): (offsets[1], one * 2),
        (queue_hash("U", 0), b"a"): (offsets[2], one * 2),
        (queue_hash("T", 0), b"b"): (offsets[3], one * 2),
    }


def test_each_queue_is_counted(tmp_path: Path) -> None:
    """
    Records with and without keys, and tombstones.
    """
    root, offsets = store(
        tmp_path,
        Message("T", b"1", keys="a"),
        Message("U", b"1", keys="a"),
        Message("T", b"2"),
        Message("T", b"", keys="a"),
        Message("T", b""),
    )

    notes = {
        row["queue"]: parse_note(row["key"])
        for row in scanned(root)
        if row["kind"] == NOTE
    }

    found = notes[queue_hash("T", 0)]
    assert isinstance(found, QueueCount)
    assert (4, 2, 1) == (found.records, found.keyless, found.tombstones)
    assert (0, 3) == (found.first_queue_offset, found.last_queue_offset)
    assert (offsets[0], offsets[4]) == (found.first_offset, found.last_offset)
    assert 2 == len(notes)


@pytest.mark.parametrize(
    ("keys", "is_one"),
    [("a", True), (" a", True), (" ", False), ("\t \u3000", False), ("\xa0", True)],
)
def test_white_space_is_no_key_as_in_java(
    keys: str, is_one: bool, tmp_path: Path
) -> None:
    """
    Characters that are white space only in Unicode are a key.
    """
    root, _ = store(tmp_path, Message("T", b"1", keys=keys))

    assert is_one == bool(records(scanned(root)))


def test_records_in_no_queue_are_left_out(tmp_path: Path) -> None:
    """
    Transactions that were prepared or rolled back.
    """
    root, offsets = store(
        tmp_path,
        *(Message("T", b"1", keys=f"k{flag}", sys_flag=flag) for flag in (4, 8, 12)),
    )

    assert [(queue_hash("T", 0), b"k8")] == list(records(scanned(root)))
    assert offsets


def test_topics_are_chosen_by_shell_patterns(tmp_path: Path) -> None:
    """
    One matching pattern is enough.
    """
    messages = [Message(topic, b"1", keys="k") for topic in ("one", "two", "Two", "x")]
    root, _ = store(tmp_path, *messages)

    queues = {queue for queue, _ in records(scanned(root, ("t*", "on?")))}

    assert {queue_hash("one", 0), queue_hash("two", 0)} == queues


def test_pieces_bound_the_memory_and_not_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A key may have a row for each piece; its latest record is among them.
    """
    messages = [Message("T", b"%d" % n, keys=f"k{n % 10}") for n in range(200)]
    root, _ = store(tmp_path, *messages)
    whole = records(scanned(root))
    monkeypatch.setattr(scan, "_ROWS", 16)
    monkeypatch.setattr(scan, "_REDUCE_ROWS", 50)
    monkeypatch.setattr(scan, "_BATCH_ROWS", 3)

    rows = [row for row in scanned(root) if row["kind"] == RECORD]

    assert 10 < len(rows) < 60
    assert whole == records(sorted(rows, key=lambda row: row["offset"]))


def test_damage_is_a_note_with_path_and_offset(tmp_path: Path) -> None:
    """
    It is the last row, so that earlier rows are not taken for the whole segment.
    """
    root, offsets = store(tmp_path, *[Message("T", b"1", keys="k")] * 5)
    path = root / "commitlog" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    content[offsets[3] + 90] ^= 1
    path.write_bytes(content)

    last = scanned(root)[-1]

    damage = parse_note(last["key"])
    assert isinstance(damage, CompactionDamage)
    assert (str(path), offsets[3]) == (damage.path, damage.offset)
    assert "CRC" in damage.text
