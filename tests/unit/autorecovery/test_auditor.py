"""
The Auditor as a whole: its terms, what it tells of itself, and the whole way.
"""

from __future__ import annotations

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
from lib.remoting.record_stores import put

from pystore.autorecovery.auditor_status import STATUS
from pystore.autorecovery.auditor_term import AUDITOR, auditor_name
from pystore.autorecovery.loss_audit import NoReplacements
from pystore.autorecovery.mark import Priority, Reason
from pystore.autorecovery.record_form import decode_form
from pystore.autorecovery.replica_peers import ClusterView
from pystore.autorecovery.segment_key import SETTINGS, SPACE
from pystore.errors import PystoreError
from pystore.records.memory import Fault, MemorySpace, MemoryStore
from pystore.records.ops import Delete
from pystore.records.record_store import RecordStore


def status(store: RecordStore) -> dict[str, object]:
    """What the Auditor says of itself."""
    found = store.get(STATUS)
    assert found is not None
    return dict(decode_form(found.value, STATUS).values)


def recorded(space: MemorySpace) -> dict[str, int]:
    """The versions of all records."""
    return {one.key: one.version for one in MemoryStore(space).scan(f"{SPACE}/")}


def test_the_whole_way_of_a_loss_a_fill_and_a_damage(
    one: WatchedAuditor, cluster: ToldCluster
) -> None:
    """On each backend: what is found is marked, ordered, and told."""
    cluster.tell(2, problems={3 * SIZE: "the file is missing"})
    filling = a_broker(3, begin=9 * SIZE, is_filling=True)
    cluster.change(a_replica(3), begin=filling.begin)
    one.turns(3)

    marks = one.queue.list()
    fills = [key_of(number) for number in (5, 6, 7, 8)]
    assert [key_of(3), *fills] == sorted(marks)
    assert Reason.ABSENT is marks[key_of(3)].missing[2].reason
    assert {Priority.LAST_COPY} == {marks[key_of(3)].priority}
    assert all(Reason.FILL is marks[key].missing[3].reason for key in fills)
    cluster.die(2)
    one.turns(2)
    assert [a_replica(2)] == list(one.auditor.losses)
    assert [] == one.due()
    one.after(600)
    assert [2] == one.due()
    slot = one.queue.slot("w/0", lambda: 0.0)
    claim = one.queue.take(slot)
    assert claim is not None
    assert claim.key == key_of(3)


