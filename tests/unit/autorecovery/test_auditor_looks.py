"""
Looks at replicas: what their answers mark, and what no answer does not.

BookKeeper's tests of its checks, by name:

| AuditorPeriodicCheckTest and others | here |
|---|---|
| testEntryLogCorruption, testIndexCorruption | changed: `test_what_a_replica_says_about_its_files_is_marked`; bytes are read by workers and by verification |
| testPeriodicCheckWhenDisabled | kept: `test_while_disabled_no_replica_is_asked_and_nothing_is_marked` |
| testPeriodicCheckWhenLedgerDeleted | kept: `test_a_set_that_is_removed_during_a_check_does_not_hold_it_up` |
| testGetLedgerFromZookeeperThrottled | kept: `test_few_replicas_are_asked_at_once` |
| testInitialDelayOfCheckAllLedgers and others | kept: `test_an_auditor_that_follows_checks_when_the_interval_is_over` |
| testCheckAllLedgers | kept: `test_a_check_finishes_with_an_answer_of_each_replica` |
| testTriggerAuditorWithNoPendingAuditTask | kept: `test_the_same_delay_again_looks_at_all_replicas` |
"""  # noqa: E501 - a table

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from lib.autorecovery.audits import (
    SIZE,
    ToldCluster,
    WatchedAuditor,
    a_broker,
    a_replica,
    a_set,
    key_of,
)
from lib.autorecovery.marks import Clock
from lib.remoting.record_stores import InMemory

from pystore.autorecovery.audit_stamp import CHECKED, AuditStamp, read_stamp
from pystore.autorecovery.dead_segment import DeadSegment, encode_dead
from pystore.autorecovery.mark import Missing, Priority, Reason, SegmentMark
from pystore.autorecovery.mark_brake import BRAKE_ALARM
from pystore.autorecovery.segment_key import SegmentKey, page_key
from pystore.autorecovery.settings import RecoverySettings
from pystore.autorecovery.window import decode_page
from pystore.errors import InvalidError
from pystore.records.memory import MemorySpace, MemoryStore
from pystore.records.ops import Put
from pystore.seals import BLOCK_BYTES

DAY_S = 86_400


@pytest.fixture
def space() -> InMemory:
    """Shared records: the backends make no difference here."""
    return InMemory()


@pytest.fixture
def store(space: InMemory) -> MemoryStore:
    """One session."""
    return space.open()


def marked(one: WatchedAuditor) -> dict[SegmentKey, list[int]]:
    """The broker ids whose copies are marked."""
    return {key: sorted(mark.missing) for key, mark in one.queue.list().items()}


