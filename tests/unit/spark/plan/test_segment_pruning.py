"""
Segments left out by consume queues: many, and never one too many.
"""

from __future__ import annotations

import mmap
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from lib.oracle.golden_data import STORES, GoldenStore
from lib.spark.reading import read
from lib.store.cold_files import files_of, make_cold, pages_in_memory
from lib.store.logs import SEGMENT_SIZE
from machine import cached_share
from store_times import set_minutes

from pystore.consumequeue.queue import ENTRY_SIZE
from pystore.core.options import LogOptions
from pystore.fs.layout import ABORT
from pystore.message.columns import gather_columns
from pystore.message.message import Message
from pystore.spark.plan.options import SourceOptions
from pystore.spark.plan.segment_pruning import PrunableSegments, prunable_segments
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.splits import plan_splits
from pystore.store.open_reader import open_reader
from pystore.store.store import Store

MEBIBYTE = 1 << 20
_RECORDS = 25_001  # of the store of a hundred segments
PREPARED = 4
_QUEUE_FILE = 20 * 64
_FIRST_MS = 1_700_000_000_000
_FIFTIETH_MS = _FIRST_MS + 50 * 60_000


def bytes_of(root: Path, selection: Selection) -> int:
    """
    The bytes that the tasks of a query read.
    """
    options = SourceOptions((str(root),))
    splits = plan_splits([root], options, selection, with_epochs=False)
    return sum(split.to_offset - split.from_offset for split in splits)


def bare(root: Path, selection: Selection) -> PrunableSegments:
    """
    The segments that the queues of a store show as prunable.
    """
    log, _ = open_reader(root, LogOptions())
    with log:
        size, end = log.ends().segment_size, log.ends().published_end
        return prunable_segments(root, size, log.segments(), end, selection)


@pytest.fixture
def hundred(disk_path: Path) -> Path:
    """
    A store of 100 segments of 1 MiB, with a rare topic in one of them.
    """
    root = disk_path / "store"
    bodies = [bytes(4000)] * 250
    with Store(root, segment_size=MEBIBYTE) as store:
        for number in range(100):
            store.log.append_columns(gather_columns("Common", bodies))
            if number == 60:
                store.log.append(Message("Rare", b"one"))
    return root


def test_a_topic_of_one_segment_in_a_hundred_reads_under_3_percent(
    hundred: Path,
) -> None:
    """
    Bytes of the log and of the queues are counted together.
    """
    whole = bytes_of(hundred, Selection())
    rare = Selection(topics=frozenset(["Rare"]))
    found = bare(hundred, rare)
    total = bytes_of(hundred, rare) + found.bytes_read

    print(f"{total / whole:.2%} of {whole} bytes")
    assert whole > 98 * MEBIBYTE
    assert total < 0.03 * whole
    assert ["one"] == [row["body"].decode() for row in read(hundred, selection=rare)]


