"""
The hosts of one term: the last heartbeat of each, how long it is valid, and what the
record store should have of it. Pure.

All times are the controller's own boot time. A host that carries a replica of a set has
a record: its sets may need it for longer than a controller lives, also if the host is
dead for good. The record has what seldom changes, so that a heartbeat commits nothing.
Only replicas that the record of their set knows are in it, each in that of one host: so
strangers make no more records than there are replicas.

Source: docs/controller.md, *Hosts*.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from pystore.controller.model.state import SetKey
from pystore.controller.protocol.host_descriptions import HostDescription, HostedReplica
from pystore.controller.server.record_keys import host_key
from pystore.errors import InvalidError

__all__ = ["HOSTS_MAX", "HostRecord", "Hosts"]

HOSTS_MAX = 4_096
"""Of which one controller keeps the descriptions."""

HostRecord = HostDescription | None
"""What the record store should have of a host; ``None``: nothing."""

_LOOK_NS = 30_000_000_000
"""After which replicas of a host are compared again with the records of their sets."""

_MS = 1_000_000

_ReplicaKey = tuple[str, str, int]


@dataclass(slots=True)
class _Heard:
    """
    The last heartbeat of one host.

    Attributes:
        told: as received, or as its record has it.
        until_ns: the end of its validity, inclusive.
        since_ns: when it was heard first, or again after a silence.
        looked_ns: when its replicas were compared with the records of sets.
        record: what the record store should have of it.
    """

    told: HostDescription
    until_ns: int
    since_ns: int
    looked_ns: int
    record: HostRecord = None


class Hosts:
    """
    The hosts. One thread. Times never decrease from call to call.

    Args:
        is_member: returns whether the record of a set has a broker.
    """

    def __init__(self, is_member: Callable[[SetKey, int], bool]) -> None:
        self._is_member = is_member
        self._heard: dict[str, _Heard] = {}
        self._carriers: dict[_ReplicaKey, str] = {}
        self._due: dict[str, HostRecord] = {}

    def load(self, records: Iterable[HostDescription], now_ns: int) -> None:
        """
        Takes the records at the beginning of the term: their hosts are silent until
        they are heard.
        """
        for one in records:
            told = replace(one, is_alive=False)
            heard = _Heard(told, now_ns - 1, now_ns, now_ns, one)
            self._heard[one.address] = heard
            self._carry(one)

    def receive(self, told: HostDescription, timeout_ms: int, now_ns: int) -> bool:
        """
        Takes a heartbeat. If there are too many hosts, one that is silent and has no
        record is forgotten: of these that which is silent for longest.

        Returns:
            whether it was taken: there was room for it.
        """
        until_ns = now_ns + timeout_ms * _MS
        heard = self._heard.get(told.address)
        if heard is None:
            if len(self._heard) >= HOSTS_MAX and not self._forget_silent(now_ns):
                return False
            heard = self._heard[told.address] = _Heard(told, until_ns, now_ns, 0)
            self._look(heard, now_ns)
            return True
        before, is_back = heard.told, heard.until_ns < now_ns
        heard.told, heard.until_ns = told, until_ns
        if is_back:
            heard.since_ns = now_ns
        is_same = _lasting(before) == _lasting(told)
        if is_back or not is_same or now_ns - heard.looked_ns >= _LOOK_NS:
            self._look(heard, now_ns)
        return True

    @property
    def due(self) -> Mapping[str, HostRecord]:
        """
        The records that the record store has otherwise, by address.
        """
        return self._due

    def stored(self, records: Mapping[str, HostRecord]) -> None:
        """
        Takes note that the record store has these now.
        """
        for address, one in records.items():
            if address in self._due and self._due[address] == one:
                del self._due[address]

    def find(self, address: str, now_ns: int) -> HostDescription | None:
        """
        Returns a host; ``None``: it is not known.
        """
        heard = self._heard.get(address)
        return None if heard is None else _described(heard, now_ns)

    def needed(self, address: str) -> list[HostedReplica]:
        """
        Returns the replicas of a host that the records of their sets have.
        """
        heard = self._heard.get(address)
        return [] if heard is None else list(self._members(heard.told))

    def forget(self, address: str) -> None:
        """
        Drops a host, whose record was deleted.
        """
        heard = self._heard.pop(address, None)
        if heard is not None and heard.record is not None:
            self._drop(heard.record)
        self._due.pop(address, None)

    def after(self, address: str, count: int, now_ns: int) -> list[HostDescription]:
        """
        Returns at most so many hosts, alive or not, in the order of their addresses.

        Args:
            address: those after it; empty: from the first one on.
            count: at most so many.
            now_ns: the time.
        """
        names = sorted(self._heard)
        first = bisect_right(names, address) if address else 0
        return [
            _described(self._heard[one], now_ns) for one in names[first : first + count]
        ]

    def _forget_silent(self, now_ns: int) -> bool:
        silent = (
            name
            for name, one in self._heard.items()
            if one.until_ns < now_ns and one.record is None and name not in self._due
        )
        name = min(silent, key=lambda one: self._heard[one].until_ns, default=None)
        if name is None:
            return False
        del self._heard[name]
        return True

    def _look(self, heard: _Heard, now_ns: int) -> None:
        """
        Compares a host with its record.
        """
        heard.looked_ns = now_ns
        mine = heard.told.address
        carried = []
        for one in self._members(heard.told):
            other = self._carriers.get(_key(one), mine)
            if other != mine:
                if self._heard[other].until_ns >= now_ns:
                    # That one is heard: of two that claim a replica the first stays.
                    continue
                self._take_from(self._heard[other], one)
            carried.append(one)
        self._record(heard, _record_of(heard.told, carried))

    def _take_from(self, other: _Heard, replica: HostedReplica) -> None:
        """
        A replica is on another host now: a silent one, such as the same one at another
        address, does not carry it any more.
        """
        key = _key(replica)
        left = [one for one in other.told.replicas if _key(one) != key]
        other.told = replace(other.told, replicas=tuple(left))
        kept = () if other.record is None else other.record.replicas
        rest = [one for one in kept if _key(one) != key]
        self._record(other, _record_of(other.told, rest))

    def _record(self, heard: _Heard, record: HostRecord) -> None:
        if record == heard.record:
            return
        if heard.record is not None:
            self._drop(heard.record)
        heard.record = self._due[heard.told.address] = record
        if record is not None:
            self._carry(record)

    def _carry(self, record: HostDescription) -> None:
        self._carriers.update({_key(one): record.address for one in record.replicas})

    def _drop(self, record: HostDescription) -> None:
        for one in record.replicas:
            if self._carriers.get(_key(one)) == record.address:
                del self._carriers[_key(one)]

    def _members(self, told: HostDescription) -> Iterable[HostedReplica]:
        return (
            one
            for one in told.replicas
            if self._is_member((one.cluster, one.set_name), one.broker_id)
        )


def _key(one: HostedReplica) -> _ReplicaKey:
    return one.cluster, one.set_name, one.broker_id


def _lasting(one: HostDescription) -> tuple[object, ...]:
    return one.rack, one.segments_address, one.replicas


def _record_of(told: HostDescription, carried: Iterable[HostedReplica]) -> HostRecord:
    """
    Returns what of a description seldom changes; ``None``: it carries nothing, or its
    address is too long for a key.
    """
    replicas = tuple(replace(one, state="") for one in carried)
    try:
        host_key(told.address)
    except InvalidError:
        # It is known as long as this term lasts.
        return None
    if not replicas:
        return None
    return HostDescription(
        told.address,
        told.rack,
        segments_address=told.segments_address,
        replicas=replicas,
    )


def _described(heard: _Heard, now_ns: int) -> HostDescription:
    is_alive = now_ns <= heard.until_ns
    since_ns = heard.since_ns if is_alive else heard.until_ns
    return replace(
        heard.told, is_alive=is_alive, since_ms=max(0, now_ns - since_ns) // _MS
    )
