"""
The consume queues of a store: dispatched, cut, synced, and never led astray.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from lib.oracle import reference

from pystore.consumequeue.queue import ENTRY_SIZE
from pystore.consumequeue.queues import (
    ConsumeQueues,
    found_file_size,
    queue_file_size,
)
from pystore.errors import (
    ClosedError,
    CorruptError,
    InvalidError,
    PoisonedError,
)


def _rows(*records: tuple[int, int, int], size: int = 100) -> np.ndarray:
    """
    Rows of records (offset, queue id, queue offset) of topic 0.
    """
    rows = np.zeros(len(records), reference.ROW)
    rows["offset"], rows["queue_id"], rows["queue_offset"] = zip(*records, strict=True)
    rows["size"] = size
    rows["tags_code"] = rows["offset"]
    rows["store_ms"] = 1000 + rows["offset"]
    return rows


def _topic(_id: int) -> str:
    return "T"


def _open(root: Path, file_size: int = 200) -> ConsumeQueues:
    queues = ConsumeQueues(root, file_size, is_writable=True)
    queues.load()
    return queues


def _indexes(queues: ConsumeQueues, queue_id: int = 0) -> list[int]:
    queue = queues.get("T", queue_id)
    assert queue
    entries = queue.entries(queue.first_slot, queue.max_index)
    return [int(code) for code in entries["tags_code"]]


def test_the_same_rows_again_change_nothing(tmp_path: Path) -> None:
    """
    Recovery may dispatch from anywhere below the end.
    """
    queues = _open(tmp_path)
    rows = _rows((0, 0, 0), (100, 0, 1), (200, 1, 0), (300, 0, 2))

    first = queues.dispatch(rows, 400, _topic)
    again = queues.dispatch(rows, 400, _topic)

    assert (4, 0) == (first.written, first.repeated)
    assert (0, 4) == (again.written, again.repeated)
    assert [0, 100, 300] == _indexes(queues)
    assert [200] == _indexes(queues, 1)


def test_prepared_and_rolled_back_records_get_no_entry(tmp_path: Path) -> None:
    """
    Of the transaction types only none and COMMIT are seen by consumers.
    """
    queues = _open(tmp_path)
    rows = _rows((0, 0, 0), (100, 0, 0), (200, 0, 1), (300, 0, 0))
    rows["sys_flag"] = [0x0, 0x4, 0x8 | 0x10, 0xC]

    done = queues.dispatch(rows, 400, _topic)

    assert (2, 2) == (done.written, done.transactions)
    assert [0, 200] == _indexes(queues)


def test_a_missing_entry_stops_a_dispatch_before_it_writes(tmp_path: Path) -> None:
    """
    Not even the groups without a gap are written.
    """
    queues = _open(tmp_path)
    queues.dispatch(_rows((0, 0, 0)), 100, _topic)

    with pytest.raises(
        CorruptError,
        match=r"T, queue 0: the record at offset 300 has queue offset 3, "
        r"but the queue ends at 1: dispatch from a lower offset",
    ) as raised:
        queues.dispatch(_rows((200, 1, 0), (300, 0, 3)), 400, _topic)

    assert 300 == raised.value.offset
    assert queues.get("T", 1) is None
    assert 100 == queues.dispatched_end


def test_entries_of_lost_records_are_filled_and_reported(tmp_path: Path) -> None:
    """
    Queue offsets stay what the records say; the holes cannot be read.
    """
    queues = _open(tmp_path)
    queues.dispatch(_rows((0, 0, 0)), 100, _topic)

    done = queues.dispatch(_rows((300, 0, 3)), 400, _topic, fill_gaps=True)

    assert [("T", 0, 1, 2)] == [tuple(gap) for gap in done.gaps]
    queue = queues.get("T", 0)
    assert queue
    assert 300 == queue.read(3).offset
    with pytest.raises(LookupError, match="queue offset 2 is not within"):
        queue.read(2)


def test_a_garbled_queue_offset_is_refused_not_filled(tmp_path: Path) -> None:
    """
    A flipped bit must not create files for a billion entries.
    """
    queues = _open(tmp_path)
    queues.dispatch(_rows((0, 0, 0)), 100, _topic)
    rows = _rows((100, 0, 2**40), (200, 0, -5), (300, 0, 1))

    done = queues.dispatch(rows, 400, _topic, fill_gaps=True)

    assert 1 == done.written
    assert [100] == [refusal.offset for refusal in done.refused]
    assert [0, 300] == _indexes(queues)


@pytest.mark.parametrize(
    "topic", ["", ".", "..", "../../etc", "a/b", "a\0b", "x" * 256]
)
def test_a_garbled_topic_never_leads_out_of_the_store(
    topic: str, tmp_path: Path
) -> None:
    """
    No checksum covers a topic without property CRC.
    """
    root = tmp_path / "deep" / "store"
    root.mkdir(parents=True)
    queues = _open(root)

    done = queues.dispatch(_rows((0, 0, 0), (100, 0, 1)), 200, lambda _: topic)

    assert [(0, 2)] == [(r.offset, r.records) for r in done.refused]
    assert [] == list(root.iterdir())
    assert ["deep"] == [path.name for path in tmp_path.iterdir()]


def test_topics_that_are_no_text_keep_their_bytes(tmp_path: Path) -> None:
    """
    A topic may have any bytes.
    """
    queues = _open(tmp_path)
    queues.dispatch(_rows((0, 0, 0)), 100, lambda _: "\udcff\udcfeT")

    assert [b"\xff\xfeT"] == os.listdir(os.fsencode(tmp_path / "consumequeue"))
    (queue,) = _open(tmp_path)
    assert b"\xff\xfeT" == queue.topic.encode("utf-8", "surrogateescape")


def test_a_cut_leaves_zeros_and_the_next_dispatch_continues(tmp_path: Path) -> None:
    """
    Over a file's edge, and again over the same offsets.
    """
    queues = _open(tmp_path)
    rows = _rows(*((100 * n, 0, n) for n in range(25)))
    queues.dispatch(rows, 2500, _topic)

    assert 18 == queues.cut(700)

    folder = tmp_path / "consumequeue" / "T" / "0"
    assert ["0" * 20] == os.listdir(folder)
    data = (folder / ("0" * 20)).read_bytes()
    assert 7 * ENTRY_SIZE == len(data.rstrip(b"\0")) + (-len(data.rstrip(b"\0")) % 20)
    assert not any(data[7 * ENTRY_SIZE :])
    queues.dispatch(rows[7:], 2500, _topic)
    assert [100 * n for n in range(25)] == _indexes(_open(tmp_path))


def test_a_cut_zeroes_the_bytes_of_a_crash_above_the_end(tmp_path: Path) -> None:
    """
    Entries after a gap would be valid again when the gap is filled.
    """
    queues = _open(tmp_path)
    queues.dispatch(_rows(*((100 * n, 0, n) for n in range(8))), 800, _topic)
    file = tmp_path / "consumequeue" / "T" / "0" / ("0" * 20)
    data = bytearray(file.read_bytes())
    data[60:80] = bytes(20)
    file.write_bytes(data)

    queues = _open(tmp_path)
    queues.cut(800)

    assert [0, 100, 200] == _indexes(queues)
    assert not any(file.read_bytes()[60:])


def test_a_cut_of_everything_never_begins_queue_offsets_again(tmp_path: Path) -> None:
    """
    After retention the first remaining entry is not number 0.
    """
    queues = _open(tmp_path)
    queues.dispatch(_rows(*((100 * n, 0, n) for n in range(25))), 2500, _topic)
    assert 1 == queues.delete_before(1000)

    queues.cut(900)

    (queue,) = _open(tmp_path)
    assert (10, 10) == (queue.first_slot, queue.max_index)
    assert queue.last_entry() is None


def test_retention_keeps_files_with_a_record_and_the_last_one(tmp_path: Path) -> None:
    """
    A file is removed when the log has none of its records.
    """
    queues = _open(tmp_path)
    queues.dispatch(_rows(*((100 * n, 0, n) for n in range(25))), 2500, _topic)

    assert 0 == queues.delete_before(900)
    assert 1 == queues.delete_before(1000)
    assert 1 == queues.delete_before(10**6)

    (queue,) = queues
    assert 20 == queue.first_slot
    assert 25 == queue.min_index(10**6) == queue.first_index(10**6)


def test_the_changes_of_another_program_are_named(tmp_path: Path) -> None:
    """
    A7: the lengths differ from the fingerprint.
    """
    queues = _open(tmp_path)
    queues.dispatch(_rows((0, 0, 0), (100, 1, 0)), 200, _topic)
    left = queues.lengths()
    assert [] == _open(tmp_path).changed(left)

    queues.dispatch(_rows((200, 1, 1), (300, 2, 0)), 400, _topic)
    again = ConsumeQueues(tmp_path, 200)
    again.load(left)

    assert [
        "T, queue 1: 1 entries were left, 2 are there",
        "T, queue 2: 0 entries were left, 1 are there",
    ] == again.changed(left)


def test_named_records_are_found_across_queues(tmp_path: Path) -> None:
    """
    The evidence of A8; fillers have no record.
    """
    queues = _open(tmp_path)
    rows = _rows(*((100 * n, n % 3, n // 3) for n in range(60)))
    queues.dispatch(rows, 6000, _topic)
    queues.dispatch(_rows((6000, 0, 25)), 6100, _topic, fill_gaps=True)

    assert (6000, 6100) == queues.last_named()
    assert [5800, 5900, 6000] == queues.named_above(5700).tolist()
    assert 61 == len(queues.named_above(-1))
    assert ConsumeQueues(tmp_path / "none", 200).last_named() is None


def test_only_bytes_on_disk_count_as_synced(tmp_path: Path) -> None:
    """
    A failed sync is not tried again: the second would succeed and prove nothing.
    """
    failures: list[OSError] = []

    def sync(_number: int) -> None:
        if failures:
            raise failures.pop()

    queues = ConsumeQueues(tmp_path, 200, is_writable=True, sync=sync)
    queues.load()
    queues.dispatch(_rows((0, 0, 0)), 100, _topic)
    queues.sync()
    assert (100, 1000) == (queues.synced_end, queues.synced_ms)

    queues.dispatch(_rows((100, 0, 1)), 200, _topic)
    failures.append(OSError(errno.EIO, "reported once"))
    for _ in range(2):
        with pytest.raises(PoisonedError, match="close the store and open it again"):
            queues.sync()

    assert (100, 200) == (queues.synced_end, queues.dispatched_end)
    with pytest.raises(PoisonedError):
        queues.dispatch(_rows((200, 0, 2)), 300, _topic)


def test_more_queues_than_open_files_can_wait_for_a_sync(tmp_path: Path) -> None:
    """
    Before the descriptors run out, files are synced; that moves no bound.
    """
    synced: list[int] = []
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (600, limits[1]))
    try:
        queues = ConsumeQueues(tmp_path, 200, is_writable=True, sync=synced.append)
        queues.load()
        rows = _rows(*((100 * n, n, 0) for n in range(700)))
        queues.dispatch(rows, 70_000, _topic)
        assert (600, 0) == (len(synced), queues.synced_end)
        queues.sync()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    assert (700, 70_000) == (len(synced), queues.synced_end)


def test_queues_are_readable_without_a_folder_and_not_after_close(
    tmp_path: Path,
) -> None:
    """
    An empty store has no queues; a closed handle says so.
    """
    with ConsumeQueues(tmp_path, 200, is_writable=True) as queues:
        queues.load()
        assert 0 == len(queues)
        assert {} == queues.lengths()
        queues.dispatch(_rows((0, 0, 0)), 100, _topic)
        (queue,) = queues
        queues.close()

    with pytest.raises(ClosedError, match="were closed"):
        queue.read(0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: queue_file_size(0),
        lambda: ConsumeQueues(Path("x"), 0),
        lambda: ConsumeQueues(Path("x"), 399),
    ],
)
def test_impossible_file_sizes_are_refused(make: Callable[[], object]) -> None:
    """
    Half an entry at a file's end would be lost.
    """
    with pytest.raises(InvalidError):
        make()


def test_file_sizes_are_rounded_up_as_in_java() -> None:
    """
    To whole entries.
    """
    assert [6_000_000, 400, 420, 20] == [
        queue_file_size(),
        queue_file_size(400),
        queue_file_size(401),
        queue_file_size(1),
    ]


def test_random_dispatches_cuts_and_reopens_equal_a_model(tmp_path: Path) -> None:
    """
    Against lists, with a printed seed.
    """
    seed = int.from_bytes(os.urandom(4), "big")
    print("seed", seed)
    random = np.random.default_rng(seed)
    queues, log, model = _open(tmp_path), list[tuple[int, int, int]](), [0, 0, 0]
    for _ in range(60):
        action = random.integers(0, 4)
        end = 100 * len(log)
        if action <= 1:
            for queue_id in random.integers(0, 3, random.integers(0, 20)).tolist():
                log.append((100 * len(log), queue_id, model[queue_id]))
                model[queue_id] += 1
            start = int(random.integers(0, end // 100 + 1))
            if log[start:]:
                queues.dispatch(_rows(*log[start:]), 100 * len(log), _topic)
        elif action == 2:
            end = 100 * int(random.integers(0, len(log) + 1))
            queues.cut(end)
            del log[end // 100 :]
            model = [sum(q == n for _, q, _ in log) for n in range(3)]
        else:
            queues.close()
            queues = _open(tmp_path)
        for queue in queues:
            expected = [offset for offset, q, _ in log if q == queue.queue_id]
            assert expected == _indexes(queues, queue.queue_id)
            assert queue.end_offset == (expected[-1] + 100 if expected else 0)


def test_a_queue_file_that_is_removed_before_its_size_is_read_is_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Retention removes files while another process looks for one.
    """
    folder = tmp_path / "consumequeue" / "T" / "0"
    folder.mkdir(parents=True)
    for base in (0, 400):
        (folder / f"{base:020d}").write_bytes(bytes(400))
    scan = os.scandir

    class LateScan(ExitStack):
        def __init__(self, path: str | Path) -> None:
            super().__init__()
            with scan(path) as entries:
                self._entries = sorted(entries, key=lambda one: one.name)
            if Path(path) == folder:
                (folder / f"{0:020d}").unlink()

        def __iter__(self) -> Iterator[os.DirEntry[str]]:
            return iter(self._entries)

    monkeypatch.setattr(os, "scandir", LateScan)

    assert 400 == found_file_size(tmp_path)
