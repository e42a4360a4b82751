"""
Who is to be told that roles have changed: code 1008. Pure.

A broker finds out by itself, when it polls; a notice saves it the wait (R75). No
request waits for one: they are queued here, and sent from here. Of two for one broker
the newer counts, and while one is on its way no other is. A broker of pystore says in
its heartbeats which role it knows, and is told until it does; a Java broker says
nothing, and is told once that worked.

Source: R74 to R76; formats 4.9.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

from pystore.controller.model.replies import MasterRecord
from pystore.controller.model.state import SetKey
from pystore.replicaset import AgreedSet

__all__ = ["RETRY_MS", "Notification", "Notifications"]

RETRY_MS = 1_000
"""After how long a broker is told again, at the earliest."""

Version = tuple[int, int]
"""Epoch of the mastership, and version of the set."""


@dataclass(frozen=True, slots=True)
class Notification:
    """
    What one broker is to be told.

    Attributes:
        key: of its set.
        broker_id: of the broker.
        address: where it is told.
        leadership: who is master.
        agreed: the set.
        answers: its heartbeats say what it knows: a broker of pystore.
    """

    key: SetKey
    broker_id: int
    address: str
    leadership: MasterRecord
    agreed: AgreedSet
    answers: bool

    @property
    def version(self) -> Version:
        """
        By which newer and older are told.
        """
        return self.leadership.epoch, self.agreed.set_epoch


@dataclass(slots=True)
class _Told:
    """
    One broker that has to be told.

    Attributes:
        notice: the newest.
        due_ns: when it is to be sent, if no other is under way then.
    """

    notice: Notification
    due_ns: int


class Notifications:
    """
    Those of all sets. One thread; times are boot time.
    """

    __slots__ = ("_brokers", "_queue", "_under_way")

    def __init__(self) -> None:
        self._brokers: dict[tuple[SetKey, int], _Told] = {}
        self._queue: list[tuple[int, SetKey, int]] = []
        self._under_way: set[tuple[SetKey, int]] = set()

    def put(self, notice: Notification, now_ns: int) -> None:
        """
        A broker is to be told, unless the same or something newer is to be told
        already.
        """
        told = self._brokers.get((notice.key, notice.broker_id))
        if told is not None:
            known = told.notice
            if known.version > notice.version:
                return
            if (known.version, known.address) == (notice.version, notice.address):
                return
        self._brokers[notice.key, notice.broker_id] = _Told(notice, now_ns)
        heappush(self._queue, (now_ns, notice.key, notice.broker_id))

    def next(self, now_ns: int) -> Notification | None:
        """
        Returns what is to be sent now, which is under way then until `sent` says that
        it is not; ``None``: nothing is due.
        """
        while self._queue and self._queue[0][0] <= now_ns:
            due_ns, key, broker_id = heappop(self._queue)
            told = self._brokers.get((key, broker_id))
            is_due = told is not None and told.due_ns == due_ns
            if told is None or not is_due or (key, broker_id) in self._under_way:
                continue
            self._under_way.add((key, broker_id))
            return told.notice
        return None

    @property
    def next_ns(self) -> int | None:
        """
        When `next` is to be asked again, unless `sent` or `put` is called before.
        """
        return self._queue[0][0] if self._queue else None

    def sent(
        self, notice: Notification, now_ns: int, chance: float, *, worked: bool
    ) -> None:
        """
        A notice is under way no more.

        Args:
            notice: as `next` returned it.
            now_ns: the time.
            chance: from 0 to 1, drawn anew each time: the pause until the next try is
                up to twice as long.
            worked: it was handed to the network; whether it arrived nobody knows.
        """
        broker = notice.key, notice.broker_id
        self._under_way.discard(broker)
        told = self._brokers.get(broker)
        if told is None:
            return
        if told.notice != notice:
            told.due_ns = now_ns
        elif worked and not notice.answers:
            del self._brokers[broker]
            return
        else:
            told.due_ns = now_ns + int(RETRY_MS * 1_000_000 * (1 + chance))
        heappush(self._queue, (told.due_ns, *broker))

    def known(self, key: SetKey, broker_id: int, version: Version) -> None:
        """
        A broker has shown what it knows: it need not be told that, nor what is older.
        """
        told = self._brokers.get((key, broker_id))
        if told is not None and told.notice.version <= version:
            self.drop(key, broker_id)

    def drop(self, key: SetKey, broker_id: int) -> None:
        """
        A broker is dead, or was cleaned: it asks when it comes back.
        """
        self._brokers.pop((key, broker_id), None)
