"""
One consume queue: what can be read, found, appended and cut.
"""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from pystore.consumequeue.files import QueueFiles
from pystore.consumequeue.queue import (
    ENTRY_DTYPE,
    ConsumeQueue,
    Entries,
    QueueEntry,
    is_filler,
)
from pystore.errors import InvalidError, OffsetOutOfRange
from pystore.fs.fd_cache import FdCache
from pystore.message.properties import tags_code

PER_FILE = 10


def _queue(folder: Path, expected: int | None = None) -> ConsumeQueue:
    files = QueueFiles(folder, 20 * PER_FILE, is_writable=True, pool=FdCache())
    queue = ConsumeQueue("T", 0, files)
    queue.load(expected)
    return queue


def _entries(first: int, count: int) -> Entries:
    """
    Entries of 100-byte records at offsets 100 * index.
    """
    entries = np.empty(count, ENTRY_DTYPE)
    entries["offset"] = 100 * np.arange(first, first + count)
    entries["size"] = 100
    entries["tags_code"] = np.arange(first, first + count) % 3
    return entries


def test_an_entry_is_rocketmq_s_20_bytes(tmp_path: Path) -> None:
    """
    The vector of the format page: a 107-byte record at offset 107, no tags.
    """
    queue = _queue(tmp_path)
    entries = np.array([(107, 107, 0)], ENTRY_DTYPE)

    queue.append(0, entries)

    assert "000000000000006b0000006b0000000000000000" == queue.files.read(0, 20).hex()
    assert QueueEntry(107, 107, 0) == queue.read(0)
    assert 214 == queue.end_offset


def test_a_queue_that_begins_in_the_middle_has_fillers_before(tmp_path: Path) -> None:
    """
    As RocketMQ fills them: (0, 2147483647, 0), from the start of the first file.
    """
    queue = _queue(tmp_path)

    queue.append(13, _entries(13, 1))

    filler = struct.pack(">qiq", 0, 2**31 - 1, 0)
    assert filler * 3 == queue.files.read(200, 60)
    assert [200] == queue.files.bases
    assert (10, 14, 13) == (queue.first_slot, queue.max_index, queue.first_index(0))
    with pytest.raises(
        OffsetOutOfRange, match=r"T, queue 0: queue offset 12 is not within \[10, 14\)"
    ):
        queue.read(12)
    again = _queue(tmp_path)
    assert (10, 14, 1400) == (again.first_slot, again.max_index, again.end_offset)


@pytest.mark.parametrize("index", [-1, 0, 25, 10**18])
def test_a_missing_entry_cannot_be_read(index: int, tmp_path: Path) -> None:
    """
    Below the first file, at the end, and far away.
    """
    queue = _queue(tmp_path)
    queue.append(0, _entries(0, 25))
    queue.delete_before(1000)

    with pytest.raises(OffsetOutOfRange):
        queue.read(index)


def test_blocks_of_entries_end_with_the_queue(tmp_path: Path) -> None:
    """
    A count beyond the end is allowed, a start beyond it is not.
    """
    queue = _queue(tmp_path)
    queue.append(0, _entries(0, 25))

    assert _entries(5, 20).tolist() == queue.entries(5, 1000).tolist()
    assert 0 == len(queue.entries(25, 10))
    assert 0 == len(queue.entries(3, 0))
    with pytest.raises(OffsetOutOfRange):
        queue.entries(26, 1)


def test_tags_are_found_by_their_code(tmp_path: Path) -> None:
    """
    The caller compares: ``Aa`` and ``BB`` have one code.
    """
    queue = _queue(tmp_path)
    entries = _entries(0, 9)
    entries["tags_code"][[2, 5]] = [tags_code("Aa"), tags_code("BB")]
    queue.append(3, entries)

    assert [5, 8] == queue.find_tags(tags_code("Aa"), 0, 100).tolist()
    assert [8] == queue.find_tags(2112, 6, 100).tolist()
    assert [] == queue.find_tags(2112, 6, 2).tolist()
    # The fillers' code is that of no tags.
    assert 3 == queue.find_tags(0, 0, 100)[0]


def test_a_time_is_found_with_a_few_reads(tmp_path: Path) -> None:
    """
    The first record stored at or after it, of those still in the log.
    """
    queue = _queue(tmp_path)
    queue.append(0, _entries(0, 1000))
    reads: list[int] = []

    def store_ms(offset: int) -> int:
        reads.append(offset)
        return offset // 200

    assert 400 == queue.index_at_time(200, 0, store_ms)
    assert len(reads) <= 10
    assert 0 == queue.index_at_time(-1, 0, store_ms)
    assert 1000 == queue.index_at_time(10**6, 0, store_ms)
    assert 700 == queue.index_at_time(0, 70_000, store_ms)


