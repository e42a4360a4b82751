"""
A controller: the real decisions, record store, leases and table of the living.

What is here is what lies between them: it campaigns and reads, takes heartbeats and
requests whenever they arrive, also long after their sender gave up, and looks again and
again whether the set needs something. It knows brokers from what they say alone, and
forgets all of it when it dies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sim.ledger import NAMES, SET
from sim.messages import Beat, Ended, Role
from sim.process import Process
from sim.records import Session
from sim.term import SimTerm

from pystore.controller.decide.dispatch import decide
from pystore.controller.liveness.authority import Authority
from pystore.controller.liveness.heartbeats import Heartbeats
from pystore.controller.model.commands import Command, Elect, Register, StepDown
from pystore.controller.model.decision import Accepted, CommandResult
from pystore.controller.server.sweep import due_commands
from pystore.errors import PystoreError
from pystore.records.record_store import StoredRecord
from pystore.records.term import Term

if TYPE_CHECKING:
    from sim.world import World

__all__ = ["Controller"]

_LOOK_MS = 250
_RETRY_MS = 1_000
_ENDS_MS = 30_000
_NS = 1_000_000


class Controller(Process):
    """
    One controller.

    Args:
        number: its place in the network: 0 or less.
        world: around it.

    Attributes:
        liveness: the heartbeats that it heard.
        leading: its term; ``None``: it does not lead, as far as it knows.
    """

    def __init__(self, number: int, world: World) -> None:
        super().__init__(world.local_clock(number), world.random)
        self.number = number
        self.world = world
        self.liveness = Heartbeats()
        self.leader_term: SimTerm | None = None
        self._session: Session | None = None
        self._is_campaigning = False
        self._elects_at_ms = 0
        self._sees_at_ms = 0

    # -- life -----------------------------------------------------------------

    def start(self) -> None:
        """
        A process begins.
        """
        self.begin()
        self.liveness = Heartbeats()
        self.leader_term = self._session = None
        self._is_campaigning = False
        self._sees_at_ms = self.clock.now + _ENDS_MS
        self.every(_LOOK_MS, self._look)

    def end(self, how: Ended) -> None:
        """
        The process is gone; its session goes at once only if it says so.
        """
        if not self.is_up:
            return
        self.is_up, self.fuse, self.leader_term = False, None, None
        if how is Ended.CLEAN and self._session is not None:
            self._session.close()

    def after(self) -> None:
        """
        Nothing follows at once: it looks often.
        """

    # -- the term -------------------------------------------------------------

    def reopen(self) -> Session:
        """
        A new session, that holds nothing.
        """
        self._session = self.world.records.open(self.number, self)
        return self._session

    def lose(self, leading: SimTerm) -> None:
        """
        A term is over, or may be: all that hangs on it is dropped.
        """
        if self.leader_term is leading:
            self.leader_term = None
            if self._session is not None:
                self._session.close()
            self._session, self._is_campaigning = None, False

    def _campaign(self) -> None:
        session = self._session or self.reopen()
        self._is_campaigning = True

        def heard(found: Term | PystoreError | None) -> None:
            self._is_campaigning = False
            self.step()
            if isinstance(found, Term):
                self._is_campaigning = True
                authority = Authority(found, self.clock.now * _NS)
                session.get(SET, lambda record: self._lead(session, authority, record))
            elif found is not None:
                # Whether it leads is not known: whatever it holds is given up.
                session.close()
                self._session = None

        session.campaign(heard)

    def _lead(
        self,
        session: Session,
        authority: Authority,
        found: StoredRecord | PystoreError | None,
    ) -> None:
        self._is_campaigning = False
        if isinstance(found, PystoreError):
            session.close()
            self._session = None
            return
        self.leader_term = SimTerm(self, session, authority, found)

    # -- again and again ------------------------------------------------------

    def _look(self) -> None:
        if self._session is not None:
            self._session.ping()
        leading = self.leader_term
        if leading is None:
            if not self._is_campaigning:
                self._campaign()
            return
        leading.prove()
        now = self.clock.now
        if not leading.is_proven:
            return
        state = leading.state
        due_ns = leading.leases.due_ns(state)
        commits_ends = now >= self._sees_at_ms
        if commits_ends:
            self._sees_at_ms = now + _ENDS_MS
        for command in due_commands(
            state,
            leading.facts(),
            leases_are_over=due_ns is not None and due_ns <= leading.now_ns,
            commits_ends=commits_ends,
        ):
            if isinstance(command, Elect):
                if now < self._elects_at_ms:
                    continue
                pause_ms = self.random.randint(_RETRY_MS, 2 * _RETRY_MS)
                self._elects_at_ms = now + pause_ms
            leading.ask([command])

    # -- what brokers say -----------------------------------------------------

    def beat(self, beat: Beat, told: Callable[[Role], None]) -> None:
        """
        Takes a heartbeat; the leader answers with the role.
        """
        now_ns = self.clock.now * _NS
        self.liveness.receive(NAMES, beat.heartbeat, now_ns)
        leading = self.leader_term
        if leading is None or not leading.is_proven:
            return
        state, asker = leading.state, beat.replica
        is_master = (state.master, state.epoch) == (asker, beat.given_up)
        if is_master or (asker in state.unreleased and beat.given_up >= 0):
            leading.ask([StepDown(asker, beat.given_up)])
            return
        lease_ms = leading.leases.grant(
            state, asker, beat.epoch, beat.heartbeat.timeout_ms, now_ns
        )
        master = state.master
        told(
            Role(
                state.epoch,
                master,
                state.agreed,
                frozenset(one.broker_id for one in state.replicas),
                lease_ms,
            )
        )

    def closed(self, connection: int, *, is_dead: bool) -> None:
        """
        A broker's connection has ended; if its process has, its address refuses (C3).
        """
        for key, broker_id in self.liveness.close(connection):
            suspected = self.liveness.suspected(key, broker_id, self.clock.now * _NS)
            if is_dead and suspected is not None:
                self.liveness.end(key, suspected, is_replaced=False)
                self._look()

    def ask(
        self,
        commands: Sequence[Command],
        reply: Callable[[CommandResult], None],
        connection: int,
    ) -> bool:
        """
        A broker wants something; answers whether it leads, and the broker is not dead.
        """
        leading = self.leader_term
        if leading is None or not leading.is_proven:
            return False
        for one in commands:
            if not isinstance(one, Register):
                continue
            process = NAMES, one.broker_id, one.incarnation, connection
            if not self.liveness.may_register(*process):
                return False
            self.liveness.registered(*process)
            self._ask_process_before(one)
        leading.ask(commands, reply)
        return True

    def _ask_process_before(self, command: Register) -> None:
        """
        A process that answers at the address of the one before replaces it (B17).
        """
        heard = self.liveness.heard(NAMES, command.broker_id, self.clock.now * _NS)
        if heard is None or None in (heard.incarnation, command.incarnation):
            return
        if heard.address == command.address and heard.incarnation != (
            command.incarnation
        ):
            self.liveness.end(NAMES, heard, is_replaced=True)

    def accepts(self, command: Command) -> bool:
        """
        An operator wants something; answers whether it will be done.
        """
        leading = self.leader_term
        if leading is None:
            return False
        decision = decide(leading.state, command, leading.facts())
        # It may be killed in the middle of it.
        self.own(lambda: leading.ask([command]))()
        return isinstance(decision, Accepted)
