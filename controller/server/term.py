"""
The work of the leading controller: one term.

Everything here is dropped when the term is lost. The next leader builds it again from
the records.

Source: C1 to C3; RMQ-R222, RMQ-R226, RMQ-R228, RMQ-R231; docs/controller.md.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from pystore.clocks import wall_ms
from pystore.controller.decide.dispatch import decide
from pystore.controller.liveness.authority import LEASE_MS, Authority
from pystore.controller.liveness.heartbeats import Heartbeat, Heartbeats
from pystore.controller.liveness.leases import Leases
from pystore.controller.model.commands import Command, NoteRefusal, StepDown
from pystore.controller.model.decision import CommandResult, Rejected
from pystore.controller.model.facts import Facts
from pystore.controller.model.state import SetKey, SetState
from pystore.controller.server.audit import AuditLog, Order, set_summary
from pystore.controller.server.broker_sets import BrokerSets, CommandOutcome, NotLeading
from pystore.controller.server.config import ControllerConfig
from pystore.controller.server.controller_events import set_events
from pystore.controller.server.describe import set_details
from pystore.controller.server.host_records import HostRecords
from pystore.controller.server.hosts import Hosts
from pystore.controller.server.last_refusals import LastRefusals, RefusalRate
from pystore.controller.server.pause_detector import PauseDetector
from pystore.controller.server.record_keys import PROOF
from pystore.controller.server.set_history import SetHistory
from pystore.controller.server.store_threads import CallKind, StoreThreads
from pystore.controller.server.sweep import SilentBrokers, due_commands
from pystore.errors import (
    FormatError,
    PystoreError,
    SessionLostError,
    StorageError,
    UnavailableError,
    UnknownOutcomeError,
)
from pystore.events.event import Event, hand_over
from pystore.records.ops import Op, Put
from pystore.records.record_store import RecordStore
from pystore.replicaset import Member

__all__ = ["HandedOver", "LeaderTerm"]

_S = 1_000_000_000
_ENDS_S = 30
"""Between two commits of log ends; a dying controller loses the later ones."""
_WAIT_MIN_S = 0.01
_SETS_AT_ONCE = 100
_LOOK_S = 1.0
_RETRY_S = 0.2
_LOOKS = 20
"""At a call under way, within its limit."""


class HandedOver(SessionLostError):
    """
    An operator ended the term.
    """


class LeaderTerm:
    """
    One term of one controller. For one event loop.

    Args:
        store: the record store.
        authority: of the term.
        liveness: the heartbeats, which outlive the term.
        settings: returns the present settings.
        changed: called with the old and the new state after each commit.
        clock_ns: boot time.
        draw: randomness for pauses.
        say: receives one line for people.
        tell: receives each event.
        address: of this controller.
        pause_detector: detects that this process was paused.
        threads: of the calls to the store.

    Attributes:
        sets: of the term.
        authority: of the term.
        history: of the sets.
        audit: makes the lines of operators' orders.
        hosts: that were heard, or have a record.
        host_records: of them.
    """

    def __init__(
        self,
        store: RecordStore,
        authority: Authority,
        liveness: Heartbeats,
        settings: Callable[[], ControllerConfig],
        changed: Callable[[SetState, SetState], object],
        *,
        clock_ns: Callable[[], int],
        draw: random.Random,
        say: Callable[[str], object],
        tell: Callable[[Event], object],
        address: str,
        pause_detector: PauseDetector,
        threads: StoreThreads,
    ) -> None:
        self.authority = authority
        self.sets = BrokerSets(
            store, authority.term, self.facts, self._note, say, threads=threads
        )
        self.audit = AuditLog()
        self._threads = threads
        self.history = SetHistory(
            store, authority.term, threads, lambda: self.sets.has_space
        )
        self.hosts = Hosts(self._is_member)
        self.host_records = HostRecords(
            store,
            authority.term,
            threads,
            self.hosts,
            has_space=lambda: self.sets.has_space,
            say=say,
        )
        self._store = store
        self._liveness = liveness
        self._settings = settings
        self._changed = changed
        self._clock_ns = clock_ns
        self._draw = draw
        self._say = say
        self._tell = tell
        self._address = address
        self._leases = Leases(authority)
        self._silent = SilentBrokers()
        self._urgent: set[SetKey] = set()
        self._wake = asyncio.Event()
        self._busy: dict[SetKey, asyncio.Task[None]] = {}
        self._again: set[SetKey] = set()
        self._due: list[tuple[int, SetKey]] = []
        self._ends_at_ns = 0
        self._said = ""
        self._gives_up = asyncio.Event()
        self._refusals = LastRefusals()
        self._refusal_rate = RefusalRate()
        self._pause_detector = pause_detector
        self._warm_at_ns = 0

    @property
    def is_proven(self) -> bool:
        """
        Whether this controller may name a master at this moment (C2).
        """
        return self.authority.is_proven(self._clock_ns())

    @property
    def may_replace(self) -> bool:
        """
        Whether this controller has led for so long, without a pause, that a broker is
        silent if it has no heartbeat of it (C3).
        """
        now_ns = self._clock_ns()
        if self._pause_detector.was_paused():
            self._warm_at_ns = now_ns + LEASE_MS * 1_000_000
        return self.authority.may_replace(now_ns) and now_ns >= self._warm_at_ns

    def facts(self, state: SetState) -> Facts:
        """
        Returns the facts about a set at this moment.
        """
        now_ns, may_replace = self._clock_ns(), self.may_replace
        return Facts(
            self._liveness.last_heartbeats(state.key, now_ns),
            self._liveness.former_heartbeats(state.key, now_ns),
            may_replace=may_replace,
            is_unclean_allowed=self._settings().enable_elect_unclean_master,
        )

    async def run(self) -> None:
        """
        Leads, until the term is lost.

        Raises:
            SessionLostError: another controller leads, or may lead.
            NotAStoreError: the records were removed or replaced.
        """
        tasks = [
            asyncio.create_task(work)
            for work in (
                self.sets.run(),
                self._prove(),
                self._run_checks(),
                self._hand_over(),
                self._watch_calls(),
                self._pause_detector.run(),
                self.history.run(),
                self.host_records.run(),
            )
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            self.sets.drop()
            tasks += self._busy.values()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.history.flush()

    def give_up(self) -> None:
        """
        Ends the term on behalf of an operator, so that another controller leads.
        """
        self._gives_up.set()

    async def _hand_over(self) -> None:
        await self._gives_up.wait()
        raise HandedOver("an operator transferred the leadership")

    async def _watch_calls(self) -> None:
        """
        Gives the term up if a commit or a proof stands still for as long as a session
        lasts (C2a): the client of the store may keep the session alive meanwhile.
        """
        limit_s = self._settings().zookeeper_session_timeout / 1000
        while True:
            await asyncio.sleep(limit_s / _LOOKS)
            if self._threads.longest_s() > limit_s:
                raise SessionLostError(
                    f"a call to the record store has not ended for {limit_s:g} s: this "
                    "controller gives its session up"
                )

    def describe(self, names: SetKey) -> bytes:
        """
        Returns the details of a set as a body.
        """
        now_ns = self._clock_ns()
        state = self.sets.state(names)
        return set_details(
            state,
            self.facts(state),
            lease_left_ms=lambda one: self._leases.left_ms(names, one, now_ns),
            refusal=self._refusals.last(state),
            space=self.sets.space,
            pending=(type(one).__name__ for one in self.sets.pending(names)),
        )

    def foresee(self, names: SetKey, command: Command) -> tuple[CommandResult, Facts]:
        """
        Returns the decision on a command at this moment, which is not committed, and
        the facts that it was decided with.
        """
        state = self.sets.state(names)
        facts = self.facts(state)
        return decide(state, command, facts), facts

    async def ask(
        self,
        names: SetKey,
        command: Command,
        requester: str = "",
        order: Order | None = None,
    ) -> CommandOutcome:
        """
        Decides and commits a command; see `BrokerSets.ask`.

        Args:
            names: of the set.
            command: to decide.
            requester: the user and the address of the requester; empty: this
                controller.
            order: that the command carries out; ``None``: of no operator.

        Raises:
            UnknownOutcomeError: also if the command is committed, but this controller
                may not name a master any more.
        """
        self.require_proof()
        outcome = await self.sets.ask(names, command, self._audited(names, order))
        self._report(names, command, outcome, requester)
        if requester and isinstance(outcome.decision, Rejected):
            refusal = self._refusals.note(
                outcome.state, outcome.decision, self._clock_ns()
            )
            if refusal is not None:
                self._start(names, [NoteRefusal(refusal)])
        if not self.is_proven:
            raise UnknownOutcomeError(
                "this controller cannot prove any more that it leads; ask again"
            )
        return outcome

    def _audited(
        self, names: SetKey, order: Order | None
    ) -> Callable[[CommandOutcome], list[Op]] | None:
        """
        Returns what adds the line of an order to the commit of its change.
        """
        if order is None:
            return None
        cluster, name = names
        subject = f"set {name} of cluster {cluster}"
        return lambda outcome: self.audit.ops(
            order, subject, set_summary(outcome.before), set_summary(outcome.state)
        )

    def _report(
        self, names: SetKey, command: Command, outcome: CommandOutcome, requester: str
    ) -> None:
        """
        Tells what a command changed, or that it is refused.
        """
        decision = outcome.decision
        if not isinstance(decision, Rejected):
            if not decision.events:
                return
            self._refusal_rate.changed(names)
        elif not self._refusal_rate.is_due(
            names,
            decision,
            requester,
            self._clock_ns(),
            is_unknown=not outcome.state.version,
        ):
            return
        for event in set_events(
            outcome.before,
            command,
            decision,
            requester,
            controller=self._address,
            time_ms=wall_ms(),
        ):
            hand_over(event, self._tell)
            if outcome.state.version:
                # A set that never existed has no history.
                self.history.note(event)

    def require_proof(self) -> None:
        """
        Raises:
            NotLeading: this controller may not name a master at this moment (C2).
        """
        if not self.is_proven:
            raise NotLeading("this controller cannot prove that it leads")

    def grant(self, names: SetKey, heartbeat: Heartbeat, epoch: int) -> tuple[int, int]:
        """
        Returns length in ms and epoch of the lease that answers a heartbeat; 0 and 0:
        no lease.
        """
        state = self.sets.known(names)
        if state is None or state.epoch != epoch or state.master is None:
            return 0, 0
        if state.master.broker_id != heartbeat.broker_id:
            # Most heartbeats are of slaves.
            return 0, 0
        now_ns = self._clock_ns()
        if not self.authority.is_proven(now_ns):
            return 0, 0
        requester = Member(heartbeat.broker_id, heartbeat.incarnation)
        length_ms = self._leases.grant(
            state, requester, epoch, heartbeat.timeout_ms, now_ns
        )
        return (length_ms, state.epoch) if length_ms else (0, 0)

    def resign(self, names: SetKey, requester: Member, epoch: int) -> None:
        """
        Takes the resignation that a former master repeats in every heartbeat.
        """
        state = self.sets.known(names)
        if state is None:
            return
        is_master = state.master == requester and state.epoch == epoch
        if is_master or requester in state.unreleased:
            self._start(names, [StepDown(requester, epoch)])

    def check_soon(self, names: SetKey) -> None:
        """
        Schedules a check of a set now, because something changed.
        """
        self._urgent.add(names)
        self._wake.set()

    # -- the controller's own commands ------------------------------------------

    async def _run_checks(self) -> None:
        """
        Checks urgent sets at once, and all sets at intervals.
        """
        all_at_ns = self._clock_ns()
        while True:
            self._wake.clear()
            now_ns = self._clock_ns()
            is_sweep = now_ns >= all_at_ns
            commits_ends = is_sweep and now_ns >= self._ends_at_ns
            some = self.sets.names() if is_sweep else self._urgent_sets(now_ns)
            for number, names in enumerate(some, 1):
                state = self.sets.known(names)
                if state is not None:
                    self._check(state, now_ns, commits_ends=commits_ends)
                if number % _SETS_AT_ONCE == 0:
                    # Heartbeats and requests must not wait for thousands of sets.
                    await asyncio.sleep(0)
            if commits_ends:
                self._ends_at_ns = now_ns + _ENDS_S * _S
            if is_sweep:
                all_at_ns = self._next_sweep_ns(now_ns)
            await self._wait(all_at_ns)

    def _urgent_sets(self, now_ns: int) -> set[SetKey]:
        """
        Returns the sets that changed since the last call, or whose time has come.
        """
        self._urgent.update(names for names, _ in self._liveness.expire(now_ns))
        while self._due and self._due[0][0] <= now_ns:
            self._urgent.add(heappop(self._due)[1])
        names, self._urgent = self._urgent, set()
        return names

    def _next_sweep_ns(self, now_ns: int) -> int:
        interval_ms = self._settings().scan_inactive_master_interval
        # Controllers that began together must not stay in step.
        jitter = self._draw.uniform(0.75, 1.25)
        next_ns = now_ns + int(interval_ms * jitter * 1_000_000)
        replaces_ns = self.authority.replaces_at_ns
        return min(next_ns, replaces_ns) if now_ns < replaces_ns else next_ns

    async def _wait(self, until_ns: int) -> None:
        """
        Waits until a set is urgent, or until a heartbeat or a lease expires.
        """
        expires_ns = self._liveness.expires_ns
        if expires_ns is not None:
            until_ns = min(until_ns, expires_ns + 1)
        if self._due:
            until_ns = min(until_ns, self._due[0][0])
        left_s = (until_ns - self._clock_ns()) / _S
        try:
            async with asyncio.timeout(max(left_s, _WAIT_MIN_S)):
                await self._wake.wait()
        except TimeoutError:
            # Nothing was urgent.
            return

    def _check(self, state: SetState, now_ns: int, *, commits_ends: bool) -> None:
        if not self.authority.is_proven(now_ns):
            return
        due_ns = self._leases.due_ns(state)
        if due_ns is not None and due_ns > now_ns:
            heappush(self._due, (due_ns, state.key))
        facts = self.facts(state)
        commands = due_commands(
            state,
            facts,
            leases_are_over=due_ns is not None and due_ns <= now_ns,
            commits_ends=commits_ends,
        )
        limit_ms = self._settings().drop_unlisted_broker_after
        silent = self._silent.due(state, facts, limit_ms, now_ns)
        self._start(state.key, [*commands, *silent])

    def _start(self, names: SetKey, commands: Sequence[Command]) -> None:
        if names in self._busy:
            self._again.add(names)
        elif commands:
            task = asyncio.create_task(self._run_commands(names, commands))
            self._busy[names] = task
            task.add_done_callback(lambda _: self._ended(names))

    async def _run_commands(self, names: SetKey, commands: Sequence[Command]) -> None:
        try:
            for command in commands:
                await self.ask(names, command)
        except PystoreError as error:
            # The next check tries again; the same line is reported once.
            if str(error) != self._said:
                self._said = str(error)
                self._say(f"broker set {names[1]} of cluster {names[0]}: {error}")

    def _ended(self, names: SetKey) -> None:
        self._busy.pop(names, None)
        if names in self._again:
            self._again.discard(names)
            self.check_soon(names)

    async def _prove(self) -> None:
        """
        Proves the term at intervals, also when there is nothing to commit (C2).
        """
        while True:
            due_ns = self.authority.prove_at_ns
            if due_ns is None:
                await self._look()
                continue
            left_s = (due_ns - self._clock_ns()) / _S
            if left_s > 0:
                await asyncio.sleep(left_s)
                continue
            await self._prove_once()

    def _is_member(self, names: SetKey, broker_id: int) -> bool:
        state = self.sets.known(names)
        return state is not None and state.replica(broker_id) is not None

    async def _look(self) -> None:
        """
        Looks whether the records are there yet: a term that lasts as long as the
        process needs no proof, but its files may be removed, or replaced by others, in
        which another controller may lead.

        Raises:
            NotAStoreError: they are not: this process must not make an empty store.
        """
        await asyncio.sleep(_LOOK_S)
        try:
            await self._threads.run(CallKind.PROOF, self._store.get, PROOF)
        except (FormatError, StorageError, UnavailableError):
            # The session may outlive it; a commit that fails says more.
            return

    async def _prove_once(self) -> None:
        proof: list[Op] = [self.authority.term.check, Put(PROOF, b"")]
        try:
            version = await self._threads.run(CallKind.PROOF, self._store.commit, proof)
        except SessionLostError:
            raise
        except (StorageError, UnavailableError, UnknownOutcomeError):
            # Without a proof nothing is granted or sent; the session may outlive the
            # failure.
            await asyncio.sleep(_RETRY_S)
            return
        if version is None:
            raise SessionLostError("another controller leads")

    def _note(self, before: SetState, after: SetState) -> None:
        for one in before.replicas:
            now = after.replica(one.broker_id)
            if now is None:
                self._liveness.forget(after.key, one.broker_id)
            elif now.incarnation != one.incarnation:
                self._liveness.replaced(
                    after.key, one.broker_id, now.incarnation, self._clock_ns()
                )
        if not after.is_known:
            self._leases.forget(after.key)
        self._changed(before, after)
        self.check_soon(after.key)
