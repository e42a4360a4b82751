"""
The servers of the record store, which are one here: they never lose what they have
answered. They end a session of which they heard nothing for too long.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

from sim.network import RECORDS, Network
from sim.recovery_rules import RecoveryRules
from sim.world import MS, Process, World

from pystore.controller.model.codec import decode
from pystore.controller.model.invariants import regressions, violations
from pystore.controller.server.record_keys import LEADER, SETS
from pystore.errors import PystoreError, SessionLostError
from pystore.records.memory import MemorySpace, MemoryStore
from pystore.records.ops import KeyOps
from pystore.records.spaces import NEVER, space_of

__all__ = ["RecordServers"]

_LOOK_NS = 100 * MS


@dataclass(slots=True)
class _Session:
    store: MemoryStore
    host: str
    length_ns: int
    heard_ns: int
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class _Wait:
    """
    A session waits until its space changes from a token, or until then.
    """

    process: Process
    number: int
    session: int
    token: int
    space: str
    end_ns: int


class RecordServers:
    """
    All sessions of all controllers, and of AutoRecovery.

    Args:
        world: with its time.
        network: to the controllers.

    Attributes:
        space: all records.
        loss: how many of a hundred requests, and answers, get lost.
        broken: invariants that a commit broke.
        is_still: they answer nothing, and no time passes for their sessions.
        losing_answers: hosts whose next commit is made, and never answered.
    """

    def __init__(self, world: World, network: Network) -> None:
        self.space = MemorySpace()
        self.broken: list[str] = []
        self.loss = 0
        self.is_still = False
        self.losing_answers: set[str] = set()
        self._behind: dict[str, MemorySpace] = {}
        self._world = world
        self._network = network
        self._sessions: dict[int, _Session] = {}
        self._waits: list[_Wait] = []
        self._recovery = RecoveryRules(self.space)
        world.after(_LOOK_NS, self._look)

    def asked(
        self, process: Process, number: int, session: int, verb: str, given: Any
    ) -> None:
        """
        A controller sent a request.
        """
        self._world.after(
            self._network.delay(),
            lambda: self._take(process, number, session, verb, given),
        )

    def cut_off(self, host: str) -> None:
        """
        The server of a controller reaches the others no more: it serves reads of what
        it has, and answers nothing else.
        """
        rows = {key: copy(row) for key, row in self.space.rows.items()}
        self._behind[host] = MemorySpace(self.space.version, rows)

    def join(self) -> None:
        """
        Every server reaches every other.
        """
        self._behind.clear()

    def lose_sessions(self, host: str = "") -> None:
        """
        Ends the sessions of a host now, or all.
        """
        for one in self._sessions.values():
            if host in ("", one.host):
                self._lose(one)

    def _take(
        self, process: Process, number: int, session: int, verb: str, given: Any
    ) -> None:
        host = process.machine.host
        if host in self._behind:
            if verb in ("get", "scan"):
                found = getattr(MemoryStore(self._behind[host]), verb)(*given)
                process.deliver("answer", number, (found,))
            return
        if self._is_lost() or not self._network.reaches(host, RECORDS):
            return
        if verb == "wait":
            token, timeout_ns, space = given
            end_ns = self._world.now_ns + timeout_ns
            wait = _Wait(process, number, session, token, space_of(f"{space}/"), end_ns)
            self._waits.append(wait)
            self._look_at_waits()
            return
        self._answer(process, number, session, verb, given)

    def _answer(
        self, process: Process, number: int, session: int, verb: str, given: Any
    ) -> None:
        host = process.machine.host
        try:
            answer: Any = (self._make(host, session, verb, given),)
        except PystoreError as error:
            # The answer is the error.
            answer = error
        if self._is_lost() or not self._network.reaches(RECORDS, host):
            return
        if verb == "commit" and host in self.losing_answers:
            self.losing_answers.discard(host)
            return
        self._world.after(
            self._network.delay(), lambda: process.deliver("answer", number, answer)
        )

    def _is_lost(self) -> bool:
        return self.is_still or self._world.draw.randrange(100) < self.loss

    def _make(self, host: str, number: int, verb: str, given: Any) -> Any:
        if verb == "open":
            store = MemoryStore(self.space)
            length_ns = given[0] * MS
            self._sessions[number] = _Session(
                store, host, length_ns, self._world.now_ns
            )
            return True
        session = self._sessions.get(number)
        if session is None or session.is_lost:
            raise SessionLostError(
                "the session and its holds are lost: open the record store again"
            )
        session.heard_ns = self._world.now_ns
        match verb:
            case "get" | "scan":
                return getattr(session.store, verb)(*given)
            case "commit":
                made = self._commit(session, *given)
                self._look_at_waits()
                return made
            case "wait":
                return self.space.tokens.get(given[0], NEVER)
            case "ping":
                return True
            case "close":
                session.store.close()
                del self._sessions[number]
                return True
        raise AssertionError(verb)

    def _commit(self, session: _Session, keys: dict[str, KeyOps]) -> int | None:
        rows = self.space.rows
        before = {key: rows[key].value for key in keys if key in rows}
        leader = rows.get(LEADER)
        broken = self._recovery.broken(session.store, keys)
        made = session.store._commit(keys)
        if made is None:
            return None
        self.broken += [f"{session.host}: {one}" for one in broken]
        for key in keys:
            if not key.startswith(SETS) or key not in rows:
                continue
            if leader is None or leader.holder is not session.store:
                self.broken.append(f"{session.host} commits {key} and does not lead")
            after = decode(rows[key].value, key)
            self.broken += violations(after)
            if key in before:
                self.broken += regressions(decode(before[key], key), after)
        return made.version

    def _look_at_waits(self) -> None:
        """
        Answers those whose space has changed, whose time is over, or whose session is.
        """
        waits, self._waits = self._waits, []
        for one in waits:
            session = self._sessions.get(one.session)
            is_over = session is None or session.is_lost
            token = self.space.tokens.get(one.space, NEVER)
            if is_over or token != one.token or self._world.now_ns >= one.end_ns:
                self._answer(one.process, one.number, one.session, "wait", (one.space,))
            elif one.process.is_alive:
                self._waits.append(one)

    def _look(self) -> None:
        for one in list(self._sessions.values()):
            if self.is_still:
                one.heard_ns += _LOOK_NS
            elif self._world.now_ns - one.heard_ns > one.length_ns:
                self._lose(one)
        if not self.is_still:
            self._look_at_waits()
        self._world.after(_LOOK_NS, self._look)

    @staticmethod
    def _lose(session: _Session) -> None:
        if not session.is_lost:
            session.is_lost = True
            session.store.lose_session()
