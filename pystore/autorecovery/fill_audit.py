"""
Offers the highest missing segments of each filling replica, a few at a time.

A replica is filled downwards, so only its highest missing segments can be installed
next; the window moves as its begin falls.

Source: decision D1, AR-R4; docs/autorecovery.md, *The Auditor*.
"""

from __future__ import annotations

from pystore.autorecovery.copies import (
    fill_plan,
    good_copies,
    is_short,
    priority_of,
)
from pystore.autorecovery.mark import Missing, Reason
from pystore.autorecovery.marking import NewMark
from pystore.autorecovery.queue_picture import QueuePicture
from pystore.autorecovery.replica_key import ReplicaKey
from pystore.autorecovery.replica_looks import ReplicaLooks
from pystore.autorecovery.replica_peers import ClusterView
from pystore.autorecovery.segment_key import SegmentKey
from pystore.autorecovery.settings import RecoverySettings
from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
)

__all__ = ["FillAudit"]

_AGAIN_MS = 30_000


class FillAudit:
    """
    The fills, as one Auditor knows them. One thread.

    Args:
        looks: tell the size of segments.
        picture: of the queue.

    Attributes:
        filling: replicas that lack a part of their history.
        short: replicas that begin above the floor by their own retention.
        left: segments that filling replicas lack.
        blocked: why nothing can be offered, by replica.
    """

    def __init__(self, looks: ReplicaLooks, picture: QueuePicture) -> None:
        self._looks = looks
        self._picture = picture
        self._offered: dict[tuple[ReplicaKey, int], int] = {}
        self.filling = 0
        self.short = 0
        self.left = 0
        self.blocked: dict[ReplicaKey, str] = {}

    def load(self) -> None:
        """
        Another term: everything is offered again.
        """
        self._offered.clear()

    def turn(
        self, view: ClusterView, settings: RecoverySettings, steady_ms: int
    ) -> list[NewMark]:
        """
        Returns what is to be marked. What was offered is not offered again for 30 s: a
        replica tells its begin later than its worker ends.
        """
        self.filling = self.short = self.left = 0
        self.blocked.clear()
        due = {key: at for key, at in self._offered.items() if at > steady_ms}
        self._offered = due
        marks: list[NewMark] = []
        for one in view.sets.values():
            for broker in one.brokers:
                if broker.begin.is_filling:
                    self.filling += 1
                    marks += self._of_replica(one, broker, settings, steady_ms)
                elif broker.begin.offset > 0 and is_short(one, broker):
                    self.short += 1
        return marks

    def withdraw(self, marks: list[NewMark]) -> None:
        """
        Takes marks for which there was no room: they are offered again next time.
        """
        for one in marks:
            for broker_id in one.missing:
                replica = ReplicaKey(one.key.cluster, one.key.set_name, broker_id)
                self._offered.pop((replica, one.key.start), None)

    def _of_replica(
        self,
        one: SetDescription,
        broker: BrokerDescription,
        settings: RecoverySettings,
        steady_ms: int,
    ) -> list[NewMark]:
        replica = ReplicaKey(one.cluster, one.name, broker.broker_id)
        if not broker.is_alive:
            self.blocked[replica] = "it is not alive"
            return []
        stat = self._looks.stat(replica)
        if stat is None:
            self._looks.want(replica)
        size = 0 if stat is None else stat.segment_size
        plan = fill_plan(one, broker, size, settings.fill_window)
        self.left += max(plan.left, 0)
        if plan.why:
            self.blocked[replica] = plan.why
        marks = []
        fact = Missing(
            Reason.FILL,
            f"broker {broker.broker_id} begins at {broker.begin.offset} and is filled",
        )
        for base in plan.bases:
            key = SegmentKey(one.cluster, one.name, base)
            if key in self._picture.dead:
                # It goes in from the top: what is below would wait for this one.
                self.blocked[replica] = f"no copy of segment {base} is good"
                break
            if self._picture.has(key, broker.broker_id, fact):
                continue
            if (replica, base) in self._offered:
                continue
            self._offered[replica, base] = steady_ms + _AGAIN_MS
            known = self._picture.facts_of(key)
            good = len(good_copies(one, base, {*known, broker.broker_id}))
            marks.append(
                NewMark(key, {broker.broker_id: fact}, priority_of(one, good), size)
            )
        return marks
