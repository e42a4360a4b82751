"""
The live brokers: the last heartbeat of each, and how long it is valid. Pure.

All times are the controller's own boot time at the arrival of a heartbeat: clocks of
two hosts cannot be compared (RMQ-R234). Each controller keeps this table, also without
leading, so that the next leader knows the live brokers (RMQ-R225).

The cost of a heartbeat does not depend on the number of brokers: it only moves the end
of its validity. The heap is ordered by earlier ends, and each of them is checked once
per time-out.

Source: RMQ-R238 to RMQ-R244, RMQ-R72; B1.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from pystore.controller.model.facts import LastHeartbeat
from pystore.controller.model.limits import (
    CONNECTION_BROKERS_MAX,
    STRANGERS_MAX,
    UNLED_BROKERS_MAX,
)
from pystore.controller.model.log_end import NOWHERE, UNTOLD, LogBegin, LogEnd
from pystore.controller.model.state import SetKey
from pystore.remoting.codes import LOWEST_PRIORITY
from pystore.replicaset import Incarnation

__all__ = ["TIMEOUT_MS", "HeardBroker", "Heartbeat", "Heartbeats"]

TIMEOUT_MS = 10_000
"""The validity of a heartbeat that names none (RMQ-R239)."""

_MS = 1_000_000
_FORGOTTEN_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """
    The heartbeat that a broker sends once a second.

    Attributes:
        broker_id: of the broker.
        connection: the number of the connection that it arrived on.
        incarnation: of the process; ``None``: a Java broker.
        boot_id: of its machine; empty: unknown.
        sent_ns: when it was sent, in boot time of that machine: compared only with
            heartbeats of the same process; ``None``: unknown.
        position: the end of its log.
        flushed: the end of the log on disk; -1: unknown.
        priority: its own election priority; the lower is preferred.
        disk_problem: what keeps it from serving as a master, one line; empty: nothing
            (B9, B13).
        timeout_ms: how long it is valid.
        address: ``HOST:PORT`` where the broker listens; empty: unknown.
        begin: where its log begins (B11).
        known_epoch: as in `LastHeartbeat`.
        known_set_epoch: as there.
        is_of_cluster: it told the UUID of the record store.
        disk_used_percent: how full the file system of its store is; -1: unknown.
        is_ill: its store cannot be opened, and takes repairs.
        promised_epoch: as in `LastHeartbeat`.
    """

    broker_id: int
    connection: int
    incarnation: Incarnation | None = None
    boot_id: str = ""
    sent_ns: int | None = None
    position: LogEnd = NOWHERE
    flushed: int = -1
    priority: int = LOWEST_PRIORITY
    disk_problem: str = ""
    timeout_ms: int = TIMEOUT_MS
    address: str = ""
    begin: LogBegin = UNTOLD
    known_epoch: int = -1
    known_set_epoch: int = -1
    is_of_cluster: bool = False
    disk_used_percent: int = -1
    is_ill: bool = False
    promised_epoch: int = -1


@dataclass(frozen=True, slots=True)
class HeardBroker:
    """
    A broker that was heard at some time.

    Attributes:
        heartbeat: the last one.
        since_ns: since when it is alive, or is not any more.
        is_alive: the last heartbeat is valid.
    """

    heartbeat: Heartbeat
    since_ns: int
    is_alive: bool


@dataclass(slots=True)
class _Kept:
    """
    The last heartbeat of one broker.

    Attributes:
        heartbeat: as received.
        until_ns: the end of its validity, inclusive (RMQ-R240).
        since_ns: when its process was heard first, or again after a death.
        is_closed: its connection has ended.
        ended_ns: since when its process has ended, by evidence; ``None``: it has not.
        queued_ns: its entry in the heap; ``None``: there is none.
    """

    heartbeat: Heartbeat
    until_ns: int
    since_ns: int
    is_closed: bool = False
    ended_ns: int | None = None
    queued_ns: int | None = None

    def is_alive(self, now_ns: int) -> bool:
        """
        Returns whether it is valid.
        """
        return self.ended_ns is None and now_ns <= self.until_ns

    def heard(self, now_ns: int) -> HeardBroker:
        """
        Returns the part that people and auditors are told.
        """
        if self.is_alive(now_ns):
            return HeardBroker(self.heartbeat, self.since_ns, is_alive=True)
        ended_ns = self.until_ns if self.ended_ns is None else self.ended_ns
        since_ns = min(ended_ns, self.until_ns)
        return HeardBroker(self.heartbeat, since_ns, is_alive=False)

    def fact(self) -> LastHeartbeat:
        """
        Returns the part that decisions use.
        """
        one = self.heartbeat
        return LastHeartbeat(
            one.incarnation,
            one.position,
            one.priority,
            bool(one.disk_problem),
            not self.is_closed,
            self.ended_ns is not None,
            one.begin,
            one.known_epoch,
            one.known_set_epoch,
            one.is_of_cluster,
            one.promised_epoch,
        )


class Heartbeats:
    """
    The heartbeats of all sets. One thread. All times are boot time of this host, and
    never decrease from call to call.

    Of brokers without a record only the last `STRANGERS_MAX` are kept, so names that
    nobody registered take no memory for good.

    Args:
        is_registered: whether a broker has a record; ``None``: this controller does not
            lead, and does not know.
    """

    __slots__ = (
        "_connections",
        "_count",
        "_ends",
        "_is_registered",
        "_newest",
        "_sets",
        "_strangers",
    )

    def __init__(
        self, is_registered: Callable[[SetKey, int], bool | None] = lambda *_: None
    ) -> None:
        self._is_registered = is_registered
        # Those that may have no record, the one that was heard last at the end.
        self._strangers: OrderedDict[tuple[SetKey, int], None] = OrderedDict()
        self._count = 0
        self._sets: dict[SetKey, dict[int, _Kept]] = {}
        self._connections: dict[int, set[tuple[SetKey, int]]] = {}
        # One entry for each live broker; its end may be later by now.
        self._ends: list[tuple[int, SetKey, int]] = []
        # For each broker the newest connection, and the process that used it.
        self._newest: dict[tuple[SetKey, int], tuple[int, Incarnation | None]] = {}

    def has_room(self, connection: int, key: SetKey, broker_id: int) -> bool:
        """
        Returns whether a connection may carry the heartbeats of a broker besides those
        that it carries.
        """
        some = self._connections.get(connection, ())
        return len(some) < CONNECTION_BROKERS_MAX or (key, broker_id) in some

    def may_register(
        self,
        key: SetKey,
        broker_id: int,
        incarnation: Incarnation | None,
        connection: int,
    ) -> bool:
        """
        Returns whether a process may register. All connections of a process are newer
        than those of the previous process. So a process on an older connection than
        another process uses is dead, and its registration was late. One process may
        have several connections, to several names of this controller.
        """
        newest, user = self._newest.get((key, broker_id), (connection, incarnation))
        return connection >= newest or incarnation == user

    def registered(
        self,
        key: SetKey,
        broker_id: int,
        incarnation: Incarnation | None,
        connection: int,
    ) -> None:
        """
        Takes note of a registration that was accepted.
        """
        newest, _ = self._newest.get((key, broker_id), (connection, incarnation))
        if connection >= newest:
            self._newest[key, broker_id] = connection, incarnation

    def repeat(self, key: SetKey, heartbeat: Heartbeat, now_ns: int) -> bool:
        """
        Takes the next heartbeat of a live process on the same connection, as nearly all
        are.

        Returns:
            whether it is one; else nothing is changed, and `receive` may take it.
        """
        brokers = self._sets.get(key)
        kept = None if brokers is None else brokers.get(heartbeat.broker_id)
        if kept is None or not (kept.is_alive(now_ns) and _repeats(heartbeat, kept)):
            return False
        kept.heartbeat, kept.until_ns = heartbeat, _until_ns(heartbeat, now_ns)
        if (key, heartbeat.broker_id) in self._strangers:
            self._strangers.move_to_end((key, heartbeat.broker_id))
        if kept.queued_ns is None or kept.until_ns < kept.queued_ns:
            self._queue(key, kept)
        return True

    def receive(self, key: SetKey, heartbeat: Heartbeat, now_ns: int) -> bool:
        """
        Takes a heartbeat, unless a newer one arrived before it.

        Returns:
            whether this process of the broker was not alive before.
        """
        if self.repeat(key, heartbeat, now_ns):
            return False
        until_ns = _until_ns(heartbeat, now_ns)
        brokers = self._sets.setdefault(key, {})
        kept = brokers.get(heartbeat.broker_id)
        if kept is None:
            is_new = True
            self._count += 1
            self._strangers[key, heartbeat.broker_id] = None
            kept = brokers[heartbeat.broker_id] = _Kept(heartbeat, until_ns, now_ns)
        else:
            old, was_alive = kept.heartbeat, kept.is_alive(now_ns)
            if not _replaces(heartbeat, kept, was_alive=was_alive):
                return False
            is_new = not was_alive or old.incarnation != heartbeat.incarnation
            if old.connection != heartbeat.connection:
                self._disconnect(key, old)
            kept.heartbeat, kept.until_ns = heartbeat, until_ns
            kept.is_closed, kept.ended_ns = False, None
            if is_new:
                kept.since_ns = now_ns
            if (key, heartbeat.broker_id) in self._strangers:
                self._strangers.move_to_end((key, heartbeat.broker_id))
        some = self._connections.setdefault(heartbeat.connection, set())
        some.add((key, heartbeat.broker_id))
        self.registered(
            key, heartbeat.broker_id, heartbeat.incarnation, heartbeat.connection
        )
        if kept.queued_ns is None or until_ns < kept.queued_ns:
            self._queue(key, kept)
        if is_new:
            self._forget_strangers()
        return is_new

    def _forget_strangers(self) -> None:
        # A few at once: a new leader may have thousands, which are mostly registered.
        for _ in range(_FORGOTTEN_AT_ONCE):
            if len(self._strangers) <= STRANGERS_MAX:
                break
            key, broker_id = next(iter(self._strangers))
            is_registered = self._is_registered(key, broker_id)
            if is_registered is None and len(self._strangers) <= UNLED_BROKERS_MAX:
                break
            del self._strangers[key, broker_id]
            if not is_registered:
                self.forget(key, broker_id)
        if len(self._ends) > 2 * (self._count + STRANGERS_MAX):
            # Most are of brokers that are forgotten.
            self._ends = [one for one in self._ends if self._is_queued(*one)]
            heapify(self._ends)

    def _is_queued(self, end_ns: int, key: SetKey, broker_id: int) -> bool:
        kept = self._sets.get(key, {}).get(broker_id)
        return kept is not None and kept.queued_ns == end_ns

    def _queue(self, key: SetKey, kept: _Kept) -> None:
        kept.queued_ns = kept.until_ns
        heappush(self._ends, (kept.until_ns, key, kept.heartbeat.broker_id))

    def _disconnect(self, key: SetKey, heartbeat: Heartbeat) -> None:
        some = self._connections.get(heartbeat.connection, set())
        some.discard((key, heartbeat.broker_id))
        if not some:
            self._connections.pop(heartbeat.connection, None)

    def close(self, connection: int) -> list[tuple[SetKey, int]]:
        """
        Takes note of the end of a connection. The brokers with their last heartbeat on
        it are suspected: a process that lives connects again (RMQ-R241).

        Returns:
            set and id of each suspected broker.
        """
        suspected = sorted(self._connections.pop(connection, set()))
        for key, broker_id in suspected:
            self._sets[key][broker_id].is_closed = True
        return suspected

    def suspected(self, key: SetKey, broker_id: int, now_ns: int) -> Heartbeat | None:
        """
        Returns the valid heartbeat of a broker whose connection has ended; ``None``: it
        is connected again, or not alive any more.
        """
        kept = self._sets.get(key, {}).get(broker_id)
        if kept is None or not kept.is_closed or not kept.is_alive(now_ns):
            return None
        return kept.heartbeat

    def heard(self, key: SetKey, broker_id: int, now_ns: int) -> Heartbeat | None:
        """
        Returns the valid heartbeat of a broker; ``None``: it is not alive.
        """
        kept = self._sets.get(key, {}).get(broker_id)
        return kept.heartbeat if kept is not None and kept.is_alive(now_ns) else None

    def end(
        self, key: SetKey, heartbeat: Heartbeat, now_ns: int, *, is_replaced: bool
    ) -> bool:
        """
        Takes note of evidence that the sender of a heartbeat has ended (C3).

        Args:
            key: of its set.
            heartbeat: of the process.
            now_ns: the time.
            is_replaced: another process answers at its address, so it has ended also
                if its connection seems open, as after a power cut.

        Returns:
            whether it is taken as dead: it has not connected again meanwhile.
        """
        kept = self._sets.get(key, {}).get(heartbeat.broker_id)
        if kept is None or kept.heartbeat.incarnation != heartbeat.incarnation:
            return False
        is_same = kept.heartbeat is heartbeat and kept.is_closed
        if not (is_same or is_replaced):
            return False
        if kept.ended_ns is None:
            kept.ended_ns = now_ns
        return True

    def replaced(
        self,
        key: SetKey,
        broker_id: int,
        incarnation: Incarnation | None,
        now_ns: int,
    ) -> None:
        """
        Takes note that another process of a broker is recorded: the one before has
        ended.
        """
        kept = self._sets.get(key, {}).get(broker_id)
        is_other = kept is not None and kept.heartbeat.incarnation != incarnation
        if kept is not None and is_other and kept.ended_ns is None:
            kept.ended_ns = now_ns

    def expire(self, now_ns: int) -> list[tuple[SetKey, int]]:
        """
        Returns set and id of each broker whose heartbeat expired since the last call.
        """
        died: list[tuple[SetKey, int]] = []
        while self._ends and self._ends[0][0] < now_ns:
            end_ns, key, broker_id = heappop(self._ends)
            kept = self._sets.get(key, {}).get(broker_id)
            if kept is None or kept.queued_ns != end_ns:
                continue
            kept.queued_ns = None
            if kept.ended_ns is not None:
                continue
            if kept.is_alive(now_ns):
                self._queue(key, kept)
            else:
                self._disconnect(key, kept.heartbeat)
                died.append((key, broker_id))
        return died

    @property
    def expires_ns(self) -> int | None:
        """
        After when `expire` has to be called again: no heartbeat expires before.
        """
        return self._ends[0][0] if self._ends else None

    def last_heartbeats(self, key: SetKey, now_ns: int) -> dict[int, LastHeartbeat]:
        """
        Returns the valid heartbeats of a set for `Facts.last_heartbeats` (RMQ-R71).
        """
        return {
            broker_id: kept.fact()
            for broker_id, kept in self._sets.get(key, {}).items()
            if kept.is_alive(now_ns)
        }

    def former_heartbeats(self, key: SetKey, now_ns: int) -> dict[int, LastHeartbeat]:
        """
        Returns the other heartbeats of a set for `Facts.former_heartbeats`.
        """
        return {
            broker_id: kept.fact()
            for broker_id, kept in self._sets.get(key, {}).items()
            if not kept.is_alive(now_ns)
        }

    def heard_brokers(self, key: SetKey, now_ns: int) -> dict[int, HeardBroker]:
        """
        Returns the brokers of a set that were ever heard, alive or not, by id.
        """
        return {
            broker_id: kept.heard(now_ns)
            for broker_id, kept in self._sets.get(key, {}).items()
        }

    def alive(self, key: SetKey, now_ns: int) -> Iterator[Heartbeat]:
        """
        Yields the valid heartbeats of a set.
        """
        for kept in self._sets.get(key, {}).values():
            if kept.is_alive(now_ns):
                yield kept.heartbeat

    def forget(self, key: SetKey, broker_id: int) -> None:
        """
        Removes a cleaned broker. Its next heartbeat counts as its first.
        """
        self._newest.pop((key, broker_id), None)
        self._strangers.pop((key, broker_id), None)
        brokers = self._sets.get(key, {})
        kept = brokers.pop(broker_id, None)
        if kept is not None:
            self._count -= 1
            self._disconnect(key, kept.heartbeat)
        if not brokers:
            self._sets.pop(key, None)


def _until_ns(heartbeat: Heartbeat, now_ns: int) -> int:
    timeout_ms = heartbeat.timeout_ms if heartbeat.timeout_ms > 0 else TIMEOUT_MS
    return now_ns + timeout_ms * _MS


def _repeats(new: Heartbeat, kept: _Kept) -> bool:
    """
    Returns whether a heartbeat is the next one of the same process on the same
    connection, as nearly all are.
    """
    old = kept.heartbeat
    return (
        new.connection == old.connection
        and not kept.is_closed
        and new.sent_ns is None
        and (new.incarnation is old.incarnation or new.incarnation == old.incarnation)
    )


def _replaces(new: Heartbeat, kept: _Kept, *, was_alive: bool) -> bool:
    """
    Returns whether a heartbeat is newer than the last one.
    """
    old = kept.heartbeat
    if kept.is_closed and new.connection == old.connection:
        # It arrived before the end of its connection.
        return False
    if new.incarnation == old.incarnation:
        if new.sent_ns is not None and old.sent_ns is not None:
            return new.sent_ns > old.sent_ns
        return new.connection >= old.connection or not was_alive
    # Another process gets the id only once the one before is not heard (B17). Of an
    # earlier process some heartbeats may still be under way, on older connections.
    return not was_alive and new.connection > old.connection
