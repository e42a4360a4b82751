"""
Marks what the replicas say about damaged and missing segments, under the brake.

Source: AR-R6, AR-R7, AR-R9, AR-R17; decisions D4, D5, D7; docs/autorecovery.md, *The
Auditor*.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pystore.autorecovery.copies import broker_of, good_copies, priority_of
from pystore.autorecovery.findings import (
    CopyFinding,
    file_findings,
    reports_copy,
    source_findings,
)
from pystore.autorecovery.mark import Missing
from pystore.autorecovery.mark_brake import MarkBrake
from pystore.autorecovery.marking import NewMark
from pystore.autorecovery.queue_picture import QueuePicture
from pystore.autorecovery.replica_key import ReplicaKey
from pystore.autorecovery.replica_looks import LookAnswer, ReplicaLooks
from pystore.autorecovery.replica_peers import ClusterView
from pystore.autorecovery.segment_key import SegmentKey
from pystore.autorecovery.settings import RecoverySettings
from pystore.controller.protocol.set_descriptions import SetDescription
from pystore.segments.order import ReplicaStat

__all__ = ["DamageAudit"]


class DamageAudit:
    """
    The looks at replicas and what they prove, as one Auditor knows it. One thread.

    Args:
        looks: at the replicas.
        picture: of the queue.

    Attributes:
        brake: stops a check that would mark too much.
        waiting: marks for which the window had no room.
        refused: the last refusals to be looked at, by replica.
    """

    def __init__(self, looks: ReplicaLooks, picture: QueuePicture) -> None:
        self._looks = looks
        self._picture = picture
        self.brake = MarkBrake()
        self.waiting: dict[SegmentKey, NewMark] = {}
        self.refused: dict[ReplicaKey, str] = {}
        self._returned: set[ReplicaKey] = set()
        # Answers since the queue was read last: a segment may be dead since then.
        self._answered: dict[ReplicaKey, ReplicaStat] = {}
        self._reads = 0
        # Slaves whose words about a source could not be judged yet.
        self._unjudged: set[ReplicaKey] = set()
        # What a process of a slave said about a process of its source is one fact: it
        # repeats it as long as it lives, also after the repair.
        self._told: set[tuple[ReplicaKey, str, int, str, int]] = set()

    def load(self) -> None:
        """
        Another term: everything is looked at again.
        """
        self.waiting.clear()
        self._told.clear()
        self._unjudged.clear()
        self._answered.clear()

    def begin_check(self, *, is_forced: bool) -> None:
        """
        Looks at all replicas.
        """
        self.brake.begin(is_forced=is_forced)
        self.refused.clear()
        self._looks.begin_check()

    def take_returned(self) -> list[SegmentKey]:
        """
        Returns the segments with facts about replicas that returned since the last
        call: their repairs may succeed now (AR-R17).
        """
        returned, self._returned = self._returned, set()
        if not returned:
            return []
        return [
            key
            for key, mark in self._picture.marks.items()
            if any(
                ReplicaKey(key.cluster, key.set_name, one) in returned
                for one in mark.missing
            )
        ]

    def turn(
        self, view: ClusterView, settings: RecoverySettings, steady_ms: int
    ) -> list[NewMark]:
        """
        Takes the answers that came; returns what is to be marked, and what waited for
        room.
        """
        answers = self._looks.answers(steady_ms)
        judged = self._unjudged
        for answer in answers:
            if answer.has_returned:
                self._returned.add(answer.replica)
            if answer.stat is None:
                self.refused[answer.replica] = answer.problem
                continue
            self.refused.pop(answer.replica, None)
            self._look(answer.replica, answer.stat, view, settings)
            judged.discard(answer.replica)
        self._unjudged = set()
        for replica in judged:
            stat = self._looks.stat(replica)
            if stat is not None:
                self._look(replica, stat, view, settings)
        self._revive(answers, view)
        waiting = [*self.waiting.values()]
        self.waiting = {}
        return waiting

    def wait_for_room(self, marks: Iterable[NewMark]) -> None:
        """
        Keeps marks for which the window had no room.
        """
        self.waiting.update({one.key: one for one in marks})

    def _look(
        self,
        replica: ReplicaKey,
        stat: ReplicaStat,
        view: ClusterView,
        settings: RecoverySettings,
    ) -> None:
        one = view.sets.get((replica.cluster, replica.set_name))
        broker = None if one is None else broker_of(one, replica.broker_id)
        if one is None or broker is None or stat.segment_size <= 0:
            return
        size = stat.segment_size
        self.brake.looked_at(replica, max(0, stat.settled_end - stat.begin) // size)
        names = {
            each.broker_id: ReplicaKey(one.cluster, one.name, each.broker_id)
            for each in one.brokers
        }
        stats = self._looks.stats(names)
        found, unasked = source_findings(one, broker, stat, stats)
        for source in unasked:
            self._unjudged.add(replica)
            self._looks.want(names[source])
        own = file_findings(replica.broker_id, stat)
        self._judge(one, replica, own, settings, size)
        fresh = []
        for each in found:
            source_stat = stats[each.broker_id]
            fact = (
                replica,
                stat.incarnation,
                each.broker_id,
                source_stat.incarnation,
                each.base + (each.fact.blocks[0] << 1),
            )
            if fact not in self._told:
                self._told.add(fact)
                fresh.append(each)
        for source in sorted({each.broker_id for each in fresh}):
            own = [each for each in fresh if each.broker_id == source]
            told = stats[source]
            segments = max(0, told.settled_end - told.begin) // told.segment_size
            self.brake.looked_at(names[source], segments)
            self._judge(one, names[source], own, settings, told.segment_size)

    def _judge(
        self,
        one: SetDescription,
        replica: ReplicaKey,
        found: list[CopyFinding],
        settings: RecoverySettings,
        size: int,
    ) -> None:
        """
        Keeps what is new about the copies of one replica, unless the brake stops it.
        """
        new: dict[SegmentKey, Missing] = {}
        for each in found:
            key = SegmentKey(one.cluster, one.name, each.base)
            known = new.get(key)
            fact = each.fact if known is None else known.with_fact(each.fact)
            if not self._picture.has(key, each.broker_id, fact):
                new[key] = fact
        if not self.brake.admits(replica, len(new), settings.brake_percent):
            self._looks.end_check()
            return
        for key, fact in new.items():
            known_facts = self._picture.facts_of(key)
            waiting = self.waiting.get(key)
            missing = {replica.broker_id: fact}
            if waiting is not None:
                missing = {**waiting.missing, **missing}
            good = len(good_copies(one, key.start, {*known_facts, *missing}))
            self.waiting[key] = NewMark(key, missing, priority_of(one, good), size)

    def _revive(self, answers: Iterable[LookAnswer], view: ClusterView) -> None:
        for answer in answers:
            if answer.stat is not None:
                self._answered[answer.replica] = answer.stat
        by_set: dict[tuple[str, str], dict[int, ReplicaStat]] = {}
        for replica, stat in self._answered.items() if self._picture.dead else ():
            where = by_set.setdefault((replica.cluster, replica.set_name), {})
            where[replica.broker_id] = stat
        if self._picture.reads != self._reads:
            self._reads = self._picture.reads
            self._answered.clear()
        for key, dead in list(self._picture.dead.items()):
            told = by_set.get((key.cluster, key.set_name), {})
            stats = {**self._lowered(key, view), **told}
            if any(
                reports_copy(dead, key.start, number, stat)
                for number, stat in stats.items()
            ):
                self._picture.revive(key)

    def _lowered(self, key: SegmentKey, view: ClusterView) -> dict[int, ReplicaStat]:
        """
        Returns the answers of replicas whose logs have reached a segment since.
        """
        one = view.sets.get((key.cluster, key.set_name))
        found: dict[int, ReplicaStat] = {}
        for broker in () if one is None else one.brokers:
            replica = ReplicaKey(key.cluster, key.set_name, broker.broker_id)
            stat = self._looks.stat(replica)
            begin = broker.begin.offset
            if stat is not None and 0 <= begin <= key.start < stat.begin:
                found[broker.broker_id] = replace(stat, begin=begin)
        return found
