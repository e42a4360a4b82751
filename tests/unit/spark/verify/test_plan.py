"""
The plan of a store, made on the driver: groups, ends, seals, epochs.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lib.spark.verify_job import SEGMENT, make_replicas
from lib.store.segment_files import end_of, restart_machine, segment

from pystore.epochs.file import encode_epochs
from pystore.epochs.table import EpochTable
from pystore.errors import PystoreError
from pystore.fs.layout import EPOCH_FILE, IDENTITY_FILE
from pystore.message.message import Message
from pystore.recovery.torn_tail import Bound, Evidence
from pystore.rocketmq.identity_file import BrokerIdentity
from pystore.spark.verify.plan import (
    StorePlan,
    group_of,
    open_parts,
    plan_store,
    plan_tasks,
)
from pystore.spark.verify.segment_list import list_segments
from pystore.store.commit_log import CommitLog


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


def texts(plan: StorePlan) -> list[tuple[str, str]]:
    """
    Kind and text of each finding.
    """
    return [(one.kind, one.text) for one in plan.findings]


# -- groups --------------------------------------------------------------------


def test_stores_of_one_broker_set_are_replicas(root: Path) -> None:
    """
    The group is cluster and broker name, without the broker id.
    """
    identity = BrokerIdentity("cluster", "broker-a", 7)
    (root / IDENTITY_FILE).write_bytes(identity.encode())

    assert "cluster/broker-a" == group_of(root) == plan_store(root).group


def test_a_store_without_an_identity_is_compared_with_no_other(root: Path) -> None:
    """
    Its own path is its group.
    """
    assert "" == group_of(root)
    assert str(root) == plan_store(root).group == plan_store(root).share.group


def test_an_unreadable_identity_names_no_group(root: Path) -> None:
    """
    A guess would compare logs that are unrelated.
    """
    (root / IDENTITY_FILE).write_bytes(b"cluster#broker-a")

    assert "" == group_of(root)


def test_the_caller_may_choose_the_group(root: Path) -> None:
    """
    It overrides the identity.
    """
    (root / IDENTITY_FILE).write_bytes(BrokerIdentity("c", "b", 0).encode())

    assert "all" == plan_store(root, "all").group


# -- ends and bounds -----------------------------------------------------------


def test_a_closed_store_is_planned_up_to_its_end(store: Path) -> None:
    """
    The live page still has the end, and no record below it may be bad.
    """
    plan = plan_store(store)

    assert end_of(store) == plan.end == plan.readable_end
    assert Bound(end_of(store), "clean mark") == plan.bound
    assert [0, SEGMENT, 2 * SEGMENT, 3 * SEGMENT, 4 * SEGMENT] == plan.bases


def test_a_store_is_planned_while_it_is_written(tmp_path: Path) -> None:
    """
    The plan ends at the published end of that moment.
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
    assert end == plan.readable_end
    assert end == max(one.end for one in tasks)
    assert [0, SEGMENT] == [one.base for one in tasks]


def test_an_empty_segment_gets_no_task(tmp_path: Path) -> None:
    """
    The writer makes it in advance.
    """
    with CommitLog(tmp_path / "a", segment_size=SEGMENT) as log:
        log.append(Message("T", b"x"))
        segment(tmp_path / "a", SEGMENT).write_bytes(bytes(SEGMENT))

        assert [0] == plan_store(tmp_path / "a").bases


def test_without_a_live_page_all_bytes_are_scanned(tmp_path: Path) -> None:
    """
    After a restart of the machine; replicas are compared up to the last record.
    """
    (root,) = make_replicas(tmp_path, 1)
    end = end_of(root)
    restart_machine(root)
    plan = plan_store(root)

    assert plan.generation is None
    assert 5 * SEGMENT == plan.end
    assert end == plan.readable_end
    assert Bound(end, "clean mark") == plan.bound


def test_a_store_of_rocketmq_has_evidence_instead_of_a_bound(root: Path) -> None:
    """
    It has no bound of pystore.
    """
    shutil.rmtree(root / "meta")
    plan = plan_store(root)

    assert isinstance(plan.bound, Evidence)
    assert 5 * SEGMENT == plan.end
    assert plan.bound.stale_above is None
    assert [] == plan.findings


def test_bytes_above_the_records_that_queues_name_may_be_stale(tmp_path: Path) -> None:
    """
    Only RocketMQ's files show the end.
    """
    (root,) = make_replicas(tmp_path, 1, 300, with_queues=True)
    end = end_of(root)
    shutil.rmtree(root / "meta")

    bound = plan_store(root).bound

    assert isinstance(bound, Evidence)
    assert end == bound.stale_above


