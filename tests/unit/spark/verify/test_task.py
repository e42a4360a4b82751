"""
One segment checked by itself: plain values in, plain values out, and no exception.
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

from pystore.bindings.row import NO_OFFSET
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
    Seals every segment that is full.
    """
    with CommitLog(root) as log:
        while seal_next(log.writer):
            pass


def share(root: Path) -> StoreShare:
    """
    Of a store whose queues are not looked at.
    """
    return StoreShare(str(root), "g", NO_OFFSET)


def task(root: Path, base: int = 0, size: int = SEGMENT, **changes: Any) -> SegmentTask:
    """
    A whole segment, not digested.
    """
    given = {"end": base + size, "digest_end": base} | changes
    return SegmentTask(share(root), base, **given)


def block_digests(root: Path, base: int, end: int) -> dict[int, int]:
    """
    Of the file's blocks, by their definition.
    """
    data = segment(root, base).read_bytes()[: end - base]
    return {
        at // BLOCK_BYTES: xxhash.xxh3_64_intdigest(data[at : at + BLOCK_BYTES])
        for at in range(0, len(data), BLOCK_BYTES)
    }


def test_a_segment_is_checked_without_its_neighbours(small: Path) -> None:
    """
    Which may be missing, or another host's.
    """
    wanted = len(offsets(small, 2 * SEGMENT, SEGMENT))
    for base in (0, SEGMENT, 3 * SEGMENT):
        segment(small, base).unlink()

    found = check_segment(task(small, 2 * SEGMENT))

    assert ("", str(small), 2 * SEGMENT) == (found.error, found.store, found.base)
    report = found.report
    assert report is not None
    assert (wanted, (), True) == (report.records, report.faults, report.is_full)


def test_bad_records_are_found_and_the_scan_goes_on(small: Path) -> None:
    """
    Each is named with its offset.
    """
    starts = offsets(small, SEGMENT, SEGMENT)
    for start in (starts[3], starts[10]):
        flip(segment(small, SEGMENT), start - SEGMENT + 120)

    found = check_segment(task(small, SEGMENT))

    assert found.report is not None
    assert [starts[3], starts[10]] == [one.offset for one in found.report.faults]
    assert len(starts) - 2 == found.report.records


def test_nothing_is_digested_that_nobody_compares(small_store: Path) -> None:
    """
    A store by itself, without a seal.
    """
    assert {} == check_segment(task(small_store)).digests


@pytest.mark.parametrize("end", [1, BLOCK_BYTES, BLOCK_BYTES + 5000, LARGE])
def test_blocks_are_digested_up_to_where_replicas_are_compared(
    large_store: Path, end: int
) -> None:
    """
    The last block ends there.
    """
    found = check_segment(task(large_store, size=LARGE, digest_end=end))

    assert block_digests(large_store, 0, end) == found.digests
    assert end == found.digest_end


def test_a_fault_does_not_keep_blocks_from_being_digested(large: Path) -> None:
    """
    The scan cannot go on behind zeros; the digests do.
    """
    with segment(large, 0).open("r+b") as file:
        file.seek(5000)
        file.write(bytes(BLOCK_BYTES))

    found = check_segment(task(large, size=LARGE, digest_end=LARGE))

    assert found.report is not None
    assert found.report.faults
    assert block_digests(large, 0, LARGE) == found.digests


def test_what_the_segment_shows_of_its_queues_comes_back(tmp_path: Path) -> None:
    """
    The runs of each, and how the entries compare.
    """
    (root,) = make_replicas(tmp_path, 1, 400, with_queues=True)
    (given, _) = plan_tasks([plan_store(root)])

    found = check_segment(given)

    assert 6 == len(found.queues)
    assert len(offsets(root, 0, SEGMENT)) == sum(one.matched for one in found.queues)


@pytest.mark.parametrize("what", ["missing", "short", "directory", "store"])
def test_what_cannot_be_read_is_an_error_in_the_answer(small: Path, what: str) -> None:
    """
    One line, and no exception: the other segments are checked all the same.
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
    assert found.report is None
    assert not found.is_sealed_whole


def test_a_seal_that_agrees_vouches_for_every_byte(large_store: Path) -> None:
    """
    Also where no replica is compared.
    """
    found = check_segment(task(large_store, size=LARGE, has_seal=True))

    assert found.is_sealed_whole
    assert found.seal == read_seal(large_store / "meta" / "seals", 0)
    assert (LARGE, 4) == (found.digest_end, len(found.digests))
    assert "" == found.seal_problem


def test_a_byte_that_was_changed_since_it_was_sealed_is_found(large: Path) -> None:
    """
    In its block, also if no record has it: here it is the filler at the end.
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


