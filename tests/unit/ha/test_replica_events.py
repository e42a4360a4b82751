"""
The events of replicas at work: roles, links, sets, cuts and leases.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from lib.ha.master_fixture import WAIT_MS
from lib.ha.replica_fixture import ReplicaStage
from lib.store.stores import message

from pystore.clocks import boottime_ns, clock_ms, wall_ms
from pystore.events.node_events import (
    CutOrdered,
    LeaseEnded,
    LeaseGranted,
    LeaseRefused,
    LinkClosed,
    LinkOpened,
    NodeEvent,
    RoleChanged,
    SyncStateSetChanged,
    SyncStateSetShrank,
)
from pystore.ha.decision import Decision
from pystore.ha.insync.ack import Ack
from pystore.ha.master.lease import NO_LEASE, lease_from
from pystore.ha.role import Role


@pytest.fixture
def stage(tmp_path: Path) -> ReplicaStage:
    """No replica has started yet."""
    return ReplicaStage(tmp_path)


def told(
    stage: ReplicaStage,
    kind: type[NodeEvent],
    is_it: Callable[[NodeEvent], bool] = lambda _: True,
) -> NodeEvent:
    """
    Waits for an event, and returns it.
    """
    until_ms = clock_ms() + WAIT_MS
    while True:
        for event in list(stage.events):
            if type(event) is kind and is_it(event):
                return event
        assert clock_ms() < until_ms, stage.events
        stage.replicas[1].wait_for(lambda _: False, 10)


def test_a_slave_that_ends_leaves_the_set_and_the_event_says_why(
    stage: ReplicaStage,
) -> None:
    """
    In a sentence with names; each link has an event at both ends.
    """
    with stage:
        first, second = stage.start(1), stage.start(2)
        stage.elect(1, first)
        stage.controller.wait_for({1, 2})
        joined = told(stage, SyncStateSetChanged)
        assert isinstance(joined, SyncStateSetChanged)
        assert ((1, 2), (2,), ()) == (joined.members, joined.joined, joined.left)
        for opened, *expected in (
            (told(stage, LinkOpened, lambda it: it.broker_id == 1), "slave", 2),
            (told(stage, LinkOpened, lambda it: it.broker_id == 2), "master", 1),
        ):
            assert isinstance(opened, LinkOpened)
            assert expected == [opened.peer_role, opened.peer_id]
        second.close()
        left = told(stage, SyncStateSetShrank)

        assert isinstance(left, SyncStateSetShrank)
        assert ((1,), (2,), 1) == (left.members, left.left, left.broker_id)
        assert "broker 2 left the SyncStateSet: it" in left.reason
        closed = told(stage, LinkClosed, lambda it: it.broker_id == 1)
        assert isinstance(closed, LinkClosed)
        assert 2 == closed.peer_id


def test_roles_that_are_exchanged_and_the_cut_are_told(stage: ReplicaStage) -> None:
    """
    The cut was silent: who orders it, and what it costs.
    """
    with stage:
        first, second = stage.start(1), stage.start(2)
        stage.elect(1, first)
        stage.controller.wait_for({1, 2})
        kept = first.append(message(1), Ack.ALL, WAIT_MS).appended.end
        second.decided(Decision(2))
        stage.wait_for(second, Role.IDLE, 2)
        lost = first.append(message(2), Ack.LEADER).appended.end
        stage.elect(2, second)
        stage.wait_for(first, Role.FOLLOWING, 2)
        cut = told(stage, CutOrdered)

        assert isinstance(cut, CutOrdered)
        assert (1, 2, lost, kept) == (
            cut.broker_id,
            cut.peer_id,
            cut.from_offset,
            cut.to_offset,
        )
        roles = [
            (one.old, one.new, one.master_epoch)
            for one in stage.events
            if isinstance(one, RoleChanged) and one.broker_id == 1
        ]
        assert [("idle", "master", 1), ("master", "following", 2)] == roles


def test_a_lease_is_told_when_it_is_granted_runs_out_and_is_refused(
    stage: ReplicaStage,
) -> None:
    """
    Not with each heartbeat.
    """
    with stage:
        first = stage.start(1)
        stage.elect(1, first, NO_LEASE)
        first.leased(1, lease_from(boottime_ns(), wall_ms(), 2_000))
        told(stage, LeaseGranted)
        ended = told(stage, LeaseEnded)
        assert isinstance(ended, LeaseEnded)
        assert 1 == ended.master_epoch
        for _ in range(3):
            first.leased(1, lease_from(boottime_ns(), wall_ms(), 60_000))
            first.leased(1, lease_from(boottime_ns(), wall_ms(), 60_001))
        for _ in range(3):
            first.leased(1, NO_LEASE)
        told(stage, LeaseRefused)

    leases = (LeaseGranted, LeaseEnded, LeaseRefused)
    kinds = [type(one) for one in stage.events if isinstance(one, leases)]
    assert [LeaseGranted, LeaseEnded, LeaseGranted, LeaseRefused] == kinds
