"""
The tasks of the executors: the bytes that each reads and digests.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from lib.spark.verify_job import SEGMENT, make_replicas
from lib.store.segment_files import end_of, restart_machine

from pystore.epochs.file import encode_epochs
from pystore.epochs.table import EpochTable
from pystore.fs.layout import EPOCH_FILE
from pystore.message.message import Message
from pystore.seals import BLOCK_BYTES
from pystore.segments.sampling import sample_blocks
from pystore.spark.verify.plan import plan_store, plan_tasks
from pystore.spark.verify.task import SegmentTask
from pystore.store.commit_log import CommitLog
from pystore.store.sealer import seal_next


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A store of five segments, the last one not full.
    """
    return make_replicas(tmp_path_factory.mktemp("plan"), 1)[0]


@pytest.fixture
def root(store: Path, tmp_path: Path) -> Path:
    """
    A copy of it.
    """
    return shutil.copytree(store, tmp_path / "a", symlinks=True)


def append(root: Path, count: int) -> None:
    """
    Appends more records to the log.
    """
    with CommitLog(root) as log:
        for _ in range(count):
            log.append(Message("T", b"more " * 50))


def ends_of(tasks: Sequence[SegmentTask]) -> list[tuple[int, int, int]]:
    """
    Base, end and digest end of each task.
    """
    return [(one.base, one.end, one.digest_end) for one in tasks]


def test_a_single_store_is_not_digested(root: Path) -> None:
    """
    There is nothing to compare with.
    """
    tasks = plan_tasks([plan_store(root)])

    assert all(one.digest_end == one.base for one in tasks)
    assert all(one.blocks is None for one in tasks)


def test_stores_of_two_groups_are_not_digested(root: Path, tmp_path: Path) -> None:
    """
    They are not compared with each other.
    """
    shutil.copytree(root, tmp_path / "b")
    tasks = plan_tasks([plan_store(root), plan_store(tmp_path / "b")])

    assert 10 == len(tasks)
    assert all(one.digest_end == one.base for one in tasks)


def test_equal_replicas_are_digested_up_to_their_end(
    root: Path, tmp_path: Path
) -> None:
    """
    Both are.
    """
    shutil.copytree(root, tmp_path / "b")
    plans = [plan_store(root, "g"), plan_store(tmp_path / "b", "g")]
    one, other = plan_tasks(plans)[:5], plan_tasks(plans)[5:]

    assert ends_of(one) == ends_of(other)
    assert [task.end for task in one] == [task.digest_end for task in one]
    assert end_of(root) == one[-1].end


def test_a_segment_is_digested_up_to_the_end_of_each_copy(
    root: Path, tmp_path: Path
) -> None:
    """
    Each replica up to its own end, and to the ends of shorter ones.
    """
    short = end_of(root)
    shutil.copytree(root, tmp_path / "b")
    append(root, 600)
    end = end_of(root)
    tasks = plan_tasks([plan_store(root, "g"), plan_store(tmp_path / "b", "g")])
    by_base = {one.base: one for one in tasks[:-5]}

    assert SEGMENT == by_base[0].digest_end
    assert (5 * SEGMENT, (short,)) == (
        by_base[4 * SEGMENT].digest_end,
        by_base[4 * SEGMENT].stops,
    )
    assert 6 * SEGMENT == by_base[5 * SEGMENT].digest_end
    assert end == by_base[max(by_base)].digest_end
    assert short == tasks[-1].digest_end


def test_a_replica_without_a_valid_page_is_compared_up_to_its_last_record(
    root: Path, tmp_path: Path
) -> None:
    """
    Bytes behind the last record may differ.
    """
    end = end_of(root)
    shutil.copytree(root, tmp_path / "b")
    restart_machine(tmp_path / "b")
    tasks = plan_tasks([plan_store(root, "g"), plan_store(tmp_path / "b", "g")])

    assert (4 * SEGMENT, 5 * SEGMENT, end) == ends_of(tasks)[-1]


def test_a_sampled_task_names_its_blocks(tmp_path: Path) -> None:
    """
    The number of blocks follows from the segment; this holds for a single store, too.
    """
    with CommitLog(tmp_path / "a", segment_size=8 * BLOCK_BYTES) as log:
        for _ in range(5):
            log.append(Message("T", bytes(BLOCK_BYTES - 1000)))
    plan = plan_store(tmp_path / "a")

    for number in range(3):
        (task,) = plan_tasks([plan], 30, number)
        assert sample_blocks(0, 5, 30, number) == task.blocks
        assert plan.end == task.digest_end
        assert 3 * BLOCK_BYTES == task.size


def test_plans_and_tasks_can_be_pickled(root: Path) -> None:
    """
    They hold no open file.
    """
    plan = plan_store(root)

    assert plan == pickle.loads(pickle.dumps(plan))
    assert plan_tasks([plan]) == pickle.loads(pickle.dumps(plan_tasks([plan])))


def test_a_task_knows_whether_its_segment_has_a_seal(root: Path) -> None:
    """
    The last segment has no seal, because it is not full.
    """
    with CommitLog(root) as log:
        while seal_next(log.writer):
            pass

    tasks = plan_tasks([plan_store(root)])

    assert [True, True, True, True, False] == [one.has_seal for one in tasks]


def test_a_task_knows_the_epochs_that_begin_in_its_segment(root: Path) -> None:
    """
    An epoch that begins at a segment's base belongs to that segment.
    """
    table = EpochTable.of([(1, 0), (2, 100), (5, SEGMENT), (6, 3 * SEGMENT + 8)])
    (root / EPOCH_FILE).write_bytes(encode_epochs(table))

    tasks = plan_tasks([plan_store(root)])

    assert [(0, 100), (SEGMENT,), (), (3 * SEGMENT + 8,), ()] == [
        one.epochs for one in tasks
    ]


def test_an_epoch_that_begins_at_the_end_belongs_to_no_task(tmp_path: Path) -> None:
    """
    It has no record yet.
    """
    with CommitLog(tmp_path / "a", segment_size=SEGMENT) as log:
        log.begin_epoch(1)
        log.append(Message("T", b"x"))
        log.begin_epoch(2)
    (task,) = plan_tasks([plan_store(tmp_path / "a")])

    assert (0,) == task.epochs
