"""
A master's in-sync decisions under random facts, beside a model of their facts.

The model knows what every process holds and what the controller may have committed.
It does not know how decisions are made, only what must be true of them.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from lib.ha.replica_set import ReplicaSet, member

from pystore.ha.insync.ack import Ack, AckOutcome
from pystore.ha.insync.config import SetRules
from pystore.ha.insync.set_change import SetChange
from pystore.ha.wire.codes import AckStatus
from pystore.replicaset import AgreedSet, Member, ids_of

SLAVES = (2, 3)
slaves = st.sampled_from(SLAVES)
some_slaves = st.one_of(st.just(set[int]()), st.sets(slaves))


class Judgement(RuleBasedStateMachine):
    """
    Three slaves that connect, ack, restart and leave; a controller whose answers get
    lost, and come late.
    """

    @initialize(
        minimum=st.sampled_from([1, 1, 2]),
        listed=some_slaves,
        candidates=some_slaves,
        end=st.integers(0, 5),
        is_synced=st.booleans(),
    )
    def begin(
        self,
        minimum: int,
        listed: set[int],
        candidates: set[int],
        end: int,
        is_synced: bool,
    ) -> None:
        """An election, with the listed members and candidates."""
        self.minimum = minimum
        self.replicas = ReplicaSet(
            {1} | listed,
            candidates - listed,
            end=end * 10,
            rules=SetRules(min_in_sync=minimum, serves_synced=is_synced),
        )
        self.monitor = self.replicas.monitor
        self.start = dict.fromkeys(SLAVES, 1)
        # What each process holds: (received, flushed).
        self.holds: dict[Member, tuple[int, int]] = {}
        self.linked: dict[int, bool] = {}
        # Links of processes that ended: the master has not noticed it.
        self.lingering: set[int] = set()
        self.confirm = 0
        self.completed = dict.fromkeys(Ack, 0)
        self.committed = self.monitor.set_now
        self.under_way: list[SetChange] = []
        self.asked: SetChange | None = None

    def process(self, broker_id: int) -> Member:
        """The process of a broker that runs now."""
        return member(broker_id, self.start[broker_id])

    @rule(size=st.integers(1, 4), flushed=st.booleans())
    def append(self, size: int, flushed: bool) -> None:
        """The log grows by records of 10 bytes."""
        for _ in range(size):
            end = self.replicas.end + 10
            self.replicas.append(end, end if flushed else 0)

    @rule(broker_id=slaves, is_flushed=st.booleans())
    def catch_up(self, broker_id: int, is_flushed: bool) -> None:
        """A slave holds everything; if it is not there, it comes first."""
        if broker_id not in self.linked:
            self.connect(broker_id, learner=False)
        end = self.replicas.end
        _, flushed = self.holds.get(self.process(broker_id), (0, 0))
        flushed = end if is_flushed else flushed
        self.holds[self.process(broker_id)] = end, flushed
        self.replicas.ack(broker_id, end, flushed=flushed)

    @rule(broker_id=slaves, learner=st.sampled_from([False] * 5 + [True]))
    def connect(self, broker_id: int, learner: bool) -> None:
        """A slave comes, or comes again while its old link lives."""
        self.replicas.connect(broker_id, start=self.start[broker_id], learner=learner)
        self.linked[broker_id] = learner
        self.lingering.discard(broker_id)

    @precondition(lambda self: self.linked)
    @rule(
        data=st.data(),
        share=st.integers(0, 4),
        lag_ms=st.sampled_from([0, 500, 3_000]),
        status=st.sampled_from([AckStatus.OK] * 6 + list(AckStatus)),
    )
    def ack(
        self, data: st.DataObject, share: int, lag_ms: int, status: AckStatus
    ) -> None:
        """A slave holds more, in whole records or not, and says so."""
        broker_id = data.draw(st.sampled_from(sorted(self.linked)))
        process = self.process(broker_id)
        received, flushed = self.holds.get(process, (0, 0))
        received += (self.replicas.end - received) * share // 4
        flushed = data.draw(st.sampled_from([flushed, received]))
        self.holds[process] = received, flushed
        self.replicas.ack(
            broker_id,
            received,
            flushed=flushed,
            sent=max(0, self.replicas.now - lag_ms),
            status=status,
        )

    @precondition(lambda self: self.linked)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """A link ends."""
        broker_id = data.draw(st.sampled_from(sorted(self.linked)))
        del self.linked[broker_id]
        self.replicas.leave(broker_id)

    @rule(broker_id=slaves)
    def lose_power(self, broker_id: int) -> None:
        """A process ends, and what it had not flushed is gone; its link lingers."""
        _, flushed = self.holds.get(self.process(broker_id), (0, 0))
        self.start[broker_id] += 1
        self.holds[self.process(broker_id)] = flushed, flushed
        if broker_id in self.linked:
            del self.linked[broker_id]
            self.lingering.add(broker_id)

    @rule(ms=st.sampled_from([1, 500, 1_001, 5_000, 16_000]))
    def pass_time(self, ms: int) -> None:
        """Checks come due."""
        self.replicas.wait_until(self.replicas.now + ms)

    @rule()
    def ask(self) -> None:
        """The master asks, if it wishes anything."""
        change = self.monitor.proposal(self.replicas.now)
        if change is not None:
            assert self.asked is None
            self.asked = change
            self.under_way.append(change)

    @precondition(lambda self: self.asked is not None)
    @rule(commits=st.booleans(), says=st.sampled_from(["the truth", "nothing", "no"]))
    def answer(self, commits: bool, says: str) -> None:
        """The controller takes the change, or refuses it; or the answer is lost."""
        assert self.asked is not None
        change, self.asked = self.asked, None
        now = self.replicas.now
        if says == "nothing":
            self.monitor.unknown(change, now)
            return
        self.under_way.remove(change)
        if says == "the truth" and commits and self.commit(change):
            self.monitor.agreed(self.committed, now)
        else:
            self.monitor.refused(change, frozenset(), now)

    @precondition(lambda self: self.asked is not None)
    @rule(unheard=some_slaves)
    def refuse(self, unheard: set[int]) -> None:
        """The controller does not hear some slaves, so it adds none of them."""
        assert self.asked is not None
        change, self.asked = self.asked, None
        self.under_way.remove(change)
        self.decide(change, unheard)

    def decide(self, change: SetChange, unheard: set[int]) -> None:
        """What a controller does that answers, and hears all but some."""
        added = ids_of(change.members - self.committed.members)
        now = self.replicas.now
        if change.set_epoch != self.committed.set_epoch:
            self.monitor.agreed(self.committed, now)
        elif unheard & added:
            self.monitor.refused(change, frozenset(unheard & added), now)
        else:
            self.commit(change)
            self.monitor.agreed(self.committed, now)

    @rule(unheard=some_slaves, step_ms=st.sampled_from([200, 1_000, 3_000]))
    def recover(self, unheard: set[int], step_ms: int) -> None:
        """
        B12: the controller answers from now on, although it does not hear some slaves,
        and slaves with a link hold everything. Within the time that a member may lag,
        and one check, a set that is large enough has acknowledged its records; within
        a few steps, if every replica that is listed has a link and every process with a
        link is alive. Members that ack have stayed.
        """
        if self.asked is not None:
            self.refuse(unheard)
        else:
            self.poll()
        rules = SetRules()
        until_ms = self.replicas.now + rules.lag_ms_max + rules.check_ms + 2 * step_ms
        until_ms += rules.retry_ms
        soon_ms = self.replicas.now + rules.retry_ms + 3 * step_ms
        self.append(1, flushed=True)
        listed = self.committed.members | self.committed.candidates
        linked = {
            self.process(one)
            for one, is_learner in self.linked.items()
            if not is_learner
        }
        stayed = linked & self.committed.members
        is_whole = listed <= linked | {member(1)} and not self.lingering
        while self.replicas.now < until_ms:
            self.replicas.wait_until(self.replicas.now + step_ms)
            for broker_id in sorted(self.linked):
                self.holds[self.process(broker_id)] = (self.replicas.end,) * 2
                self.replicas.ack(broker_id, self.replicas.end)
            while (change := self.next_change()) is not None:
                self.decide(change, unheard)
            self.observe()
            if is_whole and self.replicas.now >= soon_ms:
                self.check_reached()
        assert stayed <= self.committed.members
        assert not self.committed.candidates
        self.check_reached()

    def check_reached(self) -> None:
        """What every member holds is acknowledged."""
        if len(self.committed.members) >= self.minimum:
            assert self.replicas.end == self.monitor.ack_policy.completed(Ack.ALL)

    def next_change(self) -> SetChange | None:
        """What the master requests now."""
        return self.monitor.proposal(self.replicas.now)

    def observe(self) -> None:
        """Every invariant, in the middle of a rule."""
        self.nothing_moves_back()
        self.offsets_are_in_order()
        self.who_may_be_elected_has_what_was_promised()
        self.enough_of_them_have_it()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def take_late(self, data: st.DataObject) -> None:
        """A change whose answer is not known is taken, or found too old."""
        change = data.draw(st.sampled_from(self.under_way))
        if change is not self.asked:
            self.under_way.remove(change)
            self.commit(change)

    @rule()
    def poll(self) -> None:
        """The master reads the set."""
        if self.committed.set_epoch > self.monitor.set_now.set_epoch:
            # Whatever was asked for is decided by that; its answer says nothing new.
            self.asked = None
        self.monitor.agreed(self.committed, self.replicas.now)

    def commit(self, change: SetChange) -> bool:
        """What the controller does: only with the version that it has."""
        if change.set_epoch != self.committed.set_epoch:
            return False
        version = change.set_epoch + 1
        self.committed = AgreedSet(change.members, version, change.candidates)
        return True

    def electable(self) -> set[Member]:
        """Replicas that may be elected instead of the master, now or later."""
        late = [
            one.members
            for one in self.under_way
            if one.set_epoch == self.committed.set_epoch
        ]
        now = self.committed.members | self.committed.candidates
        return set(now.union(*late)) - {member(1)}

    @invariant()
    def nothing_moves_back(self) -> None:
        """RMQ-R128: neither the confirm offset nor what is completed."""
        assert self.monitor.confirm_offset >= self.confirm
        self.confirm = self.monitor.confirm_offset
        for ack in Ack:
            offset = self.monitor.ack_policy.completed(ack)
            assert offset >= self.completed[ack], ack
            self.completed[ack] = offset

    @invariant()
    def what_is_refused_is_known_at_once(self) -> None:
        """RMQ-R206: the picture is that of this moment."""
        policy = self.monitor.ack_policy
        assert self.monitor.refusals == {ack: policy.refusal(ack) for ack in Ack}

    @invariant()
    def offsets_are_in_order(self) -> None:
        """The end bounds all; what is acked by all is confirmed; A1."""
        done = self.completed
        assert done[Ack.ALL_SYNCED] <= done[Ack.ALL] <= self.confirm
        assert self.confirm <= self.replicas.end
        assert 0 == self.confirm % 10

    @invariant()
    def who_may_be_elected_has_what_was_promised(self) -> None:
        """
        B8: whichever change the controller takes, and whenever. A process that ended
        had it at least; what it flushed is on its disk.
        """
        for one in self.electable():
            received, flushed = self.holds.get(one, (0, 0))
            assert received >= self.completed[Ack.ALL], one
            assert flushed >= self.completed[Ack.ALL_SYNCED], one

    @invariant()
    def enough_of_them_have_it(self) -> None:
        """RMQ-R215 to RMQ-R217: a wait that would end now ends with distinct copies."""
        for ack in (Ack.ALL, Ack.ALL_SYNCED):
            end = self.completed[ack]
            self.replicas.waits.begin(ack, end, self.replicas.now + 1)
        for settled in self.replicas.waits.settle(self.replicas.now, None):
            assert AckOutcome.REACHED is settled.outcome
            copies = {1} | {
                one.broker_id
                for one in self.holds
                if self.holds[one][0] >= settled.end_offset
            }
            assert len(copies) >= self.minimum or settled.end_offset == 0


Judgement.TestCase.settings = settings(stateful_step_count=50)
TestJudgement = Judgement.TestCase
TestJudgement.__doc__ = (
    "In every case a replica that may be elected holds what was acknowledged."
)


@given(
    candidates=st.sets(slaves, min_size=1),
    lost=some_slaves,
    unheard=st.sets(slaves),
    first_answers=st.lists(st.sampled_from(["nothing", "no", "unheard"]), max_size=3),
    step_ms=st.sampled_from([200, 1_000]),
)
def test_an_election_holds_no_ack_that_every_listed_replica_could_give(
    candidates: set[int],
    lost: set[int],
    unheard: set[int],
    first_answers: list[str],
    step_ms: int,
) -> None:
    """
    B7, B12: the candidates reach the master, some not for long; the controller does not
    hear some of them, and does not answer at first.
    """
    machine = Judgement()
    machine.begin(1, set(), candidates, 3, is_synced=True)
    for broker_id in sorted(candidates):
        machine.catch_up(broker_id, is_flushed=True)
    for broker_id in sorted(lost & candidates):
        del machine.linked[broker_id]
        machine.replicas.leave(broker_id)
    for answer in first_answers:
        machine.ask()
        if machine.asked is not None and answer == "unheard":
            machine.refuse(unheard)
        elif machine.asked is not None:
            machine.answer(commits=False, says=answer)
        machine.pass_time(step_ms)
        machine.observe()
    machine.recover(unheard, step_ms)
