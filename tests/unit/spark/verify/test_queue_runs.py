"""
The queues in one segment: runs of queue offsets, and compared entries.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lib.spark.verify_job import SEGMENT, make_replicas
from numpy.typing import NDArray

from pystore.bindings.row import RECORD_DTYPE, Check
from pystore.consumequeue.queues import queue_file_size_of
from pystore.core.log_reader import LogReader
from pystore.spark.verify.queue_runs import QueueRun, QueueRuns, QueueSummary
from pystore.verify.entries import LostEntries

PREPARED, COMMIT, ROLLBACK = 4, 8, 12
ENTRY = 20


def rows_of(
    indexes: Sequence[int], first_offset: int = 0, **columns: Any
) -> NDArray[Any]:
    """
    Rows of records of 100 bytes, one after the other, with these queue offsets.
    """
    rows = np.zeros(len(indexes), RECORD_DTYPE)
    rows["queue_offset"] = indexes
    rows["offset"] = first_offset + 100 * np.arange(len(indexes))
    rows["size"] = 100
    for name, values in columns.items():
        rows[name] = values
    return rows


def topic(number: int) -> str:
    """
    Returns the name for a topic id.
    """
    return f"T{number}"


def noted(*arrays: NDArray[Any]) -> list[QueueSummary]:
    """
    The summaries of a store without consume queues.
    """
    runs = QueueRuns(Path("/none"), topic, with_queues=False, queue_file_size=6000)
    for rows in arrays:
        runs.note(rows)
    runs.close()
    return runs.summaries()


def indexes_of(summary: QueueSummary) -> list[tuple[int, int]]:
    """
    First and last queue offset of each run.
    """
    return [(run.first_index, run.last_index) for run in summary.runs]


def test_records_whose_queue_offsets_rise_by_one_are_a_run() -> None:
    """
    The run has the offsets of its first and last record.
    """
    (found,) = noted(rows_of([7, 8, 9], 5000))

    assert QueueSummary("T0", 0, [QueueRun(7, 9, 5000, 5200)], records=3) == found


def test_a_run_continues_in_the_next_rows() -> None:
    """
    A scan returns a segment in parts.
    """
    (found,) = noted(rows_of([7, 8], 0), rows_of([9], 200), rows_of([10, 11], 300))

    assert [QueueRun(7, 11, 0, 400)] == found.runs
    assert 5 == found.records


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [
        ([1, 2, 5, 6], [(1, 2), (5, 6)]),
        ([1, 2, 2, 3], [(1, 2), (2, 3)]),
        ([8, 3, 4], [(8, 8), (3, 4)]),
    ],
    ids=["gap", "repeat", "back"],
)
def test_a_jump_of_the_queue_offset_begins_a_run(
    indexes: list[int], expected: list[tuple[int, int]]
) -> None:
    """
    Within rows and between them.
    """
    (at_once,) = noted(rows_of(indexes))
    (one_by_one,) = noted(
        *(rows_of([index], at * 100) for at, index in enumerate(indexes))
    )

    assert expected == indexes_of(at_once)
    assert at_once == one_by_one


def test_each_queue_has_runs_of_its_own() -> None:
    """
    By topic and queue id; records of several queues alternate.
    """
    rows = rows_of(
        [0, 0, 0, 1, 1, 1], topic_id=[1, 1, 2, 1, 1, 2], queue_id=[0, 3, 0, 0, 3, 0]
    )

    found = {(one.topic, one.queue_id): one.runs for one in noted(rows)}

    assert {
        ("T1", 0): [QueueRun(0, 1, 0, 300)],
        ("T1", 3): [QueueRun(0, 1, 100, 400)],
        ("T2", 0): [QueueRun(0, 1, 200, 500)],
    } == found


def test_prepared_and_rolled_back_records_are_in_no_queue() -> None:
    """
    Their queue offset is 0, and they have no entry; committed records do.
    """
    flags = [0, PREPARED, COMMIT, ROLLBACK, 0]
    (found,) = noted(rows_of([5, 0, 6, 0, 7], sys_flag=flags))

    assert [(5, 7)] == indexes_of(found)
    assert 3 == found.records


def test_a_queue_of_uncommitted_transactions_only_has_no_summary() -> None:
    """
    It has no run.
    """
    assert [] == noted(rows_of([0, 0], sys_flag=[PREPARED, ROLLBACK]))


def test_the_runs_of_a_broken_segment_are_limited() -> None:
    """
    The result stays small, but all records are counted.
    """
    (found,) = noted(rows_of(range(0, 20_000, 2)))

    assert (4096, True) == (len(found.runs), found.is_cut)
    assert 10_000 == found.records


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A store with consume queues.
    """
    folder = tmp_path_factory.mktemp("runs")
    return make_replicas(folder, 1, with_queues=True)[0]


