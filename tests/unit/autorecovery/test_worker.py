"""
The worker repairs real stores, over each backend.

BookKeeper's tests of its worker, by name:

| TestReplicationWorker | here |
|---|---|
| testRWShouldReplicateFragmentsToTargetBookie | kept: `test_a_damaged_copy_is_repaired_where_it_is`; the copy is repaired on its own replica, and a lost replica is filled: `test_a_filling_replica_gets_the_segment_below_its_first_one` |
| testRWShouldRetryUntilThereAreEnoughBksAvailableForReplication | kept: `test_a_target_that_dies_is_tried_again` in test_worker_crashes |
| test2RWsShouldCompeteForReplicationOf2FragmentsAndCompleteReplication | kept, 100 rounds: `test_two_workers_end_a_hundred_repairs_once` in test_worker_crashes |
| testRWShouldCleanTheLedgerFromUnderReplicationIfLedgerAlreadyDeleted | kept: `test_a_set_that_is_gone_needs_no_repair`, `test_what_retention_has_deleted_needs_no_repair` |
| testMultipleLedgerReplicationWithReplicationWorker, ...BatchRead | kept: `test_damage_that_no_mark_names_is_repaired_too`; blocks have no batches |
| testRWShouldReplicateTheLedgersAfterTimeoutIfLastFragmentIsUR, ...IfLastFragmentIsNotUR, testReplicateEmptyOpenStateLedger | changed: an active segment is left to replication and elections: `test_an_active_segment_is_left_to_replication` |
| testBookiesNotAvailableScenarioForReplicationWorker | changed: `test_what_is_unknown_is_no_damage`, `test_a_segment_without_a_good_copy_is_buried_and_returns_with_one` |
| testDeferLedgerLockReleaseForReplicationWorker | changed: the lock is free at once: `test_the_back_off_goes_on_with_another_worker` |
| testRWZKConnectionLost | kept: `test_a_verdict_waits_for_the_record_store` in test_worker_crashes |
| testRWZKConnectionLostOnNonRecoverableZkError, testRWShutDownInTheCaseOfZKOperationFailures | changed: another session is opened: `test_a_lost_session_is_followed_by_another_one` in test_worker_threads |
| testRepairedNotAdheringPlacementPolicyLedgerFragmentsOnRack, testReplicationStats | not applicable to workers: members are the controller's; `test_a_copy_that_has_to_be_replaced_keeps_its_mark` in test_repair_verdict |
"""  # noqa: E501 - a table

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lib.autorecovery.local_set import LocalSet
from lib.autorecovery.marks import Clock, corrupt
from lib.autorecovery.recoveries import (
    ABSENT,
    DIVERGENT,
    FILL,
    KEY,
    Recovery,
    actions,
    begin_late,
    check_equal,
    damage,
    fork,
    large,
    unconfirmed,
)
from lib.command_line import segment_file
from lib.remoting.record_stores import Space
from lib.store.late import follow_from
from lib.store.pairs import SEGMENT

from pystore import Store
from pystore.autorecovery.pauses import PauseKind, PauseTarget, pause
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.segment_key import SegmentKey
from pystore.autorecovery.worker_status import list_status
from pystore.records.memory import MemoryStore
from pystore.seals import BLOCK_BYTES
from pystore.segments.order import OrderAction
from pystore.segments.store_copy import StoreCopy


@pytest.mark.parametrize("kind", ["payload bit", "header bit", "missing", "short"])
def test_a_damaged_copy_is_repaired_where_it_is(
    recovery: Recovery, replicas: LocalSet, made: Path, kind: str
) -> None:
    """
    From a slave, and its mark goes.
    """
    fact = damage(replicas.replicas[2].root, kind)
    recovery.mark({2: fact})
    recovery.run()

    assert {} == recovery.queue.list()
    assert {} == recovery.queue.dead()
    check_equal(replicas, made)
    repair = replicas.replicas[2].orders[-1]
    assert str(replicas.replicas[3].root) == repair.sources[0]


def test_the_replicas_of_a_paused_host_are_left_alone(
    recovery: Recovery, replicas: LocalSet, made: Path
) -> None:
    """
    AR-R24: neither source nor target until the pause ends; the reason is in the mark.
    """
    recovery.mark({2: damage(replicas.replicas[2].root, "payload bit")})
    target = PauseTarget(PauseKind.HOST, name="127.0.0.1")
    now_ms = recovery.clock.now_ms
    pause(recovery.store, target, now_ms + 60_000, by="test", now_ms=now_ms)
    recovery.run()

    assert [] == [order for one in replicas.replicas.values() for order in one.orders]
    (mark,) = recovery.queue.list().values()
    assert "host 127.0.0.1 is paused" in mark.why
    recovery.later()
    recovery.run()
    assert {} == recovery.queue.list()
    check_equal(replicas, made)