class TestTerms:
    """At most one process audits."""

    def test_a_term_that_was_deleted_by_hand_is_over(
        self, one: WatchedAuditor, two: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """BK-A14: it steps down at its next turn, and is a candidate again."""
        one.step()
        assert "one" == auditor_name(two.store)
        one.store.commit([Delete(AUDITOR)])
        two.step()
        assert (False, "two") == (one.step().leads, auditor_name(one.store))
        assert "two" in one.last.waits_for
        cluster.die(2)
        one.turns(3)
        assert {} == one.auditor.losses
        two.store.close()
        one.turns(20)

        assert one.last.leads
        assert [a_replica(2)] == list(one.auditor.losses)

    def test_an_auditor_whose_term_ends_within_a_turn_writes_nothing_more(
        self, wall: Clock
    ) -> None:
        """P2, I8: at each of its commits, another one may have taken over."""
        for number in range(5):
            space = MemorySpace()
            cluster = ToldCluster(wall, a_set())
            zombie, seen = _taken_over_at(space, number, cluster, wall)
            zombie.step()
            assert seen, number
            assert not zombie.last.leads
            before = recorded(space)
            zombie.turns(10)
            assert before == recorded(space)

    def test_an_auditor_that_was_paused_over_its_session_changes_nothing(
        self, cluster: ToldCluster, wall: Clock
    ) -> None:
        """P2: its owner begins anew with another store."""
        space = MemorySpace()
        paused = MemoryStore(space)
        one = WatchedAuditor(paused, cluster, wall)
        one.step()
        paused.lose_session()
        two = WatchedAuditor(MemoryStore(space), cluster, wall, name="two")
        two.step()
        cluster.die(2)
        before = recorded(space)
        with pytest.raises(PystoreError):
            one.after(1)

        assert before == recorded(space)

    def test_a_record_store_that_is_away_ends_no_term(
        self, cluster: ToldCluster, wall: Clock
    ) -> None:
        """It goes on where it was, and says what it waits for."""
        faults: list[Fault] = []
        store = MemoryStore(faults=lambda _: faults[0] if faults else Fault.NONE)
        one = WatchedAuditor(store, cluster, wall)
        one.step()
        cluster.die(2)
        faults.append(Fault.UNREACHABLE)
        one.turns(3)
        assert "record store" in one.last.waits_for
        faults[0] = Fault.FULL
        one.turns(3)
        assert "record store" in one.last.waits_for
        faults.clear()
        one.turns(2)

        assert one.last.leads
        assert store.get(a_replica(2).lost) is not None

    def test_lost_answers_change_nothing_of_the_outcome(
        self, cluster: ToldCluster, wall: Clock
    ) -> None:
        """Each commit of an Auditor may be made twice."""
        faults = [Fault.LOST_ANSWER, Fault.LOST_REQUEST] * 10

        def fault(verb: str) -> Fault:
            return faults.pop() if verb == "commit" and faults else Fault.NONE

        store = MemoryStore(faults=fault)
        one = WatchedAuditor(store, cluster, wall)
        cluster.tell(2, problems={3 * SIZE: "missing"})
        cluster.die(3)
        one.turns(30)

        assert [] == faults
        assert [key_of(3)] == list(one.queue.list())
        assert [a_replica(3)] == list(one.auditor.losses)


def _taken_over_at(
    space: MemorySpace, number: int, cluster: ToldCluster, wall: Clock
) -> tuple[WatchedAuditor, list[int]]:
    """
    Returns an Auditor whose term ends just before one of its next commits.
    """
    commits, seen = [0], list[int]()
    is_armed = [False]

    def fault(verb: str) -> Fault:
        if verb == "commit" and is_armed[0]:
            if commits[0] == number:
                other = MemoryStore(space)
                other.commit([Delete(AUDITOR)])
                put(other, AUDITOR, b"another one")
                seen.append(number)
            commits[0] += 1
        return Fault.NONE

    zombie = WatchedAuditor(MemoryStore(space, faults=fault), cluster, wall)
    zombie.turns(3)
    is_armed[0] = True
    # A loss, fills, damage, the window, the time of the check, the status.
    cluster.die(2)
    cluster.change(a_replica(1), begin=a_broker(1).begin)
    filling = a_broker(3, begin=9 * SIZE, is_filling=True)
    cluster.change(a_replica(3), begin=filling.begin)
    zombie.queue = WatchedAuditor(MemoryStore(space), cluster, wall).queue
    zombie.queue.kick("test")
    zombie.clock.now_ms += 60_000
    zombie.steady.now_ms += 60_000
    return zombie, seen


class TestStatus:
    """AR-R21: what it waits for, and since when."""

    def test_it_says_what_it_waits_for_and_since_when(
        self, one: WatchedAuditor, cluster: ToldCluster, wall: Clock
    ) -> None:
        """With the numbers of the present state (AR-R15)."""
        one.turns(10)
        began_ms = wall.now_ms
        assert "something to do" == status(one.store)["waits_for"]
        cluster.die(2)
        one.turns(30)
        told = status(one.store)

        assert (
            "the return of lost replicas, or the end of their delay"
            == (told["waits_for"])
        )
        assert began_ms + 1000 == told["since_ms"]
        assert ("one", 1, 1) == (told["name"], told["lost"], told["waiting"])

    def test_it_is_written_at_most_every_five_seconds(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """However often the numbers change."""
        cluster.problem = "no answer"
        versions = set()
        for _ in range(21):
            one.turns(1)
            found = one.store.get(STATUS)
            assert found is not None
            versions.add(found.version)

        assert 5 == len(versions)
        assert "no answer" in str(status(one.store)["unknown"])

    def test_a_fill_that_does_not_move_is_named(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """AR-R18: with the reason."""
        filling = a_broker(3, begin=9 * SIZE, is_filling=True)
        cluster.change(a_replica(3), begin=filling.begin)
        cluster.silent.add(a_replica(3))
        one.turns(10)

        assert (
            "cluster/set/3 is not filled: it has not told the size of its segments yet"
            == status(one.store)["fill"]
        )

    def test_settings_that_cannot_be_read_are_named_and_those_before_hold(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """An operator looks at the record; losses are recorded meanwhile."""
        one.step()
        put(one.store, SETTINGS, b"ill")
        cluster.die(2)
        one.turns(10)

        assert SETTINGS in str(status(one.store)["problem"])
        assert [a_replica(2)] == list(one.auditor.losses)

    def test_the_next_turn_is_at_the_end_of_a_delay(
        self, one: WatchedAuditor, cluster: ToldCluster
    ) -> None:
        """Not up to a second later; while AutoRecovery is disabled nothing is due."""
        one.step()
        cluster.die(2)
        assert 1000 == one.after(600 - 1.5).next_ms
        assert 500 == one.after(1).next_ms
        one.queue.disable("an operator")
        assert 1000 == one.after(0).next_ms
        one.queue.enable()
        assert 500 == one.after(0).next_ms
        assert 1000 == one.after(0.5).next_ms

        assert [2] == one.due()

    def test_turns_follow_each_other_soon_while_a_replacement_goes_on(
        self, cluster: ToldCluster, wall: Clock
    ) -> None:
        """It takes one step in each; a long turn is followed by a longer pause."""
        moving = NoReplacements()
        one = WatchedAuditor(MemoryStore(), cluster, wall, replacements=moving)
        assert 1000 == one.step().next_ms
        moving.is_moving = True
        assert 100 == one.step().next_ms
        all_sets = cluster.all_sets

        def slow() -> ClusterView:
            one.steady.now_ms += 200
            return all_sets()

        cluster.all_sets = slow  # type: ignore[method-assign]
        assert 600 == one.step().next_ms
        moving.is_moving = False

        assert 1000 == one.step().next_ms

    def test_a_long_turn_is_followed_by_a_longer_pause(
        self, cluster: ToldCluster, wall: Clock
    ) -> None:
        """It takes at most a quarter of the time."""
        one = WatchedAuditor(MemoryStore(), cluster, wall)
        assert 1000 == one.step().next_ms
        all_sets = cluster.all_sets

        def slow() -> object:
            one.steady.now_ms += 2000
            return all_sets()

        cluster.all_sets = slow  # type: ignore[assignment, method-assign]

        assert 6000 == one.step().next_ms
