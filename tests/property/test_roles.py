"""
Roles under decisions, failures and hearsay in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from lib.ha.role_decisions import ME, to_follow, to_lead

from pystore.ha.decision import Decision
from pystore.ha.master.lease import NO_LEASE, Lease
from pystore.ha.role import (
    BeginMastership,
    Follow,
    RenewLease,
    Role,
    RoleEffect,
    RoleMachine,
    StopFollowing,
    StopServing,
    TakeSet,
)
from pystore.ha.wire.effects import Promise
from pystore.replicaset import AgreedSet

_DECISIONS = st.builds(
    lambda epoch, kind, version, lease: [
        Decision(epoch),
        to_follow(epoch),
        to_follow(epoch, "b:2"),
        to_follow(epoch, ""),
        to_lead(epoch, AgreedSet(frozenset({ME}), version), lease),
    ][kind],
    st.integers(0, 5),
    st.integers(0, 4),
    st.integers(0, 3),
    st.sampled_from([None, NO_LEASE, Lease(9, 9)]),
)
_INPUTS = st.one_of(
    st.tuples(st.just("decided"), _DECISIONS),
    st.tuples(st.just("disk"), st.integers(0, 5)),
    st.tuples(st.just("leased"), st.integers(0, 5)),
    st.tuples(st.just("did"), st.none()),
    st.tuples(st.just("failed"), st.booleans()),
)


@dataclass
class Watch:
    """A machine, and what its effects would have made run."""

    machine: RoleMachine = field(default_factory=lambda: RoleMachine(ME, 0))
    running: RoleEffect | None = None
    promised: int = 0
    last: int = -1

    def receive(self, kind: str, value: object) -> None:
        """Something is said to the machine, or an effect ends."""
        machine = self.machine
        match kind, value:
            case "decided", Decision() as decision:
                machine.decided(decision)
            case "disk", int() as epoch:
                machine.cannot_serve(epoch, "it fails")
            case "leased", int() as epoch:
                machine.leased(epoch, Lease(epoch, 8))
            case "did", _:
                self.carry_out()
            case "failed", bool() as is_final:
                effect = machine.next_effect()
                if isinstance(effect, Promise | BeginMastership | Follow):
                    machine.failed(effect, "it failed", is_final=is_final)

    def carry_out(self) -> None:
        """The next effect, if there is one, and what has to be so before it."""
        effect = self.machine.next_effect()
        if effect is None:
            return
        match effect:
            case StopServing() | StopFollowing():
                assert self.running == effect
                self.running = None
            case TakeSet() | RenewLease():
                assert self.running == StopServing(self.machine.known.epoch)
            case _:
                assert self.running is None
                self._begin(effect)
        self.machine.did(effect)

    def _begin(self, effect: RoleEffect) -> None:
        match effect:
            case Promise():
                assert effect.epoch > self.promised
                self.promised = effect.epoch
            case BeginMastership():
                assert effect.epoch == self.promised > self.last
                self.running, self.last = StopServing(effect.epoch), effect.epoch
            case Follow():
                assert effect.epoch == self.promised
                self.running = StopFollowing()


@given(st.lists(_INPUTS, max_size=40))
def test_whatever_happens_one_role_at_a_time_runs_and_epochs_only_rise(
    inputs: list[tuple[str, object]],
) -> None:
    """
    B6, RMQ-R152: no second begins before the first has ended, nothing below what was
    promised begins, and no epoch has two masterships.
    """
    watch = Watch()
    for kind, value in inputs:
        watch.receive(kind, value)
    for _ in range(10):
        watch.carry_out()

    role, running = watch.machine.role, watch.running
    assert watch.machine.next_effect() is None
    assert (role is Role.MASTER) == isinstance(running, StopServing)
    assert (role is Role.FOLLOWING) == isinstance(running, StopFollowing)
