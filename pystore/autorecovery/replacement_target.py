"""
Where a new replica goes. Pure.

The host has no replica of the set and has space for the whole set, with everything that
is promised to other replacements. One in another rack than the other replicas is
preferred, then one whose rack is not known; of equal ones it is the least loaded. Each
other host has its reason. The same function plans, explains and chooses, so a plan that
was shown is the one that is carried out.

Source: AR-R18, AR-R23; issue *AutoRecovery*, *Hosts*; docs/autorecovery.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pystore.autorecovery.host_peers import RecoveryHost
from pystore.autorecovery.replacement_record import (
    Replacement,
    ReplacementKey,
    ReplacementPhase,
    ReplacementReason,
)
from pystore.autorecovery.set_copies import broker_of, set_size
from pystore.autorecovery.settings import RecoverySettings
from pystore.controller.model.replica import LogStanding
from pystore.controller.protocol.set_descriptions import SetDescription
from pystore.text import size_text

__all__ = ["HostChoice", "HostFacts", "choose_host", "host_of", "owner_of"]

_ALL = 100
_BESIDE_PERCENT = 10
"""Queues, seals and the like, of the bytes of a log."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """
    What a choice depends on.

    Attributes:
        sets: all sets, by cluster and name.
        hosts: all hosts, by name.
        replacements: all of them.
        drains: the hosts that are emptied.
        settings: of AutoRecovery.
    """

    sets: Mapping[tuple[str, str], SetDescription]
    hosts: Mapping[str, RecoveryHost]
    replacements: Mapping[ReplacementKey, Replacement]
    drains: frozenset[str]
    settings: RecoverySettings


@dataclass(frozen=True, slots=True)
class HostChoice:
    """
    Where a new replica goes.

    Attributes:
        host: its name; empty: to none.
        waits: none is free, but one will be: the limit of replacements per host.
        refused: why each other host was not chosen, by name.
    """

    host: str = ""
    waits: bool = False
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """
        Why there is no host, one line.
        """
        if not self.refused:
            return "there is no host"
        return "; ".join(f"{name}: {why}" for name, why in self.refused.items())


def host_of(
    hosts: Mapping[str, RecoveryHost], key: ReplacementKey
) -> RecoveryHost | None:
    """
    Returns the host that carries a replica; ``None``: none does.
    """
    for host in hosts.values():
        for one in host.replicas:
            if (one.cluster, one.set_name, one.broker_id) == (
                key.cluster,
                key.set_name,
                key.broker_id,
            ):
                return host
    return None


def owner_of(
    key: ReplacementKey,
    replacements: Mapping[ReplacementKey, Replacement],
    hosts: Mapping[str, RecoveryHost],
) -> ReplacementKey | None:
    """
    Returns the replacement that made a broker, and takes care of it; ``None``: none.
    """
    host = host_of(hosts, key)
    for other, one in replacements.items() if key.broker_id else ():
        if other == key or other.names != key.names:
            continue
        ids = {one.new_id, *(left.broker_id for left in one.left)}
        places = {one.target, *(left.host for left in one.left if not left.broker_id)}
        if key.broker_id in ids or (host is not None and host.name in places):
            return other
    return None


def choose_host(
    key: ReplacementKey, one: Replacement, facts: HostFacts, *, is_limited: bool = True
) -> HostChoice:
    """
    Chooses the host of a new replica.

    Args:
        key: of the replica that is replaced.
        one: its replacement.
        facts: at this moment.
        is_limited: a host takes only `RecoverySettings.replacements_per_host` at once;
            a plan for all of them is not limited.
    """
    refused: dict[str, str] = {}
    fit: list[RecoveryHost] = []
    for name in sorted(facts.hosts):
        why = _refusal(key, one, facts.hosts[name], facts)
        if why:
            refused[name] = why
        else:
            fit.append(facts.hosts[name])
    if not fit:
        return HostChoice(refused=refused)
    racks = _racks(key, facts)
    best = min(_rack_rank(host.rack, racks) for host in fit)
    first = [host for host in fit if _rack_rank(host.rack, racks) == best]
    for host in fit:
        if host not in first:
            refused[host.name] = (
                f"rack {host.rack!r} has a replica of the set"
                if host.rack
                else "its rack is not known"
            )
    own = _own_host(key, one, facts)
    order = sorted(first, key=lambda it: _load(one, it, facts, own))
    most = facts.settings.replacements_per_host
    for host in order:
        running = sum(1 for _ in _promised(host.name, facts))
        if not is_limited or running < most:
            left_over = {it.name: "it has more load" for it in order if it != host}
            return HostChoice(host.name, refused={**left_over, **refused})
        refused[host.name] = f"it takes {most} replacements at once"
    return HostChoice(waits=True, refused=refused)


def _rack_rank(rack: str, racks: set[str]) -> int:
    """
    Returns how a rack fits to those of the other replicas; lower is better.
    """
    if not rack:
        return 1 if racks else 0
    return 2 if rack in racks else 0


def _refusal(
    key: ReplacementKey, one: Replacement, host: RecoveryHost, facts: HostFacts
) -> str:
    """
    Returns why a host cannot take the new replica; empty: it can.
    """
    if not host.is_alive:
        return "it is not alive"
    if host.name in facts.drains:
        return "it is emptied"
    if any(it.host == host.name for it in one.left):
        return "it had a replica that failed"
    has = host.replica_of(*key.names)
    if has is not None and host.name != _own_host(key, one, facts):
        return "it has a replica of the set"
    for other, it in facts.replacements.items():
        is_same = other.names == key.names
        hosts = {it.target, it.old_host, *(left.host for left in it.left)}
        if is_same and other != key and host.name in hosts:
            return f"a replacement of broker {other.broker_id} of the set uses it"
    return _rack_refusal(key, one, host, facts) or _disk_refusal(key, host, facts)


def _rack_refusal(
    key: ReplacementKey, one: Replacement, host: RecoveryHost, facts: HostFacts
) -> str:
    """
    A move that frees no rack is none; all else goes to any rack rather than nowhere.
    """
    if one.reason is not ReplacementReason.MISPLACED:
        return ""
    if not host.rack:
        return "its rack is not known"
    if host.rack in _racks(key, facts):
        return f"rack {host.rack!r} has a replica of the set"
    return ""


def _disk_refusal(key: ReplacementKey, host: RecoveryHost, facts: HostFacts) -> str:
    used = host.disk_used_percent
    if used < 0:
        return "its disk level is unknown"
    high = facts.settings.disk_high_percent
    if used >= min(high, _ALL):
        return f"its disk is {used} % full, {high} % is the most"
    size = host.free_bytes * _ALL // (_ALL - used)
    described = facts.sets.get(key.names)
    need = 0 if described is None else _with_queues(set_size(described))
    promised = sum(_promised(host.name, facts))
    left = host.free_bytes - promised - need
    if left * _ALL < size * (_ALL - high):
        rest = f", {size_text(promised)} of it promised" if promised else ""
        return (
            f"the set needs {size_text(need)}, {size_text(host.free_bytes)} is free"
            f"{rest}, and {high} % full is the most"
        )
    return ""


def _promised(host: str, facts: HostFacts) -> Iterator[int]:
    """
    Yields for each replacement that fills a host how many bytes are still to come.
    """
    for key, one in facts.replacements.items():
        is_filling = one.phase.is_running and one.phase is not ReplacementPhase.RETIRING
        if one.target != host or not is_filling:
            continue
        described = facts.sets.get(key.names)
        if described is None:
            yield 0
            continue
        size = set_size(described)
        new = broker_of(described, one.new_id)
        has = 0 if new is None else new.end.end - max(new.begin.offset, 0)
        yield _with_queues(max(size - max(has, 0), 0))


def _with_queues(size: int) -> int:
    """
    Returns how many bytes a replica takes whose log has so many.
    """
    return size * (_ALL + _BESIDE_PERCENT) // _ALL


def _load(
    one: Replacement, host: RecoveryHost, facts: HostFacts, own: str
) -> tuple[bool, bool, int, int, int, str]:
    running = sum(1 for _ in _promised(host.name, facts))
    avoid = host.name in one.failed, host.name != own
    return *avoid, running, host.disk_used_percent, len(host.replicas), host.name


def _racks(key: ReplacementKey, facts: HostFacts) -> set[str]:
    """
    Returns the racks of the other replicas of the set, also of those to come.
    """
    found: set[str] = set()
    for host in facts.hosts.values():
        has = host.replica_of(*key.names)
        if has is not None and has.broker_id != key.broker_id:
            found.add(host.rack)
    for other, it in facts.replacements.items():
        is_same = other.names == key.names
        target = facts.hosts.get(it.target)
        if is_same and other != key and target is not None:
            found.add(target.rack)
    return found - {""}


def _own_host(key: ReplacementKey, one: Replacement, facts: HostFacts) -> str:
    """
    Returns the host of a wiped replica: it is made anew where it was, if it can be. A
    store that is another one is not empty, and nothing is put in its place.
    """
    if one.reason is not ReplacementReason.WIPED:
        return ""
    described = facts.sets.get(key.names)
    old = None if described is None else broker_of(described, key.broker_id)
    if old is not None and old.standing is not LogStanding.WIPED:
        return ""
    host = host_of(facts.hosts, key)
    return "" if host is None else host.name