def test_the_segments_beside_a_missing_one_are_checked(root: Path) -> None:
    """
    The store's bound does not apply then.
    """
    segment(root, SEGMENT).unlink()
    plan = plan_store(root)

    assert [0, 2 * SEGMENT, 3 * SEGMENT, 4 * SEGMENT] == plan.bases
    assert isinstance(plan.bound, Evidence)
    assert plan.bases == [one.base for one in plan_tasks([plan])]


def test_a_segment_of_a_wrong_size_gets_no_task(root: Path) -> None:
    """
    It cannot be opened; the segment list reports it.
    """
    segment(root, SEGMENT).write_bytes(b"x")
    plan = plan_store(root)

    assert SEGMENT not in plan.bases
    assert {SEGMENT: 1} == plan.listing.odd


def test_an_empty_store_gets_no_task(tmp_path: Path) -> None:
    """
    A store that was just created has no segment.
    """
    with CommitLog(tmp_path / "a", segment_size=SEGMENT):
        pass
    plan = plan_store(tmp_path / "a")

    assert ([], 0) == (plan_tasks([plan]), plan.readable_end)


def test_a_damaged_live_page_is_a_finding(root: Path) -> None:
    """
    Records are still checked.
    """
    (root / "meta" / "live").write_bytes(bytes(4096))
    plan = plan_store(root)

    assert ["store"] == [kind for kind, _ in texts(plan)]
    assert 5 == len(plan_tasks([plan]))


def test_a_directory_that_is_no_store_is_refused(tmp_path: Path) -> None:
    """
    It has no commitlog/.
    """
    with pytest.raises(PystoreError, match="commitlog"):
        plan_store(tmp_path)


# -- queues --------------------------------------------------------------------


def test_a_plan_holds_the_ends_of_the_queues(tmp_path: Path) -> None:
    """
    By topic and queue id.
    """
    (root,) = make_replicas(tmp_path, 1, 300, with_queues=True)
    plan = plan_store(root)

    assert {(f"T{t}", q): 50 for t in range(3) for q in range(2)} == plan.lengths
    assert (True, 6_000_000) == (plan.share.has_queues, plan.share.queue_file_size)


def test_queues_that_cannot_be_read_are_a_finding(tmp_path: Path) -> None:
    """
    No entry is compared then.
    """
    (root,) = make_replicas(tmp_path, 1, 300, with_queues=True)
    next((root / "consumequeue" / "T1" / "0").iterdir()).write_bytes(b"short")
    plan = plan_store(root)

    assert ({}, False) == (plan.lengths, plan.share.has_queues)
    assert ["consumeQueue"] == [kind for kind, _ in texts(plan)]


def test_the_log_behind_the_last_missing_segment_is_opened_with_the_queues(
    root: Path,
) -> None:
    """
    It holds the end of the log and the last records of the queues.
    """
    segment(root, SEGMENT).unlink()

    with open_parts(root, list_segments(root)) as (log, queues, problem):
        assert [2 * SEGMENT, 3 * SEGMENT, 4 * SEGMENT] == log.segments()
        assert (0, "") == (len(queues), problem)


# -- seals and epochs ----------------------------------------------------------


def test_a_file_with_another_name_among_the_seals_is_a_finding(root: Path) -> None:
    """
    The names of the seals are then unreliable.
    """
    (root / "meta" / "seals" / "other").write_text("x")
    plan = plan_store(root)

    assert ["seal"] == [kind for kind, _ in texts(plan)]
    assert frozenset() == plan.sealed


def test_an_epoch_above_the_end_is_a_finding(root: Path) -> None:
    """
    Its records are lost.
    """
    end = end_of(root)
    table = EpochTable.of([(1, 0), (2, end), (3, end + 1)])
    (root / EPOCH_FILE).write_bytes(encode_epochs(table))
    plan = plan_store(root)

    assert (0, end) == plan.epochs
    text = f"epoch 3 begins at {end + 1}, above the end {end}"
    assert [("epoch", text)] == texts(plan)
    assert end + 1 == plan.findings[0].offset


def test_a_damaged_epoch_file_is_a_finding(root: Path) -> None:
    """
    The epochs are unknown then.
    """
    (root / EPOCH_FILE).write_bytes(b"2\n0\n1-0\n")
    plan = plan_store(root)

    assert "epoch" in [kind for kind, _ in texts(plan)]
    assert () == plan.epochs
