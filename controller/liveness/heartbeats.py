"""
Who is alive: the last heartbeat of each broker, and how long it counts. Pure.

Its time is the controller's own boot time, stamped when a heartbeat came: two clocks
of two hosts say nothing about each other (R234). Each controller keeps such a table,
also one that does not lead, so that the next leader has heard of everybody (R225).

A heartbeat costs the same however many brokers there are: it moves an end in time, and
a heap that is ordered by an end of before is looked at once per time-out.

Source: R238 to R244, R72; safety B1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from pystore.controller.model.facts import LastHeartbeat
from pystore.controller.model.log_end import NOWHERE, LogEnd
from pystore.controller.model.state import SetKey
from pystore.remoting.codes import LOWEST_PRIORITY
from pystore.replicaset import Incarnation

__all__ = ["TIMEOUT_MS", "Heartbeat", "Heartbeats"]

TIMEOUT_MS = 10_000
"""How long a heartbeat counts that does not say so (R239)."""

_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """
    What a broker says of itself, once a second.

    Attributes:
        broker_id: of the broker.
        connection: on which it came, by the number at which that was accepted.
        incarnation: of the process; ``None``: a Java broker.
        boot_id: of its machine; empty: not told.
        sent_ns: when it was sent, by the boot time of that machine: only compared with
            others of the same process; ``None``: not told.
        position: where its log ends.
        flushed: up to where that is on disk; -1: not told.
        priority: its own election priority; the lower is preferred.
        is_ill: its disk fails (B9).
        timeout_ms: how long it counts.
    """

    broker_id: int
    connection: int
    incarnation: Incarnation | None = None
    boot_id: str = ""
    sent_ns: int | None = None
    position: LogEnd = NOWHERE
    flushed: int = -1
    priority: int = LOWEST_PRIORITY
    is_ill: bool = False
    timeout_ms: int = TIMEOUT_MS

    @property
    def pulse(self) -> LastHeartbeat:
        """
        What decisions are made from.
        """
        return LastHeartbeat(
            self.incarnation, self.position, self.priority, self.is_ill
        )


@dataclass(slots=True)
class _Kept:
    """
    The last heartbeat of one broker.

    Attributes:
        heartbeat: as it came.
        until_ns: how long it counts, inclusive (R240).
        is_closed: its connection has ended.
        queued_ns: the end that stands for it in the heap; ``None``: none does.
    """

    heartbeat: Heartbeat
    until_ns: int
    is_closed: bool = False
    queued_ns: int | None = None

    def is_alive(self, now_ns: int) -> bool:
        """
        Returns whether it counts.
        """
        return not self.is_closed and now_ns <= self.until_ns


class Heartbeats:
    """
    The heartbeats of all sets. One thread. All times are boot time of this host, and
    never fall from call to call.
    """

    __slots__ = ("_connections", "_ends", "_newest", "_sets")

    def __init__(self) -> None:
        self._sets: dict[SetKey, dict[int, _Kept]] = {}
        self._connections: dict[int, set[tuple[SetKey, int]]] = {}
        # One for each broker that is alive; its end may have moved on since.
        self._ends: list[tuple[int, SetKey, int]] = []
        # Of each broker the newest connection, and the process that used it.
        self._newest: dict[tuple[SetKey, int], tuple[int, Incarnation | None]] = {}

    def enter(
        self,
        key: SetKey,
        broker_id: int,
        incarnation: Incarnation | None,
        connection: int,
    ) -> bool:
        """
        A process wants to register.

        Returns:
            whether it may. All connections of a process are newer than those of the
            one before, so who comes on an older one than another process has used
            since is dead, and its registration was under way for long. One process
            may have several, to several names of this controller.
        """
        newest, user = self._newest.get((key, broker_id), (connection, incarnation))
        if connection >= newest:
            self._newest[key, broker_id] = connection, incarnation
        return connection >= newest or incarnation == user

    def hear(self, key: SetKey, heartbeat: Heartbeat, now_ns: int) -> bool:
        """
        Takes a heartbeat, unless a newer one came before it.

        Returns:
            whether the broker was not alive until now, as this process.
        """
        timeout_ms = heartbeat.timeout_ms if heartbeat.timeout_ms > 0 else TIMEOUT_MS
        until_ns = now_ns + timeout_ms * _MS
        brokers = self._sets.setdefault(key, {})
        kept = brokers.get(heartbeat.broker_id)
        if kept is None:
            is_new = True
            kept = brokers[heartbeat.broker_id] = _Kept(heartbeat, until_ns)
        else:
            old, was_alive = kept.heartbeat, kept.is_alive(now_ns)
            if not _replaces(heartbeat, kept, was_alive=was_alive):
                return False
            is_new = not was_alive or old.incarnation != heartbeat.incarnation
            if old.connection != heartbeat.connection:
                self._disconnect(key, old)
            kept.heartbeat, kept.until_ns, kept.is_closed = heartbeat, until_ns, False
        some = self._connections.setdefault(heartbeat.connection, set())
        some.add((key, heartbeat.broker_id))
        self.enter(
            key, heartbeat.broker_id, heartbeat.incarnation, heartbeat.connection
        )
        if kept.queued_ns is None or until_ns < kept.queued_ns:
            self._queue(key, kept)
        return is_new

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
        A connection has ended, so whose last heartbeat came on it is dead at once
        (R241): a process that is killed is replaced in milliseconds.

        Returns:
            set and id of those who died by it.
        """
        died = sorted(self._connections.pop(connection, set()))
        for key, broker_id in died:
            self._sets[key][broker_id].is_closed = True
        return died

    def expire(self, now_ns: int) -> list[tuple[SetKey, int]]:
        """
        Returns set and id of those whose time has ended since the last call.
        """
        died: list[tuple[SetKey, int]] = []
        while self._ends and self._ends[0][0] < now_ns:
            end_ns, key, broker_id = heappop(self._ends)
            kept = self._sets.get(key, {}).get(broker_id)
            if kept is None or kept.queued_ns != end_ns:
                continue
            kept.queued_ns = None
            if kept.is_closed:
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
        After when `expire` has to be called again: nobody's time ends before.
        """
        return self._ends[0][0] if self._ends else None

    def pulses(self, key: SetKey, now_ns: int) -> dict[int, LastHeartbeat]:
        """
        Returns who of a set is alive at one moment: `Facts.pulses` (R71).
        """
        return {one.broker_id: one.pulse for one in self.alive(key, now_ns)}

    def alive(self, key: SetKey, now_ns: int) -> Iterator[Heartbeat]:
        """
        Yields the heartbeats of a set that count at one moment.
        """
        for kept in self._sets.get(key, {}).values():
            if kept.is_alive(now_ns):
                yield kept.heartbeat

    def forget(self, key: SetKey, broker_id: int) -> None:
        """
        A broker was cleaned. Its next heartbeat is as of one never heard.
        """
        self._newest.pop((key, broker_id), None)
        brokers = self._sets.get(key, {})
        kept = brokers.pop(broker_id, None)
        if kept is not None:
            self._disconnect(key, kept.heartbeat)
        if not brokers:
            self._sets.pop(key, None)


def _replaces(new: Heartbeat, kept: _Kept, *, was_alive: bool) -> bool:
    """
    Returns whether a heartbeat is newer than the one that is kept.
    """
    old = kept.heartbeat
    if kept.is_closed and new.connection == old.connection:
        # It was read before its connection ended: who sent it is dead.
        return False
    if new.incarnation == old.incarnation:
        if new.sent_ns is not None and old.sent_ns is not None:
            return new.sent_ns > old.sent_ns
        return new.connection >= old.connection or not was_alive
    if new.incarnation is not None and old.incarnation is not None:
        start, old_start = new.incarnation.counter, old.incarnation.counter
        if start != old_start:
            return start > old_start
    # A copy (B1), or RocketMQ in the place of pystore: not while the other one lives.
    return not was_alive
