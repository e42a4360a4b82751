"""
The recorder of a run with AutoRecovery: what is seen of the cluster becomes the lanes
and the events of its timeline.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise

from pystore.autorecovery.copy_look import REPAIRED
from pystore.autorecovery.replacement_record import (
    Replacement,
    ReplacementKey,
    ReplacementPhase,
)
from pystore.autorecovery.segment_key import SegmentKey
from pystore.demo.cluster_sight import ClusterSight, mark_text
from pystore.demo.event_recorder import EventRecorder
from pystore.demo.timeline import AckGap, BrokerState, Timeline, TimelineEvent

__all__ = ["HostsRecorder"]

_AUDITOR, _WORKER = "Auditor", "worker"
_LAST = ReplacementPhase.CLEARING
_COPY = re.compile(r"(broker [0-9]+) at [^ ]+ is ([a-z ]+): (.*)")
_WRONG = ("are bad", "is missing", "bytes, and not", "cannot be opened")


class HostsRecorder(EventRecorder):
    """
    As `EventRecorder`.

    Args:
        timeline: is filled; its lanes are hosts.
        seconds: since the start of the run.
        tell: receives each event, in the thread of the story.

    Attributes:
        sight: the newest; ``None``: nothing was seen yet.
        watched: segments of which the look of a worker is an event.
        evidence: what workers found wrong at copies of these, in order.
    """

    def __init__(
        self,
        timeline: Timeline,
        seconds: Callable[[], float],
        tell: Callable[[TimelineEvent], object],
    ) -> None:
        super().__init__(timeline, seconds, tell)
        self.sight: ClusterSight | None = None
        self.watched: set[SegmentKey] = set()
        self.evidence: dict[SegmentKey, list[str]] = {}
        self._acks: dict[str, list[float]] = {}
        self._down: set[int] = set()
        self._lost: set[str] = set()
        self._marks: dict[SegmentKey, str] = {}
        self._replaced: dict[ReplacementKey, Replacement] = {}

    def hold(self, number: int) -> None:
        """
        Records that a host is down from now on, whatever the controller believes.
        """
        with self._changed:
            self._down.add(number)
            self.timeline.change(self._seconds(), number, BrokerState("down"))

    def acked(self, set_name: str, records: int) -> None:
        """
        Records an acknowledgement.
        """
        with self._changed:
            at_s = self._seconds()
            self.timeline.acks.append((at_s, records))
            self._acks.setdefault(set_name, []).append(at_s)
            self._changed.notify_all()

    def note(self, who: str, what: str) -> None:
        """
        Records an event of another thread; the story shows it.
        """
        with self._changed:
            self._note(who, what)
            self._changed.notify_all()

    def acked_since(self, at_s: float) -> set[str]:
        """
        Returns the sets that acknowledged a record after a time.
        """
        with self._changed:
            return {name for name, times in self._acks.items() if times[-1] > at_s}

    def longest_gap(self, since_s: float, name: str) -> AckGap | None:
        """
        Returns the longest time since then in which one of the sets acknowledged
        nothing; ``None``: there were no two acknowledgements.

        Args:
            since_s: when its cause happened.
            name: of the cause; the set is added.
        """
        with self._changed:
            now_s = self._seconds()
            gaps = [
                AckGap(one, two, f"{name}, {set_name}", since_s)
                for set_name, times in self._acks.items()
                for one, two in pairwise([*times, now_s])
                if two >= since_s
            ]
        return max(gaps, key=lambda gap: gap.seconds, default=None)

    def seen(self, sight: ClusterSight) -> None:
        """
        Records what was seen of the cluster.
        """
        with self._changed:
            at_s = self._seconds()
            self.sight = sight
            for number in self.timeline.brokers:
                state = sight.lane(number)
                if number in self._down:
                    state = BrokerState("down")
                self.timeline.change(at_s, number, state)
            counts = len(sight.marks), len(sight.status.contents.dead)
            queue = self.timeline.queue
            if not queue or queue[-1][1:] != counts:
                queue.append((at_s, *counts))
            self._note_lost(sight)
            self._note_marks(sight)
            self._note_verdicts(sight)
            self._note_replacements(sight)
            self._changed.notify_all()

    # -- what follows by itself ----------------------------------------------------

    def _note_lost(self, sight: ClusterSight) -> None:
        lost = {one.text for one in sight.status.lost}
        # A new replica that is removed again is no loss of the cluster.
        own = {
            f"{key.cluster}/{key.set_name}/{number}"
            for key, one in (*self._replaced.items(), *sight.replacements.items())
            for number in (one.new_id, *(left.broker_id for left in one.left))
            if number != key.broker_id
        }
        new = sorted(lost - self._lost - own)
        self._lost = lost
        if new:
            delay_s = sight.status.settings.delay_s
            names = ", ".join(new)
            self._note(_AUDITOR, f"lost: {names}; due {delay_s} s after their death")

    def _note_marks(self, sight: ClusterSight) -> None:
        marks = {key: mark_text(mark) for key, mark in sight.marks.items()}
        for key, text in marks.items():
            if text and self._marks.get(key) != text:
                self._note(_AUDITOR, f"marks {_segment(key)}: {text}")
        self._marks = marks
        for key in self.watched & sight.marks.keys():
            self._note_found(key, sight.marks[key].found.values())

    def _note_verdicts(self, sight: ClusterSight) -> None:
        for worker in sight.status.workers:
            last, found = worker.more.get("last"), worker.more.get("found")
            key = next((one for one in self.watched if one.text in str(last)), None)
            if key is not None and isinstance(found, dict):
                self._note_found(key, map(str, found.values()))

    def _note_found(self, key: SegmentKey, lines: Iterable[str]) -> None:
        """
        Records what a worker found wrong at the copies of a segment, each fact once.
        """
        known = self.evidence.setdefault(key, [])
        for line in lines:
            copy = _COPY.fullmatch(line)
            if copy is None or not any(one in copy[3] for one in _WRONG):
                continue
            fact = f"{copy[1]}: {copy[3].removeprefix(REPAIRED)}"
            if fact not in known:
                known.append(fact)
                now = ", repaired" if copy[2] == "good" else ""
                self._note(_WORKER, f"finds in {_segment(key)}: {fact}{now}")

    def _note_replacements(self, sight: ClusterSight) -> None:
        before, self._replaced = self._replaced, dict(sight.replacements)
        for key, one in sight.replacements.items():
            old = before.get(key)
            if one.phase is ReplacementPhase.FILLING and (
                old is None or old.phase is not ReplacementPhase.FILLING
            ):
                number = sight.number_of(one.target)
                who = _broker(key)
                self._note(
                    _AUDITOR, f"{who} is made anew on host {number}, as {one.new_id}"
                )
        for key, old in before.items():
            new = sight.replacements.get(key)
            if old.phase is not _LAST and (new is None or new.phase is _LAST):
                is_kept = old.cancelled or (new is not None and new.cancelled)
                how = "is replaced no more" if is_kept else "is replaced"
                self._note(_AUDITOR, f"{_broker(key)} {how}")


def _segment(key: SegmentKey) -> str:
    return f"{key.set_name}/{key.start}"


def _broker(key: ReplacementKey) -> str:
    return f"broker {key.broker_id} of {key.set_name}"
