"""
The record store as controllers reach it: real sessions over one space in memory,
requests that are late, lost or half lost, and a server that ends a session of which
it heard nothing for too long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from sim.clock import LocalClock
from sim.ledger import SET, Ledger
from sim.network import RECORDS, Network
from sim.process import Process

from pystore.controller.model.events import SetEvent
from pystore.errors import PystoreError, UnavailableError, UnknownOutcomeError
from pystore.records.memory import Fault, MemorySpace, MemoryStore
from pystore.records.ops import Op
from pystore.records.record_store import StoredRecord
from pystore.records.term import Term

__all__ = ["LEADER", "RecordServer", "Session"]

LEADER = "leader"
"""The holder of this record is the leader."""

_PATIENCE_MS = 2_000
_NS = 1_000_000

_T = TypeVar("_T")


class RecordServer:
    """
    The servers, which are one here: they never lose what they have answered.

    Args:
        clock: theirs.
        network: to the controllers.
        ledger: is told of each change.
        session_ms: for how long it waits for a session, by its clock.

    Attributes:
        space: all records.
        behind: the set's record and the leader's as the server of a controller knows
            them that is cut off from the others: it serves reads alone.
        losing_answers: controllers whose next commit is made, and never answered.
    """

    def __init__(
        self, clock: LocalClock, network: Network, ledger: Ledger, session_ms: int
    ) -> None:
        self.clock = clock
        self.network = network
        self.session_ms = session_ms
        self.space = MemorySpace()
        self.behind: dict[int, dict[str, StoredRecord]] = {}
        self.losing_answers: set[int] = set()
        self.ledger = ledger
        self._sessions: list[Session] = []
        self._expire_later()

    def open(self, number: int, owner: Process) -> Session:
        """
        A session of a controller begins.
        """
        session = Session(self, number, owner)
        self._sessions.append(session)
        return session

    def cut_off(self, number: int) -> None:
        """
        The server of a controller reaches the others no more.
        """
        rows = self.space.rows
        self.behind[number] = {
            key: StoredRecord(key, rows[key].value, rows[key].version)
            for key in (LEADER, SET)
            if key in rows
        }

    def lose_session(self, number: int) -> None:
        """
        The servers end what a controller has open, early.
        """
        for one in self._sessions:
            if one.number == number:
                one.expire()

    def heal(self) -> None:
        """
        Every server reaches every other.
        """
        self.behind.clear()

    def leader(self) -> int | None:
        """
        Returns which controller leads.
        """
        row = self.space.rows.get(LEADER)
        return int(row.value) if row else None

    def _expire_later(self) -> None:
        for one in self._sessions:
            if self.clock.now - one.heard_ms > self.session_ms:
                one.expire()
        self._sessions = [one for one in self._sessions if not one.is_expired]
        self.clock.after(100, self._expire_later)


class Session:
    """
    One session of one controller. Each verb is answered later, if the process that
    asked lives then.

    Attributes:
        number: of the controller.
        heard_ms: when the server heard of it last, by the server's clock.
        is_expired: the server has ended it; the controller hears when it asks.
    """

    def __init__(self, server: RecordServer, number: int, owner: Process) -> None:
        self.is_expired = False
        self.heard_ms = server.clock.now
        self._server = server
        self.number = number
        self._owner = owner
        self._sent_ns = 0
        self._store = MemoryStore(
            server.space,
            faults=self._fault,
            clock_ns=lambda: self._sent_ns,
            length_ns=server.session_ms * _NS,
        )

    def commit(
        self,
        ops: Sequence[Op],
        events: Sequence[SetEvent],
        then: Callable[[int | PystoreError | None], None],
    ) -> None:
        """
        Commits; *events* are what becomes of the set by it, for the ledger.
        """

        def make() -> int | None:
            try:
                return self._store.commit(ops)
            finally:
                self._look(events)

        self._ask(make, then)

    def get(
        self, key: str, then: Callable[[StoredRecord | PystoreError | None], None]
    ) -> None:
        """
        Reads.
        """

        def make() -> StoredRecord | None:
            behind = self._server.behind.get(self.number)
            return self._store.get(key) if behind is None else behind.get(key)

        self._ask(make, then)

    def campaign(self, then: Callable[[Term | PystoreError | None], None]) -> None:
        """
        Becomes the leader if there is none; otherwise returns ``None``.
        """

        def make() -> Term | None:
            if self._store.get(LEADER) is not None:
                return None
            return self._store.campaign(LEADER, str(self.number))

        self._ask(make, then)

    def ping(self) -> None:
        """
        The client of the store says that it is there.
        """
        if self._reaches() and not self.is_expired:
            self.heard_ms = self._server.clock.now

    def close(self) -> None:
        """
        The session ends by its own wish.
        """
        self.is_expired = True
        self._store.close()

    def expire(self) -> None:
        """
        The server ends it.
        """
        self.is_expired = True
        with self._server.space.changed:
            self._server.space.drop(self._store)

    # -- inside ---------------------------------------------------------------

    def _ask(
        self, make: Callable[[], _T], then: Callable[[_T | PystoreError], None]
    ) -> None:
        network, sent_ns = self._server.network, self._owner.clock.now * _NS
        random = network.random

        def arrive() -> None:
            self._sent_ns = sent_ns
            try:
                found: _T | PystoreError = make()
            except PystoreError as error:
                # The caller gets the error.
                found = error
            self.ping()
            delay = random.randint(1, network.weather.delay_ms)
            if isinstance(found, UnavailableError | UnknownOutcomeError):
                delay = _PATIENCE_MS
            network.clock.after(delay, self._owner.own(partial(then, found)))

        network.clock.after(random.randint(1, network.weather.delay_ms), arrive)

    def _look(self, events: Sequence[SetEvent]) -> None:
        server = self._server
        row = server.space.rows.get(SET)
        if row is not None and row.version > server.ledger.version:
            leader = server.space.rows.get(LEADER)
            is_leading = leader is not None and leader.holder is self._store
            server.ledger.committed(
                row.value, row.version, events, by=self.number, is_leading=is_leading
            )

    def _reaches(self) -> bool:
        network = self._server.network
        there = network.reaches(self.number, RECORDS)
        is_connected = self.number not in self._server.behind
        return is_connected and there and network.reaches(RECORDS, self.number)

    def _fault(self, verb: str) -> Fault:
        network, server = self._server.network, self._server
        is_commit, chance = verb == "commit", network.random.randrange(100)
        lost = network.weather.loss // 3
        is_behind = self.number in server.behind
        if is_behind or not network.reaches(self.number, RECORDS):
            return Fault.LOST_REQUEST if is_commit else Fault.UNREACHABLE
        if self.is_expired:
            return Fault.SESSION_LOST
        if is_commit and self.number in server.losing_answers:
            server.losing_answers.discard(self.number)
            return Fault.LOST_ANSWER
        if not network.reaches(RECORDS, self.number) or chance < lost:
            return Fault.LOST_ANSWER if is_commit else Fault.UNREACHABLE
        if chance < 2 * lost and is_commit:
            return Fault.LOST_REQUEST
        return Fault.NONE
