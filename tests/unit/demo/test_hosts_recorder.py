"""
What is seen of a cluster becomes lanes and events, each once.
"""

from __future__ import annotations

from dataclasses import replace

from lib.seen_cluster import CLUSTER, a_broker, a_sight, a_status

from pystore.autorecovery.mark import Missing, Priority, Reason, SegmentMark
from pystore.autorecovery.queue_view import QueueContents
from pystore.autorecovery.replacement_record import (
    Replacement,
    ReplacementKey,
    ReplacementPhase,
    ReplacementReason,
)
from pystore.autorecovery.segment_key import SegmentKey
from pystore.autorecovery.status_view import Activity, LostReplica
from pystore.demo.cluster_sight import ClusterSight
from pystore.demo.hosts_recorder import HostsRecorder
from pystore.demo.timeline import Timeline

KEY = SegmentKey(CLUSTER, "s", 4096)
SIGHT = a_sight({1: a_broker(1), 2: a_broker(2)})


class Stage:
    """
    A recorder with a clock that the test moves.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self.said: list[str] = []
        self.timeline = Timeline((1, 2, 3), lane="host")
        self.recorder = HostsRecorder(
            self.timeline, lambda: self.now_s, lambda it: self.said.append(it.what)
        )

    def see(self, sight: ClusterSight) -> list[str]:
        """
        What is told of a sight.
        """
        self.said.clear()
        self.recorder.seen(sight)
        self.recorder.wait_until(lambda: True, 0)
        return list(self.said)


def with_mark(mark: SegmentMark) -> ClusterSight:
    """
    A sight with one mark in the queue.
    """
    contents = QueueContents({KEY: mark}, {}, {}, is_enabled=True, damaged=())
    return replace(SIGHT, status=replace(a_status(), contents=contents))


def test_a_host_that_was_killed_is_down_whatever_is_seen_of_it() -> None:
    """
    The controller learns it later.
    """
    stage = Stage()
    stage.see(SIGHT)
    assert "serving" == stage.timeline.state(2).role
    stage.recorder.hold(2)
    stage.see(SIGHT)
    assert "down" == stage.timeline.state(2).role


def test_a_lost_replica_is_told_once_and_a_cancelled_one_never() -> None:
    """
    A new replica that is removed again is no loss.
    """
    stage = Stage()
    lost = LostReplica(CLUSTER, "s", 2, 1, {})
    seen = replace(SIGHT, status=replace(a_status(), lost=(lost,)))
    assert ["lost: demo/s/2; due 600 s after their death"] == stage.see(seen)
    assert [] == stage.see(seen)

    stage = Stage()
    key = ReplacementKey(CLUSTER, "s", 1)
    going = Replacement(ReplacementReason.DRAIN, 1, new_id=2, cancelled=True)
    assert [] == stage.see(replace(seen, replacements={key: going}))


def test_a_mark_is_told_and_what_a_worker_found_at_a_watched_segment() -> None:
    """
    From the mark of a try that failed, and from the record of its slot; each once.
    """
    stage = Stage()
    mark = SegmentMark(
        {2: Missing(Reason.ABSENT, "the file is missing")}, Priority.LAST_COPY, 1, 1
    )
    assert ["marks s/4096: broker 2 ABSENT: the file is missing"] == (
        stage.see(with_mark(mark))
    )
    stage.recorder.watched.add(KEY)
    found = {
        1: "broker 1 at h:1 is good: repaired; before: 1 of 1 blocks are bad",
        2: "broker 2 at h:2 is good",
    }
    wrong = "finds in s/4096: broker 1: 1 of 1 blocks are bad, repaired"
    assert [wrong] == stage.see(with_mark(replace(mark, found=found)))
    told = {"last": f"{KEY.text}: done: every copy is good", "found": found}
    worker = Activity("w", "looks for a segment", 1, told)
    again = replace(SIGHT, status=replace(a_status(), workers=(worker,)))
    assert [] == stage.see(again)
    assert [wrong] == told_of(again)
    assert ["broker 1: 1 of 1 blocks are bad"] == stage.recorder.evidence[KEY]
    assert [(0.0, 1, 0), (0.0, 0, 0)] == stage.timeline.queue


def told_of(sight: ClusterSight) -> list[str]:
    """
    What a new recorder tells that watches the segment.
    """
    stage = Stage()
    stage.recorder.watched.add(KEY)
    return stage.see(sight)


def test_a_replacement_is_told_when_it_fills_and_when_it_ends() -> None:
    """
    By the numbers of hosts.
    """
    stage = Stage()
    key = ReplacementKey(CLUSTER, "s", 1)
    going = Replacement(
        ReplacementReason.LOST,
        1,
        phase=ReplacementPhase.FILLING,
        target="host-3",
        new_id=5,
    )
    filling = replace(SIGHT, replacements={key: going})
    assert ["broker 1 of s is made anew on host 3, as 5"] == stage.see(filling)
    assert [] == stage.see(filling)
    waits = replace(going, phase=ReplacementPhase.CLEARING)
    over = replace(SIGHT, replacements={key: waits})
    assert ["broker 1 of s is replaced"] == stage.see(over)
    assert [] == stage.see(SIGHT)
    ended = replace(SIGHT, replacements={key: replace(going, cancelled=True)})
    stage.see(ended)
    assert ["broker 1 of s is replaced no more"] == stage.see(SIGHT)


def test_the_longest_gap_is_that_of_one_set() -> None:
    """
    Acks of other sets do not hide it; one that has not ended counts.
    """
    stage = Stage()
    for now_s, name in enumerate("ababaaaaa"):
        stage.now_s = float(now_s)
        stage.recorder.acked(name, 1)
    gap = stage.recorder.longest_gap(2.0, "kill")
    assert gap is not None
    assert (3.0, 8.0, "kill, b") == (gap.begin_s, gap.end_s, gap.name)
    assert {"a"} == stage.recorder.acked_since(3.0)
    assert 9 == len(stage.timeline.acks)
