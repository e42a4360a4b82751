"""
Empties a host: looks ahead, begins, tells how far it is, waits, and removes the
identity of the host at last.

It has no state of its own but the record that the host is emptied: the Auditor asks for
the replacement of each of its replicas, and each of these is a replacement like others.
What keeps it from its end is named, with the sets and segments; no wait is without end.

Source: BK-A133 to BK-A138; AR-R22, AR-R23, AR-R26; docs/autorecovery.md,
*Decommission*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pystore.autorecovery.host_peers import HostPeers, RecoveryHost
from pystore.autorecovery.replacement_record import (
    HostDrain,
    Replacement,
    ReplacementKey,
    ReplacementPhase,
    ReplacementReason,
    WaitReason,
)
from pystore.autorecovery.replacement_requests import (
    begin_drain,
    dead_segments,
    end_drain,
    list_drains,
    list_replacements,
)
from pystore.autorecovery.replacement_target import HostFacts, choose_host
from pystore.autorecovery.replica_peers import ClusterView, Controllers
from pystore.autorecovery.segment_key import SPACE
from pystore.autorecovery.set_copies import broker_of, living_master, set_size
from pystore.autorecovery.settings import read_settings
from pystore.errors import InvalidError
from pystore.records.record_store import RecordStore

__all__ = [
    "Decommission",
    "DrainBlocker",
    "DrainPlan",
    "DrainProgress",
    "PlannedMove",
    "preflight",
]

_LOOK_S = 5.0
_MS = 1000


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """
    Where a replica would be made anew.

    Attributes:
        key: the replica.
        target: the name of the host.
        size: bytes of the log.
    """

    key: ReplacementKey
    target: str
    size: int


@dataclass(frozen=True, slots=True)
class DrainBlocker:
    """
    What keeps one replica where it is.

    Attributes:
        key: the replica.
        reason: the kind.
        text: one line.
        segments: the dead ones of its set.
    """

    key: ReplacementKey
    reason: WaitReason
    text: str
    segments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """
    What emptying a host would do, by the function that chooses hosts.

    Attributes:
        moves: in the order in which they are planned.
        blockers: by their kind.
    """

    moves: tuple[PlannedMove, ...] = ()
    blockers: Mapping[WaitReason, tuple[DrainBlocker, ...]] = field(
        default_factory=dict
    )

    @property
    def is_possible(self) -> bool:
        """
        Whether nothing keeps a replica where it is.
        """
        return not self.blockers


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """
    How far a host is emptied.

    Attributes:
        host: its name.
        is_asked: it is being emptied.
        left: the replicas that are still on it, or are members of their sets; ``None``:
            no replacement was asked for yet.
        left_bytes: that their new replicas still have to get.
        blockers: what does not end by itself, by its kind.
    """

    host: str
    is_asked: bool
    left: Mapping[ReplacementKey, Replacement | None]
    left_bytes: int
    blockers: Mapping[WaitReason, tuple[DrainBlocker, ...]]

    @property
    def is_done(self) -> bool:
        """
        Whether no set needs the host any more.
        """
        return not self.left

    @property
    def is_blocked(self) -> bool:
        """
        Whether each replica that is left waits for something that does not end by
        itself.
        """
        blocked = {one.key for some in self.blockers.values() for one in some}
        return bool(self.left) and blocked >= self.left.keys()


def preflight(
    facts: HostFacts,
    host: str,
    *,
    damaged: tuple[tuple[str, str], ...] = (),
    dead: Callable[[str, str], list[str]] = lambda _cluster, _name: [],
) -> DrainPlan:
    """
    Returns what emptying a host would do. The space that one replica takes is not there
    for the next one; how many are filled at once does not matter here.

    Args:
        facts: at this moment.
        host: the name of the host.
        damaged: the sets whose records are unreadable.
        dead: returns the dead segments of a set.

    Raises:
        InvalidError: there is no such host.
    """
    described = _host(facts.hosts, host)
    around = replace(facts, drains=facts.drains | {host})
    moves: list[PlannedMove] = []
    blockers: list[DrainBlocker] = []
    for key in _replicas(described):
        found = facts.sets.get(key.names)
        if key.names in damaged:
            text = "the record of the set is unreadable"
            blockers.append(DrainBlocker(key, WaitReason.UNREADABLE_SET, text))
            continue
        if found is None or broker_of(found, key.broker_id) is None:
            # It is no member, so nothing is lost with it.
            continue
        if living_master(found) is None:
            text = "the set has no master that is alive"
            blockers.append(DrainBlocker(key, WaitReason.NO_MASTER, text))
            continue
        segments = tuple(dead(*key.names))
        if segments:
            text = f"{len(segments)} segments have no good copy"
            blocker = DrainBlocker(key, WaitReason.DEAD_SEGMENTS, text, segments)
            blockers.append(blocker)
            continue
        one = facts.replacements.get(key)
        if one is None or not one.phase.is_running:
            one = Replacement(ReplacementReason.DRAIN, 0)
            choice = choose_host(key, one, around, is_limited=False)
            if not choice.host:
                blockers.append(DrainBlocker(key, WaitReason.NO_TARGET, choice.text))
                continue
            one = replace(one, phase=ReplacementPhase.PLANNED, target=choice.host)
        moves.append(PlannedMove(key, one.target, set_size(found)))
        around = replace(around, replacements={**around.replacements, key: one})
    return DrainPlan(tuple(moves), _grouped(blockers))


class Decommission:
    """
    The orders about hosts that are to go. One thread.

    Args:
        store: of the records.
        controllers: tell all sets.
        hosts: carry the replicas.
        clock_ms: returns Unix time.
        by: who orders, for people.
    """

    def __init__(
        self,
        store: RecordStore,
        controllers: Controllers,
        hosts: HostPeers,
        *,
        clock_ms: Callable[[], int],
        by: str,
    ) -> None:
        self._store = store
        self._controllers = controllers
        self._hosts = hosts
        self._clock_ms = clock_ms
        self._by = by

    def plan(self, host: str) -> DrainPlan:
        """
        Returns what `start` would do (AR-R23); nothing is changed.

        Raises:
            InvalidError: there is no such host.
            UnavailableError: controllers or hosts do not answer.
        """
        view = self._controllers.all_sets()
        facts = HostFacts(
            view.sets,
            self._hosts.all_hosts(),
            list_replacements(self._store),
            frozenset(list_drains(self._store)),
            read_settings(self._store)[0],
        )
        return preflight(
            facts,
            host,
            damaged=view.damaged,
            dead=lambda cluster, name: dead_segments(self._store, cluster, name),
        )

    def start(
        self, host: str, *, drain: bool = False, is_strict: bool = False
    ) -> DrainPlan:
        """
        Begins to empty a host, or goes on.

        Args:
            host: its name.
            drain: also if it is alive.
            is_strict: not if anything would keep a replica there.

        Returns:
            The plan.

        Raises:
            InvalidError: there is no such host, it is alive, or the plan is blocked;
                nothing was changed.
            UnavailableError: as of `plan`.
        """
        plan = self.plan(host)
        if _host(self._hosts.all_hosts(), host).is_alive and not drain:
            raise InvalidError(
                f"host {host} is alive: stop it first, or empty it while it serves "
                "with --drain"
            )
        if is_strict and not plan.is_possible:
            kinds = ", ".join(
                f"{reason.value}: {len(some)}" for reason, some in plan.blockers.items()
            )
            raise InvalidError(f"host {host} cannot be emptied: {kinds}")
        now_ms = self._clock_ms()
        one = HostDrain(now_ms, self._by, with_living=drain)
        begin_drain(self._store, host, one, now_ms)
        return plan

    def cancel(self, host: str) -> bool:
        """
        Ends the emptying of a host (AR-R26): replicas stay whose new ones are not whole
        yet, and those are removed. Returns whether it was being emptied.
        """
        return end_drain(self._store, host, self._by, self._clock_ms())

    def progress(self, host: str) -> DrainProgress:
        """
        Returns how far a host is emptied, from records and descriptions alone.

        Raises:
            InvalidError: there is no such host.
            UnavailableError: as of `plan`.
        """
        view = self._controllers.all_sets()
        described = _host(self._hosts.all_hosts(), host)
        replacements = list_replacements(self._store)
        keys = set(_needed(view, described))
        keys |= {
            key
            for key, one in replacements.items()
            if one.old_host == host and one.phase is not ReplacementPhase.CLEARING
        }
        # New replicas that replacements of others still have to remove from it.
        keys |= {
            key
            for key, one in replacements.items()
            if host == one.target or any(it.host == host for it in one.left)
            if one.phase is not ReplacementPhase.CLEARING or described.is_alive
        }
        left = {key: replacements.get(key) for key in sorted(keys)}
        return DrainProgress(
            host,
            host in list_drains(self._store),
            left,
            sum(_left_bytes(view, key, one) for key, one in left.items()),
            _grouped(self._blockers(left, view)),
        )

    def wait(self, host: str, timeout_s: float) -> DrainProgress:
        """
        Returns the progress once it is done or blocked, or the time is over.

        Raises:
            InvalidError: as of `progress`, like the other errors.
        """
        end_ms = self._clock_ms() + int(timeout_s * _MS)
        token = 0
        while True:
            found = self.progress(host)
            left_s = (end_ms - self._clock_ms()) / _MS
            if found.is_done or found.is_blocked or left_s <= 0:
                return found
            token = self._store.wait(token, min(left_s, _LOOK_S), SPACE)

    def finish(self, host: str) -> None:
        """
        Deletes the identity of an emptied host, then the record that it is emptied. A
        crash in between leaves a record that the same call removes.

        Raises:
            InvalidError: sets need it, or it was not asked to be emptied.
            UnavailableError: as of `plan`.
        """
        if host in self._hosts.all_hosts():
            found = self.progress(host)
            if not found.is_asked:
                raise InvalidError(
                    f"host {host} is not being emptied: start that first"
                )
            if not found.is_done:
                names = ", ".join(key.text for key in found.left)
                raise InvalidError(f"host {host} is not empty: {names}")
            self._hosts.forget(host)
        self.cancel(host)

    def _blockers(
        self, left: Mapping[ReplacementKey, Replacement | None], view: ClusterView
    ) -> Iterator[DrainBlocker]:
        for key, one in left.items():
            if key.names in view.damaged:
                text = "the record of the set is unreadable"
                yield DrainBlocker(key, WaitReason.UNREADABLE_SET, text)
            elif one is None:
                continue
            elif one.waits_for is not None:
                yield DrainBlocker(key, one.waits_for, one.problem)
            elif one.phase is ReplacementPhase.FILLING:
                segments = tuple(dead_segments(self._store, *key.names))
                if segments:
                    text = f"{len(segments)} segments have no good copy"
                    yield DrainBlocker(key, WaitReason.DEAD_SEGMENTS, text, segments)


def _host(hosts: Mapping[str, RecoveryHost], name: str) -> RecoveryHost:
    if name not in hosts:
        known = ", ".join(sorted(hosts)) or "none"
        raise InvalidError(f"there is no host {name!r}; known: {known}")
    return hosts[name]


def _replicas(host: RecoveryHost) -> list[ReplacementKey]:
    return sorted(
        ReplacementKey(one.cluster, one.set_name, one.broker_id)
        for one in host.replicas
        if one.broker_id is not None
    )


def _needed(view: ClusterView, host: RecoveryHost) -> Iterator[ReplacementKey]:
    """
    Yields the replicas of a host that are members of their sets, or may be.
    """
    for key in _replicas(host):
        found = view.sets.get(key.names)
        is_member = found is not None and broker_of(found, key.broker_id) is not None
        if is_member or key.names in view.damaged:
            yield key


def _left_bytes(view: ClusterView, key: ReplacementKey, one: Replacement | None) -> int:
    described = view.sets.get(key.names)
    if described is None or (one is not None and one.phase is _RETIRING):
        return 0
    new = None if one is None else broker_of(described, one.new_id)
    size = set_size(described)
    return size if new is None else min(max(new.begin.offset, 0), size)


_RETIRING = ReplacementPhase.RETIRING


def _grouped(
    blockers: Iterator[DrainBlocker] | list[DrainBlocker],
) -> dict[WaitReason, tuple[DrainBlocker, ...]]:
    found: dict[WaitReason, list[DrainBlocker]] = {}
    for one in blockers:
        found.setdefault(one.reason, []).append(one)
    return {reason: tuple(some) for reason, some in found.items()}
