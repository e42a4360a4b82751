"""
A cluster as an Auditor is told it: sets and replicas that the test changes, an executor
that asks at once, and Auditors over a real record store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

from lib.autorecovery.marks import Clock
from pystore.autorecovery.auditor import Auditor, AuditorTurn
from pystore.autorecovery.loss_audit import LossReplacements
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.replica_key import ReplicaKey
from pystore.autorecovery.replica_peers import ClusterView, ReplicaAddress
from pystore.autorecovery.segment_key import SegmentKey
from pystore.autorecovery.settings import RecoverySettings
from pystore.controller.model.log_end import LogBegin, LogEnd
from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
)
from pystore.errors import PystoreError, UnavailableError
from pystore.records.record_store import RecordStore
from pystore.segments.order import BadSource, ReplicaStat, SegmentOrder

__all__ = [
    "SIZE",
    "AtOnce",
    "ToldCluster",
    "WatchedAuditor",
    "a_broker",
    "a_replica",
    "a_set",
    "key_of",
]

SIZE = 1 << 30
"""Of a segment."""


def a_broker(
    broker_id: int,
    *,
    begin: int = 0,
    end: int = 100 * SIZE,
    process: int = 1,
    is_filling: bool = False,
    is_java: bool = False,
) -> BrokerDescription:
    """
    A broker that is alive, on a host of its own.
    """
    return BrokerDescription(
        broker_id,
        f"10.0.0.{broker_id}:10911",
        is_alive=True,
        since_ms=60_000,
        incarnation=None if is_java else f"{process}-{broker_id:032x}",
        begin=LogBegin(-1 if is_java else begin, is_filling),
        end=LogEnd(3, end),
        is_in_sync=not is_filling,
    )


def a_set(name: str = "set", *brokers: BrokerDescription) -> SetDescription:
    """
    A set of three, of which the first is the master.
    """
    some = brokers or tuple(a_broker(number) for number in (1, 2, 3))
    return SetDescription(
        "cluster",
        name,
        version=7,
        master_id=some[0].broker_id,
        epoch=3,
        set_epoch=5,
        wanted_copies=len(some),
        brokers=some,
    )


def a_replica(broker_id: int, name: str = "set") -> ReplicaKey:
    """
    The key of a replica of such a set.
    """
    return ReplicaKey("cluster", name, broker_id)


def key_of(number: int, name: str = "set") -> SegmentKey:
    """
    The segment with a number.
    """
    return SegmentKey("cluster", name, number * SIZE)


class AtOnce(Executor):
    """
    Runs what is submitted before it returns, so that a test is repeatable.
    """

    def submit(
        self, fn: Callable[..., Any], /, *args: object, **kwargs: object
    ) -> Future[Any]:
        """
        See `Executor.submit`.
        """
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except PystoreError as error:
            # As an executor's thread does.
            future.set_exception(error)
        return future


class ToldCluster:
    """
    What the leading controller and the replicas say. It is `Controllers` and
    `ReplicaPeers`; jobs are not part of an audit.

    Args:
        clock: of the day.
        sets: at the beginning.

    Attributes:
        problem: why the controller does not answer; empty: it does.
        led_ms: how long the controller has led.
        may_replace: what it tells as not alive is dead.
        silent: replicas that do not answer.
        refusals: what replicas refuse with.
        asked: each question to a replica, in order.
        damaged: sets whose records are unreadable.
    """

    def __init__(self, clock: Clock, *sets: SetDescription) -> None:
        self._clock = clock
        self.sets = {(one.cluster, one.name): one for one in sets}
        self.problem = ""
        self.led_ms = 3_600_000
        self.may_replace = True
        self.silent: set[ReplicaKey] = set()
        self.refusals: dict[ReplicaKey, PystoreError] = {}
        self.asked: list[ReplicaKey] = []
        self.damaged: tuple[tuple[str, str], ...] = ()
        self._died_ms: dict[ReplicaKey, int] = {}
        self._told: dict[ReplicaKey, Mapping[str, Any]] = {}

    def change(self, key: ReplicaKey, **changes: object) -> BrokerDescription:
        """
        Changes a broker; returns it.
        """
        one = self.sets[key.cluster, key.set_name]
        changed: dict[str, Any] = dict(changes)
        brokers = tuple(
            replace(each, **changed) if each.broker_id == key.broker_id else each
            for each in one.brokers
        )
        self.sets[key.cluster, key.set_name] = replace(one, brokers=brokers)
        return next(each for each in brokers if each.broker_id == key.broker_id)

    def die(self, broker_id: int, name: str = "set") -> None:
        """
        A broker dies now.
        """
        key = a_replica(broker_id, name)
        self._died_ms[key] = self._clock.now_ms
        self.change(key, is_alive=False, is_in_sync=False)

    def come_back(
        self, broker_id: int, name: str = "set", *, process: int | None = None
    ) -> None:
        """
        A broker is alive again, as another process if one is given.
        """
        key = a_replica(broker_id, name)
        self._died_ms.pop(key, None)
        changes: dict[str, object] = {"is_alive": True, "since_ms": 0}
        if process is not None:
            changes["incarnation"] = f"{process}-{broker_id:032x}"
        self.change(key, **changes)

    def remove(self, name: str) -> None:
        """
        A set is removed.
        """
        del self.sets["cluster", name]
        self._died_ms = {k: v for k, v in self._died_ms.items() if k.set_name != name}

    def tell(self, broker_id: int, name: str = "set", **answer: object) -> None:
        """
        Changes the answer of a replica: fields of `ReplicaStat`.
        """
        key = a_replica(broker_id, name)
        self._told[key] = {**self._told.get(key, {}), **answer}

    def blame(self, broker_id: int, source: int, offset: int) -> None:
        """
        A slave got bytes from a master that do not prove themselves.
        """
        self.tell(broker_id, bad_sources=(BadSource(source, offset),))

    def new_controller(self) -> None:
        """
        Another controller leads: it has heard of no dead broker.
        """
        self._died_ms = dict.fromkeys(self._died_ms, self._clock.now_ms)
        self.led_ms, self.may_replace = 0, False

    # -- Controllers ---------------------------------------------------------------

    def all_sets(self) -> ClusterView:
        """
        See `Controllers.all_sets`.
        """
        if self.problem:
            raise UnavailableError(self.problem)
        now_ms = self._clock.now_ms
        for key, died_ms in self._died_ms.items():
            self.change(key, since_ms=now_ms - died_ms)
        shown = {k: one for k, one in self.sets.items() if k not in self.damaged}
        return ClusterView(shown, self.damaged, self.led_ms, self.may_replace, now_ms)

    def one_set(self, cluster: str, name: str) -> SetDescription | None:
        """
        See `Controllers.one_set`.
        """
        return self.all_sets().sets.get((cluster, name))

    # -- ReplicaPeers --------------------------------------------------------------

    def stat(self, replica: ReplicaAddress) -> ReplicaStat:
        """
        See `ReplicaPeers.stat`.
        """
        key = ReplicaKey(replica.cluster, replica.set_name, replica.broker_id)
        self.asked.append(key)
        if key in self.silent:
            raise UnavailableError(f"{replica.text} does not answer in 5 s")
        if key in self.refusals:
            raise self.refusals[key]
        broker = self.change(key)
        stat = ReplicaStat(
            broker.incarnation or "",
            broker.begin.offset,
            broker.end.end,
            broker.end.end,
            SIZE,
            f"10.0.0.{key.broker_id}:10920",
        )
        told: dict[str, Any] = dict(self._told.get(key, {}))
        return replace(stat, **told)

    def order(self, replica: ReplicaAddress, order: SegmentOrder) -> Any:
        """
        See `ReplicaPeers.order`.
        """
        raise NotImplementedError(f"{replica.text}: {order}")

    def progress(self, replica: ReplicaAddress, claim: str) -> Any:
        """
        See `ReplicaPeers.progress`.
        """
        raise NotImplementedError(f"{replica.text}: {claim}")

    def stop(self, replica: ReplicaAddress, claim: str) -> None:
        """
        See `ReplicaPeers.stop`.
        """
        raise NotImplementedError(f"{replica.text}: {claim}")


class WatchedAuditor:
    """
    An Auditor, or a candidate, whose time the test moves.

    Args:
        store: its session.
        cluster: what it is told.
        clock: of the day; the steady one moves with it in `after`.
        name: of the process.
        replacements: of the Auditor.
        begin: the settings of the cluster.

    Attributes:
        store: as given.
        queue: over the same session.
        steady: the clock that never steps.
        last: the last turn.
    """

    def __init__(
        self,
        store: RecordStore,
        cluster: ToldCluster,
        clock: Clock,
        *,
        name: str = "one",
        replacements: LossReplacements | None = None,
        begin: RecoverySettings | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.queue = UnderReplicationQueue(store, clock)
        self.steady = Clock(5_000_000)
        self.last = AuditorTurn(0, "", leads=False)
        self.auditor = Auditor(
            store,
            cluster,
            cluster,
            AtOnce(),
            name=name,
            wall_ms=clock,
            steady_ms=self.steady,
            replacements=replacements,
            begin=begin,
        )

    def step(self) -> AuditorTurn:
        """
        One turn, now.
        """
        self.last = self.auditor.step()
        return self.last

    def after(self, seconds: float, *, every: float = 0) -> AuditorTurn:
        """
        A turn after some time; with ``every``, turns until then.
        """
        left = seconds
        while every and left > every:
            self._move(every)
            self.step()
            left -= every
        self._move(left)
        return self.step()

    def turns(self, count: int) -> AuditorTurn:
        """
        So many turns, one a second.
        """
        return self.after(count, every=1)

    def due(self) -> list[int]:
        """
        The broker ids of the replicas that are to be made anew.
        """
        return [one.replica.broker_id for one in self.auditor.losses_due]

    def _move(self, seconds: float) -> None:
        self.clock.now_ms += int(1000 * seconds)
        self.steady.now_ms += int(1000 * seconds)