def test_rocketmq_s_minimum_may_be_stale_and_the_first_index_never_is(
    tmp_path: Path,
) -> None:
    """
    When no record of the first file is left, but of a later one.
    """
    queue = _queue(tmp_path)
    queue.append(0, _entries(0, 25))

    assert [(0, 0), (5, 5), (0, 12), (25, 25)] == [
        (queue.min_index(offset), queue.first_index(offset))
        for offset in (0, 450, 1200, 10**6)
    ]


@pytest.mark.parametrize("index", [4, -1, 2**63 // 20])
def test_an_append_never_overwrites_and_never_leaves_the_range(
    index: int, tmp_path: Path
) -> None:
    """
    Below the end, below zero, and where no file could be named.
    """
    queue = _queue(tmp_path)
    queue.append(0, _entries(0, 5))

    with pytest.raises(InvalidError, match="the queue ends at 5"):
        queue.append(index, _entries(0, 1))

    assert 5 == queue.max_index


def test_entries_in_any_order_fill_the_slots_that_were_skipped(tmp_path: Path) -> None:
    """
    A log that lost records may have a later one first; the queue begins where the
    lowest will be, in whatever file.
    """
    per_file = _queue(tmp_path)._file_size // 20
    first, middle, last = 3, per_file + 2, 3 * per_file + 1
    queue = _queue(tmp_path)
    queue.insert(last, _entries(last, 2), first)
    queue.insert(middle, _entries(middle, 1), first)
    queue.insert(first, _entries(first, 2), first)
    queue.insert(last + 2, _entries(last + 2, 1), first)
    again = _queue(tmp_path)
    again.load()

    there = {first, first + 1, middle, last, last + 1, last + 2}
    assert last + 3 == queue.max_index == again.max_index
    entries = again.entries(0, last + 3)
    assert there == set(np.flatnonzero(~is_filler(entries)).tolist())
    for index in there:
        assert _entries(index, 1).tobytes() == entries[index : index + 1].tobytes()


def test_an_entry_below_the_first_file_is_refused(tmp_path: Path) -> None:
    """
    The queue was begun too high.
    """
    queue = _queue(tmp_path)
    per_file = queue._file_size // 20
    queue.insert(per_file, _entries(per_file, 1), per_file)

    with pytest.raises(OffsetOutOfRange):
        queue.insert(0, _entries(0, 1), 0)


@pytest.mark.parametrize("expected", [0, 24, 25, 26, 30, 31, 10**6, -3])
def test_the_end_is_found_whatever_was_expected(expected: int, tmp_path: Path) -> None:
    """
    The stored end is a hint: two slots must agree.
    """
    _queue(tmp_path).append(0, _entries(0, 25))

    queue = _queue(tmp_path, expected)

    assert (25, 2500) == (queue.max_index, queue.end_offset)


def test_the_end_of_a_full_file_is_found(tmp_path: Path) -> None:
    """
    With and without a hint, if no slot follows.
    """
    _queue(tmp_path).append(0, _entries(0, 20))

    assert [20, 20] == [_queue(tmp_path).max_index, _queue(tmp_path, 20).max_index]


def test_the_first_slot_that_is_no_entry_ends_the_queue(tmp_path: Path) -> None:
    """
    RocketMQ looks at the last three files.
    """
    queue = _queue(tmp_path)
    queue.append(0, _entries(0, 45))
    queue.files.write(27 * 20, bytes(20))
    queue.files.write(3 * 20, bytes(20))

    assert 27 == _queue(tmp_path).max_index


def test_a_cut_counts_removed_entries_and_keeps_the_rest(tmp_path: Path) -> None:
    """
    At a file's edge, inside a record, and above the end.
    """
    queue = _queue(tmp_path)
    queue.append(0, _entries(0, 25))

    gone = [queue.cut(end) for end in (2500, 2450, 2000, 1901, 1900, 0)]

    assert [0, 0, 5, 0, 1, 19] == gone
    assert (0, 0, []) == (queue.max_index, queue.end_offset, queue.files.bases)


def test_readers_see_whole_entries_while_a_writer_appends(tmp_path: Path) -> None:
    """
    From other threads, with so few descriptors that each read may lose its own.
    """
    pool = FdCache(limit=2)
    files = QueueFiles(tmp_path, 20 * PER_FILE, is_writable=True, pool=pool)
    queue = ConsumeQueue("T", 0, files)
    queue.append(0, _entries(0, 1))

    def read(seed: int) -> int:
        random = np.random.default_rng(seed)
        wrong = reads = 0
        while queue.max_index < 2000 or reads < 2000:
            index = int(random.integers(0, queue.max_index))
            wrong += queue.read(index) != (100 * index, 100, index % 3)
            reads += 1
        return wrong

    with ThreadPoolExecutor(3) as threads:
        readers = [threads.submit(read, seed) for seed in range(3)]
        for index in range(1, 2000, 7):
            queue.append(index, _entries(index, 7))

        assert [0, 0, 0] == [reader.result() for reader in readers]


@pytest.mark.parametrize(
    ("first", "count"),
    [(0, 1), (9, 1), (10, 10), (15, 5), (20, 1), (20, 30), (40, 5), (60, 10)],
)
def test_a_queue_ends_at_its_first_zero_entry_in_whatever_file(
    tmp_path: Path, first: int, count: int
) -> None:
    """
    After a power cut older files may have come back as zeros, and newer ones not.
    """
    _queue(tmp_path).append(0, _entries(0, 8 * PER_FILE))
    for slot in range(first, first + count):
        path = tmp_path / f"{slot // PER_FILE * PER_FILE * 20:020}"
        with path.open("r+b") as file:
            file.seek(slot % PER_FILE * 20)
            file.write(bytes(20))

    assert first == _queue(tmp_path).max_index


def test_a_hole_in_the_middle_of_an_old_file_ends_the_queue(tmp_path: Path) -> None:
    """
    What was never written back reads as zeros, and the system knows of no data there.
    """
    files = QueueFiles(tmp_path, 20 * 4096, is_writable=True, pool=FdCache())
    queue = ConsumeQueue("T", 0, files)
    queue.load()
    queue.append(0, _entries(0, 6 * 4096))
    queue.files.sync()
    with (tmp_path / f"{20 * 4096:020}").open("r+b") as file:
        data = file.read()
        file.truncate(8192)
        file.truncate(len(data))
        file.seek(16384)
        file.write(data[16384:])

    again = ConsumeQueue("T", 0, files)
    again.load()

    # Only the tags code of the entry at the edge lies behind it.
    assert 4096 + -(-8192 // 20) == again.max_index


def test_an_old_file_without_a_hole_is_not_read(tmp_path: Path) -> None:
    """
    The cost of an opening does not grow with the size of a queue's older files.
    """
    _queue(tmp_path).append(0, _entries(0, 8 * PER_FILE))
    sizes = list[int]()

    class CountingFiles(QueueFiles):
        def read(self, position: int, count: int) -> bytes:
            sizes.append(count)
            return super().read(position, count)

    files = CountingFiles(tmp_path, 20 * PER_FILE, is_writable=False, pool=FdCache())
    queue = ConsumeQueue("T", 0, files)
    queue.load()

    assert 8 * PER_FILE == queue.max_index
    assert (4, 10) == (sizes.count(20 * PER_FILE), sizes.count(20))


def test_a_queue_is_filled_below_its_first_entry(tmp_path: Path) -> None:
    """
    In the place of fillers, in lower files, and in one without a record between them.
    """
    folder, temporary = tmp_path / "c" / "T" / "0", tmp_path / "tmp"
    temporary.mkdir()
    folder.mkdir(parents=True)
    queue = _queue(folder)
    queue.append(47, _entries(47, 20))
    for first, count in [(45, 2), (22, 4), (3, 12)]:
        indexes = np.arange(first, first + count)
        queue.prepend(indexes, _entries(first, count), temporary)

    present = [*range(3, 15), *range(22, 26), *range(45, 67)]
    for one in (queue, _queue(folder)):
        assert [0, 200, 400, 600, 800, 1000, 1200] == one.files.bases
        assert (0, 67, 6700) == (one.first_slot, one.max_index, one.end_offset)
        found = one.entries(0, 67)
        assert present == np.flatnonzero(~is_filler(found)).tolist()
        assert (found["offset"][present] == 100 * np.array(present)).all()
    assert [] == list(temporary.iterdir())


@pytest.mark.parametrize("first", [0, 3, 10, 17])
def test_a_queue_without_files_begins_with_lower_entries(
    first: int, tmp_path: Path
) -> None:
    """
    It ends after the last one, and appends go on there.
    """
    folder, temporary = tmp_path / "c" / "T" / "0", tmp_path / "tmp"
    temporary.mkdir()
    (tmp_path / "c").mkdir()
    queue = _queue(folder)
    queue.prepend(np.arange(first, first + 16), _entries(first, 16), temporary)

    end = first + 16
    for one in (queue, _queue(folder)):
        assert (first - first % 10, end) == (one.first_slot, one.max_index)
        assert 100 * end == one.end_offset
        assert first == one.first_index(0)
    queue.append(end, _entries(end, 9))
    assert end + 9 == _queue(folder).max_index
