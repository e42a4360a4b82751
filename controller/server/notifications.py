"""
Pending notifications of brokers about role changes: code 1008. Pure.

A broker also finds a new master when it polls; a notification saves it the wait
(RMQ-R75). No request waits for a notification. Of two notifications for one broker only
the newer one is kept, and at most one is in flight. A broker of pystore confirms a
notification in its heartbeats, and is notified until then. A Java broker confirms
nothing, and is notified until one send succeeds.

Source: RMQ-R74 to RMQ-R76; formats 4.9.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

from pystore.controller.model.replies import MasterRecord
from pystore.controller.model.state import SetKey
from pystore.replicaset import AgreedSet

__all__ = ["RETRY_MS", "Notification", "Notifications"]

RETRY_MS = 1_000
"""The shortest pause before a broker is notified again."""

Version = tuple[int, int]
"""Epoch of the mastership, and version of the set."""


@dataclass(frozen=True, slots=True)
class Notification:
    """
    The notification of one broker.

    Attributes:
        key: of its set.
        broker_id: of the broker.
        address: of the broker.
        leadership: the master.
        agreed: the SyncStateSet.
        learners: the ids of the learners of the set.
        confirms: whether its heartbeats confirm it: a broker of pystore.
    """

    key: SetKey
    broker_id: int
    address: str
    leadership: MasterRecord
    agreed: AgreedSet
    learners: frozenset[int]
    confirms: bool

    @property
    def version(self) -> Version:
        """
        The order of notifications: newer ones compare greater.
        """
        return self.leadership.epoch, self.agreed.set_epoch


@dataclass(slots=True)
class _Pending:
    """
    The pending notification of one broker.

    Attributes:
        notification: the newest.
        due_ns: when it is sent, unless another one is in flight then.
    """

    notification: Notification
    due_ns: int


class Notifications:
    """
    The pending notifications of all sets. One thread; times are boot time.
    """

    __slots__ = ("_brokers", "_queue", "_under_way")

    def __init__(self) -> None:
        self._brokers: dict[tuple[SetKey, int], _Pending] = {}
        self._queue: list[tuple[int, SetKey, int]] = []
        self._under_way: set[tuple[SetKey, int]] = set()

    def put(self, notification: Notification, now_ns: int) -> None:
        """
        Adds a notification, unless the same or a newer one is pending.
        """
        pending = self._brokers.get((notification.key, notification.broker_id))
        if pending is not None:
            known = pending.notification
            if known.version > notification.version:
                return
            if (known.version, known.address) == (
                notification.version,
                notification.address,
            ):
                return
        self._brokers[notification.key, notification.broker_id] = _Pending(
            notification, now_ns
        )
        heappush(self._queue, (now_ns, notification.key, notification.broker_id))

    def next(self, now_ns: int) -> Notification | None:
        """
        Returns a due notification, which is in flight until the call of `sent`;
        ``None``: none is due.
        """
        while self._queue and self._queue[0][0] <= now_ns:
            due_ns, key, broker_id = heappop(self._queue)
            pending = self._brokers.get((key, broker_id))
            is_due = pending is not None and pending.due_ns == due_ns
            if pending is None or not is_due or (key, broker_id) in self._under_way:
                continue
            self._under_way.add((key, broker_id))
            return pending.notification
        return None

    @property
    def next_ns(self) -> int | None:
        """
        When `next` has to be called again, unless `sent` or `put` is called before.
        """
        return self._queue[0][0] if self._queue else None

    def sent(
        self, notification: Notification, now_ns: int, chance: float, *, worked: bool
    ) -> None:
        """
        Takes note that a notification is not in flight any more.

        Args:
            notification: as `next` returned it.
            now_ns: the time.
            chance: random, from 0 to 1: the pause before the next try is up to twice as
                long.
            worked: the network took it; whether it arrived is unknown.
        """
        broker = notification.key, notification.broker_id
        self._under_way.discard(broker)
        pending = self._brokers.get(broker)
        if pending is None:
            return
        if pending.notification != notification:
            pending.due_ns = now_ns
        elif worked and not notification.confirms:
            del self._brokers[broker]
            return
        else:
            pending.due_ns = now_ns + int(RETRY_MS * 1_000_000 * (1 + chance))
        heappush(self._queue, (pending.due_ns, *broker))

    def known(self, key: SetKey, broker_id: int, version: Version) -> None:
        """
        Drops the notification of a broker that has confirmed this or a newer version.
        """
        pending = self._brokers.get((key, broker_id))
        if pending is not None and pending.notification.version <= version:
            self.drop(key, broker_id)

    def drop(self, key: SetKey, broker_id: int) -> None:
        """
        Drops the notification of a broker that is dead or cleaned: it polls when it
        comes back.
        """
        self._brokers.pop((key, broker_id), None)
