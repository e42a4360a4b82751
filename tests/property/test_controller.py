"""
Any commands in any order, from brokers that die, restart and send late requests.

The invariants are checked after each event (`pystore.controller.model.invariants`);
here are the invariants of a whole history.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from lib.controller.broker_set_driver import Brokers, incarnation

from pystore.controller.model.codec import decode, encode
from pystore.controller.model.commands import (
    AlterSet,
    ApplyId,
    ChangeBroker,
    ChangePolicy,
    Clean,
    DeleteSet,
    DropUnlisted,
    Elect,
    EndLeases,
    Readmit,
    Recovery,
    Register,
    SeeEnds,
    StepDown,
    Trigger,
)
from pystore.controller.model.decision import Accepted
from pystore.controller.model.events import MasterElected
from pystore.controller.model.facts import LastHeartbeat
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.replica import LogStanding
from pystore.replicaset import Member

ids = st.integers(1, 5)
few = st.sets(ids, max_size=3)


class Histories(RuleBasedStateMachine):
    """
    One set, its brokers, and everything that was ever asked of the controller.
    """

    def __init__(self) -> None:
        super().__init__()
        self.brokers = Brokers()
        self.counters: dict[int, int] = {}
        self.masters: dict[int, Member] = {}
        self.owners: dict[int, str] = {}
        self.late: list[AlterSet | StepDown] = []

    @rule(code=st.sampled_from("abcdefg"), broker_id=st.none() | ids)
    def apply_for_an_id(self, code: str, broker_id: int | None) -> None:
        """
        For the next one, or for any.
        """
        wanted = broker_id or self.brokers.state.next_id
        decision = self.brokers.ask(ApplyId(wanted, code))
        if isinstance(decision, Accepted):
            assert self.owners.setdefault(wanted, code) == code

    @rule(
        broker_id=ids,
        end=st.integers(0, 9),
        told=st.sampled_from(LogStanding),
        before=st.sampled_from(["silent", "ended", "disconnected", "alive"]),
    )
    def restart(self, broker_id: int, end: int, told: LogStanding, before: str) -> None:
        """
        A process begins, which has or has not lost something; the one before is silent,
        was found dead, lost its connection, or is alive.
        """
        counter = self.counters[broker_id] = self.counters.get(broker_id, 0) + 1
        copy = told is LogStanding.COPIED
        process = incarnation(counter - copy, counter if copy else 0)
        recovery = Recovery(
            process,
            "boot",
            LogEnd(self.brokers.state.epoch, end),
            end,
            is_clean=told is LogStanding.SOUND,
            is_lossy=told is LogStanding.LOSSY,
        )
        if before in ("silent", "ended"):
            self.brokers.die(broker_id, has_ended=before == "ended")
        old = self.brokers.state.replica(broker_id)
        is_heard = old is not None and self.brokers.facts.is_alive(old)
        if is_heard and before == "disconnected":
            self.brokers.disconnect(broker_id)
        master = self.brokers.state.master
        address = f"host:{1 + end % 2}"
        decision = self.brokers.ask(Register(broker_id, address, recovery))
        if isinstance(decision, Accepted):
            self.brokers.hear(broker_id, LastHeartbeat(process, recovery.position))
            assert not is_heard or (before, address) == (
                "disconnected",
                old and old.address,
            )
            if master is not None and old is not None and master == old.member:
                may_have_lease = master.incarnation and address != old.address
                assert not may_have_lease or master in self.brokers.state.unreleased
        elif is_heard:
            assert master == self.brokers.state.master

    @rule(broker_id=ids)
    def start_in_java(self, broker_id: int) -> None:
        """
        A broker of RocketMQ, perhaps on what was a store of pystore.
        """
        if isinstance(self.brokers.ask(Register(broker_id, "java:1")), Accepted):
            self.brokers.hear(broker_id, LastHeartbeat())

    @rule(broker_ids=few)
    def die(self, broker_ids: set[int]) -> None:
        """
        Their heartbeats end.
        """
        self.brokers.die(*broker_ids)

    @rule(broker_id=ids, end=st.integers(0, 2**40), is_ill=st.booleans())
    def reach(self, broker_id: int, end: int, is_ill: bool) -> None:
        """
        A heartbeat says how far it is.
        """
        last_heartbeat = self.brokers.last_heartbeats.get(broker_id)
        if last_heartbeat is not None:
            here = LogEnd(self.brokers.state.epoch, end)
            now = LastHeartbeat(last_heartbeat.incarnation, here, is_ill=is_ill)
            self.brokers.last_heartbeats[broker_id] = now

    @rule(
        trigger=st.sampled_from(Trigger),
        broker_id=ids,
        is_unclean=st.sampled_from([False, False, True]),
        may_replace=st.sampled_from([True, True, False]),
    )
    def elect(
        self, trigger: Trigger, broker_id: int, is_unclean: bool, may_replace: bool
    ) -> None:
        """
        Requests an election.
        """
        named = None if trigger is Trigger.CONTROLLER else broker_id
        before = self.brokers.state
        self.brokers.may_replace = may_replace
        decision = self.brokers.ask(Elect(trigger, named, is_unclean))
        self.brokers.may_replace = True
        changes = decision.events if isinstance(decision, Accepted) else ()
        for change in (event.change for event in changes):
            if not isinstance(change, MasterElected):
                continue
            elected = before.replica(change.master.broker_id)
            assert elected is not None
            assert not elected.is_learner
            assert change.master.broker_id in self.brokers.last_heartbeats
            if before.master is not None and not may_replace:
                former = before.replica(before.master.broker_id)
                assert self.brokers.facts.has_ended(former)
            if not is_unclean and before.is_founded:
                assert elected.broker_id in {one.broker_id for one in before.listed}
                is_sound = elected.standing is LogStanding.SOUND
                assert is_sound or elected.standing is LogStanding.RESTARTED

    @precondition(lambda self: self.brokers.state.master is not None)
    @rule(broker_ids=few, keeps=st.booleans(), is_fence=st.booleans())
    def change_the_set(self, broker_ids: set[int], keeps: bool, is_fence: bool) -> None:
        """
        The master wants some set; what it asks for may also arrive later.
        """
        state, master = self.brokers.state, self.brokers.master
        members = {one.member for one in state.replicas if one.broker_id in broker_ids}
        command = AlterSet(
            master,
            state.epoch,
            state.agreed.set_epoch,
            frozenset({master, *members}),
            state.agreed.candidates - members if keeps else frozenset(),
            is_fence,
        )
        self.late += [command, StepDown(master, state.epoch)]
        self.brokers.ask(command)

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def hear_late(self, data: st.DataObject) -> None:
        """
        Something that was sent in the past arrives now, perhaps again.
        """
        command = data.draw(st.sampled_from(self.late))
        state = self.brokers.state
        decision = self.brokers.ask(command)
        if isinstance(command, AlterSet) and isinstance(decision, Accepted):
            assert (command.epoch, command.set_epoch) == (
                state.epoch,
                state.agreed.set_epoch,
            )
            assert command.master == state.master

    @rule(broker_ids=few, with_living=st.booleans())
    def clean(self, broker_ids: set[int], with_living: bool) -> None:
        """
        Some brokers are forgotten, or all.
        """
        self.brokers.ask(Clean(frozenset(broker_ids), with_living))

    @rule(broker_id=ids, is_learner=st.booleans(), is_automatic=st.booleans())
    def operate(self, broker_id: int, is_learner: bool, is_automatic: bool) -> None:
        """
        An operator changes a broker or the elections.
        """
        self.brokers.ask(ChangeBroker(broker_id, is_learner))
        self.brokers.ask(ChangePolicy(broker_id, is_automatic))
        self.brokers.ask(SeeEnds())

    @rule(broker_id=ids)
    def readmit(self, broker_id: int) -> None:
        """
        An operator vouches for a store.
        """
        self.brokers.ask(Readmit(broker_id))

    @rule()
    def delete(self) -> None:
        """
        An operator deletes the set, if no broker is alive.
        """
        self.brokers.ask(DeleteSet())

    @rule(broker_id=ids)
    def drop(self, broker_id: int) -> None:
        """
        A broker was silent for long; those that were listed stay.
        """
        before = self.brokers.state
        self.brokers.ask(DropUnlisted(frozenset({broker_id})))
        assert before.listed == self.brokers.state.listed

    @rule(epoch=st.integers(0, 9))
    def end_leases(self, epoch: int) -> None:
        """
        The leases of an epoch have expired, perhaps of an earlier one.
        """
        self.brokers.ask(EndLeases(epoch))

    @invariant()
    def one_master_per_epoch(self) -> None:
        """
        Over the whole history, also by another incarnation of the same broker.
        """
        state = self.brokers.state
        if state.master is not None:
            assert self.masters.setdefault(state.epoch, state.master) == state.master

    @invariant()
    def the_record_is_the_state(self) -> None:
        """
        Whatever happened, the next controller reads the same.
        """
        assert self.brokers.state == decode(encode(self.brokers.state), "key")


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
