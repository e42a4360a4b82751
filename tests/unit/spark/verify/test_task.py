"""
The check of one segment: plain values in, plain values out, no exception.
"""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import xxhash
from lib.spark.verify_job import SEGMENT, make_replicas
from lib.store.segment_files import flip, offsets, segment

from pystore.core.log_reader import LogReader
from pystore.message.message import Message
from pystore.seals import BLOCK_BYTES, read_seal
from pystore.spark.verify.plan import plan_store, plan_tasks
from pystore.spark.verify.task import (
    SegmentCheck,
    SegmentTask,
    StoreShare,
    check_segment,
)
from pystore.store.commit_log import CommitLog
from pystore.store.sealer import seal_next

LARGE = 4 * BLOCK_BYTES


@pytest.fixture(scope="module")
def small_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A sealed store of several segments, none larger than a block.
    """
    root = make_replicas(tmp_path_factory.mktemp("task"), 1)[0]
    seal(root)
    return root


@pytest.fixture(scope="module")
def large_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A sealed store whose first segment has four blocks.
    """
    root = tmp_path_factory.mktemp("task") / "a"
    with CommitLog(root, segment_size=LARGE, flush_interval_ms=0) as log:
        for number in range(168):
            log.append(Message("T", number.to_bytes(4) * 25_000))
    seal(root)
    return root


@pytest.fixture
def small(small_store: Path, tmp_path: Path) -> Path:
    """
    A copy of the small one.
    """
    return shutil.copytree(small_store, tmp_path / "a", symlinks=True)


@pytest.fixture
def large(large_store: Path, tmp_path: Path) -> Path:
    """
    A copy of the large one.
    """
    return shutil.copytree(large_store, tmp_path / "a", symlinks=True)


def seal(root: Path) -> None:
    """
    Seals every full segment.
    """
    with CommitLog(root) as log:
        while seal_next(log.writer):
            pass


def share(root: Path) -> StoreShare:
    """
    The shared values of a store whose queues are not read.
    """
    return StoreShare(str(root), "g")


def task(root: Path, base: int = 0, size: int = SEGMENT, **changes: Any) -> SegmentTask:
    """
    A task for a whole segment, without digests.
    """
    given = {"end": base + size, "digest_end": base} | changes
    return SegmentTask(share(root), base, **given)


def block_digests(root: Path, base: int, end: int) -> dict[int, int]:
    """
    The digests of the file's blocks, by their definition.
    """
    data = segment(root, base).read_bytes()[: end - base]
    return {
        at // BLOCK_BYTES: xxhash.xxh3_64_intdigest(data[at : at + BLOCK_BYTES])
        for at in range(0, len(data), BLOCK_BYTES)
    }


def test_a_segment_is_checked_without_its_neighbours(small: Path) -> None:
    """
    They may be missing, or on another host.
    """
    wanted = len(offsets(small, 2 * SEGMENT, SEGMENT))
    for base in (0, SEGMENT, 3 * SEGMENT):
        segment(small, base).unlink()

    found = check_segment(task(small, 2 * SEGMENT))

    assert ("", str(small), 2 * SEGMENT) == (found.error, found.store, found.base)
    report = found.report
    assert report is not None
    assert (wanted, (), True) == (report.records, report.faults, report.is_full)


def test_the_scan_continues_after_bad_records(small: Path) -> None:
    """
    Each bad record is named with its offset.
    """
    starts = offsets(small, SEGMENT, SEGMENT)
    for start in (starts[3], starts[10]):
        flip(segment(small, SEGMENT), start - SEGMENT + 120)

    found = check_segment(task(small, SEGMENT))

    assert found.report is not None
    assert [starts[3], starts[10]] == [one.offset for one in found.report.faults]
    assert len(starts) - 2 == found.report.records


def test_nothing_is_digested_without_a_replica_or_a_seal(small_store: Path) -> None:
    """
    There is nothing to compare with.
    """
    assert {} == check_segment(task(small_store)).digests


