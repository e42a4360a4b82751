"""
What a round checks: by the words of controllers and replicas.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from lib.spark.local_rounds import replicas_of
from lib.store.pairs import SEGMENT

from pystore.autorecovery.pauses import Pauses
from pystore.autorecovery.replica_peers import ReplicaAddress
from pystore.errors import InvalidError
from pystore.seals import BLOCK_BYTES
from pystore.segments.order import ReplicaStat
from pystore.spark.peers.plan import (
    bytes_of,
    direct_copies,
    plan_sets,
    segment_tasks,
    waves_of,
)
from pystore.spark.verify.task import SegmentTask, StoreShare


def _tasks(sets: int = 3, brokers: int = 3, segments: int = 7) -> list[SegmentTask]:
    return [
        SegmentTask(StoreShare(f"c/{one}/{it}", f"c/{one}"), base, base + 10, base)
        for one in range(sets)
        for base in range(0, 10 * segments, 10)
        for it in range(brokers)
    ]


def test_a_new_controller_does_not_know_who_is_dead(tmp_path: Path) -> None:
    """
    AR-R6: the row says so, and not that the replica is dead.
    """
    replicas = replicas_of(tmp_path, 2)
    replicas.replicas[2].is_alive = False
    view = replicas.all_sets()
    for known, word in ((True, "dead"), (False, "has led for 60 s")):
        (one,) = plan_sets(replace(view, may_replace=known), replicas.stat, Pauses())
        assert word in one.looks[2].text
        assert [1] == list(one.stats)


def test_a_replica_that_refuses_is_unknown(tmp_path: Path) -> None:
    """
    Such as one of an earlier version.
    """
    replicas = replicas_of(tmp_path, 2)

    def stat(replica: ReplicaAddress) -> ReplicaStat:
        if replica.broker_id == 2:
            raise InvalidError("7120 is not known")
        return replicas.stat(replica)

    (one,) = plan_sets(replicas.all_sets(), stat, Pauses())
    assert "7120 is not known" in one.looks[2].text
    assert {"cluster/set/1"} == {
        it.share.store for it in segment_tasks([one], 100, 0, {})
    }


def test_segments_of_which_nothing_is_to_be_read_have_no_task(tmp_path: Path) -> None:
    """
    A file that its replica cannot read is judged without a byte.
    """
    replicas = replicas_of(tmp_path, 2)
    root = replicas.replicas[1].root
    (root / "commitlog" / f"{SEGMENT:020d}").unlink()
    (one,) = plan_sets(replicas.all_sets(), replicas.stat, Pauses())
    tasks = segment_tasks([one], 100, 0, {})
    assert [2] == [int(it.share.store[-1]) for it in tasks if it.base == SEGMENT]
    assert 2 * len(one.bases()) - 1 == len(tasks)


@pytest.mark.parametrize(
    ("share", "count"), [(0, 0), (0.01, 1), (0.5, 32), (1, 63), (0.016, 2)]
)
def test_exactly_the_stated_share_is_read_directly(share: float, count: int) -> None:
    """
    Rounded up, so that a small round has one; others in the next round.
    """
    tasks = _tasks()
    assert count == len(direct_copies(tasks, share, 0))
    assert direct_copies(tasks, share, 0) == direct_copies(tasks[::-1], share, 0)
    if 0 < share < 0.1:
        assert direct_copies(tasks, share, 0) != direct_copies(tasks, share, 1)


@pytest.mark.parametrize(
    ("wave_bytes", "segments"), [(1, 1), (20, 2), (29, 2), (70, 7)]
)
def test_a_broker_reads_so_many_bytes_between_two_looks_at_the_pauses(
    wave_bytes: int, segments: int
) -> None:
    """
    At least one segment; all sets at once, and all copies of a segment together.
    """
    tasks = _tasks()
    waves = list(waves_of(tasks, wave_bytes))
    assert sorted(tasks, key=repr) == sorted((it for w in waves for it in w), key=repr)
    first = waves[0]
    assert {f"c/{one}" for one in range(3)} == {it.share.group for it in first}
    assert segments == len({it.base for it in first})
    assert 3 * 3 * segments == len(first)
    assert -(-7 // segments) == len(waves)


def test_the_last_block_may_be_shorter() -> None:
    """
    Budgets count what is read.
    """
    task = SegmentTask(StoreShare("s", "g"), 0, 2 * BLOCK_BYTES + 5, 0)
    sizes = [bytes_of(replace(task, blocks=it)) for it in (None, (0,), (1, 2), (2,))]
    assert [2 * BLOCK_BYTES + 5, BLOCK_BYTES, BLOCK_BYTES + 5, 5] == sizes
