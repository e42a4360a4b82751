"""
The routes: the broker sets of each topic, and their addresses. Pure.

All data comes from registrations and is kept in memory; after a restart the brokers
register again. Time is an argument, in milliseconds of a monotonic clock.

Source: client protocol 1.1, 1.3, 1.4; RMQ-R46; docs/name-server.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pystore.nameserver.broker_registry import (
    MASTER_ID,
    SILENCE_MAX_MS,
    Broker,
    BrokerRegistry,
    BrokerSet,
)
from pystore.remoting.name_server_headers import RegisterBrokerRequest
from pystore.remoting.registration_body import (
    DataVersion,
    RegistrationBody,
    TopicQueues,
)
from pystore.remoting.route_bodies import BrokerData, TopicRoute

__all__ = ["Registered", "RegistrationIgnored", "RegistrationRefused", "RouteTable"]

_WRITE = 2


@dataclass(frozen=True, slots=True)
class Registered:
    """
    The broker was added.

    Attributes:
        master_address: of its set, for a slave; ``None``: there is no master.
        master_ha_address: of the master, for the slave.
    """

    master_address: str | None = None
    master_ha_address: str | None = None


@dataclass(frozen=True, slots=True)
class RegistrationIgnored:
    """
    The broker has an old epoch and was not added; the answer is empty (RMQ-R46).

    Attributes:
        reason: one line.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class RegistrationRefused:
    """
    The registration is invalid and changed nothing.

    Attributes:
        reason: one line.
    """

    reason: str


class RouteTable:
    """
    The routes. One thread.
    """

    def __init__(self) -> None:
        self._sets = BrokerRegistry()
        self._topics: dict[str, dict[str, TopicQueues]] = {}

    # -- requests of brokers ----------------------------------------------------

    def register(
        self,
        request: RegisterBrokerRequest,
        body: RegistrationBody,
        owner: object,
        now_ms: int,
    ) -> Registered | RegistrationIgnored | RegistrationRefused:
        """
        Adds or updates a broker with its topics.

        Args:
            request: names the broker.
            body: its topics.
            owner: the connection; its end removes the broker (`close`).
            now_ms: the present time.
        """
        group = self._sets.get(request.broker_name)
        refusal = _refusal(request, body, group)
        if refusal:
            return RegistrationRefused(refusal)
        group = group or BrokerSet(request.cluster_name, request.broker_name)
        claim = _claim(request, body, owner, now_ms)
        newer = group.newer(request.broker_id, claim)
        if newer is not None:
            self._take_out(group, lambda one: one.address == claim.address)
            return RegistrationIgnored(
                f"stale epoch {claim.version.state_version} of {claim.address} as id "
                f"{request.broker_id} of set {group.name}: {newer.address} has epoch "
                f"{newer.version.state_version}"
            )
        known = group.at(claim.address)
        is_new = (
            known is None
            or group.brokers.get(request.broker_id) is not known
            or known.version != claim.version
        )
        group.enable_acting_master = bool(request.enable_acting_master)
        self._sets.enter(group, request.broker_id, claim)
        self._take_topics(group, request, body, is_new=is_new)
        return _registered(group, request.broker_id)

    def _take_topics(
        self,
        group: BrokerSet,
        request: RegisterBrokerRequest,
        body: RegistrationBody,
        *,
        is_new: bool,
    ) -> None:
        """
        Adds the topics of a master, or of the slave that acts for it.
        """
        is_master = request.broker_id == MASTER_ID
        # Brokers before RocketMQ 5 do not send the flag.
        may_stand_in = request.enable_acting_master is not None
        if not is_master and not (
            may_stand_in and request.broker_id == min(group.brokers)
        ):
            return
        is_read_only = not is_master and group.enable_acting_master
        for topic, told in body.topics.items():
            if is_new or topic not in group.topics:
                queues = _read_only(told) if is_read_only else told
                self._topics.setdefault(topic, {})[group.name] = queues
                group.topics.add(topic)

    def unregister(self, broker_name: str, address: str) -> None:
        """
        Removes a broker with any id, if it exists.
        """
        group = self._sets.get(broker_name)
        if group is not None:
            self._take_out(group, lambda one: one.address == address)

    def touch(self, broker_name: str, address: str, now_ms: int) -> None:
        """
        Records that a broker is alive, if it exists.
        """
        broker = self._sets.find(broker_name, address)
        if broker is not None:
            broker.last_message_ms = now_ms

    def data_version(self, broker_name: str, address: str) -> DataVersion | None:
        """
        Returns the version of a broker's topics; ``None``: it does not exist.
        """
        broker = self._sets.find(broker_name, address)
        return None if broker is None else broker.version

    # -- the end of a broker -------------------------------------------------

    def close(self, owner: object) -> list[str]:
        """
        Removes the brokers of a closed connection, and returns their addresses.
        """
        return [
            address
            for group in self._sets.owned_by(owner)
            for address in self._take_out(group, lambda one: one.owner is owner)
        ]

    def expire(self, now_ms: int) -> list[str]:
        """
        Removes all brokers that were silent for too long, and returns their addresses.
        """
        return [
            address
            for group in self._sets
            for address in self._take_out(
                group, lambda one: now_ms - one.last_message_ms > one.timeout_ms
            )
        ]

    def _take_out(
        self, group: BrokerSet, is_gone: Callable[[Broker], bool]
    ) -> list[str]:
        gone = group.take_out(is_gone)
        if not group.brokers:
            self._sets.discard(group)
            for topic in group.topics:
                self._drop_queues(topic, group.name)
        elif gone and group.enable_acting_master and MASTER_ID not in group.brokers:
            self._change_queues(group, _read_only)
        return [one.address for one in gone]

    def _drop_queues(self, topic: str, name: str) -> None:
        queues = self._topics[topic]
        del queues[name]
        if not queues:
            del self._topics[topic]

    # -- requests of administrators ---------------------------------------------

    def wipe_write_perm(self, broker_name: str) -> int:
        """
        Forbids writing to a set until its topics change.

        Returns:
            The number of its topics.
        """
        return self._change(broker_name, _read_only)

    def add_write_perm(self, broker_name: str) -> int:
        """
        Allows writing to a set.

        Returns:
            The number of its topics.
        """
        return self._change(broker_name, _writable)

    def _change(
        self, broker_name: str, changed: Callable[[TopicQueues], TopicQueues]
    ) -> int:
        group = self._sets.get(broker_name)
        if group is None:
            return 0
        self._change_queues(group, changed)
        return len(group.topics)

    def _change_queues(
        self, group: BrokerSet, changed: Callable[[TopicQueues], TopicQueues]
    ) -> None:
        for topic in group.topics:
            queues = self._topics[topic]
            queues[group.name] = changed(queues[group.name])

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """
        Removes a topic of one cluster or of all; a broker that still has it registers
        it again.
        """
        for name in list(self._topics.get(topic, ())):
            group = self._sets.get(name)
            assert group is not None
            if cluster is None or group.cluster == cluster:
                self._drop_queues(topic, name)
                group.topics.discard(topic)

    # -- requests of clients ----------------------------------------------------

    def route(self, topic: str) -> TopicRoute | None:
        """
        Returns the route of a topic; ``None``: no live broker has it.
        """
        queues = self._topics.get(topic)
        if queues is None:
            return None
        groups = [group for name in queues if (group := self._sets.get(name))]
        return TopicRoute(
            tuple(group.data() for group in groups),
            dict(queues),
            {
                one.address: one.filter_servers
                for group in groups
                for one in group.brokers.values()
                if one.filter_servers
            },
        )

    def topics(self) -> list[str]:
        """
        Returns the names of all topics.
        """
        return list(self._topics)

    def brokers(self) -> list[BrokerData]:
        """
        Returns all sets.
        """
        return [group.data() for group in self._sets]

    def addresses(self, cluster: str, broker_name: str) -> dict[int, str]:
        """
        Returns the addresses of a set by broker id; empty: the set does not exist.
        """
        group = self._sets.get(broker_name)
        if group is None or group.cluster != cluster:
            return {}
        return dict(group.data().addresses)


