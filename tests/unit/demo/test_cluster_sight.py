"""
What is seen of a cluster: which host has what, and whether a set is as it should be.
"""

from __future__ import annotations

from dataclasses import replace

from lib.seen_cluster import CLUSTER, a_broker, a_host, a_sight

from pystore.autorecovery.mark import Missing, Priority, Reason, SegmentMark
from pystore.autorecovery.replacement_record import (
    HostDrain,
    LeftReplica,
    Replacement,
    ReplacementKey,
    ReplacementPhase,
    ReplacementReason,
)
from pystore.controller.model.log_end import LogBegin
from pystore.demo.cluster_sight import mark_text
from pystore.demo.timeline import BrokerState


def test_a_set_is_settled_on_hosts_that_carry_whole_copies_in_sync() -> None:
    """
    Not with another host, a dead or late replica, one that is not in sync, or one more.
    """
    good = {1: a_broker(1), 2: a_broker(2)}
    assert a_sight(good).is_settled({1, 2}, "s")
    assert not a_sight(good).is_settled({1, 3}, "s")
    assert not a_sight(good).is_settled({1, 2}, "other")
    for bad in (
        replace(good[2], is_alive=False),
        replace(good[2], is_in_sync=False),
        replace(good[2], begin=LogBegin(4096, is_filling=True)),
    ):
        assert not a_sight(good | {2: bad}).is_settled({1, 2}, "s")
    assert not a_sight({**good, 3: a_broker(3)}).is_settled({1, 2}, "s")


def test_the_master_is_on_the_host_that_carries_it() -> None:
    """
    0 where no host tells that it carries the broker.
    """
    sight = a_sight({1: a_broker(1), 2: a_broker(2)}, master=2)
    assert {1: 1, 2: 2} == sight.hosts_of("s")
    assert 2 == sight.master_host("s")
    assert 2 == sight.number_of("host-2")
    assert 0 == sight.number_of("elsewhere")
    assert 0 == replace(sight, hosts={}).master_host("s")


def test_a_lane_says_what_a_host_does() -> None:
    """
    A host that is emptied is that, whatever else it does.
    """
    sight = a_sight({1: a_broker(1), 2: a_broker(2)}, master=2)
    assert BrokerState("serving", carries="1 replica, 1 master") == sight.lane(2)
    assert BrokerState("spare") == sight.lane(3)
    assert BrokerState("down") == sight.lane(4)

    key = ReplacementKey(CLUSTER, "s", 1)
    going = Replacement(
        ReplacementReason.LOST, 1, phase=ReplacementPhase.FILLING, target="host-3"
    )
    filled = replace(sight, replacements={key: going})
    assert "filling" == filled.lane(3).role
    ended = replace(sight, replacements={key: replace(going, cancelled=True)})
    assert "spare" == ended.lane(3).role
    emptied = replace(filled, drains={"host-2": HostDrain(1)})
    assert "emptying" == emptied.lane(2).role
    dead = {3: replace(a_host(3), is_alive=False)}
    assert "down" == replace(filled, hosts=dead).lane(3).role


def test_a_replacement_that_waits_for_a_dead_host_alone_is_finished() -> None:
    """
    One that still removes something from a host that is alive is not.
    """
    sight = a_sight({1: a_broker(1)})
    key = ReplacementKey(CLUSTER, "s", 2)
    one = Replacement(ReplacementReason.LOST, 1, phase=ReplacementPhase.CLEARING)
    for left, is_finished in ((), True), (("gone",), True), (("gone", "host-1"), False):
        left_on = tuple(LeftReplica(host, 2) for host in left)
        seen = replace(sight, replacements={key: replace(one, left=left_on)})
        assert is_finished is (not seen.unfinished)
    filling = replace(one, phase=ReplacementPhase.FILLING)
    assert {key} == replace(sight, replacements={key: filling}).unfinished


def test_a_mark_is_told_without_what_is_being_filled() -> None:
    """
    A fill is told by its replacement.
    """
    facts = {
        2: Missing(Reason.ABSENT, "broker 2: the file is missing"),
        4: Missing(Reason.FILL),
    }
    mark = SegmentMark(facts, Priority.LAST_COPY, 1, 1)
    assert "broker 2 ABSENT: the file is missing" == mark_text(mark)
    assert "" == mark_text(replace(mark, missing={4: facts[4]}))
