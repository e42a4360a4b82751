"""
The role machine: what decisions lead to, and that nothing older does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from lib.ha.role_decisions import ME, OTHER, SET, to_follow, to_lead
from lib.state_diagrams import PAGE, drawn

from pystore.errors import LocalViolation
from pystore.ha.decision import Decision
from pystore.ha.master.lease import NO_LEASE, Lease
from pystore.ha.role import (
    ROLES,
    BeginMastership,
    Follow,
    RenewLease,
    Resign,
    Role,
    RoleEffect,
    RoleEvent,
    RoleMachine,
    StopFollowing,
    StopServing,
    TakeSet,
    next_role,
)
from pystore.ha.wire.effects import Promise
from pystore.replicaset import AgreedSet, Incarnation, Member


@dataclass
class Stage:
    """A machine whose effects all succeed."""

    machine: RoleMachine = field(default_factory=lambda: RoleMachine(ME, 0))
    done: list[RoleEffect] = field(default_factory=list)

    def run(self) -> list[RoleEffect]:
        """Carries out what there is; answers it."""
        before = len(self.done)
        while (effect := self.machine.next_effect()) is not None:
            self.done.append(effect)
            self.machine.did(effect)
        return self.done[before:]

    def told(self, decision: Decision) -> list[RoleEffect]:
        """A decision, and what it leads to."""
        self.machine.decided(decision)
        return self.run()


@pytest.fixture
def stage() -> Stage:
    """A machine that was told nothing yet."""
    return Stage()


def test_a_slave_promises_before_it_follows(stage: Stage) -> None:
    """B6: and it is PENDING until both were done."""
    stage.machine.decided(to_follow(3))
    before = stage.machine.role
    assert stage.run() == [Promise(3), Follow("a:1", 3)]
    assert (before, stage.machine.role) == (Role.PENDING, Role.FOLLOWING)


def test_the_old_role_ends_before_the_new_one_is_promised(stage: Stage) -> None:
    """No other thread writes to the log while it is promised, cut and begun."""
    stage.told(to_follow(3))
    assert stage.told(to_lead(4)) == [
        StopFollowing(),
        Promise(4),
        BeginMastership(4, SET, NO_LEASE),
    ]
    assert stage.machine.role is Role.MASTER
    assert stage.told(to_follow(5)) == [
        StopServing(4),
        Resign(4, "the controller decided on epoch 5"),
        Promise(5),
        Follow("a:1", 5),
    ]


def test_a_newer_mastership_of_the_same_master_begins_anew(stage: Stage) -> None:
    """
    RMQ-R158, RMQ-R159: another epoch is another mastership, with links of its own.
    """
    stage.told(to_lead(4))

    assert stage.told(to_lead(5)) == [
        StopServing(4),
        Resign(4, "the controller decided on epoch 5"),
        Promise(5),
        BeginMastership(5, SET, NO_LEASE),
    ]


def test_an_older_or_equal_decision_changes_nothing(stage: Stage) -> None:
    """RMQ-R153: whatever it says."""
    stage.told(to_lead(4))
    for epoch in (3, 4):
        for decision in (to_follow(epoch), to_lead(epoch), Decision(epoch)):
            assert stage.told(decision) == []
            assert stage.machine.role is Role.MASTER
    assert stage.told(Decision(4, ME, "elsewhere:1", SET)) == []


def test_a_promised_epoch_outlives_the_process() -> None:
    """B6: after a restart, too; the same epoch may be followed."""
    stage = Stage(RoleMachine(ME, 6))

    assert stage.told(to_lead(5)) == []
    assert stage.told(to_follow(5)) == []
    assert stage.told(to_follow(6)) == [Follow("a:1", 6)]


def test_an_older_process_of_the_broker_is_another_member(stage: Stage) -> None:
    """
    B1, RMQ-R152: a restarted process resumes no mastership, nor does it follow it.
    """
    former = Member(1, Incarnation(3, bytes(16)))

    assert stage.told(Decision(3, former, "me:1", SET)) == [Promise(3)]
    assert stage.machine.role is Role.IDLE
    assert stage.told(Decision(4, Member(1), "me:1", SET)) == [Promise(4)]


def test_an_election_ends_the_old_role_and_its_outcome_begins_one(
    stage: Stage,
) -> None:
    """An epoch may be decided in steps: no master yet, the master, its address."""
    stage.told(to_follow(3))

    assert stage.told(Decision(4)) == [StopFollowing(), Promise(4)]
    assert stage.machine.role is Role.IDLE
    assert stage.told(to_follow(4, "")) == []
    assert stage.told(to_follow(4)) == [Follow("a:1", 4)]
    assert stage.told(to_follow(4, "")) == []
    assert stage.told(Decision(4)) == []


def test_a_master_that_moved_is_followed_to_where_it_is(stage: Stage) -> None:
    """RMQ-R165: the same master, the same epoch, another address."""
    stage.told(to_follow(3))

    assert stage.told(to_follow(3, "b:2")) == [
        StopFollowing(),
        Follow("b:2", 3),
    ]


class TestPending:
    """RMQ-R160: a switch is over when it is done, and not before."""

    def test_a_newer_decision_replaces_the_one_that_is_pending(
        self, stage: Stage
    ) -> None:
        """The old role is ended once; what was never begun is not ended."""
        stage.told(to_follow(3))
        machine = stage.machine
        machine.decided(to_lead(4))
        assert machine.next_effect() == StopFollowing()
        machine.decided(to_follow(5))
        assert machine.next_effect() == StopFollowing()
        machine.did(StopFollowing())
        assert machine.next_effect() == Promise(5)
        machine.decided(to_lead(6))

        assert stage.run() == [Promise(6), BeginMastership(6, SET, NO_LEASE)]

    def test_an_older_one_does_not(self, stage: Stage) -> None:
        """Nor one that is told again."""
        stage.machine.decided(to_lead(4))
        for decision in (to_follow(3), to_follow(4), to_lead(4)):
            stage.machine.decided(decision)

        assert stage.run() == [Promise(4), BeginMastership(4, SET, NO_LEASE)]

    def test_a_beginning_that_failed_is_tried_again(self, stage: Stage) -> None:
        """Until it succeeds, or something newer is decided."""
        machine = stage.machine
        machine.decided(to_lead(4))
        machine.did(Promise(4))
        begin = BeginMastership(4, SET, NO_LEASE)
        for _ in range(3):
            assert machine.next_effect() == begin
            machine.failed(begin, "the port is taken", is_final=False)
            assert machine.role is Role.PENDING
        machine.decided(to_follow(5))

        assert stage.run() == [Promise(5), Follow("a:1", 5)]

    def test_a_mastership_that_can_never_begin_is_resigned(self, stage: Stage) -> None:
        """And not begun when it is told again."""
        machine = stage.machine
        machine.decided(to_lead(4))
        machine.did(Promise(4))
        machine.failed(BeginMastership(4, SET, NO_LEASE), "poisoned", is_final=True)

        assert stage.run() == [Resign(4, "poisoned")]
        assert machine.role is Role.RESIGNED
        assert stage.told(to_lead(4)) == []

    def test_following_that_cannot_begin_waits_to_be_told_again(
        self, stage: Stage
    ) -> None:
        """An address that is none, say; the next one may be one."""
        machine = stage.machine
        machine.decided(to_follow(4, "nowhere"))
        machine.did(Promise(4))
        machine.failed(Follow("nowhere", 4), "no port", is_final=True)
        assert machine.role is Role.IDLE

        assert stage.told(to_follow(4)) == [Follow("a:1", 4)]

    def test_the_set_of_the_mastership_that_is_pending_is_the_newest(
        self, stage: Stage
    ) -> None:
        """It was polled meanwhile; so was the lease."""
        newer = AgreedSet(frozenset({ME}), 8)
        stage.machine.decided(to_lead(4, lease=NO_LEASE))
        stage.machine.decided(to_lead(4, newer, Lease(5, 5)))

        assert stage.run()[-1] == BeginMastership(4, newer, Lease(5, 5))


class TestMaster:
    """What the controller tells a master that stays one."""

    def test_a_newer_set_is_taken(self, stage: Stage) -> None:
        """RMQ-R117, RMQ-R118: by its version."""
        stage.told(to_lead(4))
        newer = AgreedSet(frozenset({ME, OTHER}), 8)

        assert stage.told(to_lead(4, newer)) == [TakeSet(newer)]
        assert stage.told(to_lead(4)) == []
        assert stage.told(to_lead(4, newer)) == []
        assert stage.machine.role is Role.MASTER

    def test_a_lease_is_renewed_and_taken_away(self, stage: Stage) -> None:
        """C1: with a heartbeat's answer, or by itself; of this epoch alone."""
        stage.told(to_lead(4, lease=Lease(5, 5)))
        machine = stage.machine
        machine.leased(3, Lease(7, 7))
        machine.leased(4, Lease(5, 5))
        assert stage.run() == []
        machine.leased(4, Lease(9, 9))
        assert stage.run() == [RenewLease(4, Lease(9, 9))]
        assert stage.told(to_lead(4, lease=NO_LEASE)) == [RenewLease(4, NO_LEASE)]

    def test_what_was_not_carried_out_dies_with_the_mastership(
        self, stage: Stage
    ) -> None:
        """A set or a lease of the epoch before is none of the next."""
        stage.told(to_lead(4))
        stage.machine.leased(4, Lease(9, 9))
        stage.machine.decided(to_lead(5))

        assert stage.run() == [
            StopServing(4),
            Resign(4, "the controller decided on epoch 5"),
            Promise(5),
            BeginMastership(5, SET, NO_LEASE),
        ]

    def test_a_failed_disk_ends_it(self, stage: Stage) -> None:
        """B9: but not the mastership of another epoch."""
        stage.told(to_lead(4))
        stage.machine.cannot_serve(3, "late")
        assert stage.run() == []
        stage.machine.cannot_serve(4, "it fails")

        assert stage.run() == [StopServing(4), Resign(4, "it fails")]
        assert stage.machine.role is Role.RESIGNED

    def test_what_was_given_up_is_told_though_a_decision_came_between(
        self, stage: Stage
    ) -> None:
        """The next master need not wait for the lease (C3)."""
        stage.told(to_lead(4))
        stage.machine.cannot_serve(4, "it fails")
        stage.machine.decided(to_follow(5))

        assert stage.run() == [
            StopServing(4),
            Resign(4, "it fails"),
            Promise(5),
            Follow("a:1", 5),
        ]


