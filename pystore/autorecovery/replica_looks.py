"""
Which replicas are looked at, and when: each one in a check of all, at once one that
returned, and again, later, one that gave no definite answer.

A look is one question to the replica (`ReplicaPeers.stat`), asked by an executor of the
caller; few are under way at once, so neither a turn of the Auditor nor the network is
filled by ten thousand sets. A check is finished when each replica that is alive gave a
definite answer.

Source: AR-R6, AR-R14, AR-R17; BK-A91, BK-A117; docs/autorecovery.md, *The Auditor*.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from heapq import heappop, heappush

from pystore.autorecovery.replica_key import ReplicaKey
from pystore.autorecovery.replica_peers import (
    ClusterView,
    ReplicaAddress,
    ReplicaPeers,
)
from pystore.errors import PystoreError, UnavailableError
from pystore.segments.order import ReplicaStat

__all__ = ["LookAnswer", "ReplicaLooks"]

_REST_MS = 5_000
_REST_MAX_MS = 300_000
_ILL = "ill"


@dataclass(frozen=True, slots=True)
class LookAnswer:
    """
    A definite answer of a replica.

    Attributes:
        replica: that answered.
        stat: its answer; ``None``: it refused.
        has_returned: another process of it was known before, or none was alive.
        problem: why it refused, one line; empty: it did not.
    """

    replica: ReplicaKey
    stat: ReplicaStat | None
    has_returned: bool
    problem: str = ""


@dataclass(slots=True)
class _Followed:
    """
    A replica that is alive, or ill.

    Attributes:
        incarnation: as the controller tells it; of an ill one `_ILL`.
        address: of its remoting port.
        has_returned: to be told with its next answer.
        is_queued: it waits for its turn, or is being asked.
        is_asked_again: a check began while it was being asked: that answer may be of
            before the check.
        failures: looks in a row without a definite answer.
        stat: the last answer of this process.
    """

    incarnation: str
    address: str
    has_returned: bool
    is_queued: bool = False
    is_asked_again: bool = False
    failures: int = 0
    stat: ReplicaStat | None = None


class ReplicaLooks:
    """
    The looks of one Auditor. One thread.

    Args:
        peers: the replicas; asked in the executor's threads.
        executor: of the questions.
        at_once: the most that are under way, and that are begun in one turn.

    Attributes:
        unknown: looks that gave no definite answer, in all.
        is_checking: a check of all replicas is under way.
    """

    def __init__(
        self, peers: ReplicaPeers, executor: Executor, at_once: int = 32
    ) -> None:
        self._peers = peers
        self._executor = executor
        self._at_once = at_once
        self._followed: dict[ReplicaKey, _Followed] = {}
        self._urgent: deque[ReplicaKey] = deque()
        self._others: deque[ReplicaKey] = deque()
        self._resting: list[tuple[int, ReplicaKey]] = []
        self._left: set[ReplicaKey] = set()
        self._asked: list[tuple[ReplicaKey, str, Future[ReplicaStat]]] = []
        self._has_followed = False
        self.unknown = 0
        self.is_checking = False

    @property
    def left(self) -> int:
        """
        Replicas that a check has still to look at.
        """
        return len(self._left)

    @property
    def is_finished(self) -> bool:
        """
        The check has a definite answer of each replica that is alive.
        """
        return self.is_checking and not self._left

    def stat(self, replica: ReplicaKey) -> ReplicaStat | None:
        """
        Returns the last answer of the present process of a replica; ``None``: none yet.
        """
        one = self._followed.get(replica)
        return None if one is None else one.stat

    def stats(self, replicas: Mapping[int, ReplicaKey]) -> dict[int, ReplicaStat]:
        """
        Returns the last answers of some replicas, by broker id.
        """
        found = {number: self.stat(key) for number, key in replicas.items()}
        return {number: stat for number, stat in found.items() if stat is not None}

    def follow(self, view: ClusterView) -> None:
        """
        Takes the replicas of pystore that are alive, and those that are ill, which
        register no process. One with another process than before, one that was not
        alive before, and one that is ill now, is looked at first.
        """
        alive: dict[ReplicaKey, _Followed] = {}
        for (cluster, name), description in view.sets.items():
            for broker in description.brokers:
                incarnation = _ILL if broker.is_ill else broker.incarnation
                if not (incarnation and broker.address):
                    continue
                key = ReplicaKey(cluster, name, broker.broker_id)
                known = self._followed.get(key)
                if not (broker.is_alive or broker.is_ill):
                    if known is not None and not view.may_replace:
                        # Not heard yet by a new controller: unknown.
                        alive[key] = known
                    continue
                if known is None or known.incarnation != incarnation:
                    known = _Followed(incarnation, broker.address, self._has_followed)
                    if self._has_followed or broker.is_ill:
                        self._queue(key, known, is_urgent=True)
                known.address = broker.address
                alive[key] = known
        damaged = set(view.damaged)
        for key, one in self._followed.items() if damaged else ():
            if (key.cluster, key.set_name) in damaged:
                alive[key] = one
        self._followed, self._has_followed = alive, True
        self._left &= alive.keys()

    def want(self, replica: ReplicaKey) -> None:
        """
        Looks at a replica soon, if it has given no answer yet.
        """
        one = self._followed.get(replica)
        if one is not None and one.stat is None:
            self._queue(replica, one, is_urgent=True)

    def begin_check(self) -> None:
        """
        Looks at all replicas, each at or after this moment.
        """
        self.is_checking = True
        self._left = set(self._followed)
        for key, one in self._followed.items():
            self._queue(key, one, is_urgent=False)
        for key, *_ in self._asked:
            if key in self._followed:
                self._followed[key].is_asked_again = True

    def end_check(self) -> None:
        """
        The check is over, finished or not.
        """
        self.is_checking = False
        self._left.clear()
        for one in self._followed.values():
            one.is_asked_again = False
        for key in self._others:
            if key in self._followed:
                self._followed[key].is_queued = False
        self._others.clear()

    def ask(self, now_ms: int) -> None:
        """
        Begins as many looks as may be under way.

        Args:
            now_ms: of a clock that never steps.
        """
        while self._resting and self._resting[0][0] <= now_ms:
            key = heappop(self._resting)[1]
            if key in self._followed:
                self._urgent.append(key)
        for _ in range(self._at_once - len(self._asked)):
            key_of_next = self._next()
            if key_of_next is None:
                return
            one = self._followed[key_of_next]
            address = ReplicaAddress(
                key_of_next.cluster,
                key_of_next.set_name,
                key_of_next.broker_id,
                one.address,
            )
            future = self._executor.submit(self._peers.stat, address)
            self._asked.append((key_of_next, one.incarnation, future))

    def answers(self, now_ms: int) -> list[LookAnswer]:
        """
        Returns the definite answers that came since the last call.

        Args:
            now_ms: of the same clock.
        """
        found: list[LookAnswer] = []
        pending = []
        for key, incarnation, future in self._asked:
            if not future.done():
                pending.append((key, incarnation, future))
                continue
            one = self._followed.get(key)
            if one is None or one.incarnation != incarnation:
                # It is about a process that is not there any more.
                continue
            answer = self._answer(key, one, future, now_ms)
            if answer is not None:
                found.append(answer)
        self._asked = pending
        return found

    def _answer(
        self,
        key: ReplicaKey,
        one: _Followed,
        future: Future[ReplicaStat],
        now_ms: int,
    ) -> LookAnswer | None:
        try:
            stat, problem = future.result(), ""
        except UnavailableError:
            # A time-out or an overload: nothing is known, and it is asked again later.
            self.unknown += 1
            rest_ms = min(_REST_MS << min(one.failures, 16), _REST_MAX_MS)
            one.failures += 1
            one.is_asked_again = False
            heappush(self._resting, (now_ms + rest_ms, key))
            return None
        except PystoreError as error:
            # It refuses, as one of an earlier version does: that is an answer, too.
            stat, problem = None, str(error)
        one.is_queued, one.failures, one.stat = False, 0, stat
        if one.is_asked_again:
            one.is_asked_again = False
            self._queue(key, one, is_urgent=False)
        else:
            self._left.discard(key)
        answer = LookAnswer(key, stat, one.has_returned, problem)
        one.has_returned = False
        return answer

    def _queue(self, key: ReplicaKey, one: _Followed, *, is_urgent: bool) -> None:
        if not one.is_queued:
            one.is_queued = True
            (self._urgent if is_urgent else self._others).append(key)

    def _next(self) -> ReplicaKey | None:
        for queued in (self._urgent, self._others):
            while queued:
                key = queued.popleft()
                if key in self._followed:
                    return key
        return None
