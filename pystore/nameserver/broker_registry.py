"""
Who is in which set of brokers, as long as it is heard of. Pure: time is an argument.

A set stands while it has a broker. Of its masters the newest is remembered for as long,
so that an older one that comes back late is not taken for it.

Source: client protocol 1.3, formats 3.8; R45, R46; docs/name-server.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pystore.remoting.registration_body import DataVersion
from pystore.remoting.route_bodies import BrokerData

__all__ = ["MASTER_ID", "SILENCE_MAX_MS", "Broker", "BrokerRegistry", "BrokerSet"]

MASTER_ID = 0
"""What a master registers as, whatever its id is with a controller."""

SILENCE_MAX_MS = 120_000
"""How long a registration counts that does not say so."""


@dataclass(slots=True)
class Broker:
    """
    One broker, as it registered last.

    Attributes:
        address: where clients reach it.
        ha_address: where slaves reach it.
        version: of its list of topics.
        filter_servers: their addresses.
        owner: the connection that it registered on.
        heard_at_ms: when it was heard of.
        timeout_ms: how long that counts.
    """

    address: str
    ha_address: str | None
    version: DataVersion
    filter_servers: tuple[str, ...]
    owner: object
    heard_at_ms: int
    timeout_ms: int = SILENCE_MAX_MS


@dataclass(slots=True)
class BrokerSet:
    """
    Brokers of one name.

    Attributes:
        cluster: of the set.
        name: of the set.
        enable_acting_master: whether a slave may stand in for readers.
        brokers: by the id that they registered as.
        newest_master: of those that registered as master; it may have gone.
        topics: the names of those that the set has.
    """

    cluster: str
    name: str
    enable_acting_master: bool = False
    brokers: dict[int, Broker] = field(default_factory=dict)
    newest_master: Broker | None = None
    topics: set[str] = field(default_factory=set)

    def at(self, address: str) -> Broker | None:
        """
        Returns the broker of that address.
        """
        return next((b for b in self.brokers.values() if b.address == address), None)

    def newer(self, broker_id: int, claim: Broker) -> Broker | None:
        """
        Returns who has this id, or had the mastership, since a later epoch.
        """
        holder = self.brokers.get(broker_id)
        if holder is None and broker_id == MASTER_ID and claim.version.state_version:
            # 0 is a broker without a controller, which knows no epochs.
            holder = self.newest_master
        if holder is None or holder.address == claim.address:
            return None
        is_newer = holder.version.state_version > claim.version.state_version
        return holder if is_newer else None

    def put(self, broker_id: int, claim: Broker) -> None:
        """
        Enters a broker; its address stays under no other id.
        """
        self.take_out(lambda one: one.address == claim.address)
        self.brokers[broker_id] = claim
        if broker_id == MASTER_ID:
            self.newest_master = claim

    def take_out(self, is_gone: Callable[[Broker], bool]) -> list[Broker]:
        """
        Takes brokers out, and returns them.
        """
        gone = {i: one for i, one in self.brokers.items() if is_gone(one)}
        for broker_id in gone:
            del self.brokers[broker_id]
        return list(gone.values())

    def data(self) -> BrokerData:
        """
        Returns the set as a route tells it.
        """
        return BrokerData(
            self.cluster,
            self.name,
            {i: one.address for i, one in sorted(self.brokers.items())},
            self.enable_acting_master,
        )


class BrokerRegistry:
    """
    All sets, by name. One thread.
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
        Enters a broker into its set, which is entered with its first one.
        """
        self._sets[group.name] = group
        self._owned.setdefault(claim.owner, set()).add(group.name)
        group.put(broker_id, claim)

    def discard(self, group: BrokerSet) -> None:
        """
        Forgets a set.
        """
        self._sets.pop(group.name, None)

    def owned_by(self, owner: object) -> list[BrokerSet]:
        """
        Returns the sets of which brokers registered on a connection, and forgets that
        they did.
        """
        names = self._owned.pop(owner, ())
        return [self._sets[name] for name in sorted(names) if name in self._sets]
