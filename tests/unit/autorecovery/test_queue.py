"""
The queue as its users see it, on each backend.

BookKeeper's tests of its queue, by name:

| TestLedgerUnderreplicationManager | here |
|---|---|
| testBasicInteraction | kept: `test_all_marked_segments_are_taken_once_and_a_new_mark_ends_the_wait`; `take` returns ``None`` where BookKeeper's blocks, so that a worker can stop |
| testLocking | kept: `test_the_segment_of_a_holder_that_ended_is_taken_by_another_one` |
| testMarkingAsReplicated | kept: `test_a_repaired_segment_is_never_offered_again` |
| testRelease | kept: `test_a_released_segment_is_offered_to_others` |
| testManyFailures | kept: `test_a_mark_during_a_repair_survives_it` |
| testGetReplicationWorkerIdRereplicatingLedger | kept: `test_the_holder_is_named_while_it_holds`; the name is that of a slot, not of a host |
| test2reportSame | kept: `test_the_same_copy_twice_needs_one_repair` |
| testMultipleManagersShouldBeAbleToTakeAndReleaseLock | kept, 100 rounds: `test_two_workers_take_and_release_a_hundred_times` |
| testMarkSimilarMissingReplica | kept: `test_look_alike_ids_are_kept_apart` in test_mark |
| testManyFailuresInAnEnsemble | kept: `test_missing_copies_of_a_segment_add_up` |
| testDisableLedegerReplication, testEnableLedgerReplication | kept: `test_nothing_is_taken_while_the_queue_is_disabled` |
| testHierarchyCleanup, testHierarchyCleanupInterference | not kept: there is no tree of directories; marks and repairs at the same time: test_queue_random |
| testCheckAllLedgersCTime, testPlacementPolicyCheckCTime, testReplicasCheckCTime | not kept: the times of checks are the Auditor's; those of a mark: `test_a_mark_knows_when_it_was_made_first_and_last` |
| SubTreeCacheTest (all) | not kept: there is no cache of the tree; the window is published |
"""  # noqa: E501 - a table

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from lib.autorecovery.marks import (
    ABSENT_COPY,
    LOST_COPY,
    Clock,
    Peer,
    new_marks,
    segment,
)
from lib.remoting.record_stores import Space, put

from pystore.autorecovery.mark import Priority
from pystore.autorecovery.marking import MarkOutcome
from pystore.autorecovery.segment_key import MARKS, SegmentKey, page_key
from pystore.autorecovery.settings import RecoverySettings
from pystore.errors import FencedError, FormatError, PystoreError
from pystore.records.memory import Fault, MemorySpace, MemoryStore
from pystore.records.record_store import RecordStore

TIMEOUT_S = 10
KEY = segment(1)


@pytest.fixture
def clock() -> Clock:
    """A clock that the test sets."""
    return Clock()


@pytest.fixture
def peer(store: RecordStore, clock: Clock) -> Peer:
    """One process."""
    return Peer(store, clock, "one/0", seed=1)


@pytest.fixture
def other(space: Space, clock: Clock) -> Peer:
    """Another process, with a session of its own."""
    return Peer(space.open(), clock, "two/0", seed=2)


def later(clock: Clock) -> None:
    """Past each rest of a worker that looked in vain."""
    clock.now_ms += 80_000


def all_of(peer: Peer) -> set[SegmentKey]:
    """All segments that can be taken."""
    keys = set()
    while (claim := peer.queue.take(peer.slot)) is not None:
        assert claim.key not in keys
        keys.add(claim.key)
    return keys


