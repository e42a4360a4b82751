"""
How replicas lie on racks is told at intervals, and moves go one after another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from lib.autorecovery.replacement_auditor import Recovery
from lib.autorecovery.replacement_model import SETTINGS, ModelCluster, key_of

from pystore.autorecovery.loss import ReplicaLoss
from pystore.autorecovery.loss_audit import DueLoss
from pystore.autorecovery.loss_replacement import HostReplacements
from pystore.autorecovery.replacement_record import (
    HostDrain,
    Replacement,
    ReplacementPhase,
    ReplacementReason,
)
from pystore.autorecovery.replacement_requests import begin_drain, cancel_replacement
from pystore.autorecovery.replica_key import ReplicaKey
from pystore.records.memory import MemoryStore
from pystore.records.record_store import RecordStore

MOVES = replace(SETTINGS, placement_check_s=3600, placement_repair=True)
RACKS = {"a": "r1", "b": "r1", "c": "r2", "d": "r3"}


class Placing:
    """
    An Auditor, hosts on racks, and a set on three of them.
    """

    def __init__(
        self, racks: Mapping[str, str] = RACKS, store: RecordStore | None = None
    ) -> None:
        self.cluster = ModelCluster(racks)
        self.cluster.add_set("set", "a", "b", "c")
        self.recovery = Recovery(store or MemoryStore(), self.cluster, MOVES)
        self.succeed()

    def succeed(self) -> None:
        """
        Another Auditor.
        """
        self.recovery.begin()
        self.audit = HostReplacements(
            self.recovery.replacements, lambda: self.cluster.now_ms
        )

    def turns(self, count: int, *lost: int) -> None:
        """
        Seconds, and a turn of the Auditor in each.
        """
        for _ in range(count):
            self.cluster.tick()
            self.cluster.check()
            view, loss = self.cluster.all_sets(), ReplicaLoss(1)
            due = [
                DueLoss(
                    ReplicaKey("cluster", "set", one), loss, view.sets["cluster", "set"]
                )
                for one in lost
            ]
            recovery = self.recovery
            self.audit.replace(due, view, recovery.settings, recovery.term)

    def hosts(self, name: str = "set") -> str:
        """
        Those of a set.
        """
        brokers = self.cluster.sets["cluster", name].brokers.values()
        return "".join(sorted(one.host for one in brokers))

    @property
    def moves(self) -> list[Replacement]:
        """
        The moves that run.
        """
        return [
            one
            for one in self.recovery.records.values()
            if one.reason is ReplacementReason.MISPLACED
        ]


def test_a_misplaced_replica_is_moved_as_by_a_drain(store: RecordStore) -> None:
    """
    BK-A122: the new one is whole first; the old one's store stays.
    """
    one = Placing(store=store)
    one.turns(3)
    assert 1 == one.audit.numbers["misplaced"]
    one.turns(60)
    assert "acd" == one.hosts()
    assert ["add d set", "remove b set", "clean set 2"] == one.cluster.asked
    assert (("cluster", "set"), 2) in one.cluster.hosts["b"].stores
    assert {"misplaced": 0, "overreplicated": 0} == one.audit.numbers
    assert {} == one.recovery.records


def test_of_a_master_and_a_slave_on_one_rack_the_slave_moves() -> None:
    """
    No mastership has to change hands for it.
    """
    one = Placing()
    one.cluster.sets["cluster", "set"].master_id = 2
    one.turns(60)
    assert "bcd" == one.hosts()
    assert ["add d set", "remove a set", "clean set 1"] == one.cluster.asked


@pytest.mark.parametrize(
    "change", [{"placement_repair": False}, {"placement_check_s": 0}]
)
def test_what_no_operator_wants_is_not_moved(change: dict[str, int]) -> None:
    """
    It is told, unless there are to be no looks.
    """
    one = Placing()
    one.recovery.settings = replace(MOVES, **change)  # type: ignore[arg-type]
    one.turns(100)
    assert [] == one.cluster.asked
    expected = {} if "placement_check_s" in change else {"misplaced": 1}
    assert expected.items() <= one.audit.numbers.items()
    assert bool(expected) == bool(one.audit.numbers)


def test_a_look_is_made_at_the_interval_and_after_a_change_of_its_settings() -> None:
    """
    Between two looks no host is asked.
    """
    one = Placing({"a": "r1", "b": "r2", "c": "r3", "d": "r4", "e": "r4"})
    one.turns(10)
    one.cluster.hosts["b"].rack = "r1"
    one.turns(3500)
    assert 0 == one.audit.numbers["misplaced"]
    one.turns(200)
    assert "acd" == one.hosts()
    one.cluster.hosts["c"].rack, one.cluster.hosts["e"].rack = "r1", "r5"
    one.turns(10)
    assert 0 == one.audit.numbers["misplaced"]
    one.recovery.settings = replace(MOVES, placement_repair=False)
    one.turns(1)
    assert 1 == one.audit.numbers["misplaced"]


def test_one_replica_is_moved_at_a_time() -> None:
    """
    In all sets together; each end of a move begins the next one.
    """
    one = Placing()
    one.cluster.add_set("other", "b", "a", "c")
    for _ in range(200):
        one.turns(1)
        running = [it for it in one.moves if it.phase is not ReplacementPhase.CLEARING]
        assert len(running) <= 1
    assert ("acd", "bcd") == (one.hosts(), one.hosts("other"))
    assert 0 == one.audit.numbers["misplaced"]


def test_a_successor_goes_on_with_a_move() -> None:
    """
    And no other one begins.
    """
    one = Placing()
    one.cluster.fill = 1
    one.turns(20)
    assert [ReplacementPhase.FILLING] == [it.phase for it in one.moves]
    one.succeed()
    one.turns(20)
    assert 1 == len(one.recovery.records)
    one.cluster.fill = 400
    one.turns(60)
    assert "acd" == one.hosts()


def test_a_move_that_is_not_wanted_any_more_leaves_nothing() -> None:
    """
    The operator switches moves off, or the neighbour is on another rack now.
    """
    for ended in (0, 1):
        one = Placing()
        one.cluster.fill = 1
        one.turns(20)
        if ended:
            one.recovery.settings = replace(MOVES, placement_repair=False)
        else:
            one.cluster.hosts["a"].rack = "r9"
        one.turns(60)
        assert "abc" == one.hosts()
        assert {} == one.recovery.records
        assert set() == one.cluster.hosts["d"].stores


def test_a_cancelled_move_is_not_asked_for_again_before_the_next_look() -> None:
    """
    An operator who cancels has a reason.
    """
    one = Placing()
    one.cluster.fill = 1
    one.turns(20)
    key, store = key_of("set", 2), one.recovery.store
    assert cancel_replacement(store, key, "test", one.cluster.now_ms)
    one.turns(600)
    assert {} == one.recovery.records
    one.turns(3600)
    assert 1 == len(one.moves)


def test_a_set_with_a_copy_less_is_not_moved_before_it_is_whole() -> None:
    """
    It is looked at again soon.
    """
    one = Placing()
    one.cluster.kill("c")
    one.turns(90)
    assert ([], 1) == (one.moves, one.audit.numbers["misplaced"])
    one.cluster.start("c")
    one.turns(150)
    assert "acd" == one.hosts()


def test_a_replica_that_is_lost_while_it_waits_for_its_move_is_replaced_anywhere() -> (
    None
):
    """
    No loss waits for a rack.
    """
    one = Placing({"a": "r1", "b": "r1", "c": "r2", "d": "r3", "e": "r1"})
    one.cluster.hosts["d"].refuses = "no"
    one.turns(3)
    assert 1 == len(one.moves)
    one.cluster.kill("b")
    one.turns(200, 2)
    assert "ace" == one.hosts()


def test_a_host_that_is_drained_is_not_held_by_a_move_without_a_place() -> None:
    """
    A drain takes any host.
    """
    one = Placing({**RACKS, "e": "r1"})
    one.cluster.hosts["d"].refuses = "no"
    one.turns(3)
    drain = HostDrain(one.cluster.now_ms, "test", with_living=True)
    assert begin_drain(one.recovery.store, "b", drain, one.cluster.now_ms)
    one.turns(300)
    assert "ace" == one.hosts()
