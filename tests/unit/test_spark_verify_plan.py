"""
What is looked at once, on the driver: groups, ends, seals, epochs; and the tasks.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from verify_job import SEGMENT, make_replicas

from pystore.epoch_file import EPOCHS, encode_epochs
from pystore.epochs import EpochTable
from pystore.errors import PystoreError
from pystore.exports import IDENTITY, BrokerIdentity
from pystore.live import Live
from pystore.log import CommitLog
from pystore.messages import Message
from pystore.rows import NO_OFFSET
from pystore.sealing import seal_next
from pystore.seals import BLOCK_BYTES
from pystore.spark.verify.listing import list_segments
from pystore.spark.verify.plan import (
    StorePlan,
    group_of,
    open_parts,
    plan_store,
    plan_tasks,
    readable_end,
)
from pystore.spark.verify.sampling import sample_blocks
from pystore.spark.verify.task import SegmentTask
from pystore.torn import Bound, Evidence


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


def end_of(root: Path) -> int:
    """
    Where the log of a closed store ends.
    """
    with CommitLog(root, mode="r") as log:
        return log.end_offset


def segment(root: Path, base: int) -> Path:
    """
    The segment's file.
    """
    return root / "commitlog" / f"{base:020d}"


def append(root: Path, count: int) -> None:
    """
    Goes on with the log.
    """
    with CommitLog(root) as log:
        for _ in range(count):
            log.append(Message("T", b"more " * 50))


def restart_machine(root: Path) -> None:
    """
    Makes the live page one of another boot, so that it tells nothing.
    """
    with Live(root / "meta" / "live", writable=True) as page:
        page.begin(page.read()._replace(boot_id=bytes(range(16))))


def ends_of(tasks: Sequence[SegmentTask]) -> list[tuple[int, int, int]]:
    """
    Base, end and digest end of each.
    """
    return [(one.base, one.end, one.digest_end) for one in tasks]


def texts(plan: StorePlan) -> list[tuple[str, str]]:
    """
    Kind and text of each finding.
    """
    return [(one.kind, one.text) for one in plan.findings]


# -- groups --------------------------------------------------------------------


def test_replicas_are_told_by_their_broker_set(root: Path) -> None:
    """
    Cluster and broker name, and not the id.
    """
    identity = BrokerIdentity("cluster", "broker-a", 7)
    (root / IDENTITY).write_bytes(identity.encode())

    assert "cluster/broker-a" == group_of(root) == plan_store(root).group


def test_a_store_without_an_identity_is_compared_with_no_other(root: Path) -> None:
    """
    Its own path is its group.
    """
    assert "" == group_of(root)
    assert str(root) == plan_store(root).group == plan_store(root).share.group


def test_an_identity_that_cannot_be_read_names_no_group(root: Path) -> None:
    """
    A guess would compare logs that have nothing in common.
    """
    (root / IDENTITY).write_bytes(b"cluster#broker-a")

    assert "" == group_of(root)


def test_the_caller_may_say_what_is_compared(root: Path) -> None:
    """
    Whatever the identity says.
    """
    (root / IDENTITY).write_bytes(BrokerIdentity("c", "b", 0).encode())

    assert "all" == plan_store(root, "all").group


# -- ends and bounds -----------------------------------------------------------


def test_a_closed_store_is_planned_up_to_its_end(store: Path) -> None:
    """
    The live page still tells it, and nothing below it may be bad.
    """
    plan = plan_store(store)

    assert end_of(store) == plan.end == readable_end(plan)
    assert Bound(end_of(store), "clean mark") == plan.bound
    assert [0, SEGMENT, 2 * SEGMENT, 3 * SEGMENT, 4 * SEGMENT] == plan.bases


def test_a_store_is_planned_while_it_is_written(tmp_path: Path) -> None:
    """
    Up to what was published when it was looked at, and not beyond.
    """
    with CommitLog(tmp_path / "a", segment_size=SEGMENT) as log:
        for _ in range(300):
            log.append(Message("T", b"x" * 300))
        end = log.end_offset
        plan = plan_store(tmp_path / "a")
        for _ in range(300):
            log.append(Message("T", b"x" * 300))
        tasks = plan_tasks([plan])

    assert (end, Bound(end, "published end")) == (plan.end, plan.bound)
    assert plan.generation is not None
    assert end == readable_end(plan)
    assert end == max(one.end for one in tasks)
    assert [0, SEGMENT] == [one.base for one in tasks]


def test_a_segment_that_nothing_was_written_to_is_no_work(tmp_path: Path) -> None:
    """
    The writer makes it ahead of time.
    """
    with CommitLog(tmp_path / "a", segment_size=SEGMENT) as log:
        log.append(Message("T", b"x"))
        segment(tmp_path / "a", SEGMENT).write_bytes(bytes(SEGMENT))

        assert [0] == plan_store(tmp_path / "a").bases


def test_without_a_live_page_whatever_is_there_is_scanned(tmp_path: Path) -> None:
    """
    After a restart of the machine; replicas are compared up to the last record.
    """
    (root,) = make_replicas(tmp_path, 1)
    end = end_of(root)
    restart_machine(root)
    plan = plan_store(root)

    assert plan.generation is None
    assert 5 * SEGMENT == plan.end
    assert end == readable_end(plan)
    assert Bound(end, "clean mark") == plan.bound


def test_a_store_that_rocketmq_wrote_brings_evidence(root: Path) -> None:
    """
    It has no bound of ours.
    """
    shutil.rmtree(root / "meta")
    plan = plan_store(root)

    assert isinstance(plan.bound, Evidence)
    assert 5 * SEGMENT == plan.end
    assert NO_OFFSET == plan.share.stale_above
    assert [] == plan.findings


def test_stale_bytes_are_told_above_what_the_queues_name(tmp_path: Path) -> None:
    """
    Where only RocketMQ's files tell the end.
    """
    (root,) = make_replicas(tmp_path, 1, 300, with_queues=True)
    end = end_of(root)
    shutil.rmtree(root / "meta")

    assert end == plan_store(root).share.stale_above


def test_a_hole_leaves_the_other_segments_to_check(root: Path) -> None:
    """
    And no bound that was made for all of them together.
    """
    segment(root, SEGMENT).unlink()
    plan = plan_store(root)

    assert [0, 2 * SEGMENT, 3 * SEGMENT, 4 * SEGMENT] == plan.bases
    assert isinstance(plan.bound, Evidence)
    assert plan.bases == [one.base for one in plan_tasks([plan])]


def test_a_segment_of_a_wrong_size_is_no_work(root: Path) -> None:
    """
    It cannot be opened; the listing says what is wrong.
    """
    segment(root, SEGMENT).write_bytes(b"x")
    plan = plan_store(root)

    assert SEGMENT not in plan.bases
    assert {SEGMENT: 1} == plan.listing.odd


def test_an_empty_store_is_no_work(tmp_path: Path) -> None:
    """
    As one that was just made.
    """
    with CommitLog(tmp_path / "a", segment_size=SEGMENT):
        pass
    plan = plan_store(tmp_path / "a")

    assert ([], 0) == (plan_tasks([plan]), readable_end(plan))


def test_a_live_page_that_is_damaged_is_a_finding(root: Path) -> None:
    """
    Records are checked all the same.
    """
    (root / "meta" / "live").write_bytes(bytes(4096))
    plan = plan_store(root)

    assert ["store"] == [kind for kind, _ in texts(plan)]
    assert 5 == len(plan_tasks([plan]))


def test_a_store_that_is_none_is_refused(tmp_path: Path) -> None:
    """
    It has no commitlog/.
    """
    with pytest.raises(PystoreError, match="commitlog"):
        plan_store(tmp_path)


# -- queues --------------------------------------------------------------------


def test_tasks_know_where_the_queues_end(tmp_path: Path) -> None:
    """
    By topic and queue id.
    """
    (root,) = make_replicas(tmp_path, 1, 300, with_queues=True)
    share = plan_store(root).share

    assert {(f"T{t}", q): 50 for t in range(3) for q in range(2)} == share.lengths
    assert 6_000_000 == share.queue_file_size


def test_queues_that_cannot_be_read_are_a_finding(tmp_path: Path) -> None:
    """
    Nothing is compared with them then.
    """
    (root,) = make_replicas(tmp_path, 1, 300, with_queues=True)
    next((root / "consumequeue" / "T1" / "0").iterdir()).write_bytes(b"short")
    plan = plan_store(root)

    assert {} == plan.share.lengths
    assert {"store"} == {kind for kind, _ in texts(plan)}


def test_the_log_behind_the_last_hole_is_opened_with_the_queues(root: Path) -> None:
    """
    It is where the end is, and what queues name last.
    """
    segment(root, SEGMENT).unlink()

    with open_parts(root, list_segments(root)) as (log, queues, problem):
        assert [2 * SEGMENT, 3 * SEGMENT, 4 * SEGMENT] == log.segments()
        assert (0, "") == (len(queues), problem)


# -- seals and epochs ----------------------------------------------------------


def test_a_task_knows_whether_its_segment_has_a_seal(root: Path) -> None:
    """
    The last segment has none: it is not full.
    """
    with CommitLog(root) as log:
        while seal_next(log.writer):
            pass

    tasks = plan_tasks([plan_store(root)])

    assert [True, True, True, True, False] == [one.has_seal for one in tasks]


def test_a_name_that_no_seal_has_is_a_finding(root: Path) -> None:
    """
    Seals cannot be told then.
    """
    (root / "meta" / "seals" / "other").write_text("x")
    plan = plan_store(root)

    assert ["seal"] == [kind for kind, _ in texts(plan)]
    assert frozenset() == plan.sealed


def test_a_task_knows_the_epochs_that_begin_in_its_segment(root: Path) -> None:
    """
    One that begins at a segment's base belongs to that segment.
    """
    table = EpochTable.of([(1, 0), (2, 100), (5, SEGMENT), (6, 3 * SEGMENT + 8)])
    (root / EPOCHS).write_bytes(encode_epochs(table))

    tasks = plan_tasks([plan_store(root)])

    assert [(0, 100), (SEGMENT,), (), (3 * SEGMENT + 8,), ()] == [
        one.epochs for one in tasks
    ]


def test_an_epoch_above_the_end_is_a_finding(root: Path) -> None:
    """
    Nobody wrote those bytes, so they were lost.
    """
    end = end_of(root)
    table = EpochTable.of([(1, 0), (2, end), (3, end + 1)])
    (root / EPOCHS).write_bytes(encode_epochs(table))
    plan = plan_store(root)

    assert (0, end) == plan.epochs
    text = f"epoch 3 begins at {end + 1}, above the end {end}"
    assert [("epoch", text)] == texts(plan)
    assert end + 1 == plan.findings[0].offset


def test_an_epoch_that_begins_at_the_end_is_no_task_s(tmp_path: Path) -> None:
    """
    Its first record is still to come.
    """
    with CommitLog(tmp_path / "a", segment_size=SEGMENT) as log:
        log.begin_epoch(1)
        log.append(Message("T", b"x"))
        log.begin_epoch(2)
    (task,) = plan_tasks([plan_store(tmp_path / "a")])

    assert (0,) == task.epochs


def test_an_epoch_file_that_does_not_prove_itself_is_a_finding(root: Path) -> None:
    """
    Epochs cannot be told then.
    """
    (root / EPOCHS).write_bytes(b"2\n0\n1-0\n")
    plan = plan_store(root)

    assert "epoch" in [kind for kind, _ in texts(plan)]
    assert () == plan.epochs


# -- tasks ---------------------------------------------------------------------


def test_a_store_by_itself_is_not_digested(root: Path) -> None:
    """
    Nothing could be compared with it.
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
    All of both.
    """
    shutil.copytree(root, tmp_path / "b")
    plans = [plan_store(root, "g"), plan_store(tmp_path / "b", "g")]
    one, other = plan_tasks(plans)[:5], plan_tasks(plans)[5:]

    assert ends_of(one) == ends_of(other)
    assert [task.end for task in one] == [task.digest_end for task in one]
    assert end_of(root) == one[-1].end


def test_a_segment_is_digested_up_to_where_the_shortest_copy_ends(
    root: Path, tmp_path: Path
) -> None:
    """
    Of the replicas that reach into it; what one alone has, is not digested.
    """
    short = end_of(root)
    shutil.copytree(root, tmp_path / "b")
    append(root, 600)
    end = end_of(root)
    tasks = plan_tasks([plan_store(root, "g"), plan_store(tmp_path / "b", "g")])
    by_base = {one.base: one for one in tasks[:-5]}

    assert SEGMENT == by_base[0].digest_end
    assert (5 * SEGMENT, short) == (
        by_base[4 * SEGMENT].end,
        by_base[4 * SEGMENT].digest_end,
    )
    assert 6 * SEGMENT == by_base[5 * SEGMENT].digest_end
    assert end == by_base[max(by_base)].digest_end
    assert short == tasks[-1].digest_end


def test_a_replica_whose_page_tells_nothing_is_compared_to_its_last_record(
    root: Path, tmp_path: Path
) -> None:
    """
    What stands behind it may be anything.
    """
    end = end_of(root)
    shutil.copytree(root, tmp_path / "b")
    restart_machine(tmp_path / "b")
    tasks = plan_tasks([plan_store(root, "g"), plan_store(tmp_path / "b", "g")])

    assert (4 * SEGMENT, 5 * SEGMENT, end) == ends_of(tasks)[-1]


def test_a_sampled_task_names_its_blocks(tmp_path: Path) -> None:
    """
    Those of the rule, of as many blocks as the segment has; also of a lone store.
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


def test_plans_and_tasks_travel(root: Path) -> None:
    """
    Nothing that was opened is in them.
    """
    plan = plan_store(root)

    assert plan == pickle.loads(pickle.dumps(plan))
    assert plan_tasks([plan]) == pickle.loads(pickle.dumps(plan_tasks([plan])))