@pytest.mark.parametrize("end", [1, BLOCK_BYTES, BLOCK_BYTES + 5000, LARGE])
def test_blocks_are_digested_up_to_the_digest_end(large_store: Path, end: int) -> None:
    """
    The last block ends there.
    """
    found = check_segment(task(large_store, size=LARGE, digest_end=end))

    assert block_digests(large_store, 0, end) == found.digests
    assert end == found.digest_end


def test_blocks_behind_damage_are_digested(large: Path) -> None:
    """
    The scan cannot continue behind zeros, but the digests can.
    """
    with segment(large, 0).open("r+b") as file:
        file.seek(5000)
        file.write(bytes(BLOCK_BYTES))

    found = check_segment(task(large, size=LARGE, digest_end=LARGE))

    assert found.report is not None
    assert found.report.faults
    assert block_digests(large, 0, LARGE) == found.digests


def test_the_result_has_a_summary_of_each_queue(tmp_path: Path) -> None:
    """
    Its runs, and the comparison of its entries.
    """
    (root,) = make_replicas(tmp_path, 1, 400, with_queues=True)
    (given, _) = plan_tasks([plan_store(root)])

    found = check_segment(given)

    rows = found.queues.table()
    assert (("T0", "T1", "T2"), 6) == (found.queues.topics, len(rows))
    assert rows["is_right"].all()
    records = (rows["last_index"] - rows["first_index"] + 1).sum()
    assert len(offsets(root, 0, SEGMENT)) == records


@pytest.mark.parametrize("what", ["missing", "short", "directory", "store"])
def test_an_unreadable_range_or_segment_is_an_error_in_the_result(
    small: Path, what: str
) -> None:
    """
    The error is one line, names no temporary folder, and no exception is raised.
    """
    path = segment(small, SEGMENT)
    path.unlink()
    if what == "short":
        path.write_bytes(b"x")
    elif what == "directory":
        path.mkdir()
    elif what == "store":
        shutil.rmtree(small)

    found = check_segment(task(small, SEGMENT, digest_end=2 * SEGMENT))

    assert found.error
    assert "\n" not in found.error
    assert "pystore-view" not in found.error
    assert found.report is None
    assert not found.is_sealed_whole


def test_a_seal_that_agrees_confirms_every_byte(large_store: Path) -> None:
    """
    No replica is needed.
    """
    found = check_segment(task(large_store, size=LARGE, has_seal=True))

    assert found.is_sealed_whole
    assert found.seal == read_seal(large_store / "meta" / "seals", 0)
    assert (LARGE, 4) == (found.digest_end, len(found.digests))
    assert "" == found.seal_problem


def test_a_byte_that_was_changed_since_it_was_sealed_is_found(large: Path) -> None:
    """
    In its block, even if no record holds it: here it is in the filler at the end.
    """
    flip(segment(large, 0), LARGE - 1)

    found = check_segment(task(large, size=LARGE, has_seal=True))

    assert found.seal is not None
    assert found.report is not None
    assert () == found.report.faults
    assert not found.is_sealed_whole
    sealed = dict(enumerate(found.seal.block_digests))
    assert [3] == [
        index for index, one in found.digests.items() if sealed[index] != one
    ]


def test_an_invalid_seal_does_not_count(small: Path) -> None:
    """
    The segment is checked, and the result says why the seal is invalid.
    """
    path = small / "meta" / "seals" / f"{0:020d}.seal"
    path.write_bytes(path.read_bytes()[:-1])

    found = check_segment(task(small, has_seal=True))

    assert found.seal is None
    assert str(path) in found.seal_problem
    assert "" == found.error
    assert found.report is not None


def test_a_seal_that_was_removed_meanwhile_counts_as_missing(small: Path) -> None:
    """
    Retention removes it with its segment.
    """
    (small / "meta" / "seals" / f"{0:020d}.seal").unlink()

    found = check_segment(task(small, has_seal=True))

    assert (None, "", "") == (found.seal, found.seal_problem, found.error)