def test_a_time_of_one_segment_in_a_hundred_reads_under_3_percent(
    hundred: Path,
) -> None:
    """
    The first record of each segment is counted, too.
    """
    whole = bytes_of(hundred, Selection())
    firsts = set_minutes(hundred, _FIRST_MS)

    when = Selection(from_ms=_FIFTIETH_MS, to_ms=_FIFTIETH_MS + 1000)
    total = bytes_of(hundred, when) + firsts

    print(f"{total / whole:.2%} of {whole} bytes")
    assert total < 0.03 * whole
    offsets = [row["offset"] for row in read(hundred, ["offset"], selection=when)]
    assert {50} == {offset // MEBIBYTE for offset in offsets}
    assert 50 * MEBIBYTE == offsets[0]
    assert len(offsets) > 250


@pytest.mark.parametrize("what", ["topic", "time"])
def test_one_segment_in_a_hundred_brings_under_3_percent_into_memory(
    hundred: Path, what: str
) -> None:
    """
    The pages of log and queues in the cache are counted, where none was before: there
    is no read-ahead, and empty parts of a queue's file are not read.
    """
    wanted = Selection(topics=frozenset(["Rare"]))
    if what == "time":
        set_minutes(hundred, _FIRST_MS)
        wanted = Selection(from_ms=_FIFTIETH_MS, to_ms=_FIFTIETH_MS + 1000)
    files = files_of(hundred)
    queues = [path for path in files if "consumequeue" in path.parts]
    make_cold(files)

    rows = read(hundred, ["offset"], selection=wanted)

    share = cached_share(files)
    entries = pages_in_memory(queues) * mmap.PAGESIZE
    print(f"{share:.2%} of all files, {entries} bytes of queues")
    assert rows
    assert 0.01 < share < 0.03
    assert entries < 2 * _RECORDS * ENTRY_SIZE


def test_queue_ids_and_queue_offsets_leave_segments_out(tmp_path: Path) -> None:
    """
    With a topic and without one.
    """
    root = tmp_path / "store"
    with Store(root, segment_size=SEGMENT_SIZE) as store:
        for number in range(200):
            store.log.append(Message("T", bytes(2000), queue_id=number // 100))
    whole = bytes_of(root, Selection())

    for selection, part in (
        (Selection(queues=frozenset([1])), 0.6),
        (Selection().queue_offsets(10, 20), 0.4),
        (Selection(frozenset("T"), frozenset([1])).queue_offsets(99, None), 0.2),
        (Selection(topics=frozenset(["None"])), 0.0),
    ):
        assert bytes_of(root, selection) <= part * whole
        _check(root, selection)


def _check(root: Path, selection: Selection) -> None:
    """
    Compares a pruned read with a full one.
    """
    columns = ["offset", "topic", "queueId", "queueOffset"]
    found = read(root, columns, selection=selection, on_damage="skip")
    wanted = [
        row
        for row in read(root, columns, on_damage="skip")
        if (selection.topics is None or row["topic"] in selection.topics)
        and (selection.queues is None or row["queueId"] in selection.queues)
        and row["queueOffset"] >= (selection.from_queue_offset or 0)
        and row["queueOffset"] < (selection.to_queue_offset or 1 << 62)
    ]
    assert wanted == found


@pytest.mark.parametrize("golden", STORES, ids=lambda store: store.name)
def test_no_record_of_a_golden_store_is_left_out(
    golden: GoldenStore, tmp_path: Path
) -> None:
    """
    For every topic, even if its queues are missing.
    """
    root = golden.extract(tmp_path)
    (root / ABORT).unlink(missing_ok=True)
    topics = {line["topic"] for line in golden.records} | {"nobody"}
    for topic in sorted(topics):
        _check(root, Selection(topics=frozenset([topic])))
    for path in sorted((root / "consumequeue").glob("*"))[:1]:
        shutil.rmtree(path)
        _check(root, Selection(topics=frozenset([path.name])))


def test_a_store_that_is_open_is_read_as_a_whole(tmp_path: Path) -> None:
    """
    Its queues may name records that were just cut.
    """
    selection = Selection(topics=frozenset(["None"]))
    with Store(tmp_path / "store", segment_size=SEGMENT_SIZE) as store:
        for _ in range(100):
            store.log.append(Message("T", bytes(2000)))
        store.keep()
        assert PrunableSegments() == bare(store.log.path, selection)
    assert 4 == len(bare(store.log.path, selection).bases)


def _damage(root: Path, chance: random.Random) -> str:
    """
    Damages the queues as faults may do.
    """
    files = sorted((root / "consumequeue").glob("*/*/*"))
    path = chance.choice(files)
    kind = chance.choice(["delete", "file", "zero", "garble", "move", "none"])
    with path.open("r+b") as file:
        used = len(file.read().rstrip(b"\0")) // ENTRY_SIZE
        at = chance.randrange(max(1, used)) * ENTRY_SIZE
        file.seek(at)
        if kind == "zero":
            file.write(bytes(ENTRY_SIZE))
        elif kind == "garble":
            file.seek(at + chance.randrange(12))
            file.write(bytes([chance.randrange(256)]))
    if kind == "delete":
        shutil.rmtree(path.parent)
    elif kind == "file":
        path.unlink()
    elif kind == "move":
        path.parent.rename(path.parent.with_name("17"))
    return f"{kind} {path} at {at}"


def test_no_record_is_left_out_if_the_queues_are_damaged(
    tmp_path: Path,
) -> None:
    """
    Entries are missing or wrong, whole queues are missing, transactions were not
    committed.
    """
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    for turn in range(25):
        root = tmp_path / str(turn)
        _fill(root, chance)
        print(_damage(root, chance))
        for topic in "ABCD":
            _check(root, Selection(topics=frozenset([topic])))
        _check(root, Selection(queues=frozenset([1])))
        _check(root, Selection().queue_offsets(3, 9))


def _fill(root: Path, chance: random.Random) -> None:
    """
    Some segments of a few topics, each for a while.
    """
    options: dict[str, Any] = {"segment_size": SEGMENT_SIZE}
    with Store(root, queue_file_bytes=_QUEUE_FILE, **options) as store:
        for _ in range(chance.randint(2, 8)):
            topic = chance.choice("ABC")
            for _ in range(chance.randint(1, 60)):
                flag = PREPARED if chance.random() < 0.005 else 0
                body = bytes(chance.randint(0, 4000))
                queue = chance.randrange(2)
                store.log.append(Message(topic, body, queue_id=queue, sys_flag=flag))