def _refusal(
    request: RegisterBrokerRequest, body: RegistrationBody, group: BrokerSet | None
) -> str | None:
    """
    Returns why a registration is invalid; ``None``: it is valid.
    """
    shown = f"{request.broker_name!r} at {request.broker_addr!r}"
    if not (request.broker_name and request.broker_addr and request.cluster_name):
        return f"broker {shown} registers without a name, an address or a cluster"
    if request.broker_id < 0:
        return f"broker {shown} registers with the negative id {request.broker_id}"
    if group is not None and group.cluster != request.cluster_name:
        return (
            f"broker {shown} registers in cluster {request.cluster_name}: cluster "
            f"{group.cluster} has a set of that name"
        )
    is_known = group is not None and request.broker_id in group.brokers
    if len(body.topics) == 1 and not is_known:
        # It would be a change to topics that the broker never registered.
        return f"broker {shown} registers one topic before all of them"
    return None


def _claim(
    request: RegisterBrokerRequest, body: RegistrationBody, owner: object, now_ms: int
) -> Broker:
    timeout_ms = request.heartbeat_timeout_millis
    return Broker(
        request.broker_addr,
        request.ha_server_addr,
        body.version,
        body.filter_servers,
        owner,
        now_ms,
        SILENCE_MAX_MS if timeout_ms is None else timeout_ms,
    )


def _registered(group: BrokerSet, broker_id: int) -> Registered:
    master = group.brokers.get(MASTER_ID)
    if broker_id == MASTER_ID or master is None:
        return Registered()
    return Registered(master.address, master.ha_address)


def _read_only(queues: TopicQueues) -> TopicQueues:
    return replace(queues, perm=queues.perm & ~_WRITE)


def _writable(queues: TopicQueues) -> TopicQueues:
    return replace(queues, perm=queues.perm | _WRITE)
