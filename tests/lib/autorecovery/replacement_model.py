"""
A cluster in memory: hosts, and the controllers' word about the sets on them. It refuses
what would break a promise, whoever asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pystore.autorecovery.host_peers import (
    CarriedReplica,
    NewReplica,
    RecoveryHost,
)
from pystore.autorecovery.replacement_record import ReplacementKey
from pystore.autorecovery.replica_peers import ClusterView
from pystore.autorecovery.settings import RecoverySettings
from pystore.controller.model.log_end import LogBegin, LogEnd
from pystore.controller.model.replica import LogStanding
from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
)
from pystore.errors import InvalidError

__all__ = [
    "SETTINGS",
    "SIZE",
    "BrokenPromise",
    "ModelCluster",
    "key_of",
]

SIZE = 1_000
SEGMENT = 100
FREE = 100_000
SETTINGS = RecoverySettings(delay_s=60, backoff_s=2, backoff_max_s=8)


class BrokenPromise(AssertionError):
    """
    Somebody asked for what must not be.
    """


@dataclass
class ModelBroker:
    """
    A broker of a set, as the controller knows it.
    """

    broker_id: int
    host: str
    is_alive: bool = True
    since_ms: int = 0
    begin: int = 0
    is_filling: bool = False
    is_in_sync: bool = True
    is_learner: bool = False
    standing: LogStanding = LogStanding.SOUND


@dataclass
class ModelSet:
    """
    A set.
    """

    cluster: str
    name: str
    copies: int
    brokers: dict[int, ModelBroker] = field(default_factory=dict)
    master_id: int | None = None
    next_id: int = 1
    version: int = 1
    size: int = SIZE
    wanted: int = 0

    @property
    def master(self) -> ModelBroker | None:
        """
        The master, if it is alive.
        """
        one = self.brokers.get(self.master_id or 0)
        return one if one is not None and one.is_alive else None

    def good(self) -> list[int]:
        """
        The ids of the good copies.
        """
        return [
            one.broker_id
            for one in self.brokers.values()
            if one.is_alive and one.is_in_sync and not one.is_filling
        ]


@dataclass
class ModelHost:
    """
    A host; its replicas by set.
    """

    name: str
    rack: str = ""
    is_alive: bool = True
    used_percent: int = 10
    free: int = FREE
    refuses: str = ""
    replicas: dict[tuple[str, str], int | None] = field(default_factory=dict)
    stores: set[tuple[tuple[str, str], int]] = field(default_factory=set)


class ModelCluster:
    """
    It is `Controllers`, `HostPeers` and `SetOperators`.

    Attributes:
        called: called at the begin and at the end of each request; it may raise.
        fill: bytes that a filling replica gets in a second.
        asked: the requests so far.
    """

    def __init__(self, hosts: Mapping[str, str], now_ms: int = 1_000_000) -> None:
        self.hosts = {name: ModelHost(name, rack) for name, rack in hosts.items()}
        self.sets: dict[tuple[str, str], ModelSet] = {}
        self.now_ms = now_ms
        self.fill = 400
        self.may_replace = True
        self.called: Callable[[], None] = lambda: None
        self.asked: list[str] = []

    # -- the test ---------------------------------------------------------------

    def add_set(self, name: str, *hosts: str, learners: Sequence[str] = ()) -> ModelSet:
        """
        A set with replicas on these hosts; the first one is the master.
        """
        one = ModelSet("cluster", name, len(hosts))
        for host in (*hosts, *learners):
            number = one.next_id
            one.next_id += 1
            is_learner = host in learners
            one.brokers[number] = ModelBroker(
                number, host, is_learner=is_learner, is_in_sync=not is_learner
            )
            self.hosts[host].replicas["cluster", name] = number
            self.hosts[host].stores.add((("cluster", name), number))
        one.master_id = 1
        self.sets["cluster", name] = one
        return one

    def kill(self, host: str) -> None:
        """
        A host dies.
        """
        self.hosts[host].is_alive = False
        for one in self._on(host):
            self._die(*one)

    def start(self, host: str) -> None:
        """
        A host comes back with what it had.
        """
        self.hosts[host].is_alive = True

    def wipe(
        self, host: str, name: str, standing: LogStanding = LogStanding.WIPED
    ) -> None:
        """
        A replica starts with an empty disk, or with another store.
        """
        self._of(name, host).standing = standing
        self._of(name, host).is_in_sync = False
        self.sets["cluster", name].version += 1

    def _of(self, name: str, host: str) -> ModelBroker:
        brokers = self.sets["cluster", name].brokers.values()
        return next(one for one in brokers if one.host == host)

    def tick(self, milliseconds: int = 1_000) -> None:
        """
        Time passes: new replicas register, fill and are admitted; sets elect.
        """
        self.now_ms += milliseconds
        for host in self.hosts.values():
            for names, number in host.replicas.items() if host.is_alive else ():
                self._run(host, names, number)
        for one in self.sets.values():
            self._lead(one)

    def _run(self, host: ModelHost, names: tuple[str, str], number: int | None) -> None:
        one = self.sets[names]
        if number is None:
            number = one.next_id
            one.next_id += 1
            host.replicas[names] = number
            host.stores.add((names, number))
            one.brokers[number] = ModelBroker(
                number,
                host.name,
                since_ms=self.now_ms,
                begin=one.size - SEGMENT,
                is_filling=True,
                is_in_sync=False,
            )
            one.version += 1
            return
        broker = one.brokers.get(number)
        if broker is None:
            return
        if not broker.is_alive:
            broker.is_alive, broker.since_ms = True, self.now_ms
            one.version += 1
        if broker.is_filling and one.master is not None:
            broker.begin = max(broker.begin - self.fill, 0)
            broker.is_filling = broker.begin > 0
            one.version += 1
        is_new = not broker.is_in_sync and not broker.is_learner
        if is_new and one.master and not broker.standing.needs_operator:
            broker.is_in_sync = True
            one.version += 1

    def _lead(self, one: ModelSet) -> None:
        if one.master is None:
            one.master_id = min(one.good(), default=None)
            one.version += 1
        if one.master is not None:
            for broker in one.brokers.values():
                if not broker.is_alive and broker.is_in_sync:
                    broker.is_in_sync = False
                    one.version += 1

    def _on(self, host: str) -> list[tuple[ModelSet, ModelBroker]]:
        return [
            (one, broker)
            for one in self.sets.values()
            for broker in one.brokers.values()
            if broker.host == host
        ]

    def _die(self, one: ModelSet, broker: ModelBroker) -> None:
        if broker.is_alive:
            broker.is_alive, broker.since_ms = False, self.now_ms
            one.version += 1

    def check(self) -> None:
        """
        I3: the members of a set are on as many hosts.
        """
        for one in self.sets.values():
            hosts = [broker.host for broker in one.brokers.values()]
            if len(set(hosts)) != len(hosts):
                raise BrokenPromise(f"{one.name}: {hosts}")

    @property
    def is_whole(self) -> bool:
        """
        Whether all members of all sets are good copies.
        """
        return all(len(one.good()) == len(one.brokers) for one in self.sets.values())

    # -- Controllers ------------------------------------------------------------

    def all_sets(self) -> ClusterView:
        """
        All sets.
        """
        sets = {names: self._told(one) for names, one in self.sets.items()}
        return ClusterView(sets, (), 60_000, self.may_replace, self.now_ms)

    def one_set(self, cluster: str, name: str) -> SetDescription | None:
        """
        One set.
        """
        self.called()
        one = self.sets.get((cluster, name))
        return None if one is None else self._told(one)

    def _told(self, one: ModelSet) -> SetDescription:
        voters = [it for it in one.brokers.values() if not it.is_learner]
        brokers = tuple(
            BrokerDescription(
                it.broker_id,
                f"{it.host}.{one.name}:{it.broker_id}",
                it.is_alive,
                self.now_ms - it.since_ms,
                f"start-{it.broker_id}",
                LogBegin(it.begin, it.is_filling),
                LogEnd(1, one.size),
                it.standing,
                it.is_learner,
                it.is_in_sync,
            )
            for _, it in sorted(one.brokers.items())
        )
        return SetDescription(
            one.cluster,
            one.name,
            one.version,
            one.master_id,
            copies=one.wanted,
            wanted_copies=one.wanted or len(voters),
            brokers=brokers,
        )

    # -- Hosts --------------------------------------------------------------------

    def all_hosts(self) -> Mapping[str, RecoveryHost]:
        """
        All hosts.
        """
        return {
            name: RecoveryHost(
                name,
                one.rack,
                one.free,
                one.used_percent,
                tuple(
                    CarriedReplica(*names, number)
                    for names, number in one.replicas.items()
                ),
                one.is_alive,
            )
            for name, one in self.hosts.items()
        }

    def add(self, host: str, replica: NewReplica) -> None:
        """
        902.
        """
        with self._asking(f"add {host} {replica.set_name}"):
            it = self._answering(host)
            names = (replica.cluster, replica.set_name)
            if not replica.is_from_last_file:
                raise BrokenPromise("it would copy all from the master")
            it.replicas.setdefault(names, None)

    def remove(
        self, host: str, cluster: str, set_name: str, *, deletes_store: bool
    ) -> None:
        """
        903. I5: a good copy goes only if there are enough without it.
        """
        with self._asking(f"remove {host} {set_name}"):
            it, names = self._answering(host), (cluster, set_name)
            number = it.replicas.pop(names, None)
            one = self.sets[names]
            broker = one.brokers.get(number or 0)
            if broker is None:
                if deletes_store:
                    it.stores.discard((names, number or 0))
                return
            good = one.good()
            if broker.broker_id in good and len(good) - 1 < one.copies:
                raise BrokenPromise(f"{set_name}: {good} without {number}")
            if one.master_id == number and broker.is_alive:
                raise BrokenPromise(f"{set_name}: the master is removed")
            if deletes_store:
                if broker.broker_id in good and broker.broker_id <= one.copies:
                    raise BrokenPromise(f"{set_name}: the store of {number} is gone")
                it.stores.discard((names, broker.broker_id))
            self._die(one, broker)

    def forget(self, host: str) -> None:
        """
        Its identity goes.
        """
        with self._asking(f"forget {host}"):
            self.hosts.pop(host, None)

    def _answering(self, host: str) -> ModelHost:
        one = self.hosts.get(host)
        if one is None or not one.is_alive:
            raise InvalidError(f"host {host} is not there")
        if one.refuses:
            raise InvalidError(one.refuses)
        return one

    # -- SetOperators -------------------------------------------------------------

    def clean(self, cluster: str, set_name: str, broker_id: int, version: int) -> bool:
        """
        1011.
        """
        with self._asking(f"clean {set_name} {broker_id}"):
            one = self.sets[cluster, set_name]
            if one.version != version:
                return False
            broker = one.brokers.get(broker_id)
            if broker is not None and broker.is_alive:
                raise BrokenPromise(f"{set_name}: {broker_id} is alive")
            if broker is not None:
                del one.brokers[broker_id]
                one.version += 1
            return True

    def set_learner(
        self, cluster: str, set_name: str, broker_id: int, version: int
    ) -> bool:
        """
        7102.
        """
        with self._asking(f"learner {set_name} {broker_id}"):
            one = self.sets[cluster, set_name]
            if one.version != version:
                return False
            one.brokers[broker_id].is_learner = True
            one.brokers[broker_id].is_in_sync = False
            one.version += 1
            return True

    def hand_over(self, master: str, broker_id: int) -> None:
        """
        7201.
        """
        with self._asking(f"master {broker_id}"):
            host, _, number = master.partition(":")
            host, _, name = host.partition(".")
            for one, broker in self._on(host):
                is_it = one.name == name and broker.broker_id == int(number)
                if is_it and broker.broker_id == one.master_id:
                    if broker_id not in one.good():
                        raise InvalidError(f"{broker_id} is not in sync")
                    one.master_id = broker_id
                    one.version += 1

    def _asking(self, text: str) -> _Asking:
        return _Asking(self, text)


class _Asking:
    """
    A request: it may be lost before or after it is carried out.
    """

    def __init__(self, cluster: ModelCluster, text: str) -> None:
        self._cluster, self._text = cluster, text

    def __enter__(self) -> None:
        self._cluster.called()
        self._cluster.asked.append(self._text)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self._cluster.called()
            self._cluster.check()


def key_of(name: str, broker_id: int) -> ReplacementKey:
    """
    A broker of a set of the model.
    """
    return ReplacementKey("cluster", name, broker_id)