class TestTaking:
    """Marks, claims and their ends."""

    def test_all_marked_segments_are_taken_once_and_a_new_mark_ends_the_wait(
        self, peer: Peer, other: Peer, clock: Clock
    ) -> None:
        """First without a window; it leaves out what the other one holds."""
        assert {MarkOutcome.NEW: 12} == peer.queue.mark_many(
            new_marks(12), by="auditor"
        )
        first = all_of(peer)
        token = other.store.wait(0, 0, "recovery")
        assert {m.key for m in new_marks(12)} == first
        assert other.queue.take(other.slot) is None
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(other.store.wait, token, TIMEOUT_S, "recovery")
            peer.mark(KEY)
            assert token < waiting.result(TIMEOUT_S)
        peer.queue.publish_window()
        later(clock)

        assert KEY == other.take().key

    def test_the_segment_of_a_holder_that_ended_is_taken_by_another_one(
        self, peer: Peer, other: Peer
    ) -> None:
        """BK-A52; the mark was there all the time."""
        peer.mark(KEY)
        assert KEY == other.take().key
        assert peer.queue.take(peer.slot) is None
        other.store.close()

        assert peer.queue.glance(peer.slot)
        assert KEY == peer.take().key

    def test_two_slots_of_one_process_never_hold_one_segment(self, peer: Peer) -> None:
        """A hold alone would give it to both."""
        peer.mark(KEY)
        second = peer.another_slot("one/1", seed=2)
        assert peer.take()

        assert peer.queue.take(second) is None
        assert "one/0" == peer.queue.holder(KEY)

    def test_a_repaired_segment_is_never_offered_again(
        self, peer: Peer, other: Peer, clock: Clock
    ) -> None:
        """Neither mark nor lock is left."""
        peer.mark(KEY)
        assert peer.queue.done(peer.take())
        later(clock)

        assert other.queue.take(other.slot) is None
        assert peer.queue.get(KEY) is None
        assert [] == peer.store.scan("recovery/")

    def test_a_released_segment_is_offered_to_others(
        self, peer: Peer, other: Peer
    ) -> None:
        """A second release changes nothing, also if another one has it."""
        peer.mark(KEY)
        claim = peer.take()
        assert peer.queue.release(claim)
        assert KEY == other.take().key

        assert not peer.queue.release(claim)
        assert "two/0" == peer.queue.holder(KEY)

    def test_a_mark_during_a_repair_survives_it(
        self, peer: Peer, other: Peer, clock: Clock
    ) -> None:
        """BK-A49: nothing changes, and the segment is looked at again."""
        peer.mark(KEY)
        claim = peer.take()
        other.mark(KEY, {3: ABSENT_COPY})
        before = peer.store.scan("recovery/")

        assert not peer.queue.done(claim)
        assert not peer.queue.bury(claim, "")
        assert before == peer.store.scan("recovery/")
        assert peer.queue.release(claim)
        later(clock)
        again = other.take()
        assert {2: LOST_COPY, 3: ABSENT_COPY} == again.mark.missing
        assert other.queue.done(again)

    def test_the_same_copy_twice_needs_one_repair(self, peer: Peer) -> None:
        """BK-A45: the repair that runs clears it, because the version is the same."""
        peer.mark(KEY)
        claim = peer.take()
        peer.mark(KEY)

        assert peer.queue.done(claim)
        assert peer.queue.get(KEY) is None

    def test_missing_copies_of_a_segment_add_up(self, peer: Peer, other: Peer) -> None:
        """BK-A44."""
        for broker_id in (2, 3, 4):
            (other if broker_id == 3 else peer).mark(KEY, {broker_id: LOST_COPY})
        mark = peer.queue.get(KEY)

        assert mark is not None
        assert {2, 3, 4} == set(mark.missing)

    def test_a_mark_knows_when_it_was_made_first_and_last(
        self, peer: Peer, clock: Clock
    ) -> None:
        """BookKeeper's has the last time only (BK-A43)."""
        begun_ms = clock.now_ms
        peer.mark(KEY)
        clock.now_ms += 5
        peer.mark(KEY, {3: LOST_COPY})
        clock.now_ms += 5
        peer.mark(KEY)
        mark = peer.queue.get(KEY)

        assert mark is not None
        assert (begun_ms, begun_ms + 5) == (mark.first_ms, mark.last_ms)

    def test_the_holder_is_named_while_it_holds(self, peer: Peer, other: Peer) -> None:
        """BK-A58."""
        assert peer.queue.holder(KEY) is None
        peer.mark(KEY)
        assert peer.queue.holder(KEY) is None
        claim = peer.take()
        assert "one/0" == other.queue.holder(KEY) == claim.worker
        assert peer.queue.done(claim)
        assert other.queue.holder(KEY) is None

    def test_two_workers_take_and_release_a_hundred_times(
        self, peer: Peer, other: Peer
    ) -> None:
        """Without loss, and never both at once."""
        peer.mark(KEY)
        holders: list[str] = []

        def rounds(one: Peer) -> int:
            found = 0
            while found < 50:
                # Another slot has not learnt that it looked in vain.
                slot = one.another_slot(one.slot.name, found)
                claim = one.queue.take(slot)
                if claim is not None:
                    holders.append(slot.name)
                    assert [slot.name] == holders
                    holders.clear()
                    assert one.queue.release(claim)
                    found += 1
            return found

        with ThreadPoolExecutor(2) as pool:
            assert [50, 50] == list(pool.map(rounds, (peer, other)))
        assert peer.queue.get(KEY) is not None

    def test_what_cannot_be_read_is_left_out(self, peer: Peer) -> None:
        """By take and list; a mark is refused, and `forget` removes it (BK-A47)."""
        put(peer.store, KEY.mark, b"?")
        assert peer.queue.take(peer.slot) is None
        assert {} == peer.queue.list()
        with pytest.raises(FormatError, match=f"^record {KEY.mark}: it is not JSON"):
            peer.mark(KEY)

        assert peer.queue.forget(KEY)
        peer.mark(KEY)
        assert peer.queue.get(KEY) is not None

    def test_records_of_a_later_form_are_left_to_the_later_program(
        self, peer: Peer, other: Peer
    ) -> None:
        """Two versions share the records: the older one works beside it."""
        later = b'{"form":2,"missing":{"2":["ABSENT"]},"priority":"high"}'
        put(peer.store, KEY.mark, later)
        put(peer.store, page_key(0), b'{"form":2,"order":"by need"}')
        peer.mark(segment(2))
        claim = other.take()

        assert segment(2) == claim.key
        assert peer.queue.take(peer.slot) is None
        assert {segment(2)} == set(peer.queue.list())
        with pytest.raises(FormatError, match="later pystore: update"):
            peer.mark(KEY)
        assert other.queue.done(claim)
        found = peer.store.get(KEY.mark)
        assert found is not None
        assert later == found.value


