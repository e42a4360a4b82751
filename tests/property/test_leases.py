"""
Controllers that follow each other, and what masters are allowed meanwhile (B8, C1 to
C3).

Every clock has a rate of its own between the slowest and the fastest, answers come late
or never, controllers are cut off and do not notice, die and start again. The decisions,
the terms and the leases are the real ones, on both sides; only the record store is a
few lines: the leader, and the end of sessions.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from lib.controller.broker_set_driver import incarnation, start
from lib.remoting.skewed_clocks import MS, SOON, Clock, delays, pauses, rates

from pystore.controller.decide.dispatch import decide
from pystore.controller.liveness.authority import Authority
from pystore.controller.liveness.leases import Leases
from pystore.controller.model.apply import apply_all
from pystore.controller.model.commands import (
    AlterSet,
    ApplyId,
    Command,
    Elect,
    EndLeases,
    Register,
    StepDown,
    Trigger,
)
from pystore.controller.model.decision import Accepted, Rejected
from pystore.controller.model.facts import Facts, LastHeartbeat
from pystore.controller.model.state import SetState
from pystore.ha.master.lease import Lease, lease_from
from pystore.records.term import Term
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import Member

IDS = (1, 2, 3)
MEMBERS = {number: Member(number, incarnation(1, number)) for number in IDS}

brokers = st.sampled_from(IDS)
controllers = st.integers(0, 1)


@dataclass
class Controller:
    """
    A process and its assumptions, until it dies or leads again.
    """

    clock: Clock
    authority: Authority | None = None
    leases: Leases | None = None
    state: SetState = field(default_factory=lambda: SetState("cluster", "set"))


class Successions(RuleBasedStateMachine):
    """
    Two controllers, three brokers of one set.
    """

    @initialize(
        rates_of=st.lists(rates, min_size=6, max_size=6),
        session_ms=st.sampled_from((None, 6_000, 40_000)),
    )
    def begin(self, rates_of: list[int], session_ms: int | None) -> None:
        """
        With clocks, and a store whose sessions end, or one whose lock does not.
        """
        clocks = [Clock(rate, 7_777 * MS * n) for n, rate in enumerate(rates_of)]
        self.now = 0
        self.length_ns = None if session_ms is None else session_ms * MS
        self.server, *rest = clocks
        self.controllers = [Controller(clock) for clock in rest[:2]]
        self.clocks: dict[int, Clock] = dict(zip(IDS, rest[2:], strict=True))
        self.leader: Controller | None = None
        self.touched_ns = 0
        self.numbers = count(1)
        self.committed = SetState("cluster", "set")
        self.held: list[tuple[int, int, Lease]] = []
        self._lead(self.controllers[0], 0, 0)
        for number in IDS:
            code, told = f"{number}", start(1, bits=number)
            self._ask(self.controllers[0], ApplyId(number, code))
            self._ask(self.controllers[0], Register(number, f"host:{code}", told))
        self._ask(self.controllers[0], Elect(Trigger.BROKER, 1))
        self.now += 3_000 * MS
        self._admit(self.controllers[0])

    @rule(pause=pauses)
    def wait(self, pause: int) -> None:
        """
        Time passes.
        """
        self.now += pause

    @rule(number=st.integers(0, 9))
    def wait_for_an_end(self, number: int) -> None:
        """
        Until the last moment before something ends, or the first after it.
        """
        ends: list[int] = []
        if self.length_ns is not None:
            touched_ns = self.server.ns(self.touched_ns)
            ends.append(self.server.when(touched_ns + self.length_ns))
        for one in self.controllers:
            if one.authority is not None and one.leases is not None:
                until_ns = one.authority.until_ns
                due_ns = one.leases.due_ns(one.state)
                ends += [
                    one.clock.when(ns)
                    for ns in (until_ns, due_ns, one.authority.replaces_at_ns)
                    if ns is not None
                ]
        later = sorted({at for end in ends for at in (end - 1, end) if at > self.now})
        if later:
            self.now = later[number % len(later)]

    @rule(number=controllers, there=delays, back=delays, is_lost=st.booleans())
    def prove(self, number: int, there: int, back: int, *, is_lost: bool) -> None:
        """
        Commit with the term's check: it proves the time at which it was sent.
        """
        one = self.controllers[number]
        sent_ns = one.clock.ns(self.now)
        self.now += there
        if one is self.leader and not self._has_expired():
            self.touched_ns = self.now
            self.now += back
            if not is_lost:
                self._note(one, sent_ns)

    def _note(self, one: Controller, sent_ns: int) -> None:
        if one.authority is not None:
            term = one.authority.term
            term.sent_ns = max(term.sent_ns, sent_ns)

    @rule(number=controllers, is_killed=st.booleans(), there=delays, back=delays)
    def succeed(self, number: int, there: int, back: int, *, is_killed: bool) -> None:
        """
        Campaign: the answer arrives once no other controller leads.
        """
        one = self.controllers[number]
        if self.leader is not None and is_killed:
            self.leader.authority = self.leader.leases = None
            if self.length_ns is None:
                self.leader = None
        self._lead(one, there, back)

    def _lead(self, one: Controller, there: int, back: int) -> None:
        sent_ns = one.clock.ns(self.now)
        self.now += there
        if self.leader is not None and not self._has_expired():
            return
        self.leader, self.touched_ns = one, self.now
        self.now += back
        term = Term("controller", "", next(self.numbers), sent_ns, self.length_ns)
        one.authority = Authority(term, one.clock.ns(self.now))
        one.leases = Leases(one.authority)
        one.state = self.committed

    def _has_expired(self) -> bool:
        """
        Returns whether the servers have ended the leader's session.
        """
        if self.length_ns is None:
            return False
        passed_ns = self.server.ns(self.now) - self.server.ns(self.touched_ns)
        return passed_ns >= self.length_ns

    @rule(there=delays)
    def beat(self, there: int) -> None:
        """
        Send heartbeats that take a while.
        """
        sent_ns = {number: clock.ns(self.now) for number, clock in self.clocks.items()}
        self.now += there + SOON
        for one in self.controllers:
            for number, ns in sent_ns.items():
                self._grant(one, number, ns)

    @invariant()
    def all_brokers_beat(self) -> None:
        """
        All the time, to all controllers.
        """
        self.beat(0)

    def _grant(self, one: Controller, broker_id: int, sent_ns: int) -> None:
        if one.leases is None:
            return
        now_ns, epoch = one.clock.ns(self.now), one.state.epoch
        requester = MEMBERS[broker_id]
        length_ms = one.leases.grant(one.state, requester, epoch, 10_000, now_ns)
        if length_ms:
            # As if its answer came at once: a late one leaves it less.
            lease = lease_from(sent_ns, sent_ns // MS, length_ms)
            self.held.append((broker_id, epoch, lease))

    @rule(dead=brokers)
    def scan(self, dead: int) -> None:
        """
        Elect, because the heartbeats of a broker are missing.
        """
        self._wait_until_it_may()
        self._elect(Elect(Trigger.CONTROLLER), {dead})

    @rule(broker_id=brokers)
    def switch(self, broker_id: int) -> None:
        """
        Elect another broker by its id.
        """
        self._wait_until_it_may()
        self._elect(Elect(Trigger.OPERATOR, broker_id))

    def _wait_until_it_may(self) -> None:
        """
        Wait until the leader is old enough, proving its term all the time.
        """
        one = self.leader
        if one is not None and one.authority is not None and not self._has_expired():
            self.now = max(self.now, one.clock.when(one.authority.replaces_at_ns))
            self.touched_ns = self.now
            self._note(one, one.clock.ns(self.now))

    def _elect(self, command: Elect, dead: AbstractSet[int] = frozenset()) -> None:
        one = self.leader or self.controllers[0]
        self._ask(one, command, dead)
        self._admit(one)

    def _admit(self, one: Controller) -> None:
        state = one.state
        if state.master is not None:
            every_member = frozenset(MEMBERS.values())
            epoch, set_epoch = state.epoch, state.agreed.set_epoch
            self._ask(one, AlterSet(state.master, epoch, set_epoch, every_member))

    @rule(number=brokers)
    def step_down(self, number: int) -> None:
        """
        Resign, as the master that holds a lease: its lease ends with that.
        """
        one, master = self.leader or self.controllers[0], self.committed.master
        if master is not None and master == MEMBERS[number]:
            self.held = [held for held in self.held if MEMBERS[held[0]] != master]
            self._ask(one, StepDown(master, self.committed.epoch))

    @invariant()
    def leases_are_over_when_that_is_believed(self) -> None:
        """
        Every controller believes it as soon as it may, of the masterships that it
        knows: the next controller may have elected the same broker again since.
        """
        for one in self.controllers:
            due_ns = one.leases.due_ns(one.state) if one.leases is not None else None
            if due_ns is not None and one.clock.ns(self.now) >= due_ns:
                ended = {
                    number for number in IDS if MEMBERS[number] in one.state.unreleased
                }
                assert not self._holders(one.state.epoch) & ended
                self._ask(one, EndLeases(one.state.epoch))

    def _ask(
        self, one: Controller, command: Command, dead: AbstractSet[int] = frozenset()
    ) -> None:
        """
        Decide and commit, if the term is still its own.
        """
        if one.authority is None or one is not self.leader or self._has_expired():
            return
        may_replace = one.authority.may_replace(one.clock.ns(self.now))
        last_heartbeats = {
            n: LastHeartbeat(MEMBERS[n].incarnation) for n in set(IDS) - dead
        }
        decision = decide(
            one.state, command, Facts(last_heartbeats, may_replace=may_replace)
        )
        if isinstance(decision, Accepted):
            one.state = apply_all(one.state, decision.events)
            self.committed, self.touched_ns = one.state, self.now
            self._note(one, one.clock.ns(self.now))

    def _holders(self, last_epoch: int | None = None) -> set[int]:
        """
        Returns the brokers whose clocks leave them a lease, of a mastership that began
        with that epoch or before; ``None``: of any.
        """
        return {
            broker_id
            for broker_id, epoch, lease in self.held
            if (last_epoch is None or epoch <= last_epoch)
            and (ns := self.clocks[broker_id].ns(self.now)) < lease.boottime_ns
            and ns // MS < lease.wall_ms
        }

    @invariant()
    def no_two_masters_have_a_lease(self) -> None:
        """
        Not at any moment.
        """
        assert len(self._holders()) <= 1

    @invariant()
    def a_lease_is_the_masters_or_waited_for(self) -> None:
        """
        Each holder of a lease is recorded as such.
        """
        known = self.committed.unreleased | {self.committed.master}
        assert {MEMBERS[number] for number in self._holders()} <= known


Successions.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestSuccessions = Successions.TestCase


def test_a_former_leader_ends_no_later_lease() -> None:
    """
    It saw broker 1 replaced and believes that lease over; the next controller elected
    broker 1 again: its new lease is of a later epoch, which that belief cannot end.
    """
    history = Successions()
    former, successor = 0, 1
    history.begin([9] * 6, 6_000)
    _check(history)
    # It is the master already: this waits until the controller may replace it.
    history.switch(1)
    _check(history)
    history.switch(2)
    _check(history)
    history.succeed(successor, 8_181 * MS, 0, is_killed=False)
    _check(history)
    history.switch(1)
    _check(history)
    history.beat(0)
    _check(history)

    one = history.controllers[former]
    assert one.authority is not None
    assert one.leases is not None
    due_ns, now_ns = one.leases.due_ns(one.state), one.clock.ns(history.now)
    assert due_ns is not None
    assert due_ns <= now_ns
    assert frozenset({MEMBERS[1]}) == one.state.unreleased
    assert {1} == history._holders()
    # The product acts on that belief nowhere: the term is not proven, and the command
    # names an epoch that is over.
    assert not one.authority.is_proven(now_ns)
    decision = decide(history.committed, EndLeases(one.state.epoch), Facts({}))
    assert isinstance(decision, Rejected)
    assert ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH is decision.code


def _check(history: Successions) -> None:
    """
    Checks the invariants, in the order in which Hypothesis does.
    """
    history.a_lease_is_the_masters_or_waited_for()
    history.all_brokers_beat()
    history.leases_are_over_when_that_is_believed()
    history.no_two_masters_have_a_lease()
