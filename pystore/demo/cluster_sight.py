"""
What a run with AutoRecovery sees of its cluster at one moment: sets, hosts, the queue,
and how far each replacement is. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pystore.autorecovery.host_peers import RecoveryHost
from pystore.autorecovery.mark import Reason, SegmentMark
from pystore.autorecovery.replacement_record import (
    HostDrain,
    Replacement,
    ReplacementKey,
    ReplacementPhase,
)
from pystore.autorecovery.segment_key import SegmentKey
from pystore.autorecovery.status_view import RecoveryStatus
from pystore.controller.protocol.set_descriptions import SetDescription
from pystore.demo.timeline import BrokerState

__all__ = ["ClusterSight", "mark_text"]

_GOES_IN = (
    ReplacementPhase.PLANNED,
    ReplacementPhase.ADDED,
    ReplacementPhase.FILLING,
)


@dataclass(frozen=True, slots=True)
class ClusterSight:
    """
    The cluster, as controller and records tell it.

    Attributes:
        sets: by name.
        hosts: by the number in the run.
        replacements: that have a record.
        drains: by the address of the host.
        status: of AutoRecovery.
    """

    sets: Mapping[str, SetDescription]
    hosts: Mapping[int, RecoveryHost]
    replacements: Mapping[ReplacementKey, Replacement]
    drains: Mapping[str, HostDrain]
    status: RecoveryStatus

    @property
    def marks(self) -> Mapping[SegmentKey, SegmentMark]:
        """
        The queue.
        """
        return self.status.contents.marks

    @property
    def unfinished(self) -> set[ReplacementKey]:
        """
        The replacements that go on. One that only waits for the return of a dead host
        does not: its record stays for as long as the controller that knows the host.
        """
        alive = {one.name for one in self.hosts.values() if one.is_alive}
        return {
            key
            for key, one in self.replacements.items()
            if one.phase is not ReplacementPhase.CLEARING
            or any(left.host in alive for left in one.left)
        }

    def number_of(self, address: str) -> int:
        """
        Returns the number of a host; 0: there is no such one.
        """
        found = (one for one, host in self.hosts.items() if host.name == address)
        return next(found, 0)

    def hosts_of(self, name: str) -> dict[int, int]:
        """
        Returns the number of the host of each broker of a set, by broker id; 0: no host
        tells that it has it.
        """
        found = dict.fromkeys((one.broker_id for one in self.sets[name].brokers), 0)
        for number, host in self.hosts.items():
            for one in host.replicas:
                if one.set_name == name and one.broker_id in found:
                    found[one.broker_id] = number
        return found

    def master_host(self, name: str) -> int:
        """
        Returns the number of the host of a set's master; 0: there is none.
        """
        master = self.sets[name].master_id
        return 0 if master is None else self.hosts_of(name).get(master, 0)

    def is_settled(self, hosts: set[int], name: str) -> bool:
        """
        Whether a set has one replica on each of some hosts and no other one, all of
        them alive, in sync, and whole down to the beginning of the master's log.
        """
        one = self.sets.get(name)
        if one is None or set(self.hosts_of(name).values()) != hosts:
            return False
        return len(one.brokers) == len(hosts) and all(
            it.is_alive and it.is_in_sync and it.begin.offset == 0 for it in one.brokers
        )

    def lane(self, number: int) -> BrokerState:
        """
        Returns what a host is now.
        """
        host = self.hosts.get(number)
        if host is None or not host.is_alive:
            return BrokerState("down")
        count = len(host.replicas)
        masters = sum(number == self.master_host(name) for name in self.sets)
        carries = f"{_counted(count, 'replica')}, {_counted(masters, 'master')}"
        fills = any(
            one.target == host.name and one.phase in _GOES_IN and not one.cancelled
            for one in self.replacements.values()
        )
        if host.name in self.drains and count:
            return BrokerState("emptying", carries=carries)
        if fills:
            return BrokerState("filling", carries=carries)
        return (
            BrokerState("serving", carries=carries) if count else BrokerState("spare")
        )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def mark_text(mark: SegmentMark) -> str:
    """
    Returns what the Auditor found at the copies of a segment; empty: a replica that is
    filled lacks it, and nothing else.
    """
    facts = {
        one: fact
        for one, fact in mark.missing.items()
        if fact.reason is not Reason.FILL
    }
    return ", ".join(
        f"broker {one} {fact.reason.value}"
        + (f": {fact.detail.removeprefix(f'broker {one}: ')}" if fact.detail else "")
        for one, fact in sorted(facts.items())
    )
