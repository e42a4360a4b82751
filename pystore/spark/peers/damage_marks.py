"""
What a round found bad becomes marks in the queue of repairs: on the driver alone, after
each replica has confirmed its damage, under the brake.

Executors never touch the record store. What has changed since the plan is passed over:
the next round looks at it again. The same marks again write nothing, so a round that is
repeated does no harm.

Source: AR-R4, AR-R6, AR-R7, AR-R9; docs/autorecovery.md, *Verification*.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pystore.autorecovery.copies import broker_of, good_copies, priority_of
from pystore.autorecovery.mark import Missing, Reason
from pystore.autorecovery.mark_brake import MarkBrake
from pystore.autorecovery.marking import MarkOutcome, NewMark
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.replica_key import ReplicaKey
from pystore.autorecovery.replica_peers import (
    ClusterView,
    Controllers,
    ReplicaAddress,
    ReplicaPeers,
)
from pystore.autorecovery.segment_key import SegmentKey
from pystore.controller.protocol.set_descriptions import SetDescription
from pystore.errors import PystoreError
from pystore.segments.order import (
    OrderAction,
    OrderOutcome,
    OrderProgress,
    SegmentOrder,
)
from pystore.spark.verify.verdicts import ReplicaAtPlan, SegmentVerdict, Verdict

__all__ = ["MARKED_BY", "DamageMarks", "RoundMarks"]

MARKED_BY = "verification"
"""Who marked a segment, for people."""

_Check = Callable[[ReplicaAddress, SegmentOrder], OrderProgress]


@dataclass(slots=True)
class RoundMarks:
    """
    What became of the damage of a round.

    Attributes:
        confirmed: a line for each copy whose damage its replica confirmed.
        passed_over: a line for each other bad copy, with the reason.
        outcomes: of the marks that were written, or found as they are.
        problem: why nothing was marked, one line; empty: it was, or is not asked for.
        is_marking: marks are written; otherwise only said.
    """

    confirmed: list[str] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    outcomes: dict[MarkOutcome, int] = field(default_factory=dict)
    problem: str = ""
    is_marking: bool = False


class DamageMarks:
    """
    Confirms and marks the damage of one round. One thread.

    Args:
        controllers: say who is in a set now.
        peers: the replicas.
        check: orders a check of a replica, and waits for its end.
        claim: the beginning of the claims of these checks.
    """

    def __init__(
        self,
        controllers: Controllers,
        peers: ReplicaPeers,
        check: _Check,
        claim: str,
    ) -> None:
        self._controllers = controllers
        self._peers = peers
        self._check = check
        self._claim = claim
        self._told = RoundMarks()
        # How many copies of a segment differ: one alone was outvoted.
        self._divergent: Counter[tuple[str, int | None]] = Counter()

    def mark(
        self,
        rows: Iterable[SegmentVerdict],
        looked: Mapping[str, int],
        queue: UnderReplicationQueue,
        *,
        is_marking: bool,
        is_forced: bool,
    ) -> RoundMarks:
        """
        Marks the damage of a round, and says what it did and why.

        Args:
            rows: verdicts of the round.
            looked: how many segments of each replica were looked at, by its text.
            queue: of repairs.
            is_marking: otherwise nothing is written, and all else is the same.
            is_forced: the brake does not stop it.

        Raises:
            PystoreError: of the record store.
        """
        self._told = told = RoundMarks(is_marking=is_marking)
        bad, sizes = self._bad(rows)
        if not bad:
            return told
        try:
            view = self._controllers.all_sets()
        except PystoreError as error:
            # Who is in a set, and alive, is not known: nothing is.
            told.problem = f"no controller tells the sets: {error}"
            return told
        marked, dead = queue.list(), queue.dead()
        known = {key: one.mark.missing for key, one in dead.items()}
        known |= {key: one.missing for key, one in marked.items()}
        left = {
            key: found
            for key, mine in sorted(bad.items())
            if (found := self._unchanged(key, mine, view))
        }
        percent = queue.settings().brake_percent
        told.problem = _brake(left, looked, known, percent, is_forced=is_forced)
        if told.problem:
            return told
        facts: dict[SegmentKey, dict[int, Missing]] = defaultdict(dict)
        lines: dict[SegmentKey, list[str]] = defaultdict(list)
        for key, mine in left.items():
            for segment, fact, line in self._confirmed(key, mine, view):
                facts[segment][key.broker_id] = fact
                lines[segment].append(line)
        marks = [
            _mark(segment, missing, view, known.get(segment, {}), sizes[segment])
            for segment, missing in facts.items()
        ]
        room = queue.settings().queue_window - len(marked)
        over = self._told_marks(marks, lines, known, room)
        if is_marking:
            wanted = [one for one in marks if one.key not in over]
            told.outcomes = queue.mark_many(wanted, by=MARKED_BY)
            if told.outcomes.keys() & {MarkOutcome.NEW, MarkOutcome.MERGED}:
                queue.tell_marked([one.key for one in sorted(wanted, key=_urgency)])
        return told

    def _bad(
        self, rows: Iterable[SegmentVerdict]
    ) -> tuple[dict[ReplicaKey, list[SegmentVerdict]], dict[SegmentKey, int]]:
        """
        The rows about bad copies by replica, and the bytes of their segments.
        """
        bad: dict[ReplicaKey, list[SegmentVerdict]] = defaultdict(list)
        sizes: dict[SegmentKey, int] = {}
        self._divergent.clear()
        for row in rows:
            if row.verdict is Verdict.DIVERGENT:
                self._divergent[row.group, row.segment] += 1
            if row.is_bad and row.segment is not None and row.replica is not None:
                key = ReplicaKey.parse(row.store)
                bad[key].append(row)
                segment = SegmentKey(key.cluster, key.set_name, row.segment)
                sizes[segment] = row.length
        return bad, sizes

    def _told_marks(
        self,
        marks: Iterable[NewMark],
        lines: Mapping[SegmentKey, list[str]],
        known: Collection[SegmentKey],
        room: int,
    ) -> set[SegmentKey]:
        """
        Tells the marks; returns the segments for which the queue has no room.
        """
        new = sorted((one for one in marks if one.key not in known), key=_urgency)
        over = {one.key for one in new[max(room, 0) :]}
        for segment, texts in lines.items():
            if segment in over:
                full = "the queue is full, mark it later"
                self._told.passed_over += (f"{text}: {full}" for text in texts)
            else:
                self._told.confirmed += texts
        return over

    # -- what is as it was -----------------------------------------------------

    def _unchanged(
        self, key: ReplicaKey, rows: Sequence[SegmentVerdict], view: ClusterView
    ) -> list[SegmentVerdict]:
        """
        Returns the rows about copies that are as they were at the plan.
        """
        plan = rows[0].replica
        assert plan is not None
        one = view.sets.get((key.cluster, key.set_name))
        why = _moved(key, plan, one)
        stat = None
        if not why:
            assert one is not None
            try:
                stat = self._peers.stat(_address(key, one))
            except PystoreError as error:
                # No answer, or a refusal: nothing follows about its copies.
                why = str(error)
        if stat is not None and stat.incarnation != plan.incarnation:
            why = "its process was started again since the plan"
        elif stat is not None and stat.cut_generation != plan.cut_generation:
            why = "its log was cut since the plan"
        if why:
            self._pass_over(rows, why)
            return []
        assert stat is not None
        kept = []
        for row in rows:
            assert row.segment is not None
            if row.segment < stat.begin:
                self._pass_over([row], f"its log begins at {stat.begin} now")
            else:
                kept.append(row)
        return kept

    def _pass_over(self, rows: Iterable[SegmentVerdict], why: str) -> None:
        self._told.passed_over += (f"{_where(row)}: {why}" for row in rows)

    # -- what the replica says itself ------------------------------------------

    def _confirmed(
        self, key: ReplicaKey, rows: Iterable[SegmentVerdict], view: ClusterView
    ) -> Iterator[tuple[SegmentKey, Missing, str]]:
        replica = _address(key, view.sets[key.cluster, key.set_name])
        for row in rows:
            assert row.segment is not None
            fact = self._fact(row, replica, row.segment)
            if isinstance(fact, str):
                self._pass_over([row], fact)
                continue
            blocks = f", blocks {list(fact.blocks)}" if fact.blocks else ""
            line = f"{_where(row)}: {fact.reason.value}{blocks}"
            yield SegmentKey(key.cluster, key.set_name, row.segment), fact, line

    def _fact(
        self, row: SegmentVerdict, replica: ReplicaAddress, base: int
    ) -> Missing | str:
        """
        What the replica confirms of its copy; a text: why nothing is marked.
        """
        blocks = row.blocks if row.verdict is Verdict.CORRUPT else ()
        claim = f"{self._claim}/{base}"
        order = SegmentOrder(claim, base, OrderAction.CHECK, blocks=tuple(blocks))
        found = self._check(replica, order)
        who = f"broker {replica.broker_id}"
        if found.outcome is OrderOutcome.DAMAGED:
            bad = tuple(found.bad_blocks)
            reason = Reason.CORRUPT if bad else Reason.ABSENT
            return Missing(reason, f"{who}: {found.detail}", blocks=bad)
        if found.outcome is not OrderOutcome.WHOLE:
            why = found.detail or found.outcome.value
            return f"{who} gives no definite answer: {why}"
        return self._fact_of_whole(row, who, found.digest)

    def _fact_of_whole(
        self, row: SegmentVerdict, who: str, digest: str
    ) -> Missing | str:
        if row.verdict is not Verdict.DIVERGENT:
            return f"{who} says that its copy is whole"
        if self._divergent[row.group, row.segment] > 1:
            return "whole copies differ, and no majority decides: a person decides"
        if digest != row.digest:
            return f"{who} tells another digest now"
        return Missing(Reason.DIVERGENT, f"{who}: {'; '.join(row.evidence)}")


def _mark(
    segment: SegmentKey,
    missing: Mapping[int, Missing],
    view: ClusterView,
    known: Mapping[int, Missing],
    size: int,
) -> NewMark:
    """
    The mark of a segment, as urgent as all its bad copies make it.
    """
    one = view.sets[segment.cluster, segment.set_name]
    good = good_copies(one, segment.start, {*known, *missing})
    return NewMark(segment, missing, priority_of(one, len(good)), size)


def _brake(
    bad: Mapping[ReplicaKey, Sequence[SegmentVerdict]],
    looked: Mapping[str, int],
    known: Mapping[SegmentKey, Mapping[int, Missing]],
    percent: int,
    *,
    is_forced: bool,
) -> str:
    """
    Why nothing of a round may be marked; empty: it may. Before the replicas confirm:
    mass damage is looked at by a person, and not read again by each of them.
    """
    brake = MarkBrake()
    brake.begin(is_forced=is_forced)
    for text, segments in looked.items():
        brake.looked_at(ReplicaKey.parse(text), segments)
    for key, rows in bad.items():
        new = 0
        for row in rows:
            assert row.segment is not None
            segment = SegmentKey(key.cluster, key.set_name, row.segment)
            new += key.broker_id not in known.get(segment, {})
        if not brake.admits(key, new, percent):
            stopped = brake.tripped.partition(": look at")[0]
            return f"{stopped}: look at the replica, then mark with --force"
    return ""


def _moved(key: ReplicaKey, plan: ReplicaAtPlan, one: SetDescription | None) -> str:
    """
    Why a replica is not the one that was planned, by the controller's word.
    """
    broker = None if one is None else broker_of(one, key.broker_id)
    if broker is None:
        return "it is not in its set any more"
    if broker.is_ill:
        # It registers no process; its own answer names the one.
        return ""
    if not broker.is_alive:
        return "it is not alive"
    if broker.incarnation != plan.incarnation:
        return "its process was started again since the plan"
    return ""


def _address(key: ReplicaKey, one: SetDescription) -> ReplicaAddress:
    broker = broker_of(one, key.broker_id)
    assert broker is not None
    return ReplicaAddress(key.cluster, key.set_name, key.broker_id, broker.address)


def _where(row: SegmentVerdict) -> str:
    return f"{row.store} segment {row.segment}"


def _urgency(one: NewMark) -> tuple[int, SegmentKey]:
    return int(one.priority), one.key