class TestBackOff:
    """AR-R11."""

    def test_a_rest_grows_and_survives_the_worker(
        self, peer: Peer, other: Peer, clock: Clock, space: Space
    ) -> None:
        """10 s, doubled up to 300 s, in any process; the lock is free at once."""
        peer.mark(KEY)
        rests = []
        for number in range(7):
            worker = Peer(space.open(), clock, f"worker {number}/0", number)
            assert worker.queue.back_off(worker.take())
            assert peer.queue.holder(KEY) is None
            worker.store.close()
            mark = peer.queue.get(KEY)
            assert mark is not None
            assert number + 1 == mark.tries
            rests.append((mark.not_before_ms - clock.now_ms) // 1000)
            clock.now_ms = mark.not_before_ms - 1
            assert other.queue.take(other.another_slot("other", number)) is None
            clock.now_ms += 1

        assert [10, 20, 40, 80, 160, 300, 300] == rests

    def test_a_mark_during_a_failed_repair_is_kept(
        self, peer: Peer, other: Peer
    ) -> None:
        """With the try that failed."""
        peer.mark(KEY)
        claim = peer.take()
        other.mark(KEY, {3: ABSENT_COPY})
        assert peer.queue.back_off(claim)

        mark = peer.queue.get(KEY)
        assert mark is not None
        assert ({2, 3}, 1) == (set(mark.missing), mark.tries)
        assert not peer.queue.back_off(claim)

    def test_the_settings_say_how_long(self, peer: Peer, clock: Clock) -> None:
        """And a mark that was forgotten, or that cannot be read, does not come back."""
        peer.queue.change_settings({"backoff_s": 3})
        peer.mark(KEY)
        claim = peer.take()
        assert peer.queue.back_off(claim)
        mark = peer.queue.get(KEY)
        assert mark is not None
        assert 3000 == mark.not_before_ms - clock.now_ms
        for number, value in ((2, None), (3, b"?")):
            key = segment(number)
            peer.mark(key)
            claim = peer.take()
            assert key == claim.key
            assert peer.queue.forget(key)
            if value is not None:
                put(peer.store, key.mark, value)
            assert peer.queue.back_off(claim)
            assert peer.queue.holder(key) is None
            found = peer.store.get(key.mark)
            assert value == (None if found is None else found.value)


class TestOperators:
    """What people and the Auditor do."""

    def test_nothing_is_taken_while_the_queue_is_disabled(
        self, peer: Peer, other: Peer, clock: Clock
    ) -> None:
        """A repair that runs ends; the first take after `enable` finds work."""
        peer.queue.mark_many(new_marks(9), by="auditor")
        claim = peer.take()
        other.queue.disable("operator")
        assert not peer.queue.is_enabled()
        for _ in range(3):
            assert peer.queue.take(peer.slot) is None
            assert other.queue.take(other.slot) is None
        assert peer.queue.done(claim)
        other.queue.enable()
        later(clock)

        assert peer.queue.is_enabled()
        assert 8 == len(all_of(peer))

    def test_a_dead_segment_leaves_the_queue_and_comes_back(
        self, peer: Peer, other: Peer, clock: Clock
    ) -> None:
        """AR-R9: a mark of an audit does not bring it back."""
        peer.mark(KEY)
        assert peer.queue.bury(peer.take(), "2: absent")
        outcome = other.queue.mark(KEY, {2: LOST_COPY}, Priority.LAST_COPY, by="a")
        assert MarkOutcome.DEAD is outcome
        assert {KEY: "2: absent"} == {
            k: d.evidence for k, d in peer.queue.dead().items()
        }
        later(clock)
        assert other.queue.take(other.slot) is None
        assert other.queue.revive(KEY)

        later(clock)
        assert KEY == peer.take().key
        assert {} == peer.queue.dead()
        assert not peer.queue.revive(KEY)

    def test_a_forgotten_segment_is_gone_and_its_repair_changes_nothing(
        self, peer: Peer, other: Peer
    ) -> None:
        """Marked or dead; the worker that had it releases it."""
        peer.mark(KEY)
        claim = peer.take()
        assert other.queue.forget(KEY)
        assert not other.queue.forget(KEY)
        assert not peer.queue.done(claim)
        assert peer.queue.release(claim)
        peer.mark(KEY)
        assert peer.queue.bury(peer.take(), "")
        assert other.queue.forget(KEY)

        assert [] == peer.store.scan("recovery/")

    def test_the_first_one_is_taken_next(
        self, peer: Peer, other: Peer, clock: Clock
    ) -> None:
        """AR-R24: before more urgent ones, and without its rest."""
        peer.queue.mark_many(new_marks(300, Priority.LAST_COPY), by="auditor")
        peer.mark(KEY)
        peer.queue.publish_window()
        assert KEY != peer.take().key
        assert other.queue.first(KEY)
        assert KEY == other.take().key
        slot = peer.another_slot("one/1", 5)
        second = new_marks(1, first=200)[0].key
        assert peer.queue.first(second)
        claim = peer.queue.take(slot)

        assert claim is not None
        assert second == claim.key
        assert peer.queue.back_off(claim)
        assert peer.queue.first(second)
        mark = peer.queue.get(second)
        assert mark is not None
        assert (0, clock.now_ms) == (mark.not_before_ms, mark.front_ms)
        assert not peer.queue.first(segment(77))

    def test_a_window_leaves_out_what_rests_or_is_being_repaired(
        self, peer: Peer, other: Peer
    ) -> None:
        """It is for workers without work; a smaller window has fewer pages."""
        peer.queue.mark_many(new_marks(450), by="auditor")
        assert 3 == peer.queue.publish_window()
        held, rested = peer.take(), other.take()
        assert other.queue.back_off(rested)
        for claim in [other.take() for _ in range(250)]:
            assert other.queue.done(claim)

        assert 1 == other.queue.publish_window()
        pages = peer.store.scan("recovery/window/")
        assert [page_key(0)] == [one.key for one in pages]
        for claim in (held, rested):
            assert claim.key.text.encode() not in pages[0].value
            assert other.queue.get(claim.key) is not None

    def test_only_the_auditor_of_this_term_publishes(
        self, peer: Peer, other: Peer
    ) -> None:
        """One whose term has ended changes nothing."""
        term = peer.store.campaign("recovery/auditor", "1")
        assert 1 == peer.queue.publish_window(term=term.check)
        put(other.store, "recovery/auditor", b"2")

        with pytest.raises(FencedError, match="another Auditor publishes"):
            peer.queue.publish_window(term=term.check)
        with pytest.raises(FencedError, match="another Auditor marks"):
            peer.queue.mark_many(new_marks(1), by="1", term=term.check)

    def test_the_counts_are_by_priority(self, peer: Peer) -> None:
        """And the summary tells the same."""
        for number, priority in enumerate([Priority.LAST_COPY] * 2 + [Priority.DRAIN]):
            peer.queue.mark(segment(number), {2: LOST_COPY}, priority, by="a", size=5)
        peer.take()
        summary = peer.queue.summary()

        assert {0: 2, 1: 0, 2: 0, 3: 1, 4: 0} == peer.queue.count() == summary.marks
        assert (15, 1, 0) == (summary.size, summary.claims, summary.dead)

    def test_each_kick_is_another_request(self, peer: Peer, other: Peer) -> None:
        """The Auditor compares versions."""
        assert peer.queue.kick("operator") < other.queue.kick("operator")

    def test_settings_are_those_of_the_cluster(self, peer: Peer, other: Peer) -> None:
        """Of all processes."""
        assert RecoverySettings() == peer.queue.settings()
        own = RecoverySettings(delay_s=1)
        assert own == peer.queue.settings(own)
        assert replace(own, dead_after=3) == other.queue.change_settings(
            {"dead_after": 3}
        )
        assert 3 == peer.queue.settings(RecoverySettings()).dead_after


class Faulty(MemoryStore):
    """
    A store of which every second commit has a fault, from the first one on.
    """

    def __init__(self, space: MemorySpace, fault: Fault) -> None:
        self.is_due = False
        super().__init__(space, faults=self._next)
        self._fault = fault

    def _next(self, verb: str) -> Fault:
        if verb != "commit":
            return Fault.NONE
        self.is_due = not self.is_due
        return self._fault if self.is_due else Fault.NONE


@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LOST_ANSWER])
def test_no_method_leaves_an_outcome_unknown(fault: Fault) -> None:
    """
    Each one settles it by reading: the same results as without faults.
    """
    space, clock = MemorySpace(), Clock()
    peer = Peer(Faulty(space, fault), clock)
    queue = peer.queue
    steps: list[Callable[[], object]] = [
        lambda: queue.mark(KEY, {2: LOST_COPY}, Priority.LAST_COPY, by="a"),
        queue.publish_window,
        lambda: queue.first(KEY),
        lambda: queue.disable("a"),
        queue.enable,
        lambda: queue.kick("a") > 0,
        lambda: queue.change_settings({"delay_s": 1}).delay_s,
        lambda: queue.forget(KEY),
    ]
    outcomes = [MarkOutcome.NEW, 1, True, None, None, True, 1, True]

    assert outcomes == [step() for step in steps]
    for end in (queue.done, queue.back_off, queue.release, lambda c: queue.bury(c, "")):
        peer.mark(KEY)
        claim = None
        while claim is None:
            claim = queue.take(peer.another_slot("w", clock.now_ms))
            clock.now_ms += 20_000
        assert end(claim)
        assert queue.holder(KEY) is None
    assert queue.revive(KEY)
    assert [KEY.mark] == [one.key for one in peer.store.scan(MARKS)]


def test_an_unreachable_record_store_is_an_error_of_each_method() -> None:
    """
    The worker tries again later.
    """
    store = MemoryStore(faults=lambda _: Fault.UNREACHABLE)
    peer = Peer(store, Clock())

    for call in (
        lambda: peer.mark(KEY),
        lambda: peer.queue.take(peer.slot),
        peer.queue.summary,
    ):
        with pytest.raises(PystoreError, match="unreachable"):
            call()