def test_a_sampled_task_digests_only_its_blocks(large_store: Path) -> None:
    """
    Their digests equal those of a full read.
    """
    given = task(large_store, size=LARGE, digest_end=LARGE, blocks=(0, 2, 3))
    found = check_segment(given)

    whole = block_digests(large_store, 0, LARGE)
    assert {index: whole[index] for index in (0, 2, 3)} == found.digests


def test_a_sampled_task_finds_no_damage_in_other_blocks(large: Path) -> None:
    """
    Another round reads them.
    """
    flip(segment(large, 0), BLOCK_BYTES + BLOCK_BYTES // 2)
    given = task(large, size=LARGE, digest_end=LARGE, blocks=(0, 3), has_seal=True)
    found = check_segment(given)

    assert found.seal is not None
    assert found.report is not None
    assert () == found.report.faults
    sealed = found.seal.block_digests
    assert {0: sealed[0], 3: sealed[3]} == found.digests


def test_a_sampled_task_never_reports_the_whole_segment_as_sealed(
    large_store: Path,
) -> None:
    """
    It did not read all bytes.
    """
    given = task(
        large_store, size=LARGE, digest_end=LARGE, blocks=(0, 3), has_seal=True
    )

    assert not check_segment(given).is_sealed_whole


def test_a_sampled_task_does_not_check_queues_and_epochs(large_store: Path) -> None:
    """
    Most of the records were not read.
    """
    given = SegmentTask(
        StoreShare(str(large_store), "g", has_queues=True, queue_file_size=6000),
        0,
        LARGE,
        LARGE,
        blocks=(0, 3),
        epochs=(1234,),
    )
    found = check_segment(given)

    assert ("", ()) == (found.error, found.stray_epochs)
    assert not found.queues.rows


def test_an_epoch_begins_with_a_record(small_store: Path) -> None:
    """
    An epoch that begins within a record belongs to another log.
    """
    starts = offsets(small_store, 0, SEGMENT)
    given = task(small_store, epochs=(0, starts[5], starts[6] + 1, starts[9] - 8))

    assert (starts[6] + 1, starts[9] - 8) == check_segment(given).stray_epochs


def test_an_epoch_may_begin_with_the_blank_record(small_store: Path) -> None:
    """
    A new master's first record did not fit into the segment.
    """
    with LogReader(small_store) as log:
        blank = log.scan(0, SEGMENT).finish().record_end

    assert blank < SEGMENT
    assert () == check_segment(task(small_store, epochs=(blank,))).stray_epochs


def test_epochs_are_not_checked_in_a_damaged_segment(small: Path) -> None:
    """
    The starts of the records are unknown.
    """
    starts = offsets(small, 0, SEGMENT)
    flip(segment(small, 0), starts[3] + 120)

    assert () == check_segment(task(small, epochs=(starts[3] + 1,))).stray_epochs


def test_the_size_of_a_task_is_about_what_it_reads() -> None:
    """
    All bytes up to its end, or its blocks.
    """
    root = Path("/none")

    assert LARGE == task(root, size=LARGE).size
    assert 3 * BLOCK_BYTES == task(root, size=LARGE, blocks=(0, 1, 3)).size
    assert 100 == task(root, size=100, blocks=(0,)).size


def test_tasks_and_results_can_be_pickled(small_store: Path) -> None:
    """
    The copies equal the originals.
    """
    plan = plan_store(small_store)
    for given in plan_tasks([plan]):
        assert given == pickle.loads(pickle.dumps(given))
        found = check_segment(given)
        assert isinstance(found, SegmentCheck)
        assert found == pickle.loads(pickle.dumps(found))


def test_a_task_changes_nothing(small_store: Path) -> None:
    """
    Spark may run it twice.
    """
    given = plan_tasks([plan_store(small_store)])[1]
    before = {path: path.stat().st_mtime_ns for path in small_store.rglob("*")}
    one, other = check_segment(given), check_segment(given)
    one.seconds = other.seconds = 0.0

    assert one == other
    assert before == {path: path.stat().st_mtime_ns for path in small_store.rglob("*")}
