"""
The role of a replica, and the transitions between roles. Pure.

A controller decides which broker is master. Until the replica has the role, there is
work that takes time and may fail. So a role switch is a state of its own: PENDING lasts
until the old role has ended and the new one has begun. The replica retries until then,
and a newer decision replaces the pending one (RMQ-R160).

One literal table lists the transitions; docs/replication.md draws its diagram from it.
The next effect is computed: `RoleMachine.next_effect` compares what runs with what is
wanted, and returns the one effect to carry out next.

Source: B5, B6, B8, C0; RMQ-R152 to RMQ-R165; docs/replication.md.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from enum import Enum

from pystore.errors import LocalViolation
from pystore.ha.decision import Decision
from pystore.ha.master.lease import NO_LEASE, Lease
from pystore.ha.wire.effects import Promise
from pystore.replicaset import AgreedSet, Member

__all__ = [
    "ROLES",
    "BeginMastership",
    "Follow",
    "RenewLease",
    "Resign",
    "Role",
    "RoleEffect",
    "RoleEvent",
    "RoleMachine",
    "StopFollowing",
    "StopServing",
    "TakeSet",
    "next_role",
]


class Role(Enum):
    """
    The role of a replica.
    """

    IDLE = "idle"
    """It knows no master to follow."""
    FOLLOWING = "following"
    PENDING = "pending"
    """The old role is ending, or the new one is beginning."""
    MASTER = "master"
    RESIGNED = "resigned"
    """It gave its mastership up, and waits for a newer decision."""
    SHUTDOWN = "shutdown"


class RoleEvent(Enum):
    """
    An event that may change the role of a replica.
    """

    DECIDED_MASTER = "decision to be the master"
    DECIDED_FOLLOW = "decision to follow a master"
    DECIDED_NO_MASTER = "decision without a master"
    NOTHING_NEW = "decision without a change"
    LEASED = "the lease changed"
    CANNOT_SERVE = "the master could not serve for too long"
    BEGAN_MASTERSHIP = "the mastership has begun"
    BEGAN_FOLLOWING = "following has begun"
    ENDED = "the old role has ended"
    GAVE_UP = "a mastership was given up"
    FAILED = "an effect failed, for now"
    SHUTDOWN = "shutdown"


_I, _F, _P, _M, _R, _S = Role

# An inability to serve ends a mastership only: a slave reports its failed disk to its
# master.
ROLES: dict[tuple[Role, RoleEvent], Role] = {
    (_I, RoleEvent.DECIDED_MASTER): _P,
    (_I, RoleEvent.DECIDED_FOLLOW): _P,
    (_I, RoleEvent.DECIDED_NO_MASTER): _P,
    (_I, RoleEvent.NOTHING_NEW): _I,
    (_I, RoleEvent.LEASED): _I,
    (_I, RoleEvent.CANNOT_SERVE): _I,
    (_I, RoleEvent.SHUTDOWN): _S,
    (_F, RoleEvent.DECIDED_MASTER): _P,
    (_F, RoleEvent.DECIDED_FOLLOW): _P,
    (_F, RoleEvent.DECIDED_NO_MASTER): _P,
    (_F, RoleEvent.NOTHING_NEW): _F,
    (_F, RoleEvent.LEASED): _F,
    (_F, RoleEvent.CANNOT_SERVE): _F,
    (_F, RoleEvent.SHUTDOWN): _S,
    (_P, RoleEvent.DECIDED_MASTER): _P,
    (_P, RoleEvent.DECIDED_FOLLOW): _P,
    (_P, RoleEvent.DECIDED_NO_MASTER): _P,
    (_P, RoleEvent.NOTHING_NEW): _P,
    (_P, RoleEvent.LEASED): _P,
    (_P, RoleEvent.CANNOT_SERVE): _P,
    (_P, RoleEvent.BEGAN_MASTERSHIP): _M,
    (_P, RoleEvent.BEGAN_FOLLOWING): _F,
    (_P, RoleEvent.ENDED): _I,
    (_P, RoleEvent.GAVE_UP): _R,
    (_P, RoleEvent.FAILED): _P,
    (_P, RoleEvent.SHUTDOWN): _S,
    (_M, RoleEvent.DECIDED_MASTER): _P,
    (_M, RoleEvent.DECIDED_FOLLOW): _P,
    (_M, RoleEvent.DECIDED_NO_MASTER): _P,
    (_M, RoleEvent.NOTHING_NEW): _M,
    (_M, RoleEvent.LEASED): _M,
    (_M, RoleEvent.CANNOT_SERVE): _P,
    (_M, RoleEvent.SHUTDOWN): _S,
    (_R, RoleEvent.DECIDED_MASTER): _P,
    (_R, RoleEvent.DECIDED_FOLLOW): _P,
    (_R, RoleEvent.DECIDED_NO_MASTER): _P,
    (_R, RoleEvent.NOTHING_NEW): _R,
    (_R, RoleEvent.LEASED): _R,
    (_R, RoleEvent.CANNOT_SERVE): _R,
    (_R, RoleEvent.SHUTDOWN): _S,
    **{(_S, event): _S for event in RoleEvent},
}


def next_role(role: Role, event: RoleEvent) -> Role:
    """
    Returns where *event* leads from *role*.

    Raises:
        LocalViolation: the event cannot happen in that role.
    """
    following = ROLES.get((role, event))
    if following is None:
        raise LocalViolation(f"{event.value} in role {role.name}")
    return following


class RoleMachine:
    """
    The role of one replica. One thread.

    Its owner calls `next_effect`, carries the effect out, calls `did` or `failed`, and
    starts again. In between it may pass on any number of inputs.

    Args:
        me: this replica, in this incarnation.
        promised_epoch: that its store promised: decisions of lower epochs are ignored
            (B6).

    Attributes:
        role: now.
        known: the newest decision.
    """

    def __init__(self, me: Member, promised_epoch: int) -> None:
        self.role = Role.IDLE
        self.known = Decision(promised_epoch)
        self._me = me
        self._promised = promised_epoch
        self._given_up = -1
        self._running: StopServing | StopFollowing | None = None
        self._resign: Resign | None = None
        self._updates: deque[RoleEffect] = deque()
        self._lease = NO_LEASE

    # -- inputs --------------------------------------------------------------

    def decided(self, decision: Decision) -> None:
        """
        Takes a decision of the controller. One that is not newer changes nothing,
        except the set and the lease of this replica's own mastership.
        """
        event = self._event_of(decision)
        if event is RoleEvent.NOTHING_NEW:
            self._take_update(decision)
        else:
            if isinstance(self._running, StopServing) and self._resign is None:
                # It will acknowledge nothing any more, so its lease ends early (C3).
                reason = f"the controller decided on epoch {decision.epoch}"
                self._resign = Resign(self._running.epoch, reason)
            self.known = decision
            # Fail closed: a lease of another epoch is none of this one (C0).
            self._lease = decision.lease or NO_LEASE
        self._move(event)

    def leased(self, epoch: int, lease: Lease) -> None:
        """
        Takes a lease of the controller, or its end
        (`pystore.ha.master.lease.NO_LEASE`).
        """
        if self._is_mine(epoch) and lease != self._lease:
            self._lease = lease
            if self.role is Role.MASTER:
                self._updates.append(RenewLease(epoch, lease))
        self._move(RoleEvent.LEASED)

    def cannot_serve(self, epoch: int, reason: str) -> None:
        """
        The master could not append or sync for too long, and another member is well
        (B9, B13).
        """
        if self._is_mine(epoch):
            self._give_up(reason)
            self._move(RoleEvent.CANNOT_SERVE)

    def shutdown(self) -> None:
        """
        Ends the role that runs; no other begins.
        """
        self._give_up("the master shuts down")
        self._move(RoleEvent.SHUTDOWN)

    # -- effects -------------------------------------------------------------

    def next_effect(self) -> RoleEffect | None:
        """
        Returns the next effect; the same until `did` or `failed`.
        """
        if self.role in (Role.PENDING, Role.SHUTDOWN):
            if self._running is not None:
                return self._running
            if self._resign is not None:
                return self._resign
        if self.role is Role.PENDING:
            return self._next_beginning()
        return self._updates[0] if self._updates else None

    def did(self, effect: RoleEffect) -> None:
        """
        The effect was carried out.
        """
        match effect:
            case StopServing() | StopFollowing():
                self._running = None
            case Resign():
                self._resign = None
            case Promise():
                self._promised = effect.epoch
            case BeginMastership():
                self._running = StopServing(effect.epoch)
                self._move(RoleEvent.BEGAN_MASTERSHIP)
            case Follow():
                self._running = StopFollowing()
                self._move(RoleEvent.BEGAN_FOLLOWING)
            case TakeSet() | RenewLease():
                self._updates.popleft()
        self._settle()

    def failed(self, effect: RoleEffect, reason: str, *, is_final: bool) -> None:
        """
        The effect was not carried out. The beginning of a role is tried again, unless
        a newer decision comes. After a final failure a mastership is resigned, and a
        follower waits for a new decision. Other effects are not tried again.
        """
        if not isinstance(effect, Promise | BeginMastership | Follow):
            self.did(effect)
        elif not is_final:
            self._move(RoleEvent.FAILED)
        elif self.known.master == self._me:
            self._give_up(reason)
        else:
            self.known = Decision(self.known.epoch)
        self._settle()

    # -- inside --------------------------------------------------------------

    def _event_of(self, decision: Decision) -> RoleEvent:
        known = self.known
        if decision.epoch < known.epoch or decision.epoch <= self._given_up:
            return RoleEvent.NOTHING_NEW
        is_same = decision.epoch == known.epoch
        if is_same and (known.master == self._me or not _has_news(known, decision)):
            return RoleEvent.NOTHING_NEW
        if decision.master == self._me:
            return RoleEvent.DECIDED_MASTER
        return (
            RoleEvent.DECIDED_FOLLOW
            if self._is_elsewhere(decision)
            else RoleEvent.DECIDED_NO_MASTER
        )

    def _is_elsewhere(self, decision: Decision) -> bool:
        """
        Whether there is a master to follow: not an older process of this broker (B1).
        """
        if decision.master is None or not decision.address:
            return False
        return decision.master.broker_id != self._me.broker_id

    def _take_update(self, decision: Decision) -> None:
        known, agreed = self.known, decision.agreed
        is_same = (decision.epoch, decision.master) == (known.epoch, known.master)
        if not is_same or known.master is None:
            return
        if agreed.set_epoch > known.agreed.set_epoch:
            self.known = replace(known, agreed=agreed)
            if self.role is Role.MASTER:
                self._updates.append(TakeSet(agreed))
        if decision.lease is not None:
            self.leased(decision.epoch, decision.lease)

    def _is_mine(self, epoch: int) -> bool:
        known = self.known
        is_ours = known.master == self._me and known.epoch == epoch
        return is_ours and self._given_up < epoch

    def _give_up(self, reason: str) -> None:
        if self._is_mine(self.known.epoch):
            self._given_up = self.known.epoch
            self._resign = Resign(self.known.epoch, reason)

    def _next_beginning(self) -> RoleEffect | None:
        known = self.known
        if known.epoch <= self._given_up:
            return None
        if self._promised < known.epoch:
            return Promise(known.epoch)
        if known.master == self._me:
            return BeginMastership(known.epoch, known.agreed, self._lease)
        if self._is_elsewhere(known):
            return Follow(known.address, known.epoch)
        return None

    def _settle(self) -> None:
        # No role runs and none begins: the switch is over.
        if self.role is Role.PENDING and self.next_effect() is None:
            is_given_up = self.known.master == self._me
            self._move(RoleEvent.GAVE_UP if is_given_up else RoleEvent.ENDED)

    def _move(self, event: RoleEvent) -> None:
        self.role = next_role(self.role, event)
        if self.role is not Role.MASTER:
            self._updates.clear()
        self._settle()


def _has_news(known: Decision, decision: Decision) -> bool:
    """
    Whether a decision of the same epoch adds the master or its address (RMQ-R165).
    """
    if known.master is None:
        return decision.master is not None
    is_elsewhere = decision.address not in ("", known.address)
    return known.master == decision.master and is_elsewhere


@dataclass(frozen=True, slots=True)
class StopServing:
    """
    End the mastership of an epoch: no append and no ack any more.
    """

    epoch: int


@dataclass(frozen=True, slots=True)
class StopFollowing:
    """
    Leave the master: none of its bytes are written any more.
    """


@dataclass(frozen=True, slots=True)
class BeginMastership:
    """
    Begin the epoch in the log, and serve slaves.

    Attributes:
        epoch: of the mastership.
        agreed: the set as it was committed with the election.
        lease: as far as it is granted by now.
    """

    epoch: int
    agreed: AgreedSet
    lease: Lease


@dataclass(frozen=True, slots=True)
class Follow:
    """
    Follow a master.

    Attributes:
        address: ``HOST:PORT``.
        epoch: of its mastership.
    """

    address: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Resign:
    """
    Tell the controller that a mastership was given up; it has ended.
    """

    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class TakeSet:
    """
    Take a newer set of the running mastership (RMQ-R117).
    """

    agreed: AgreedSet


@dataclass(frozen=True, slots=True)
class RenewLease:
    """
    Take a new lease of the running mastership.
    """

    epoch: int
    lease: Lease


RoleEffect = (
    StopServing
    | StopFollowing
    | Promise
    | BeginMastership
    | Follow
    | Resign
    | TakeSet
    | RenewLease
)