class TestFindings:
    """Answers that are definite."""

    def test_what_a_replica_says_about_its_files_is_marked(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """Of settled segments of its log; with what it said."""
        cluster.tell(
            2,
            settled_end=50 * SIZE,
            problems={3 * SIZE: "short by 4096 bytes", 50 * SIZE: "not settled"},
        )
        one.turns(2)
        mark = one.queue.list()[key_of(3)]

        assert {key_of(3): [2]} == marked(one)
        assert Reason.ABSENT is mark.missing[2].reason
        assert "short by 4096 bytes" in mark.missing[2].detail

    def test_a_slave_s_word_about_bytes_of_its_master_marks_the_master(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """D5: with the block, and once for each process; a repair ends it."""
        cluster.blame(3, 1, 5 * SIZE + 2 * BLOCK_BYTES + 77)
        one.turns(3)
        mark = one.queue.list()[key_of(5)]
        assert (Reason.CORRUPT, (2,)) == (
            mark.missing[1].reason,
            mark.missing[1].blocks,
        )
        claim = one.queue.take(one.queue.slot("w/0", lambda: 0.0))
        assert claim is not None
        assert one.queue.done(claim)
        one.queue.kick("test")
        one.turns(10)
        assert {} == marked(one)
        cluster.come_back(1, process=2)
        cluster.change(a_replica(3), incarnation=f"2-{3:032x}")
        one.turns(3)

        assert {key_of(5): [1]} == marked(one)

    def test_a_blamed_source_is_asked_what_it_has_settled(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """D4: what is above may still be cut; an unknown source marks nothing."""
        cluster.blame(3, 1, 5 * SIZE)
        cluster.silent.add(a_replica(1))
        one.turns(3)
        assert {} == marked(one)
        cluster.silent.clear()
        cluster.tell(1, settled_end=5 * SIZE)
        one.turns(20)
        assert {} == marked(one)
        cluster.tell(1, settled_end=6 * SIZE)
        one.queue.kick("test")
        one.turns(3)

        assert {key_of(5): [1]} == marked(one)

    def test_a_broker_of_rocketmq_is_neither_asked_nor_marked(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """D7."""
        cluster.sets["cluster", "set"] = a_set(
            "set", a_broker(1, is_java=True), a_broker(2), a_broker(3)
        )
        cluster.blame(3, 1, 5 * SIZE)
        one.turns(3)

        assert {} == marked(one)
        assert {a_replica(2), a_replica(3)} == set(cluster.asked)

    def test_a_segment_with_one_good_copy_left_comes_first(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """By what is known of the other copies."""
        cluster.tell(2, problems={3 * SIZE: "missing", 4 * SIZE: "missing"})
        cluster.tell(3, problems={4 * SIZE: "missing"})
        one.turns(3)
        marks = one.queue.list()

        assert Priority.FEWER_THAN_ACKS is marks[key_of(3)].priority
        assert Priority.LAST_COPY is marks[key_of(4)].priority
        assert {key_of(3): [2], key_of(4): [2, 3]} == marked(one)


class TestUnknown:
    """No answer, and what is no check."""

    def test_a_storm_of_timeouts_marks_nothing(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """P14, BK-A91: counted, asked again later and less often."""
        cluster.tell(2, problems={3 * SIZE: "missing"})
        cluster.silent |= {a_replica(number) for number in (1, 2, 3)}
        one.turns(600)
        assert {} == marked(one)
        unknown = one.auditor.numbers["unknown_looks"]
        assert 3 * 5 <= unknown <= 3 * 12
        assert AuditStamp().finished_ms == read_stamp(one.store).finished_ms
        cluster.silent.clear()
        one.turns(301)

        assert {key_of(3): [2]} == marked(one)
        assert unknown == one.auditor.numbers["unknown_looks"]
        assert 0 < read_stamp(one.store).finished_ms

    def test_a_check_that_was_cut_short_leaves_no_time(
        self, one: WatchedAuditor, two: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """AR-R14, BK-A117: the next Auditor begins it again."""
        cluster.silent.add(a_replica(3))
        one.turns(5)
        one.store.close()
        assert 0 == read_stamp(two.store).finished_ms
        cluster.silent.clear()
        cluster.asked.clear()
        two.turns(3)

        assert [a_replica(number) for number in (1, 2, 3)] == sorted(cluster.asked)
        assert 0 < read_stamp(two.store).finished_ms

    def test_a_refusal_is_an_answer(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """Of an earlier version: it is shown, and holds up no check."""
        cluster.refusals[a_replica(3)] = InvalidError("no such request")
        one.turns(3)

        assert 1 == one.auditor.numbers["looks_refused"]
        assert 0 < read_stamp(one.store).finished_ms

    def test_while_disabled_no_replica_is_asked_and_nothing_is_marked(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """BK-A37, BK-A131; a check is made once it is enabled."""
        one.queue.disable("test")
        cluster.tell(2, problems={3 * SIZE: "missing"})
        one.turns(5)
        assert [] == cluster.asked
        one.queue.enable()
        one.turns(2)
        assert {key_of(3): [2]} == marked(one)
        one.queue.disable("test")
        cluster.tell(2, problems={4 * SIZE: "missing"})
        one.queue.kick("test")
        one.turns(5)

        assert {key_of(3): [2]} == marked(one)

    def test_a_new_controller_makes_no_replica_return(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """Replicas that it has not heard yet were alive all the time."""
        one.turns(3)
        cluster.asked.clear()
        cluster.new_controller()
        for number in (1, 2, 3):
            cluster.change(a_replica(number), is_alive=False)
        one.turns(3)
        for number in (1, 2, 3):
            cluster.change(a_replica(number), is_alive=True)
        cluster.may_replace = True
        one.turns(3)

        assert [] == cluster.asked


class TestChecks:
    """When replicas are looked at."""

    def test_a_check_finishes_with_an_answer_of_each_replica(
        self, one: WatchedAuditor, cluster: ToldCluster, wall: Clock
    ) -> None:
        """Its time is stored; the next one follows after the interval."""
        one.turns(3)
        assert 3 == len(cluster.asked)
        assert wall.now_ms - read_stamp(one.store).finished_ms < 3000
        one.after(DAY_S - 10)
        assert 3 == len(cluster.asked)
        one.after(10)
        one.turns(2)

        assert 6 == len(cluster.asked)

    @pytest.mark.parametrize(("ago_s", "waits_s"), [(999, 1), (1001, 0), (-50, 1000)])
    def test_an_auditor_that_follows_checks_when_the_interval_is_over(
        self,
        one: WatchedAuditor,
        cluster: ToldCluster,
        wall: Clock,
        ago_s: int,
        waits_s: int,
    ) -> None:
        """BK-A120; a clock that went back counts as a check that finished now."""
        stamp = AuditStamp(finished_ms=wall.now_ms - 1000 * ago_s)
        assert 1000 * waits_s == stamp.wait_ms(wall.now_ms, 1000)
        assert 0 == AuditStamp().wait_ms(wall.now_ms, 1000)
        one.turns(2)
        assert 3 == len(cluster.asked)

    def test_the_same_delay_again_looks_at_all_replicas(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """BK-A30, with nothing pending."""
        one.turns(3)
        one.queue.change_settings({"delay_s": 600})
        one.turns(3)
        assert 6 == len(cluster.asked)
        one.queue.kick("test")
        one.turns(3)

        assert 9 == len(cluster.asked)

    def test_few_replicas_are_asked_at_once(
        self, store: MemoryStore, wall: Clock
    ) -> None:
        """So a turn is short, however many sets there are."""
        cluster = ToldCluster(wall, *(a_set(f"set-{number}") for number in range(40)))
        one = WatchedAuditor(store, cluster, wall)
        one.step()
        assert 32 == len(cluster.asked)
        one.turns(3)
        assert 120 == len(cluster.asked)
        assert 120 == len(set(cluster.asked))

    def test_a_set_that_is_removed_during_a_check_does_not_hold_it_up(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """Nor does a replica that dies."""
        cluster.sets["cluster", "other"] = a_set("other")
        cluster.silent |= {a_replica(2, "other"), a_replica(3)}
        one.turns(3)
        assert 2 == one.auditor.numbers["looks_left"]
        cluster.remove("other")
        cluster.die(3)
        one.turns(2)

        assert 0 < read_stamp(one.store).finished_ms

    def test_a_replica_that_returned_is_looked_at_and_its_marks_are_tried_at_once(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """AR-R17; those of others rest on."""
        cluster.tell(2, problems={3 * SIZE: "missing"})
        cluster.tell(3, problems={4 * SIZE: "missing"})
        one.turns(2)
        slot = one.queue.slot("w/0", lambda: 0.0)
        while (claim := one.queue.take(slot)) is not None:
            one.queue.back_off(claim)
        cluster.asked.clear()
        cluster.come_back(2, process=2)
        one.turns(2)
        marks = one.queue.list()

        assert [a_replica(2)] == cluster.asked
        assert (1, 0) == (marks[key_of(3)].tries, marks[key_of(3)].not_before_ms)
        assert 0 < marks[key_of(4)].not_before_ms


class TestBrake:
    """AR-R7, P15: too much at once."""

    def test_a_replica_with_too_much_damage_stops_the_check(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """Nothing of it is marked; an alarm says so, and no time is stored."""
        problems = {number * SIZE: "missing" for number in range(17)}
        cluster.tell(2, problems=problems)
        one.turns(3)
        assert {} == marked(one)
        alarm = one.store.get(BRAKE_ALARM)
        assert alarm is not None
        assert b"17 of 100 segments (cluster/set/2)" in alarm.value
        assert 0 == read_stamp(one.store).finished_ms
        assert "brake" in one.last.waits_for
        cluster.tell(2, problems=dict(list(problems.items())[:16]))
        one.queue.kick("test")
        one.turns(3)

        assert 16 == len(marked(one))
        assert one.store.get(BRAKE_ALARM) is None

    def test_an_operator_forces_a_check(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """For one check alone."""
        problems = {number * SIZE: "missing" for number in range(40)}
        cluster.tell(2, problems=problems)
        one.turns(2)
        one.queue.kick("test", force=True)
        one.turns(3)
        assert 40 == len(marked(one))
        cluster.tell(3, problems=problems)
        one.queue.kick("test")
        one.turns(3)

        assert {(2,)} == {tuple(each) for each in marked(one).values()}
        assert one.store.get(BRAKE_ALARM) is not None

    def test_much_damage_of_large_replicas_is_marked_below_the_share(
        self, store: MemoryStore, wall: Clock
    ) -> None:
        """Five percent of each, and of all."""
        brokers = [a_broker(number, end=1000 * SIZE) for number in (1, 2, 3)]
        cluster = ToldCluster(wall, a_set("set", *brokers))
        cluster.tell(2, problems={number * SIZE: "missing" for number in range(50)})
        one = WatchedAuditor(store, cluster, wall)
        one.turns(3)
        assert 50 == len(marked(one))

    def test_a_brake_that_stopped_an_earlier_auditor_stops_the_next_one(
        self, one: WatchedAuditor, two: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """An operator has to ask."""
        cluster.tell(2, problems={number * SIZE: "missing" for number in range(17)})
        one.turns(2)
        one.store.close()
        two.turns(5)

        assert {} == marked(two)
        assert "brake" in two.last.waits_for


class TestDead:
    """AR-R9: dead segments come back with a copy."""

    ASKED = tuple(a_broker(number).incarnation for number in (1, 2, 3))

    def bury(self, store: MemoryStore, reason: Reason = Reason.ABSENT) -> None:
        """A worker found no good copy of segment 3."""
        fact = (
            Missing(reason, blocks=(0,))
            if reason is Reason.CORRUPT
            else Missing(reason)
        )
        mark = SegmentMark({2: fact}, Priority.LAST_COPY, 1, 1, tries=12)
        asked = {str(number + 1): one for number, one in enumerate(self.ASKED)}
        dead = DeadSegment(mark, "none is good", 1, "w/0", {"asked": asked})
        store.commit([Put(key_of(3).dead, encode_dead(dead))])

    def test_the_copies_that_were_asked_bring_nothing_back(
        self, one: WatchedAuditor, store: MemoryStore
    ) -> None:
        """Though their files can be read."""
        self.bury(store, Reason.CORRUPT)
        one.turns(5)
        one.queue.kick("test")
        one.turns(5)

        assert [key_of(3)] == list(one.queue.dead())

    def test_a_replica_that_returned_brings_it_back(
        self, one: WatchedAuditor, cluster: ToldCluster, store: MemoryStore
    ) -> None:
        """Its disk may be another one."""
        self.bury(store, Reason.CORRUPT)
        one.turns(2)
        cluster.come_back(2, process=2)
        one.turns(2)

        assert {} == one.queue.dead()
        assert {key_of(3): [2]} == marked(one)

    def test_a_file_that_is_there_again_brings_it_back(
        self, one: WatchedAuditor, cluster: ToldCluster, store: MemoryStore
    ) -> None:
        """With the next look at it."""
        self.bury(store)
        cluster.tell(2, problems={3 * SIZE: "missing"})
        one.turns(2)
        assert [key_of(3)] == list(one.queue.dead())
        cluster.tell(2, problems={})
        one.queue.kick("test")
        one.turns(3)

        assert {} == one.queue.dead()

    def test_a_copy_that_is_offered_right_after_the_burial_brings_it_back(
        self, one: WatchedAuditor, cluster: ToldCluster, store: MemoryStore
    ) -> None:
        """The queue is read at intervals: the answer comes before the next read."""
        cluster.tell(2, problems={3 * SIZE: "missing"})
        one.turns(8)
        self.bury(store)
        cluster.tell(2, problems={})
        one.queue.kick("test")
        one.turns(12)

        assert {} == one.queue.dead()

    def test_what_came_back_is_published_at_the_next_turn(
        self, one: WatchedAuditor, cluster: ToldCluster, store: MemoryStore
    ) -> None:
        """An idle worker takes it at its next glance."""
        self.bury(store, Reason.CORRUPT)
        one.turns(2)
        cluster.come_back(2, process=2)
        while one.queue.dead():
            one.turns(1)
        one.turns(1)

        page = store.get(page_key(0))
        assert page is not None
        assert (key_of(3).text,) == decode_page(page.value, page.key).keys

    def test_another_replica_that_has_it_brings_it_back(
        self, one: WatchedAuditor, cluster: ToldCluster, store: MemoryStore
    ) -> None:
        """A new member of the set; one that begins above it does not."""
        self.bury(store, Reason.CORRUPT)
        one.turns(2)
        some = cluster.sets["cluster", "set"]
        late = a_broker(4, begin=4 * SIZE)
        cluster.sets["cluster", "set"] = replace(some, brokers=(*some.brokers, late))
        one.turns(3)
        assert [key_of(3)] == list(one.queue.dead())
        cluster.change(a_replica(4), begin=a_broker(4, begin=3 * SIZE).begin)
        one.turns(7)

        assert {} == one.queue.dead()


def test_random_answers_and_failures_mark_only_what_was_said(wall: Clock) -> None:
    """Of each mark a replica said so; in the end all that was said is marked."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    draw = random.Random(seed)
    space = MemorySpace()
    cluster = ToldCluster(wall, *(a_set(f"set-{number}") for number in range(5)))
    settings = RecoverySettings(broker_check_s=20, brake_percent=100)
    one = WatchedAuditor(MemoryStore(space), cluster, wall, begin=settings)
    said: dict[SegmentKey, set[int]] = {}
    names = list(cluster.sets)
    for _ in range(400):
        _, name = draw.choice(names)
        number = draw.randrange(1, 4)
        what = draw.random()
        if what < 0.1:
            base = draw.randrange(100)
            cluster.tell(number, name, problems={base * SIZE: "missing"})
            said.setdefault(key_of(base, name), set()).add(number)
        elif what < 0.3:
            cluster.silent.symmetric_difference_update({a_replica(number, name)})
        elif what < 0.35:
            cluster.problem = draw.choice(["", "no answer"])
        elif what < 0.4:
            one.store.close()
            one = WatchedAuditor(MemoryStore(space), cluster, wall)
        one.after(draw.randrange(1, 5))
        for key, mark in one.queue.list().items():
            assert set(mark.missing) <= said[key]
    assert one.store.get(CHECKED)