@pytest.fixture
def root(store: Path, tmp_path: Path) -> Path:
    """
    A copy of it.
    """
    return shutil.copytree(store, tmp_path / "a", symlinks=True)


def compared(
    root: Path, *, with_queues: bool = True, base: int = SEGMENT
) -> dict[tuple[str, int], QueueSummary]:
    """
    The summaries of the second segment, compared with the queues.
    """
    size = queue_file_size_of(root)
    with LogReader(root) as log:
        runs = QueueRuns(root, log.topic, with_queues=with_queues, queue_file_size=size)
        for rows in scanned(log, base):
            runs.note(rows)
        runs.close()
        found = runs.summaries()
    return {(one.topic, one.queue_id): one for one in found}


def scanned(log: LogReader, base: int) -> Iterator[NDArray[Any]]:
    """
    Rows of a segment.
    """
    return log.scan(base, base + SEGMENT, Check.TAGS | Check.TOPIC)


def queue_file(root: Path, name: str = "T1", queue_id: int = 0) -> Path:
    """
    The only file of a queue.
    """
    return next((root / "consumequeue" / name / str(queue_id)).iterdir())


def change(path: Path, at: int, data: bytes) -> None:
    """
    Overwrites bytes of a file.
    """
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_records_that_have_their_entry_match(root: Path) -> None:
    """
    All six queues match.
    """
    found = compared(root)

    assert 6 == len(found)
    for one in found.values():
        assert 0 < one.records == one.matched
        run = one.runs[0]
        assert (0, [(run.first_index, run.last_index + 1)]) == (one.missing, one.right)


def test_records_behind_the_end_of_their_queue_are_missing(root: Path) -> None:
    """
    Queues lag behind the log; that is not wrong.
    """
    whole = compared(root)["T1", 0]
    run = whole.runs[0]
    middle = (run.first_index + run.last_index) // 2

    change(queue_file(root), middle * ENTRY, bytes(1000 * ENTRY))

    found = compared(root)["T1", 0]

    assert middle - run.first_index == found.matched
    assert run.last_index + 1 - middle == found.missing
    assert [(run.first_index, middle)] == found.right


@pytest.mark.parametrize("at", [0, 7, 11, 19], ids=["high", "offset", "size", "tags"])
def test_an_entry_that_does_not_match_its_record_is_wrong(root: Path, at: int) -> None:
    """
    By any bit of offset, size and tags code.
    """
    index = compared(root)["T1", 0].runs[0].first_index + 2
    path = queue_file(root)
    byte = path.read_bytes()[index * ENTRY + at]
    change(path, index * ENTRY + at, bytes([byte ^ 1]))

    found = compared(root)["T1", 0]

    assert [index - 2, index, index + 1] == [*found.right[0], found.right[1][0]]
    assert found.records - 1 == found.matched


def test_a_slot_without_an_entry_is_missing_wherever_it_stands(root: Path) -> None:
    """
    The queue ends there. The records behind it are compared nevertheless.
    """
    first = compared(root)["T1", 0].runs[0].first_index
    change(queue_file(root), (first + 3) * ENTRY, b"\xff" * ENTRY * 2)
    change(queue_file(root), (first + 5) * ENTRY, bytes(ENTRY))

    found = compared(root)["T1", 0]

    assert (found.records - 3, 3) == (found.matched, found.missing)


