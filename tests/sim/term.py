"""
One term of a controller: what is asked is decided, committed with the checks of the
record's version and of the term, and answered. One request after another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.ledger import NAMES, SET
from sim.records import Session

from pystore.controller.decide.dispatch import decide
from pystore.controller.liveness.authority import Authority
from pystore.controller.liveness.leases import Leases
from pystore.controller.model.apply import apply_all
from pystore.controller.model.codec import decode, encode
from pystore.controller.model.commands import Command
from pystore.controller.model.decision import Accepted, CommandResult
from pystore.controller.model.events import SetEvent
from pystore.controller.model.facts import Facts
from pystore.controller.model.state import SetState
from pystore.errors import PystoreError, SessionLostError, UnknownOutcomeError
from pystore.records.ops import ABSENT, CheckVersion, Op, Put
from pystore.records.record_store import StoredRecord

if TYPE_CHECKING:
    from sim.controller import Controller

__all__ = ["Reply", "SimTerm"]

_NS = 1_000_000

Reply = Callable[[CommandResult], None]


@dataclass(frozen=True, slots=True)
class _Asked:
    """
    A request: commands that are decided together, and the receiver of the last answer.
    """

    commands: Sequence[Command]
    reply: Reply


class SimTerm:
    """
    A term.

    Args:
        controller: whose.
        session: the one that leads.
        authority: of the term.
        record: of the set; ``None``: there is none yet.

    Attributes:
        state: as it was committed last.
        leases: of the term.
    """

    def __init__(
        self,
        controller: Controller,
        session: Session,
        authority: Authority,
        record: StoredRecord | None,
    ) -> None:
        self.authority = authority
        self.leases = Leases(authority)
        self.state = SetState(*NAMES)
        self.proving = False
        self._controller = controller
        self._session = session
        self._version = ABSENT
        self._asked: deque[_Asked] = deque()
        self._is_busy = False
        self._take(record)

    def _take(self, record: StoredRecord | None) -> None:
        if record is None:
            return
        self.state, self._version = decode(record.value, SET), record.version
        for one in self.state.replicas:
            self._controller.liveness.replaced(NAMES, one.broker_id, one.incarnation)

    @property
    def now_ns(self) -> int:
        """
        The controller's boot time.
        """
        return self._controller.clock.now * _NS

    @property
    def is_proven(self) -> bool:
        """
        Whether anything may be granted or told (C2).
        """
        return self.authority.is_proven(self.now_ns)

    def facts(self) -> Facts:
        """
        What is true at this moment.
        """
        liveness, now_ns = self._controller.liveness, self.now_ns
        return Facts(
            liveness.last_heartbeats(NAMES, now_ns),
            liveness.former_heartbeats(NAMES, now_ns),
            may_replace=self.authority.may_replace(now_ns),
        )

    def ask(self, commands: Sequence[Command], reply: Reply = lambda _: None) -> None:
        """
        Something is wanted. It is answered when it is done, or never.
        """
        self._asked.append(_Asked(commands, reply))
        self._go_on()

    def prove(self) -> None:
        """
        Proves the term if that is due (C2).
        """
        due_ns = self.authority.prove_at_ns
        if self.proving or (due_ns is not None and self.now_ns < due_ns):
            return
        self.proving = True

        def proven(found: int | PystoreError | None) -> None:
            self.proving = False
            if found is None or isinstance(found, SessionLostError):
                self._controller.lose(self)

        proof: list[Op] = [self.authority.term.check, Put("proof", b"")]
        self._session.commit(proof, (), proven)

    # -- one request after another --------------------------------------------

    def _go_on(self) -> None:
        while self._asked and not self._is_busy:
            self._do(self._asked.popleft())

    def _do(self, asked: _Asked) -> None:
        state, events = self.state, list[SetEvent]()
        for command in asked.commands:
            decision = decide(state, command, self.facts())
            if isinstance(decision, Accepted):
                state = apply_all(state, decision.events)
                events += decision.events

        def done() -> None:
            # A controller that cannot prove its term does not answer (C2).
            if self.is_proven:
                asked.reply(decision)

        self._controller.step()
        if events:
            self._commit(state, events, done)
        else:
            done()

    def _commit(
        self, after: SetState, events: list[SetEvent], done: Callable[[], None]
    ) -> None:
        self._is_busy = True
        ops: list[Op] = [
            self.authority.term.check,
            CheckVersion(SET, self._version),
            Put(SET, encode(after)),
        ]

        def committed(found: int | PystoreError | None) -> None:
            self._controller.step()
            if isinstance(found, int):
                self.state, self._version = after, found
                self._controller.step()
                done()
                self._next()
            elif isinstance(found, UnknownOutcomeError):
                self._session.get(SET, read)
            elif isinstance(found, SessionLostError):
                # As clients of ZooKeeper do: again, in a session that did not lead.
                self._session = self._controller.reopen()
                self._session.commit(ops, events, refused)
            elif found is None:
                self._controller.lose(self)
            else:
                self._next()

        def refused(found: int | PystoreError | None) -> None:
            if isinstance(found, int):
                committed(found)
            else:
                self._controller.lose(self)

        def read(found: StoredRecord | PystoreError | None) -> None:
            if isinstance(found, PystoreError):
                # The next leader reads the record.
                self._controller.lose(self)
                return
            self._take(found)
            # What was made changes nothing again, as the version is another.
            again = apply_all(self.state, events)
            if again != self.state:
                self._commit(again, events, done)
                return
            if self.state == after:
                done()
            self._next()

        self._session.commit(ops, events, committed)

    def _next(self) -> None:
        self._is_busy = False
        self._go_on()
