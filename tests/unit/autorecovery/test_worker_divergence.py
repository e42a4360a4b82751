"""
Segments of which no copy is good, or whose whole copies differ, over each backend.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.autorecovery.local_set import LocalSet
from lib.autorecovery.marks import corrupt
from lib.autorecovery.recoveries import (
    ABSENT,
    DIVERGENT,
    KEY,
    RECORDS,
    Recovery,
    alive,
    bytes_of,
    check_equal,
    damage,
    flip,
    fork,
    large,
)
from lib.command_line import segment_file
from lib.store.late import follow_from
from lib.store.pairs import SEGMENT, fill, seal

from pystore import Store
from pystore.autorecovery.dead_segment import is_offered
from pystore.autorecovery.segment_key import SegmentKey
from pystore.records.record_store import RecordStore
from pystore.seals import BLOCK_BYTES
from pystore.segments.store_copy import StoreCopy
from pystore.store.sealer import seal_next


def remove_seals(root: Path) -> None:
    """Of all segments."""
    for one in (root / "meta" / "seals").iterdir():
        one.unlink()


class TestDivergence:
    """Copies that are each whole, and differ."""

    @pytest.mark.parametrize("has_seals", [True, False])
    def test_two_equal_copies_decide_against_one(
        self, recovery: Recovery, replicas: LocalSet, made: Path, has_seals: bool
    ) -> None:
        """The one is replaced under its writer, and sealed again."""
        fork(replicas, 2)
        if not has_seals:
            for it in replicas.replicas.values():
                remove_seals(it.root)
        recovery.mark({2: DIVERGENT})
        it = replicas.replicas[2]
        with Store(it.root) as it.store:
            recovery.run()
            while seal_next(it.store.log.writer):
                pass
        it.store = None

        assert {} == recovery.queue.list()
        assert {} == recovery.queue.dead()
        good, found = StoreCopy(made).seal(SEGMENT), StoreCopy(it.root).seal(SEGMENT)
        assert good is not None
        assert found is not None
        assert good.digest == found.digest
        file = segment_file(made, SEGMENT).read_bytes()
        assert file == segment_file(it.root, SEGMENT).read_bytes()

    @pytest.mark.parametrize("has_seals", [True, False])
    def test_one_against_one_is_left_to_a_person(
        self, recovery: Recovery, replicas: LocalSet, has_seals: bool
    ) -> None:
        """It leaves the queue with the evidence, and nothing is changed."""
        del replicas.replicas[3]
        fork(replicas, 2)
        if not has_seals:
            for it in replicas.replicas.values():
                remove_seals(it.root)
        before = bytes_of(replicas)
        recovery.mark({2: DIVERGENT})
        recovery.run()
        dead = recovery.queue.dead()[KEY]

        assert dead.evidence.startswith("divergent: whole copies differ")
        assert "broker 1 at 127.0.0.1:1 is divergent: its digest is" in dead.evidence
        assert before == bytes_of(replicas)

    def test_a_seal_against_two_copies_without_one_is_left_to_a_person(
        self, recovery: Recovery, replicas: LocalSet
    ) -> None:
        """What was sealed is what was acknowledged, as far as anything tells it."""
        fork(replicas, 2)
        for one in (1, 3):
            remove_seals(replicas.replicas[one].root)
        recovery.mark({2: DIVERGENT})
        recovery.run()

        assert {KEY} == set(recovery.queue.dead())

    def test_a_seal_that_all_other_copies_deny_is_left_to_a_person(
        self, recovery: Recovery, replicas: LocalSet, tmp_path: Path
    ) -> None:
        """Its bytes are those of the others: what they were when they were sealed?"""
        other = tmp_path / "other"
        fill(other, RECORDS, first=5)
        seal(other)
        root = replicas.replicas[2].root
        (path,) = (root / "meta" / "seals").glob(f"{SEGMENT:020d}*")
        path.write_bytes((other / "meta" / "seals" / path.name).read_bytes())
        before = bytes_of(replicas)
        recovery.queue.change_settings({"dead_after": 2})
        recovery.mark({2: corrupt(0)})
        recovery = Recovery(recovery.store, replicas, clock=recovery.clock)
        for _ in range(2):
            recovery.run()
            recovery.later()

        assert "is not the one that was sealed" in recovery.queue.dead()[KEY].evidence
        assert before == bytes_of(replicas)

    def test_a_voter_that_does_not_answer_is_waited_for(
        self, recovery: Recovery, replicas: LocalSet
    ) -> None:
        """Its vote may be the one that decides."""
        fork(replicas, 2)
        replicas.replicas[3].is_silent = True
        recovery.mark({2: DIVERGENT})
        recovery.run()

        assert {} == recovery.queue.dead()
        assert 1 == recovery.queue.list()[KEY].tries


class TestWithoutCopy:
    """No good copy."""

    def test_blocks_of_damaged_copies_add_up(
        self, store: RecordStore, tmp_path: Path
    ) -> None:
        """Each one has the blocks that the other one lacks."""
        size, root = 2 * BLOCK_BYTES, tmp_path / "large"
        large(root, size)
        copies = [tmp_path / "one", tmp_path / "two"]
        for copy in copies:
            follow_from(root, copy, 0)
        replicas = LocalSet(*copies)
        recovery = Recovery(store, replicas)
        flip(copies[0], 700, 0)
        flip(copies[1], BLOCK_BYTES + 700, 0)
        key = SegmentKey("cluster", "set", 0)
        recovery.mark({1: corrupt(0), 2: corrupt(1)}, key)
        recovery.run()

        assert {} == recovery.queue.list()
        assert {} == recovery.queue.dead()
        whole = segment_file(root, 0).read_bytes()
        assert all(whole == segment_file(one, 0).read_bytes() for one in copies)

    def test_a_segment_without_a_good_copy_is_buried_and_returns_with_one(
        self, recovery: Recovery, replicas: LocalSet, made: Path
    ) -> None:
        """After as many tries as the settings say, with what was found everywhere."""
        damage(replicas.replicas[1].root, "payload bit")
        damage(replicas.replicas[2].root, "short")
        replicas.replicas[3].is_alive = False
        recovery.queue.change_settings({"dead_after": 3})
        recovery.mark({1: corrupt(0), 2: ABSENT})
        recovery = Recovery(recovery.store, replicas, clock=recovery.clock)
        for _ in range(3):
            assert {KEY} == set(recovery.queue.list())
            recovery.run()
            recovery.later()
        dead = recovery.queue.dead()[KEY]

        assert {} == recovery.queue.list()
        assert "1 of 1 blocks are bad" in dead.evidence
        assert "the file has 3000 bytes" in dead.evidence
        assert (
            "broker 3 at 127.0.0.1:3 is dead: the controller says so" in dead.evidence
        )
        assert not is_offered(dead, alive(replicas))
        replicas.replicas[3].restart()
        assert is_offered(dead, alive(replicas))
        assert recovery.queue.revive(KEY)
        recovery.run()
        assert {} == recovery.queue.list()
        check_equal(replicas, made)

    def test_the_only_copy_of_a_set_is_buried_at_once(
        self, recovery: Recovery, replicas: LocalSet
    ) -> None:
        """Nothing can be waited for."""
        del replicas.replicas[2], replicas.replicas[3]
        replicas.wanted_copies = 1
        damage(replicas.replicas[1].root, "payload bit")
        recovery.mark({1: corrupt(0)})
        recovery.run()

        assert {KEY} == set(recovery.queue.dead())

    def test_a_try_without_an_answer_does_not_count_as_one_without_a_copy(
        self, recovery: Recovery, replicas: LocalSet
    ) -> None:
        """Only tries in a row in which every copy answered (AR-R9)."""
        for one in (1, 2, 3):
            damage(replicas.replicas[one].root, "payload bit")
        recovery.mark({1: corrupt(0)})
        for is_silent, expected in ((False, 1), (False, 2), (True, 0), (False, 1)):
            replicas.replicas[3].is_silent = is_silent
            recovery.run()
            recovery.later()
            assert expected == recovery.queue.list()[KEY].no_copy_tries
