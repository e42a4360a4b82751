"""
The live brokers of each set. Pure: time is an argument.

A set exists while it has a broker. It remembers its newest master, so that an older
master that returns late does not replace it.

Source: client protocol 1.3, formats 3.8; RMQ-R45, RMQ-R46; docs/name-server.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pystore.remoting.registration_body import DataVersion
from pystore.remoting.route_bodies import BrokerData

__all__ = ["MASTER_ID", "SILENCE_MAX_MS", "Broker", "BrokerRegistry", "BrokerSet"]

MASTER_ID = 0
"""The id that a master registers with, whatever its id with a controller is."""

SILENCE_MAX_MS = 120_000
"""The validity of a registration that names none."""


@dataclass(slots=True)
class Broker:
    """
    One broker with its last registration.

    Attributes:
        address: for clients.
        ha_address: for slaves.
        version: of its topics.
        filter_servers: their addresses.
        owner: the connection that it registered on.
        last_message_ms: the time of its last message.
        timeout_ms: how long it counts as alive after that.
    """

    address: str
    ha_address: str | None
    version: DataVersion
    filter_servers: tuple[str, ...]
    owner: object
    last_message_ms: int
    timeout_ms: int = SILENCE_MAX_MS


@dataclass(slots=True)
class BrokerSet:
    """
    The brokers of one set.

    Attributes:
        cluster: of the set.
        name: of the set.
        enable_acting_master: whether a slave may serve readers in place of the master.
        brokers: by the id that they registered with.
        newest_master: the master with the latest epoch; it may be gone.
        topics: the names of the set's topics.
    """

    cluster: str
    name: str
    enable_acting_master: bool = False
    brokers: dict[int, Broker] = field(default_factory=dict)
    newest_master: Broker | None = None
    topics: set[str] = field(default_factory=set)

    def at(self, address: str) -> Broker | None:
        """
        Returns the broker with that address.
        """
        return next((b for b in self.brokers.values() if b.address == address), None)

    def newer(self, broker_id: int, claim: Broker) -> Broker | None:
        """
        Returns the broker that has this id, or had the mastership, with a later epoch.
        """
        holder = self.brokers.get(broker_id)
        if holder is None and broker_id == MASTER_ID and claim.version.state_version:
            # Epoch 0: a broker without a controller, which has no epochs.
            holder = self.newest_master
        if holder is None or holder.address == claim.address:
            return None
        is_newer = holder.version.state_version > claim.version.state_version
        return holder if is_newer else None

    def put(self, broker_id: int, claim: Broker) -> None:
        """
        Adds a broker; its address is removed from other ids.
        """
        self.take_out(lambda one: one.address == claim.address)
        self.brokers[broker_id] = claim
        if broker_id == MASTER_ID:
            self.newest_master = claim

    def take_out(self, is_gone: Callable[[Broker], bool]) -> list[Broker]:
        """
        Removes brokers, and returns them.
        """
        gone = {i: one for i, one in self.brokers.items() if is_gone(one)}
        for broker_id in gone:
            del self.brokers[broker_id]
        return list(gone.values())

    def data(self) -> BrokerData:
        """
        Returns the set for a route.
        """
        return BrokerData(
            self.cluster,
            self.name,
            {i: one.address for i, one in sorted(self.brokers.items())},
            self.enable_acting_master,
        )


class BrokerRegistry:
    """
    All broker sets, by name. One thread.
    """

    def __init__(self) -> None:
        self._sets: dict[str, BrokerSet] = {}
        self._owned: dict[object, set[str]] = {}

    def __iter__(self) -> Iterator[BrokerSet]:
        return iter(list(self._sets.values()))

    def get(self, name: str) -> BrokerSet | None:
        """
        Returns a set by its name.
        """
        return self._sets.get(name)

    def find(self, name: str, address: str) -> Broker | None:
        """
        Returns a broker by its set's name and its address.
        """
        group = self._sets.get(name)
        return None if group is None else group.at(address)

    def enter(self, group: BrokerSet, broker_id: int, claim: Broker) -> None:
        """
        Adds a broker to its set, and the set with its first broker.
        """
        self._sets[group.name] = group
        self._owned.setdefault(claim.owner, set()).add(group.name)
        group.put(broker_id, claim)

    def discard(self, group: BrokerSet) -> None:
        """
        Removes a set.
        """
        self._sets.pop(group.name, None)

    def owned_by(self, owner: object) -> list[BrokerSet]:
        """
        Returns the sets with brokers that registered on a connection, and drops that
        link.
        """
        names = self._owned.pop(owner, ())
        return [self._sets[name] for name in sorted(names) if name in self._sets]