class TestLooking:
    """What is looked at, and what that decides."""

    def test_a_copy_that_is_good_again_loses_its_mark(
        self, recovery: Recovery, replicas: LocalSet
    ) -> None:
        """A mark is a hint (BK-A42); all blocks of the named copy are read."""
        recovery.mark({3: ABSENT})
        recovery.run()

        assert {} == recovery.queue.list()
        assert [[OrderAction.CHECK]] * 3 == actions(replicas)
        assert () == replicas.replicas[3].orders[0].blocks

    def test_damage_that_no_mark_names_is_repaired_too(
        self, recovery: Recovery, replicas: LocalSet, made: Path
    ) -> None:
        """Every copy is looked at (BK-A85)."""
        damage(replicas.replicas[1].root, "payload bit")
        damage(replicas.replicas[2].root, "missing")
        recovery.mark({2: ABSENT})
        recovery.run()

        assert {} == recovery.queue.list()
        check_equal(replicas, made)

    def test_a_set_that_is_gone_needs_no_repair(
        self, recovery: Recovery, replicas: LocalSet
    ) -> None:
        """BK-A69."""
        replicas.exists = False
        recovery.mark({2: ABSENT})
        recovery.run()

        assert {} == recovery.queue.list()

    def test_what_retention_has_deleted_needs_no_repair(
        self, recovery: Recovery, replicas: LocalSet, made: Path, tmp_path: Path
    ) -> None:
        """The log of the master begins above it."""
        late = replicas.replicas[1].root = tmp_path / "late"
        follow_from(made, late, 2 * SEGMENT)
        recovery.mark({2: ABSENT})
        recovery.run()

        assert {} == recovery.queue.list()

    def test_nothing_is_known_of_a_set_without_a_controller(
        self, recovery: Recovery, replicas: LocalSet
    ) -> None:
        """The segment rests, and that is no failed try."""
        replicas.no_controller = True
        recovery.mark({2: ABSENT})
        recovery.run()
        mark = recovery.queue.list()[KEY]

        assert [[], [], []] == actions(replicas)
        assert (0, "no controller tells the set: no controller leads") == (
            mark.tries,
            mark.why,
        )

    @pytest.mark.parametrize("silent", [{2}, {1, 2, 3}])
    def test_what_is_unknown_is_no_damage(
        self, recovery: Recovery, replicas: LocalSet, silent: set[int]
    ) -> None:
        """A storm of time-outs changes no copy and marks none, however long."""
        for one in silent:
            replicas.replicas[one].is_silent = True
        recovery.mark({3: ABSENT})
        recovery.run()
        for _ in range(20):
            recovery.later()
            recovery.run()
        mark = recovery.queue.list()[KEY]

        assert {3} == set(mark.missing)
        assert (21, 0) == (mark.tries, mark.no_copy_tries)
        assert "no definite answer: broker" in mark.why
        assert "timed out" in mark.found[2]
        assert {} == recovery.queue.dead()
        assert {OrderAction.CHECK} >= {it for one in actions(replicas) for it in one}

    def test_an_active_segment_is_left_to_replication(
        self, recovery: Recovery, replicas: LocalSet, made: Path
    ) -> None:
        """It may still be cut (A22, BK-A75): the segment rests for a stored time."""
        for one in replicas.replicas:
            unconfirmed(replicas, one, made)
        recovery.mark({2: ABSENT})
        recovery.run()
        mark = recovery.queue.list()[KEY]

        rest_ms = mark.not_before_ms - recovery.clock.now_ms
        assert (0, 30) == (mark.tries, -(-rest_ms // 1000))
        assert "replication has it still" in mark.why
        assert [[], [], []] == actions(replicas)

    def test_a_replica_with_an_empty_disk_says_nothing_about_its_copies(
        self, recovery: Recovery, replicas: LocalSet, made: Path
    ) -> None:
        """It lost all of them; replication or a replacement brings them."""
        empty = replicas.replicas[2]
        shutil.rmtree(empty.root)
        Store(empty.root, segment_size=SEGMENT, queue_file_bytes=20 * 400).close()
        damage(replicas.replicas[3].root, "missing")
        recovery.mark({3: ABSENT})
        recovery.run()

        good = segment_file(made, SEGMENT).read_bytes()
        assert good == segment_file(replicas.replicas[3].root, SEGMENT).read_bytes()
        assert {} == recovery.queue.list()
        assert {} == recovery.queue.dead()
        assert OrderAction.REPAIR not in actions(replicas)[1]
        assert str(empty.root) not in replicas.replicas[3].orders[-1].sources

    def test_a_copy_that_may_still_be_cut_is_no_source(
        self, recovery: Recovery, replicas: LocalSet, made: Path
    ) -> None:
        """Copied, a history that lost would come back."""
        damage(replicas.replicas[1].root, "missing")
        unconfirmed(replicas, 2, made)
        unconfirmed(replicas, 3, made)
        recovery.mark({1: ABSENT})
        recovery.run()

        assert not segment_file(replicas.replicas[1].root, SEGMENT).exists()
        assert {KEY} == set(recovery.queue.list())
        assert [[], [], []] == actions(replicas)

    def test_a_broker_of_rocketmq_is_neither_source_nor_target(
        self, recovery: Recovery, replicas: LocalSet, made: Path
    ) -> None:
        """It proves nothing, and is not asked."""
        replicas.replicas[1].is_java = True
        damage(replicas.replicas[2].root, "missing")
        recovery.mark({2: ABSENT})
        recovery.run()
        repair = replicas.replicas[2].orders[-1]

        assert (str(replicas.replicas[3].root),) == repair.sources
        assert {} == recovery.queue.list()
        check_equal(replicas, made)

    def test_a_copy_of_rocketmq_has_no_vote(
        self, recovery: Recovery, replicas: LocalSet
    ) -> None:
        """With it there would be two against one."""
        fork(replicas, 2)
        replicas.replicas[3].is_java = True
        before = segment_file(replicas.replicas[2].root, SEGMENT).read_bytes()
        recovery.mark({2: DIVERGENT})
        recovery.run()

        assert before == segment_file(replicas.replicas[2].root, SEGMENT).read_bytes()
        assert {KEY} == set(recovery.queue.dead())


class TestLeaving:
    """A replica whose process ended, or that is in the set no more."""

    def test_the_job_of_another_process_is_not_waited_for(
        self, recovery: Recovery, replicas: LocalSet
    ) -> None:
        """The controllers tell it; a silent process is waited for longer."""
        recovery.mark({2: corrupt(0)})
        replicas.replicas[2].polls = 10**6
        for starts, most_ms in ((0, 20_000), (1, 5_000)):
            recovery.run(lambda: recovery.worker.claim(0) is not None)
            begun_ms = recovery.clock.now_ms
            replicas.replicas[2].is_silent = True
            replicas.replicas[2].starts += starts
            recovery.run(lambda: recovery.worker.claim(0) is None)
            taken_ms = recovery.clock.now_ms - begun_ms
            assert most_ms // 4 < taken_ms < most_ms
            replicas.replicas[2].is_silent = False
            recovery.later()

        replicas.replicas[2].polls = 0
        replicas.replicas[2].jobs.clear()
        recovery.run()
        assert {} == recovery.queue.list()


class TestFilling:
    """A replica that began late gets its history."""

    def test_a_filling_replica_gets_the_segment_below_its_first_one(
        self, recovery: Recovery, replicas: LocalSet, made: Path, tmp_path: Path
    ) -> None:
        """From whole copies."""
        begin_late(replicas, made, tmp_path, 2 * SEGMENT)
        recovery.mark({3: FILL})
        recovery.run()

        assert {} == recovery.queue.list()
        assert SEGMENT == StoreCopy(replicas.replicas[3].root).facts.begin
        assert OrderAction.FILL is replicas.replicas[3].orders[-1].action

    def test_a_fill_that_waits_for_the_one_above_it_gives_its_slot_back(
        self, recovery: Recovery, replicas: LocalSet, made: Path, tmp_path: Path
    ) -> None:
        """Otherwise all slots could wait for a segment that nothing takes."""
        begin_late(replicas, made, tmp_path, 2 * SEGMENT)
        below = SegmentKey("cluster", "set", 0)
        recovery.mark({3: FILL}, below)
        recovery.run()
        mark = recovery.queue.list()[below]
        assert (0, True) == (mark.tries, "not filled" in mark.why)
        assert [] == replicas.stopped
        recovery.mark({3: FILL})
        recovery.later()
        recovery.run()
        recovery.later()
        recovery.run()

        assert {} == recovery.queue.list()
        replicas.replicas[3].is_filling = False
        check_equal(replicas, made)

    def test_only_what_is_offered_is_filled(
        self, recovery: Recovery, replicas: LocalSet, made: Path, tmp_path: Path
    ) -> None:
        """Damage elsewhere is no reason to fill another replica."""
        begin_late(replicas, made, tmp_path, 2 * SEGMENT)
        damage(replicas.replicas[2].root, "missing")
        recovery.mark({2: ABSENT})
        recovery.run()

        assert {} == recovery.queue.list()
        assert [] == replicas.replicas[3].orders


class TestTelling:
    """What a worker says about itself and its decisions."""

    def test_a_slot_tells_what_it_does_and_what_it_found(
        self, recovery: Recovery, replicas: LocalSet
    ) -> None:
        """Since when, and each copy with its reason (AR-R18, AR-R21)."""
        replicas.replicas[2].polls = 10**6
        recovery.mark({2: corrupt(0)})
        recovery.worker.step(0)
        recovery.clock.now_ms += 21_000
        since_ms = recovery.clock.now_ms - 21_000
        recovery.worker.step(0)
        (told,) = list_status(recovery.store)

        assert ("worker/0", KEY.text) == (told.slot, told.segment)
        assert "check on broker 2 at 127.0.0.1:2" == told.doing
        assert since_ms == told.since_ms
        replicas.replicas[2].polls = 0
        replicas.replicas[2].jobs.clear()
        recovery.run()
        recovery.clock.now_ms += 21_000
        recovery.run()
        (told,) = list_status(recovery.store)
        assert ("waits: no segment is due", "") == (told.doing, told.segment)
        assert f"{KEY.text}: back off: no definite answer" in told.last
        assert "there is no such job" in told.found[2]
        assert "broker 1 at 127.0.0.1:1 is good" == told.found[1]

    def test_the_record_of_a_slot_goes_with_its_process(
        self, recovery: Recovery, space: Space
    ) -> None:
        """It is held."""
        recovery.run()
        other = space.open()
        assert 1 == len(list_status(other))
        recovery.store.close()

        assert [] == list_status(other)

    @pytest.mark.parametrize("percent", [0, 30, 100])
    def test_a_copy_that_no_mark_names_is_sampled(
        self, tmp_path: Path, percent: int
    ) -> None:
        """As many blocks as the settings say; of the named one all are read."""
        root = tmp_path / "large"
        large(root, 5 * BLOCK_BYTES)
        copies = [tmp_path / "one", tmp_path / "two"]
        for copy in copies:
            follow_from(root, copy, 0)
        replicas, store = LocalSet(*copies), MemoryStore()
        queue = UnderReplicationQueue(store, Clock())
        queue.change_settings({"worker_check_percent": percent})
        recovery = Recovery(store, replicas)
        recovery.mark({2: corrupt(1)}, SegmentKey("cluster", "set", 0))
        recovery.run()
        (sampled,), (named,) = (it.orders for it in replicas.replicas.values())

        assert {0: 2, 30: 3, 100: 0}[percent] == len(sampled.blocks)
        assert () == named.blocks


def ended_ms(recovery: Recovery) -> list[int]:
    """
    Marks twelve segments of a set that is gone, so that a repair takes no time; returns
    how long after the first look each of them was ended.
    """
    for number in range(12):
        recovery.mark({2: ABSENT}, SegmentKey("cluster", "gone", number * SEGMENT))
    recovery.queue.publish_window()
    recovery.later()
    begun_ms, ended = recovery.clock.now_ms, []
    for _ in range(100):
        before = len(recovery.queue.list())
        turn = recovery.worker.step(0)
        ended += [recovery.clock.now_ms - begun_ms] * (
            before - len(recovery.queue.list())
        )
        assert turn.wait_ms <= 1000
        recovery.clock.now_ms += turn.wait_ms
        if turn.is_idle:
            return ended
    pytest.fail("the worker has no end")


def test_a_worker_takes_no_more_segments_a_second_than_the_setting_says(
    recovery: Recovery, replicas: LocalSet
) -> None:
    """
    BK-A60: a changed setting counts within a minute, and a look in vain uses nothing.
    """
    replicas.exists = False
    recovery.queue.change_settings({"take_rate": 2})
    recovery.clock.now_ms += 60_000
    assert 500 == recovery.worker.step(0).wait_ms
    recovery.clock.now_ms += 500
    for _ in range(5):
        assert recovery.worker.step(0).is_idle
    assert [500 * number for number in range(12)] == ended_ms(recovery)
    recovery.queue.change_settings({"take_rate": 0})
    recovery.clock.now_ms += 60_000
    assert [0] * 12 == ended_ms(recovery)
