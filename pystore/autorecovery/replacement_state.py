"""
What is known about one replacement at one moment. Pure.

Source: D1, D2; I3, I5; docs/autorecovery.md, *Replacing a replica*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pystore.autorecovery.host_peers import RecoveryHost
from pystore.autorecovery.placement import is_misplaced
from pystore.autorecovery.replacement_record import (
    LeftReplica,
    Replacement,
    ReplacementKey,
    ReplacementPhase,
    ReplacementReason,
)
from pystore.autorecovery.replacement_target import HostFacts, host_of
from pystore.autorecovery.set_copies import broker_of, is_good
from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
)

__all__ = ["ReplacementFacts", "ReplacementState", "is_wiped", "lacks_replicas"]

_START_MS = 60_000


@dataclass(frozen=True, slots=True)
class ReplacementFacts:
    """
    What a step depends on, beside the record.

    Attributes:
        around: hosts, sets, other replacements, settings.
        described: the set; ``None``: its record is unreadable.
        may_replace: who is told as not alive is dead; otherwise it is unknown.
        damaged: returns segments of the set of which another copy than those of these
            brokers is damaged, or was lost: a good one may be needed for the repair.
        now_ms: Unix time.
    """

    around: HostFacts
    described: SetDescription | None
    may_replace: bool
    damaged: Callable[[frozenset[int]], Sequence[str]]
    now_ms: int


@dataclass(frozen=True, slots=True)
class ReplacementState:
    """
    A replacement and what it depends on.

    Attributes:
        key: of the replica that is replaced.
        one: the record.
        facts: at this moment.
        described: the set.
    """

    key: ReplacementKey
    one: Replacement
    facts: ReplacementFacts
    described: SetDescription

    @property
    def old(self) -> BrokerDescription | None:
        """
        Returns the replaced broker; ``None``: it is no member any more.
        """
        return broker_of(self.described, self.key.broker_id)

    @property
    def target(self) -> RecoveryHost | None:
        """
        Returns the host of the new replica.
        """
        return self.facts.around.hosts.get(self.one.target)

    @property
    def has_ended(self) -> bool:
        """
        Whether it is not wanted any more: cancelled, or the replica is back. Once that
        is no member, or removed from its host, the set would have one replica less.
        """
        if self.one.reason is ReplacementReason.MISSING:
            is_over = self.one.phase is ReplacementPhase.CLEARING
            return self.one.cancelled or not (is_over or self.is_missed)
        old = self.old
        host = host_of(self.facts.around.hosts, self.key)
        if old is None or (host is None and self.one.old_host):
            return False
        if self.one.cancelled:
            return True
        match self.one.reason:
            case ReplacementReason.LOST:
                is_back = old.is_alive and not is_wiped(old)
            case ReplacementReason.WIPED:
                is_back = is_good(old)
            case ReplacementReason.MISPLACED:
                is_back = self._is_well_placed(old)
            case _:
                drains = self.facts.around.drains
                is_back = host is not None and host.name not in drains
        return is_back

    def _is_well_placed(self, old: BrokerDescription) -> bool:
        """
        Returns whether the replica need not be moved to another rack any more, or
        something comes first that wants it replaced on any host.
        """
        around = self.facts.around
        host = host_of(around.hosts, self.key)
        is_draining = host is not None and host.name in around.drains
        is_begun = self.one.phase is not ReplacementPhase.WANTED
        if not is_begun and (is_draining or not old.is_alive or is_wiped(old)):
            return True
        is_wanted = around.settings.placement_repair or is_draining
        return not (is_wanted and is_misplaced(self.key, self.one, around))

    @property
    def is_missed(self) -> bool:
        """
        Whether a set that had too few replicas has too few without new ones.
        """
        around = self.facts.around
        is_one = self.one.reason is ReplacementReason.MISSING
        return is_one and lacks_replicas(
            self.described, around.replacements, around.hosts
        )

    @property
    def new(self) -> LeftReplica | None:
        """
        What has to be removed if the new replica is not wanted; ``None``: nothing, as
        the host was not asked yet.
        """
        one = self.one
        is_asked = one.phase is not ReplacementPhase.PLANNED or one.tries
        if not one.target or not is_asked:
            return None
        return LeftReplica(one.target, one.new_id)

    @property
    def of_set(self) -> dict[int, Replacement]:
        """
        The replacements of the set, by the replaced broker.
        """
        return {
            other.broker_id: it
            for other, it in self.facts.around.replacements.items()
            if other.names == self.key.names
        }

    @property
    def going(self) -> frozenset[int]:
        """
        The other brokers of the set that may go at any moment.
        """
        found = set[int]()
        for number, it in self.of_set.items():
            if number != self.key.broker_id and it.phase is ReplacementPhase.RETIRING:
                found.add(number)
            found.update(left.broker_id for left in it.left)
        return frozenset(found)

    @property
    def places(self) -> list[frozenset[int]]:
        """
        The brokers of each replacement: together they have one place in the set.
        """
        found = []
        for number, it in self.of_set.items():
            place = {number, it.new_id, *(left.broker_id for left in it.left)}
            # One that is done has left its place to a broker like any other.
            is_done = it.phase is ReplacementPhase.CLEARING
            if not is_done or self.broker(number) is not None:
                found.append(frozenset(place - {0}))
        return found

    @property
    def phase_lasts(self) -> bool:
        """
        Returns whether the phase takes longer than a host may need.
        """
        return self.facts.now_ms - self.one.phase_ms >= self.patience_ms

    @property
    def patience_ms(self) -> int:
        """
        Returns how long a host that fails may need to come back: the delay of a loss,
        and not less than a replica takes to start.
        """
        return max(1000 * self.facts.around.settings.delay_s, _START_MS)

    def is_dead(self, one: BrokerDescription, for_ms: int = 0) -> bool:
        """
        Returns whether a broker is known to be dead, for that long.
        """
        is_known = self.facts.may_replace and not one.is_alive
        return is_known and one.since_ms >= for_ms

    def broker(self, broker_id: int) -> BrokerDescription | None:
        """
        Returns a member of the set.
        """
        return broker_of(self.described, broker_id)

    def is_new(self, broker_id: int | None) -> bool:
        """
        Returns whether a replica on the target is the new one: ids only rise.
        """
        return broker_id is None or broker_id > self.one.above_id

    def is_old_left(self, host: str) -> bool:
        """
        Returns whether the old replica is to be removed from a host.
        """
        old = (host, self.key.broker_id)
        return any((it.host, it.broker_id) == old for it in self.one.left)

    def is_left_one(self, left: LeftReplica, broker_id: int | None) -> bool:
        """
        Returns whether a replica on the host is the one that was left there.
        """
        if left.broker_id:
            return broker_id == left.broker_id
        return self.is_new(broker_id)


def is_wiped(one: BrokerDescription) -> bool:
    """
    Returns whether the store of a broker is empty, or another one than its own.
    """
    return one.standing.needs_operator


def lacks_replicas(
    described: SetDescription,
    replacements: Mapping[ReplacementKey, Replacement],
    hosts: Mapping[str, RecoveryHost],
) -> bool:
    """
    Returns whether a set has fewer replicas than an operator wants: dead ones count,
    learners do not. Each replacement of a broker has one place; what is made because
    the set lacks a replica has none yet.

    Args:
        described: the set.
        replacements: all of them.
        hosts: all hosts, by name; without them a new replica may count twice.
    """
    members = {it.broker_id for it in described.brokers}
    learners = {it.broker_id for it in described.brokers if it.is_learner}
    taken, places = set(learners), 0
    for key, one in replacements.items():
        if key.names != (described.cluster, described.name):
            continue
        ids = {key.broker_id, one.new_id, *(left.broker_id for left in one.left)}
        host = hosts.get(one.target)
        has = None if host is None else host.replica_of(*key.names)
        if has is not None and has.broker_id and has.broker_id > one.above_id:
            # It is there, and the record does not know it yet.
            ids.add(has.broker_id)
        taken |= ids
        is_done = one.phase is ReplacementPhase.CLEARING
        if key.broker_id and not (is_done and key.broker_id not in members):
            places += not ids & learners
    return len(members - taken) + places < described.copies
