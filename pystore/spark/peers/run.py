"""
A round of verification over running replicas: plan and verdicts on the driver, checks
by the brokers, asked by executors.

An operator's pause of verification is honoured at the plan and between two batches:
then no bytes are read any more, and what was found so far is told.

Source: AR-R6, AR-R24; docs/spark.md, *Running replicas*.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter, defaultdict
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from pystore.autorecovery.pauses import PauseKind, PauseTarget, known_pauses
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.replica_key import ReplicaKey
from pystore.autorecovery.replica_peers import (
    Controllers,
    ReplicaAddress,
    ReplicaPeers,
)
from pystore.clocks import wall_ms
from pystore.errors import PystoreError
from pystore.records.record_store import RecordStore
from pystore.spark.peers.access import BrokerAccess
from pystore.spark.peers.check import (
    BrokerTask,
    CopyCheck,
    CopyTask,
    check_broker,
    run_check,
)
from pystore.spark.peers.damage_marks import DamageMarks, RoundMarks
from pystore.spark.peers.judge import replica_verdicts, segment_verdicts
from pystore.spark.peers.plan import (
    CopyPlace,
    PlannedSet,
    bytes_of,
    direct_copies,
    plan_sets,
    segment_tasks,
    waves_of,
)
from pystore.spark.verify.executors import RunTasks
from pystore.spark.verify.run import Choose, Note, VerifyRun
from pystore.spark.verify.task import SegmentCheck, SegmentTask
from pystore.spark.verify.verdicts import SegmentVerdict

__all__ = ["PeerVerification", "RoundWishes"]

_Checked = Callable[
    [Mapping[str, PlannedSet], Iterable[SegmentTask], Collection[CopyPlace]],
    dict[CopyPlace, CopyCheck],
]


@dataclass(frozen=True, slots=True)
class RoundWishes:
    """
    What an operator wants of each round.

    Attributes:
        only: cluster and name of the sets that are checked; empty: all.
        percent: of the blocks of each segment that are read.
        direct_share: of the copies that are read directly, too; 0 to 1.
        is_marking: confirmed damage is marked; otherwise it is only said.
        is_forced: the brake does not stop the marks.
    """

    only: Collection[tuple[str, str]] = ()
    percent: int = 100
    direct_share: float = 0.01
    is_marking: bool = False
    is_forced: bool = False


class PeerVerification:
    """
    Rounds of verification. One thread.

    Args:
        controllers: say who is in a set, and alive.
        peers: the replicas, for the driver.
        open_store: opens the record store of the controllers, each time anew.
        access: how executors reach the replicas.
        wishes: of the operator.
        now_ms: returns Unix time.

    Attributes:
        marks: what became of the damage of the last round.
        stopped: why the last round ended early, one line; empty: it did not.
    """

    def __init__(
        self,
        controllers: Controllers,
        peers: ReplicaPeers,
        open_store: Callable[[], RecordStore],
        *,
        access: BrokerAccess,
        wishes: RoundWishes,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._controllers = controllers
        self._peers = peers
        self._access = access
        self._open_store = open_store
        self._wishes = wishes
        self._now_ms = now_ms
        self.marks = RoundMarks()
        self.stopped = ""
        self._members: frozenset[str] = frozenset()
        self._damaged: frozenset[tuple[str, str]] = frozenset()

    def why_not(self) -> str:
        """
        Returns why no bytes may be read now, one line; empty: they may. While the
        record store does not answer they may not: a pause could be in it.
        """
        try:
            with self._queue() as (store, queue):
                pauses = known_pauses(store).at(self._now_ms())
                is_disabled = self._wishes.is_marking and not queue.is_enabled()
        except PystoreError as error:
            # As said above.
            return f"the record store does not tell the pauses: {error}"
        if pauses.stops_verification:
            paused = pauses.entries[PauseTarget(PauseKind.VERIFICATION)]
            left_s = (paused.until_ms - self._now_ms()) // 1000
            return f"verification is paused by {paused.by}, for {left_s} s from now"
        # As an audit: nothing is read for marks that nobody takes.
        return "AutoRecovery is disabled, and --mark is given" if is_disabled else ""

    def round(
        self,
        run: RunTasks,
        *,
        number: int = 0,
        choose: Choose | None = None,
        past: Mapping[CopyPlace, Sequence[int]] | None = None,
        note: Note | None = None,
    ) -> VerifyRun:
        """
        Checks the replicas, marks what is bad, and returns a verdict for each segment
        of each. The caller has asked `why_not` before.

        Args:
            run: runs the tasks: `pystore.spark.verify.executors.on_spark`.
            number: of the round; each round reads other blocks.
            choose: takes all tasks, and returns those that this round runs.
            past: blocks to read whatever the sample is, by replica and base offset.
            note: called with the copies that were checked, and the number of those that
                are left.

        Raises:
            UnavailableError: no controller tells the sets; Spark failed.
            InvalidError: there is no such set.
        """
        began, clock = time.time(), time.monotonic()
        self.marks, self.stopped = RoundMarks(), ""
        view = self._controllers.all_sets()
        self._damaged = frozenset(view.damaged)
        self._members = frozenset(
            ReplicaKey(*place, broker.broker_id).text
            for place, one in view.sets.items()
            for broker in one.brokers
        )
        with self._queue() as (store, _):
            pauses = known_pauses(store).at(self._now_ms())
        sets = plan_sets(view, self._peers.stat, pauses, self._wishes.only)
        tasks: Sequence[SegmentTask] = segment_tasks(
            sets, self._wishes.percent, number, past or {}
        )
        if choose is not None:
            tasks = choose(tasks)
        verdicts = [row for one in sets for row in replica_verdicts(one)]
        verdicts += self._verdicts(
            partial(self._checked, run), sets, tasks, number, note
        )
        self._mark(verdicts)
        bases = {
            one.key(it).text: tuple(
                base for base in one.bases() if base >= one.stats[it].begin
            )
            for one in sets
            for it in one.stats
        }
        stores = [one.key(it).text for one in sets for it in one.looks]
        seconds = time.monotonic() - clock
        return VerifyRun(number, verdicts, stores, seconds, began, bases)

    def gone(self, stores: Iterable[str]) -> set[str]:
        """
        Returns those of the replicas of earlier rounds that the controllers do not know
        any more: a row about them counts no longer.

        Args:
            stores: of earlier rounds; those that are paths are kept.
        """
        found = set()
        for text in stores:
            if text.startswith("/"):
                continue
            key = ReplicaKey.parse(text)
            if (key.cluster, key.set_name) in self._damaged:
                continue
            if text not in self._members:
                found.add(text)
        return found

    def _verdicts(
        self,
        checked: _Checked,
        sets: Sequence[PlannedSet],
        tasks: Sequence[SegmentTask],
        number: int,
        note: Note | None,
    ) -> list[SegmentVerdict]:
        by_text = {one.text: one for one in sets}
        direct = direct_copies(tasks, self._wishes.direct_share, number)
        rows = _told_bad(sets, tasks)
        left = len(tasks)
        for wave in waves_of(tasks):
            self.stopped = self.why_not()
            if self.stopped:
                break
            found = checked(by_text, wave, direct)
            left -= len(wave)
            again: list[SegmentTask] = []
            made = _judged(by_text, wave, found, again)
            if again:
                # Whole copies that seem to differ, of which only some blocks were read.
                found = checked(by_text, again, direct)
                made += _judged(by_text, again, found, None)
            rows += made
            if note is not None:
                note([_seen(row) for row in made], left)
        return rows

    def _checked(
        self,
        run: RunTasks,
        sets: Mapping[str, PlannedSet],
        wave: Iterable[SegmentTask],
        direct: Collection[CopyPlace],
    ) -> dict[CopyPlace, CopyCheck]:
        """
        The checks of a batch, by replica and base offset.
        """
        claim = f"verify/{uuid.uuid4().hex}"
        copies: dict[tuple[str, str], list[CopyTask]] = defaultdict(list)
        for task in wave:
            share = task.share
            copies[share.group, share.store].append(
                CopyTask(
                    task.base,
                    bytes_of(task),
                    task.blocks or (),
                    (share.store, task.base) in direct,
                )
            )
        tasks = []
        for (group, store), of_broker in copies.items():
            one, number = sets[group], ReplicaKey.parse(store).broker_id
            tasks.append(
                BrokerTask(
                    self._access,
                    one.looks[number].replica,
                    one.stats[number].segments_address,
                    claim,
                    tuple(of_broker),
                )
            )
        done = run(tasks, check_broker, _task_bytes)
        return {
            (_key_of(check.replica).text, check.task.base): check
            for checks in done
            for check in checks
        }

    def _mark(self, verdicts: Sequence[SegmentVerdict]) -> None:
        # To confirm damage is to read bytes, too.
        self.stopped = self.stopped or self.why_not()
        if self.stopped:
            self.marks.problem = self.stopped
            return
        looked = Counter(
            row.store
            for row in verdicts
            if row.replica is not None and (row.checked_bytes or row.is_bad)
        )
        check = partial(run_check, self._peers)
        claim = f"verify/{uuid.uuid4().hex}"
        marks = DamageMarks(self._controllers, self._peers, check, claim)
        try:
            with self._queue() as (_, queue):
                self.marks = marks.mark(
                    verdicts,
                    looked,
                    queue,
                    is_marking=self._wishes.is_marking,
                    is_forced=self._wishes.is_forced,
                )
        except PystoreError as error:
            # The verdicts are told all the same, and the next round marks.
            self.marks.problem = f"the record store does not answer: {error}"

    @contextmanager
    def _queue(self) -> Iterator[tuple[RecordStore, UnderReplicationQueue]]:
        """
        A session of its own each time: a round takes hours, and sessions end.
        """
        store = self._open_store()
        try:
            yield store, UnderReplicationQueue(store, self._now_ms)
        finally:
            store.close()


def _told_bad(
    sets: Iterable[PlannedSet], tasks: Iterable[SegmentTask]
) -> list[SegmentVerdict]:
    """
    The rows about files that replicas said cannot be read, of segments of which this
    round reads no copy.
    """
    read = {(task.share.group, task.base) for task in tasks}
    rows: list[SegmentVerdict] = []
    for one in sets:
        named = {base for stat in one.stats.values() for base in stat.problems}
        for base in sorted(named):
            if (one.text, base) not in read:
                found = segment_verdicts(one, base, {}, is_last=True) or []
                rows += (row for row in found if row.is_bad)
    return rows


def _judged(
    sets: Mapping[str, PlannedSet],
    wave: Iterable[SegmentTask],
    found: Mapping[CopyPlace, CopyCheck],
    again: list[SegmentTask] | None,
) -> list[SegmentVerdict]:
    """
    The verdicts on the segments of a batch. Whole copies that have to be read as a
    whole to be compared are added to *again*; ``None``: they were.
    """
    segments: dict[tuple[str, int], list[SegmentTask]] = defaultdict(list)
    for task in wave:
        segments[task.share.group, task.base].append(task)
    rows: list[SegmentVerdict] = []
    for (group, base), tasks in segments.items():
        checks = {
            ReplicaKey.parse(task.share.store).broker_id: found[task.share.store, base]
            for task in tasks
        }
        made = segment_verdicts(sets[group], base, checks, is_last=again is None)
        if made is not None:
            rows += made
        elif again is not None:
            again += (replace(task, blocks=None) for task in tasks)
    return rows


def _key_of(replica: ReplicaAddress) -> ReplicaKey:
    return ReplicaKey(replica.cluster, replica.set_name, replica.broker_id)


def _task_bytes(task: BrokerTask) -> int:
    return sum(one.size_bytes for one in task.copies)


def _seen(row: SegmentVerdict) -> SegmentCheck:
    """
    A row for the file of what a round that is stopped has seen.
    """
    error = "; ".join(row.evidence) if row.is_bad else ""
    return SegmentCheck(row.store, row.segment or 0, error=error)
