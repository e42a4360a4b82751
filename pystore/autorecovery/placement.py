"""
Which replicas are against the rule of racks, and which sets have more than they should.
Pure.

A replica is *misplaced* if another one of its set is on the same rack, while a rack
without any replica of the set has a living host with room. Racks that are not known
break no rule. A replica is moved as a whole: a rack is of a host, not of a segment.

Source: BK-A121, BK-A122; issue *AutoRecovery*, *Hosts*; docs/autorecovery.md, *Racks*.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pystore.autorecovery.host_peers import RecoveryHost
from pystore.autorecovery.replacement_record import (
    Replacement,
    ReplacementKey,
    ReplacementPhase,
    ReplacementReason,
)
from pystore.autorecovery.replacement_target import (
    HostChoice,
    HostFacts,
    choose_host,
    host_of,
)
from pystore.autorecovery.set_copies import is_good, is_whole
from pystore.controller.model.state import SetKey
from pystore.controller.protocol.set_descriptions import SetDescription

__all__ = [
    "MisplacedReplica",
    "is_misplaced",
    "misplaced",
    "misplaced_lines",
    "overreplicated",
    "place_for",
]

_Carried = Mapping[int, RecoveryHost]


@dataclass(frozen=True, slots=True)
class MisplacedReplica:
    """
    A replica that would be better elsewhere.

    Attributes:
        key: the replica; of those on one rack it is no master, and the youngest.
        host: the name of its host.
        rack: of that host.
        others: the broker ids of the set on the same rack.
        is_movable: all replicas of the set are whole: none of them is needed more than
            this move.
    """

    key: ReplacementKey
    host: str
    rack: str
    others: tuple[int, ...]
    is_movable: bool


def misplaced(facts: HostFacts) -> Iterator[MisplacedReplica]:
    """
    Yields at most one replica of each set, in the order of the sets. A set of which a
    replica is being replaced is left out: its racks are about to change.

    Args:
        facts: at this moment.
    """
    racks = _racks_with_room(facts)
    changing = {
        key.names
        for key, one in facts.replacements.items()
        if one.phase is not ReplacementPhase.CLEARING
    }
    carried = _carried(facts.hosts)
    for names, described in facts.sets.items():
        on = carried.get(names, {})
        if names in changing or not racks - {host.rack for host in on.values()}:
            continue
        found = _misplaced(described, on)
        if found is not None:
            yield found


def is_misplaced(key: ReplacementKey, one: Replacement, facts: HostFacts) -> bool:
    """
    Returns whether a replica that is being moved to another rack shares its own one
    with another replica of its set still, the new one left out.
    """
    host = host_of(facts.hosts, key)
    if host is None or not host.rack:
        return False
    new = {one.target, *(left.host for left in one.left)}
    return any(
        other.rack == host.rack and other.replica_of(*key.names) is not None
        for other in facts.hosts.values()
        if other.name != host.name and other.name not in new
    )


def misplaced_lines(one: MisplacedReplica, *, wants_move: bool) -> Iterator[str]:
    """
    Yields why a replica is misplaced, and what becomes of it.
    """
    others = ", ".join(f"broker {it}" for it in one.others)
    yield f"on host {one.host}: rack {one.rack} has {others} of the set, too"
    if not wants_move:
        yield "it stays: placement_repair is off"
    elif not one.is_movable:
        yield "it is moved once all replicas of the set are whole"
    else:
        yield "such replicas are moved one after another"


def place_for(key: ReplacementKey, facts: HostFacts) -> HostChoice:
    """
    Returns where a misplaced replica would go, by the function that chooses hosts.
    """
    return choose_host(key, Replacement(ReplacementReason.MISPLACED, 0), facts)


def overreplicated(facts: HostFacts) -> Iterator[SetKey]:
    """
    Yields the sets that have more replicas than an operator wants, learners left out. A
    set of which a replica is being replaced has one more for a while, and is left out.
    """
    changing = {key.names for key in facts.replacements}
    for names, described in facts.sets.items():
        voters = sum(not one.is_learner for one in described.brokers)
        if names not in changing and 0 < described.copies < voters:
            yield names


def _racks_with_room(facts: HostFacts) -> set[str]:
    high = facts.settings.disk_high_percent
    return {
        host.rack
        for host in facts.hosts.values()
        if host.is_alive
        and host.name not in facts.drains
        and 0 <= host.disk_used_percent < high
    } - {""}


def _carried(
    hosts: Mapping[str, RecoveryHost],
) -> dict[SetKey, dict[int, RecoveryHost]]:
    found: dict[SetKey, dict[int, RecoveryHost]] = {}
    for host in hosts.values():
        for one in host.replicas:
            if one.broker_id:
                at = found.setdefault((one.cluster, one.set_name), {})
                at[one.broker_id] = host
    return found


def _misplaced(described: SetDescription, on: _Carried) -> MisplacedReplica | None:
    members = {one.broker_id: one for one in described.brokers}
    by_rack: dict[str, list[int]] = {}
    for number, host in on.items():
        if host.rack and number in members:
            by_rack.setdefault(host.rack, []).append(number)
    crowded = [some for some in by_rack.values() if len(some) > 1]
    if not crowded:
        return None
    most = max(crowded, key=len)
    # A master hands over before it goes, and a log that is old has more to read.
    number = max(most, key=lambda one: (one != described.master_id, one))
    is_movable = is_good(members[number]) and all(map(is_whole, described.brokers))
    return MisplacedReplica(
        ReplacementKey(described.cluster, described.name, number),
        on[number].name,
        on[number].rack,
        tuple(sorted(one for one in most if one != number)),
        is_movable,
    )