class TestShutdown:
    """Whatever runs ends, and nothing begins."""

    def test_a_master_resigns(self, stage: Stage) -> None:
        """So that another one is elected at once."""
        stage.told(to_lead(4))
        stage.machine.shutdown()

        assert stage.run() == [StopServing(4), Resign(4, "the master shuts down")]

    def test_a_slave_leaves(self, stage: Stage) -> None:
        """There is nothing to resign."""
        stage.told(to_follow(4))
        stage.machine.shutdown()

        assert stage.run() == [StopFollowing()]

    def test_what_is_pending_does_not_begin(self, stage: Stage) -> None:
        """Nor what is decided later; it is never left."""
        stage.told(to_follow(3))
        stage.machine.decided(to_follow(4))
        stage.machine.shutdown()
        stage.machine.decided(to_lead(9))

        assert stage.run() == [StopFollowing()]
        assert stage.machine.role is Role.SHUTDOWN


class TestTable:
    """The literal table."""

    def test_shutdown_is_never_left(self) -> None:
        """And reached from everywhere."""
        assert {next_role(Role.SHUTDOWN, event) for event in RoleEvent} == {
            Role.SHUTDOWN
        }
        assert {next_role(role, RoleEvent.SHUTDOWN) for role in Role} == {Role.SHUTDOWN}

    def test_whatever_is_told_may_be_told_in_every_role(self) -> None:
        """Its sender does not know this epoch."""
        outer = list(RoleEvent)[:6]
        assert [] == [
            (role, event)
            for role in Role
            for event in outer
            if (role, event) not in ROLES
        ]

    def test_a_role_is_entered_through_pending_alone(self) -> None:
        """RMQ-R160: no role begins in the middle of another."""
        entered = {
            role
            for (role, _), following in ROLES.items()
            if following in (Role.MASTER, Role.FOLLOWING) and role is not following
        }
        assert entered == {Role.PENDING}

    def test_what_cannot_be_is_a_mistake_of_ours(self) -> None:
        """Such as a beginning that was not requested."""
        with pytest.raises(LocalViolation, match="mastership has begun in role IDLE"):
            next_role(Role.IDLE, RoleEvent.BEGAN_MASTERSHIP)

    def test_the_page_shows_the_roles_as_they_are(self) -> None:
        """Run ``python tests/lib/state_diagrams.py`` after a change."""
        text = PAGE.read_text(encoding="utf-8")
        assert "<!-- role -->" in text
        assert text == drawn(text)