def test_the_entries_of_a_missing_queue_are_missing(root: Path) -> None:
    """
    Opening the store builds the queue again.
    """
    shutil.rmtree(root / "consumequeue" / "T1")

    found = compared(root)

    assert found["T1", 0].records == found["T1", 0].missing
    assert found["T2", 0].records == found["T2", 0].matched


def test_no_entry_is_compared_without_queues(root: Path) -> None:
    """
    The queues cannot be read, or only a sample of records is.
    """
    found = compared(root, with_queues=False)["T1", 0]

    assert found.records > 0 == found.matched == found.missing


def test_records_without_the_entries_that_they_had_are_lost(tmp_path: Path) -> None:
    """
    Those below the offset up to which entries were on disk.
    """
    runs = QueueRuns(
        tmp_path / "none",
        lambda _: "T1",
        with_queues=True,
        queue_file_size=200,
        dispatched_end=10**9 + 1000,
    )
    for first in (0, 40):
        runs.note(rows_of(range(first, first + 20), 10**9 + first * 100))
    runs.close()

    (found,) = runs.summaries()

    assert ([], 40) == (found.right, found.missing)
    assert LostEntries(10, 0, [10**9 + at * 100 for at in range(10)]) == found.lost


def test_records_whose_entries_were_deleted_are_no_finding(tmp_path: Path) -> None:
    """
    Retention deletes queue files, too, so queues begin above 0.
    """
    size = 10 * ENTRY
    folder = tmp_path / "consumequeue" / "T0" / "0"
    folder.mkdir(parents=True)
    entries = rows_of(range(10, 20), 1000)
    data = b"".join(
        int(row["offset"]).to_bytes(8) + (100).to_bytes(4) + bytes(8) for row in entries
    )
    (folder / f"{size:020d}").write_bytes(data)
    runs = QueueRuns(tmp_path, topic, with_queues=True, queue_file_size=size)
    runs.note(rows_of(range(20), 0))
    runs.close()

    (found,) = runs.summaries()

    assert (20, 10, 0) == (found.records, found.matched, found.missing)
    assert [(10, 20)] == found.right


def test_a_queue_offset_given_twice_is_wrong_once(tmp_path: Path) -> None:
    """
    The entry names the first record.
    """
    folder = tmp_path / "consumequeue" / "T0" / "0"
    folder.mkdir(parents=True)
    entry = (0).to_bytes(8) + (100).to_bytes(4) + bytes(8)
    (folder / f"{0:020d}").write_bytes(entry + bytes(180))
    runs = QueueRuns(tmp_path, topic, with_queues=True, queue_file_size=200)
    runs.note(rows_of([0, 0]))
    runs.close()

    (found,) = runs.summaries()

    assert ([(0, 1)], 1, 2) == (found.right, found.matched, found.records)


def test_a_topic_that_is_not_utf_8_has_its_queue(tmp_path: Path) -> None:
    """
    Its folder's name has the same bytes.
    """
    name = b"\xffT".decode("utf-8", "surrogateescape")
    folder = tmp_path / "consumequeue" / name / "0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").write_bytes(
        (0).to_bytes(8) + (100).to_bytes(4) + bytes(8 + 180)
    )
    runs = QueueRuns(tmp_path, lambda _: name, with_queues=True, queue_file_size=200)
    runs.note(rows_of([0]))
    runs.close()

    (found,) = runs.summaries()

    assert (name, 1) == (found.topic, found.matched)


def test_a_damaged_topic_that_is_no_name_of_a_folder_has_no_entries(
    tmp_path: Path,
) -> None:
    """
    The body CRC does not cover the topic: its bytes may be any.
    """
    names = ["t\0", "../t", ""]
    runs = QueueRuns(
        tmp_path, names.__getitem__, with_queues=True, queue_file_size=6000
    )
    runs.note(rows_of([0, 0, 0], topic_id=[0, 1, 2]))
    runs.close()

    assert [(name, 1) for name in names] == [
        (found.topic, found.missing) for found in runs.summaries()
    ]
