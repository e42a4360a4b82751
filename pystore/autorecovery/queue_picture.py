"""
The queue as the Auditor sees it: what is marked, what is dead, how much room there is,
and the order that was published last.

The queue is read again when it may have changed, seldom if it is long; so the Auditor's
requests do not grow with the number of repairs.

Source: AR-R4, AR-R9, AR-R19; docs/autorecovery.md, *The Auditor*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pystore.autorecovery.auditor_term import AuditorTerm
from pystore.autorecovery.dead_segment import DeadSegment
from pystore.autorecovery.mark import Missing, Priority, SegmentMark
from pystore.autorecovery.marking import MarkOutcome, NewMark
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.segment_key import SegmentKey

__all__ = ["AUDITOR_NAME", "QueuePicture"]

AUDITOR_NAME = "auditor"
"""Who marked a segment, for people."""

_READ_MS = 5_000
_READ_MS_A_MARK = 10
_PUBLISH_MS = 20_000

# Parts of the window that are kept for more urgent segments.
_KEPT = {Priority.LAST_COPY: 1 << 62, Priority.FEWER_THAN_ACKS: 8}
_KEPT_ELSE = 4

_Order = tuple[tuple[str, int, int], ...]


class QueuePicture:
    """
    The queue, seen by one Auditor. One thread.

    Args:
        queue: the records.
        term: of the Auditor.

    Attributes:
        marks: by segment, as read last and with the own ones since.
        dead: the dead segments, as read last.
        reads: how often the queue was read.
    """

    def __init__(self, queue: UnderReplicationQueue, term: AuditorTerm) -> None:
        self._queue = queue
        self._term = term
        self.marks: dict[SegmentKey, SegmentMark] = {}
        self.dead: dict[SegmentKey, DeadSegment] = {}
        self.reads = 0
        self._read_ms: int | None = None
        self._is_stale = True
        self._published: _Order | None = None
        self._published_ms = 0
        self._is_urgent = self._is_due = False

    def load(self) -> None:
        """
        Another term: nothing is known.
        """
        self._read_ms, self._published = None, None
        self._is_stale = True

    def changed(self) -> None:
        """
        Another process may have changed the queue.
        """
        self._is_stale = True

    def returned(self) -> None:
        """
        The Auditor has let segments be tried at once: the queue is read at the next
        turn, and published.
        """
        self._is_stale = self._is_due = True

    def refresh(self, steady_ms: int) -> bool:
        """
        Reads the queue again, if it may have changed and the time for it has come.

        Returns:
            Whether it was read.
        """
        rest_ms = _READ_MS + _READ_MS_A_MARK * len(self.marks)
        is_early = self._read_ms is not None and steady_ms - self._read_ms < rest_ms
        if not self._is_stale or (is_early and not self._is_due):
            return False
        self.marks, self.dead = self._queue.list(), self._queue.dead()
        self._is_urgent |= self._is_due
        self._is_due = False
        self._read_ms, self._is_stale = steady_ms, False
        self.reads += 1
        return True

    def facts_of(self, key: SegmentKey) -> Mapping[int, Missing]:
        """
        Returns what is known about the missing copies of a segment, by broker id.
        """
        mark = self.marks.get(key)
        if mark is None and key in self.dead:
            mark = self.dead[key].mark
        return {} if mark is None else mark.missing

    def has(self, key: SegmentKey, broker_id: int, fact: Missing) -> bool:
        """
        Returns whether a fact is known already.
        """
        known = self.facts_of(key).get(broker_id)
        return known is not None and known.tells(fact)

    def offer(
        self, marks: Iterable[NewMark], room: int, now_ms: int
    ) -> tuple[int, list[NewMark]]:
        """
        Marks segments, the most urgent first, as far as the window has room (AR-R4): a
        part of it is kept for urgent ones. Facts about marked segments need none.

        Args:
            marks: what is known.
            room: of the window: marks at once.
            now_ms: Unix time.

        Returns:
            How many are new, and those for which there was no room.

        Raises:
            FencedError: the term has ended.
        """
        taken: list[NewMark] = []
        left: list[NewMark] = []
        new: set[SegmentKey] = set()
        for one in sorted(marks, key=_rank):
            if one.key in self.dead:
                continue
            is_new = one.key not in self.marks and one.key not in new
            used = len(self.marks) + len(new)
            if is_new and used >= room - room // _KEPT.get(one.priority, _KEPT_ELSE):
                left.append(one)
                continue
            if is_new:
                new.add(one.key)
            taken.append(one)
        if not taken:
            return 0, left
        outcomes = self._queue.mark_many(taken, by=AUDITOR_NAME, term=self._term.check)
        if outcomes.keys() & {MarkOutcome.DEAD, MarkOutcome.DAMAGED}:
            self._is_stale = True
        else:
            for one in taken:
                self._add(one, now_ms)
        self._is_urgent = True
        return outcomes.get(MarkOutcome.NEW, 0), left

    def _add(self, one: NewMark, now_ms: int) -> None:
        facts = SegmentMark(
            one.missing, one.priority, now_ms, now_ms, size=one.size, by=AUDITOR_NAME
        )
        known = self.marks.get(one.key)
        self.marks[one.key] = (
            facts if known is None else known.with_facts(facts) or known
        )

    def revive(self, key: SegmentKey) -> bool:
        """
        Moves a dead segment back to the queue; returns whether it was dead.

        Raises:
            FencedError: the term has ended.
        """
        self.returned()
        self.dead.pop(key, None)
        return self._queue.revive(key, term=self._term.check)

    def publish(self, now_ms: int, steady_ms: int) -> bool:
        """
        Publishes the order of repair, if it is another one than before: at once what
        the Auditor marked, what others changed at intervals.

        Returns:
            Whether it was published.

        Raises:
            FencedError: the term has ended.
        """
        rest_ms = steady_ms - self._published_ms
        is_first = self._published is None
        if not (is_first or self._is_urgent or rest_ms >= _PUBLISH_MS):
            return False
        self._is_urgent = False
        order = _order(self.marks, now_ms)
        if order == self._published or (is_first and not order):
            self._published = order
            return False
        self._queue.publish_window(self.marks, term=self._term.check)
        self._published, self._published_ms = order, steady_ms
        return True


def _rank(one: NewMark) -> tuple[int, str, str, int]:
    # Of one set the highest segment first: a log is filled from there.
    key = one.key
    return one.priority, key.cluster, key.set_name, -key.start


def _order(marks: Mapping[SegmentKey, SegmentMark], now_ms: int) -> _Order:
    return tuple(
        (key.text, mark.priority, mark.front_ms)
        for key, mark in sorted(marks.items())
        if mark.not_before_ms <= now_ms
    )