def test_a_seal_that_does_not_prove_itself_counts_for_nothing(small: Path) -> None:
    """
    The segment is checked, and the answer says why.
    """
    path = small / "meta" / "seals" / f"{0:020d}.seal"
    path.write_bytes(path.read_bytes()[:-1])

    found = check_segment(task(small, has_seal=True))

    assert found.seal is None
    assert str(path) in found.seal_problem
    assert "" == found.error
    assert found.report is not None


def test_a_seal_that_was_removed_meanwhile_is_none(small: Path) -> None:
    """
    Retention takes it with its segment.
    """
    (small / "meta" / "seals" / f"{0:020d}.seal").unlink()

    found = check_segment(task(small, has_seal=True))

    assert (None, "", "") == (found.seal, found.seal_problem, found.error)


def test_a_sampled_task_digests_only_its_blocks(large_store: Path) -> None:
    """
    Each as if all were read.
    """
    given = task(large_store, size=LARGE, digest_end=LARGE, blocks=(0, 2, 3))
    found = check_segment(given)

    whole = block_digests(large_store, 0, LARGE)
    assert {index: whole[index] for index in (0, 2, 3)} == found.digests


def test_a_sampled_task_checks_the_records_of_its_first_block(
    large_store: Path,
) -> None:
    """
    And those alone, up to the last one that ends in it.
    """
    given = task(large_store, size=LARGE, digest_end=LARGE, blocks=(0, 3))
    found = check_segment(given)

    starts = offsets(large_store, 0, BLOCK_BYTES)
    assert found.report is not None
    assert (len(starts), ()) == (found.report.records, found.report.faults)


def test_a_sampled_task_sees_no_damage_elsewhere(large: Path) -> None:
    """
    What it did not read, another round will.
    """
    flip(segment(large, 0), BLOCK_BYTES + 1000)
    given = task(large, size=LARGE, digest_end=LARGE, blocks=(0, 3), has_seal=True)
    found = check_segment(given)

    assert found.seal is not None
    assert found.report is not None
    assert () == found.report.faults
    sealed = found.seal.block_digests
    assert {0: sealed[0], 3: sealed[3]} == found.digests


def test_a_sampled_task_never_says_that_all_bytes_are_sealed(large_store: Path) -> None:
    """
    It has not read all.
    """
    given = task(
        large_store, size=LARGE, digest_end=LARGE, blocks=(0, 3), has_seal=True
    )

    assert not check_segment(given).is_sealed_whole


def test_a_sampled_task_does_not_judge_queues_nor_epochs(large_store: Path) -> None:
    """
    Most of the records were not looked at.
    """
    given = SegmentTask(
        StoreShare(str(large_store), "g", NO_OFFSET, {("T", 0): 1000}, 6000),
        0,
        LARGE,
        LARGE,
        blocks=(0, 3),
        epochs=(1234,),
    )
    found = check_segment(given)

    assert ("", ()) == (found.error, found.stray_epochs)
    (queue,) = found.queues
    assert (0, 0) == (queue.matched, queue.missing)


def test_an_epoch_begins_with_a_record(small_store: Path) -> None:
    """
    One that begins within a record is not this log's.
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


def test_epochs_are_not_judged_where_records_are_bad(small: Path) -> None:
    """
    Nobody knows where the records between begin.
    """
    starts = offsets(small, 0, SEGMENT)
    flip(segment(small, 0), starts[3] + 120)

    assert () == check_segment(task(small, epochs=(starts[3] + 1,))).stray_epochs


def test_a_task_reads_about_as_many_bytes_as_it_says() -> None:
    """
    All up to its end, or its blocks.
    """
    root = Path("/none")

    assert LARGE == task(root, size=LARGE).size
    assert 3 * BLOCK_BYTES == task(root, size=LARGE, blocks=(0, 1, 3)).size
    assert 100 == task(root, size=100, blocks=(0,)).size


def test_tasks_and_answers_travel(small_store: Path) -> None:
    """
    What arrives is equal to what was sent.
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
