"""
Why each mark, fill, drain, replacement, loss and dead segment of the cluster does not
move: what `pystore recovery explain` prints. Pure but for reading the record store.

Source: AR-R18; docs/autorecovery.md, *The Auditor*.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from pystore.autorecovery.copies import fill_plan
from pystore.autorecovery.explain import (
    SegmentCase,
    explain_copy,
    explain_loss,
    explain_state,
    next_try_ms,
)
from pystore.autorecovery.host_peers import RecoveryHost
from pystore.autorecovery.loss import ReplicaLoss, decode_loss, loss_standing
from pystore.autorecovery.maintenance import (
    Maintenance,
    MaintenanceTarget,
    away_until_ms,
    read_maintenance,
)
from pystore.autorecovery.pauses import Pauses, read_pauses
from pystore.autorecovery.placement import (
    MisplacedReplica,
    misplaced,
    misplaced_lines,
    place_for,
)
from pystore.autorecovery.queue_view import QueueContents, read_contents
from pystore.autorecovery.replacement_record import (
    HostDrain,
    Replacement,
    ReplacementKey,
    ReplacementPhase,
)
from pystore.autorecovery.replacement_requests import list_drains, read_replacements
from pystore.autorecovery.replacement_target import HostChoice, HostFacts, choose_host
from pystore.autorecovery.replica_key import ReplicaKey
from pystore.autorecovery.replica_peers import ClusterView
from pystore.autorecovery.segment_key import SegmentKey
from pystore.autorecovery.settings import RecoverySettings, read_settings
from pystore.controller.model.state import SetKey
from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
)
from pystore.errors import FormatError, InvalidError
from pystore.records.record_store import RecordStore
from pystore.segments.order import ReplicaStat

__all__ = [
    "ClusterAnswers",
    "ExplainTarget",
    "ExplainedKind",
    "ExplainedRecords",
    "Explanation",
    "explain_cluster",
    "read_explained",
    "replicas_to_ask",
]

_LOST = "recovery/lost/"


class ExplainedKind(Enum):
    """
    What is explained, in the order in which it is told.
    """

    DRAIN = "drain"
    REPLACEMENT = "replacement"
    LOSS = "loss"
    MISPLACED = "misplaced"
    FILL = "fill"
    DEAD = "dead"
    MARK = "mark"


@dataclass(frozen=True, slots=True)
class Explanation:
    """
    Why one thing does not move.

    Attributes:
        kind: what it is.
        name: the segment, ``CLUSTER/SET/ID`` of the replica, or the host.
        state: what it waits for, one line each.
        candidates: by name, whether it can be source or target, and why: a text that
            begins with ``yes``, ``no`` or ``unknown``.
        next_ms: when it is tried next, or when its delay ends, Unix time; 0: not known.
    """

    kind: ExplainedKind
    name: str
    state: tuple[str, ...]
    candidates: Mapping[str, str] = field(default_factory=dict)
    next_ms: int = 0


@dataclass(frozen=True, slots=True)
class ExplainTarget:
    """
    What is asked about; empty: everything.

    Attributes:
        segment: one segment; ``None``: not only one.
        names: cluster and name of one set; ``None``: of all sets.
        host: of a host port or a broker, ``HOST:PORT``; or ``HOST``, all that is on it.
    """

    segment: SegmentKey | None = None
    names: SetKey | None = None
    host: str = ""


@dataclass(frozen=True, slots=True)
class ExplainedRecords:
    """
    What the record store has, read once.

    Attributes:
        now_ms: when, Unix time.
        contents: of the queue.
        settings: that hold.
        pauses: that are not over.
        losses: replicas that are dead.
        maintenance: of hosts and replicas, also past ones.
        replacements: of replicas.
        drains: hosts that are emptied.
        damaged: one line for each record that cannot be read.
    """

    now_ms: int
    contents: QueueContents
    settings: RecoverySettings
    pauses: Pauses
    losses: Mapping[ReplicaKey, ReplicaLoss]
    maintenance: Mapping[MaintenanceTarget, Maintenance]
    replacements: Mapping[ReplacementKey, Replacement]
    drains: Mapping[str, HostDrain]
    damaged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterAnswers:
    """
    What controllers and replicas say.

    Attributes:
        view: all sets.
        hosts: by name; empty also if they are not known.
        stats: the answers of replicas, as far as they were asked and gave one.
    """

    view: ClusterView
    hosts: Mapping[str, RecoveryHost] = field(default_factory=dict)
    stats: Mapping[ReplicaKey, ReplicaStat] = field(default_factory=dict)


def read_explained(store: RecordStore, now_ms: int) -> ExplainedRecords:
    """
    Reads all records: with ZooKeeper some 100 requests and one for each record.

    Args:
        store: of the queue.
        now_ms: Unix time.
    """
    contents = read_contents(store)
    damaged = list(contents.damaged)
    settings, pauses = RecoverySettings(), Pauses()
    try:
        settings = read_settings(store)[0]
        pauses = read_pauses(store)[0].at(now_ms)
    except FormatError as error:
        # The defaults are explained; the line tells it.
        damaged.append(str(error))
    losses = {}
    for record in store.scan(_LOST):
        try:
            if record.damage:
                raise FormatError(record.damage, path=record.key)
            key = ReplicaKey.parse(record.key.removeprefix(_LOST))
            losses[key] = decode_loss(record.value, record.key)
        except FormatError as error:
            # One record must not hide the others.
            damaged.append(str(error))
    maintenance = read_maintenance(store, damaged)
    replaced = {key: one for key, one, _ in read_replacements(store, damaged)}
    return ExplainedRecords(
        now_ms,
        contents,
        settings,
        pauses,
        losses,
        maintenance,
        replaced,
        list_drains(store),
        tuple(damaged),
    )


def replicas_to_ask(
    records: ExplainedRecords, view: ClusterView, target: ExplainTarget
) -> list[tuple[ReplicaKey, str]]:
    """
    Returns the replicas whose answers an explanation needs, with their addresses: those
    of the sets of which a segment is explained.
    """
    names = {(key.cluster, key.set_name) for key in _segments(records)}
    if target.segment is not None:
        names = {(target.segment.cluster, target.segment.set_name)}
    names |= {key for key, one in view.sets.items() if any(_filling(one))}
    return [
        (ReplicaKey(*key, broker.broker_id), broker.address)
        for key in sorted(names)
        if key in view.sets and target.names in (None, key)
        for broker in view.sets[key].brokers
        if broker.address
        and broker.incarnation is not None
        and (broker.is_alive or broker.is_ill)
    ]


def explain_cluster(
    records: ExplainedRecords, told: ClusterAnswers, target: ExplainTarget
) -> list[Explanation]:
    """
    Returns what does not move, and why, in the order of `ExplainedKind`.

    Raises:
        InvalidError: there is no such set or host.
    """
    return list(_Explainer(records, told, target).all())


def _segments(records: ExplainedRecords) -> list[SegmentKey]:
    contents = records.contents
    marks = contents.marks
    order = sorted(marks, key=lambda one: (marks[one].urgency, one))
    return [*contents.dead, *(one for one in order if one not in contents.dead)]


def _filling(one: SetDescription) -> Iterator[BrokerDescription]:
    return (broker for broker in one.brokers if broker.begin.is_filling)


class _Explainer:
    """
    Explains what a target names. One thread.
    """

    def __init__(
        self, records: ExplainedRecords, told: ClusterAnswers, target: ExplainTarget
    ) -> None:
        self._records, self._told, self._target = records, told, target
        self._now_ms = records.now_ms
        self._on_host = self._replicas_of(target.host) if target.host else None
        names = target.names
        is_known = names in {*told.view.sets, *told.view.damaged}
        is_marked = names in {(it.cluster, it.set_name) for it in _segments(records)}
        if names is not None and not is_known and not is_marked:
            raise InvalidError(f"there is no set {names[1]} in cluster {names[0]}")

    def all(self) -> Iterator[Explanation]:
        if self._target.segment is not None:
            yield self._segment(self._target.segment)
            return
        yield from self._of_hosts()
        for lost, loss in sorted(self._records.losses.items()):
            if self._is_meant((lost.cluster, lost.set_name), (lost.broker_id,)):
                yield self._loss(lost, loss)
        for one in misplaced(self._facts()):
            if self._is_meant(one.key.names, (one.key.broker_id,), {one.host}):
                yield self._misplaced(one)
        for names, described in self._told.view.sets.items():
            for broker in _filling(described):
                if self._is_meant(names, (broker.broker_id,)):
                    yield self._fill(described, broker)
        for segment in _segments(self._records):
            if self._is_meant((segment.cluster, segment.set_name), self._ids(segment)):
                yield self._segment(segment)

    def _of_hosts(self) -> Iterator[Explanation]:
        for host in sorted(self._records.drains):
            if self._target.names is None and self._target.host in ("", host):
                yield self._drain(host)
        for key, one in sorted(self._records.replacements.items()):
            hosts = {one.target, one.old_host}
            if self._is_meant(key.names, (key.broker_id, one.new_id), hosts):
                yield self._replacement(key, one)

    # -- what is meant ----------------------------------------------------------

    def _replicas_of(self, host: str) -> set[ReplicaKey]:
        """
        Returns the replicas of a host: those that it carries, and those of brokers with
        its address.
        """
        carried = self._told.hosts.get(host)
        found = {
            ReplicaKey(it.cluster, it.set_name, it.broker_id or 0)
            for it in (() if carried is None else carried.replicas)
        }
        for names, described in self._told.view.sets.items():
            for broker in described.brokers:
                if host in (broker.address, broker.host):
                    found.add(ReplicaKey(*names, broker.broker_id))
        if carried is None and not found and host not in self._records.drains:
            raise InvalidError(f"there is no host {host!r} that the controllers know")
        return found

    def _is_meant(
        self, names: SetKey, ids: tuple[int, ...], hosts: set[str] | None = None
    ) -> bool:
        if self._target.names not in (None, names):
            return False
        if self._on_host is None or self._target.host in (hosts or ()):
            return True
        return any(ReplicaKey(*names, it) in self._on_host for it in ids)

    def _ids(self, key: SegmentKey) -> tuple[int, ...]:
        """
        Returns the brokers whose copies are missing.
        """
        contents = self._records.contents
        dead = contents.dead.get(key)
        mark = contents.marks.get(key) if dead is None else dead.mark
        return () if mark is None else tuple(mark.missing)

    # -- what it waits for ------------------------------------------------------

    def _case(self, key: SegmentKey) -> SegmentCase:
        names, records = (key.cluster, key.set_name), self._records
        described = self._told.view.sets.get(names)
        contents, pause = records.contents, ""
        if records.pauses.stops_repair:
            pause = "repair is paused"
        elif records.pauses.stops_set(*names):
            pause = "its set is paused"
        return SegmentCase(
            key,
            self._now_ms,
            records.settings,
            described,
            contents.marks.get(key),
            # A lock that cannot be read is held all the same.
            "" if key not in contents.claims else contents.claims[key] or "a worker",
            contents.dead.get(key),
            {
                it.broker_id: loss
                for it, loss in records.losses.items()
                if (it.cluster, it.set_name) == names
            },
            {
                broker.broker_id: self._away_ms(names, broker.broker_id, broker.host)
                for broker in (() if described is None else described.brokers)
            },
            {
                it.broker_id: stat
                for it, stat in self._told.stats.items()
                if (it.cluster, it.set_name) == names
            },
            contents.is_enabled,
            pause,
            names in self._told.view.damaged,
        )

    def _segment(self, key: SegmentKey) -> Explanation:
        case = self._case(key)
        kind = ExplainedKind.MARK if case.dead is None else ExplainedKind.DEAD
        state = tuple(explain_state(case))
        candidates = self._copies(case)
        return Explanation(kind, key.text, state, candidates, next_try_ms(case))

    def _copies(self, case: SegmentCase) -> dict[str, str]:
        brokers = () if case.description is None else case.description.brokers
        return {
            f"broker {it.broker_id}": self._paused(it) or explain_copy(case, it)
            for it in brokers
        }

    def _paused(self, broker: BrokerDescription) -> str:
        if self._records.pauses.stops_host(broker.host):
            return f"no: host {broker.host} is paused"
        return ""

    def _away_ms(self, names: SetKey, broker_id: int, host: str) -> int:
        return away_until_ms(
            self._records.maintenance,
            host=host,
            cluster=names[0],
            set_name=names[1],
            broker_id=broker_id,
        )

    def _loss(self, key: ReplicaKey, loss: ReplicaLoss) -> Explanation:
        names, settings = (key.cluster, key.set_name), self._records.settings
        described = self._told.view.sets.get(names)
        learners = {
            it.broker_id
            for it in (() if described is None else described.brokers)
            if it.is_learner
        }
        missing = sum(
            (it.cluster, it.set_name) == names and it.broker_id not in learners
            for it in self._records.losses
        )
        known: dict[str, int] = {
            "until_ms": self._away_ms(names, key.broker_id, loss.host),
            "missing": max(1, missing),
        }
        text = explain_loss(loss, settings, self._now_ms, **known)
        standing = loss_standing(loss, settings, self._now_ms, **known)
        return Explanation(
            ExplainedKind.LOSS, key.text, (text,), next_ms=standing.at_ms
        )

    def _fill(self, one: SetDescription, broker: BrokerDescription) -> Explanation:
        replica = ReplicaKey(one.cluster, one.name, broker.broker_id)
        stat = self._told.stats.get(replica)
        size = 0 if stat is None else stat.segment_size
        plan = fill_plan(one, broker, size, self._records.settings.fill_window)
        begin = f"its log begins at {broker.begin.offset}"
        if not broker.is_alive:
            return Explanation(
                ExplainedKind.FILL, replica.text, (f"it is not alive; {begin}",)
            )
        if not plan.bases:
            why = plan.why or "the controller has not said yet that it is whole"
            return Explanation(ExplainedKind.FILL, replica.text, (f"{begin}: {why}",))
        case = self._case(SegmentKey(one.cluster, one.name, plan.bases[0]))
        state = [f"{begin}: {plan.left} segments are left"]
        if case.mark is None:
            state.append(f"the Auditor has not offered {case.key.text} yet")
        else:
            state += [f"{case.key.text}: {line}" for line in explain_state(case)]
        copies = self._copies(case)
        copies.pop(f"broker {broker.broker_id}", None)
        return Explanation(
            ExplainedKind.FILL, replica.text, tuple(state), copies, next_try_ms(case)
        )

    # -- hosts ------------------------------------------------------------------

    def _facts(self) -> HostFacts:
        return HostFacts(
            self._told.view.sets,
            self._told.hosts,
            self._records.replacements,
            frozenset(self._records.drains),
            self._records.settings,
        )

    def _replacement(self, key: ReplacementKey, one: Replacement) -> Explanation:
        where = f" on {one.target}" if one.target else ""
        for_s = max(0, self._now_ms - one.phase_ms) // 1000
        state = [f"{one.reason.value}: it is {one.phase.value}{where} for {for_s} s"]
        if one.cancelled:
            state.append("it was cancelled: its new replica is removed")
        if one.problem:
            state.append(one.problem)
        if one.not_before_ms > self._now_ms:
            left_s = -(-(one.not_before_ms - self._now_ms) // 1000)
            state.append(f"{one.tries} requests were sent: the next is in {left_s} s")
        candidates: dict[str, str] = {}
        if one.phase is ReplacementPhase.WANTED:
            candidates = _candidates(choose_host(key, one, self._facts()))
        return Explanation(
            ExplainedKind.REPLACEMENT,
            key.text,
            tuple(state),
            candidates,
            one.not_before_ms,
        )

    def _misplaced(self, one: MisplacedReplica) -> Explanation:
        choice = place_for(one.key, self._facts())
        wants = self._records.settings.placement_repair
        state = tuple(misplaced_lines(one, wants_move=wants))
        name = one.key.text
        return Explanation(ExplainedKind.MISPLACED, name, state, _candidates(choice))

    def _drain(self, host: str) -> Explanation:
        one, described = self._records.drains[host], self._told.hosts.get(host)
        state = [f"it is emptied by order of {one.by or 'unknown'}"]
        if described is None:
            state.append("the controllers do not know the host now")
        keys = sorted(
            ReplacementKey(it.cluster, it.set_name, it.broker_id or 0)
            for it in (() if described is None else described.replicas)
        )
        for key in keys:
            replaced = self._records.replacements.get(key)
            text = "the Auditor has not asked for its replacement yet"
            if replaced is not None:
                problem = f": {replaced.problem}" if replaced.problem else ""
                text = f"its replacement is {replaced.phase.value}{problem}"
            elif described is not None and described.is_alive and not one.with_living:
                text = "its host is alive: decommission it with --drain"
            state.append(f"{key.text}: {text}")
        if described is not None and not keys:
            state.append("it has no replica left: stop it, and decommission it again")
        return Explanation(ExplainedKind.DRAIN, host, tuple(state))


def _candidates(choice: HostChoice) -> dict[str, str]:
    found = {f"host {choice.host}": "yes: it is the best one"} if choice.host else {}
    return found | {
        f"host {name}": f"no: {why}" for name, why in choice.refused.items()
    }
