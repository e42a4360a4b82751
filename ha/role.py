"""
Which role a replica has, and what leads from one to another. Pure.

A controller decides who is master, a role is what came of it: between the two lies
work that takes time and may fail. So a role switch is a state of its own: PENDING
lasts until the old role has ended and the new one has begun, is tried again until
then, and a newer decision takes the place of the one that is pending (R160).

One literal table says which event leads where; docs/replication.md draws its diagram
from it. What is to be done is not listed but looked up: `RoleMachine.next_effect`
compares what runs with what is wanted, and answers the one thing to do next.

Source: safety B5, B6, B8; R152 to R165; docs/replication.md.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from enum import Enum

from pystore.errors import LocalViolation
from pystore.ha.decision import Decision
from pystore.ha.master.lease import Lease
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
    What a replica is.
    """

    IDLE = "idle"
    """Nobody told it whom to follow."""
    FOLLOWING = "following"
    PENDING = "pending"
    """The old role is being ended, or the new one begun."""
    MASTER = "master"
    RESIGNED = "resigned"
    """It gave its mastership up, and waits for a newer decision."""
    SHUTDOWN = "shutdown"


class RoleEvent(Enum):
    """
    What moves a replica from one role to another.
    """

    TOLD_MASTER = "told to be master"
    TOLD_FOLLOW = "told whom to follow"
    TOLD_NOBODY = "told that nobody is master"
    TOLD_AGAIN = "told nothing new"
    LEASED = "the lease changed"
    HEARD_NEWER = "heard of a newer epoch"
    DISK_FAILED = "our disk failed for too long"
    BEGAN_MASTERSHIP = "the mastership has begun"
    BEGAN_FOLLOWING = "following has begun"
    ENDED = "the old role has ended"
    GAVE_UP = "a mastership was given up"
    FAILED = "it failed, for now"
    SHUTDOWN = "shutdown"


_I, _F, _P, _M, _R, _S = Role

# Only a master has anything to lose by a newer epoch or a failed disk; a slave hears
# of the one from its own master, and tells the other to it.
ROLES: dict[tuple[Role, RoleEvent], Role] = {
    (_I, RoleEvent.TOLD_MASTER): _P,
    (_I, RoleEvent.TOLD_FOLLOW): _P,
    (_I, RoleEvent.TOLD_NOBODY): _P,
    (_I, RoleEvent.TOLD_AGAIN): _I,
    (_I, RoleEvent.LEASED): _I,
    (_I, RoleEvent.HEARD_NEWER): _I,
    (_I, RoleEvent.DISK_FAILED): _I,
    (_I, RoleEvent.SHUTDOWN): _S,
    (_F, RoleEvent.TOLD_MASTER): _P,
    (_F, RoleEvent.TOLD_FOLLOW): _P,
    (_F, RoleEvent.TOLD_NOBODY): _P,
    (_F, RoleEvent.TOLD_AGAIN): _F,
    (_F, RoleEvent.LEASED): _F,
    (_F, RoleEvent.HEARD_NEWER): _F,
    (_F, RoleEvent.DISK_FAILED): _F,
    (_F, RoleEvent.SHUTDOWN): _S,
    (_P, RoleEvent.TOLD_MASTER): _P,
    (_P, RoleEvent.TOLD_FOLLOW): _P,
    (_P, RoleEvent.TOLD_NOBODY): _P,
    (_P, RoleEvent.TOLD_AGAIN): _P,
    (_P, RoleEvent.LEASED): _P,
    (_P, RoleEvent.HEARD_NEWER): _P,
    (_P, RoleEvent.DISK_FAILED): _P,
    (_P, RoleEvent.BEGAN_MASTERSHIP): _M,
    (_P, RoleEvent.BEGAN_FOLLOWING): _F,
    (_P, RoleEvent.ENDED): _I,
    (_P, RoleEvent.GAVE_UP): _R,
    (_P, RoleEvent.FAILED): _P,
    (_P, RoleEvent.SHUTDOWN): _S,
    (_M, RoleEvent.TOLD_MASTER): _P,
    (_M, RoleEvent.TOLD_FOLLOW): _P,
    (_M, RoleEvent.TOLD_NOBODY): _P,
    (_M, RoleEvent.TOLD_AGAIN): _M,
    (_M, RoleEvent.LEASED): _M,
    (_M, RoleEvent.HEARD_NEWER): _P,
    (_M, RoleEvent.DISK_FAILED): _P,
    (_M, RoleEvent.SHUTDOWN): _S,
    (_R, RoleEvent.TOLD_MASTER): _P,
    (_R, RoleEvent.TOLD_FOLLOW): _P,
    (_R, RoleEvent.TOLD_NOBODY): _P,
    (_R, RoleEvent.TOLD_AGAIN): _R,
    (_R, RoleEvent.LEASED): _R,
    (_R, RoleEvent.HEARD_NEWER): _R,
    (_R, RoleEvent.DISK_FAILED): _R,
    (_R, RoleEvent.SHUTDOWN): _S,
    **{(_S, event): _S for event in RoleEvent},
}


def next_role(role: Role, event: RoleEvent) -> Role:
    """
    Returns where *event* leads from *role*.

    Raises:
        LocalViolation: nothing of the kind can happen there.
    """
    following = ROLES.get((role, event))
    if following is None:
        raise LocalViolation(f"{event.value} in role {role.name}")
    return following


class RoleMachine:
    """
    The role of one replica. One thread.

    Its owner asks for `next_effect`, carries it out, says `did` or `failed`, and asks
    again; in between it may say what it heard, as often as it likes.

    Args:
        me: this replica, in this incarnation.
        promised_epoch: what its store promised: no lower one is obeyed (B6).

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
        self._news: deque[RoleEffect] = deque()
        self._lease: Lease | None = None

    # -- what is heard -------------------------------------------------------

    def decided(self, decision: Decision) -> None:
        """
        The controller says who is master. What is not newer changes nothing, but
        that the set of our own mastership may be, or its lease.
        """
        event = self._told(decision)
        if event is RoleEvent.TOLD_AGAIN:
            self._repeated(decision)
        else:
            self.known = decision
            self._lease = decision.lease
        self._move(event)

    def leased(self, epoch: int, lease: Lease) -> None:
        """
        The controller granted a lease, or took it away
        (`pystore.ha.master.lease.NO_LEASE`).
        """
        if self._is_mine(epoch) and lease != self._lease:
            self._lease = lease
            if self.role is Role.MASTER:
                self._news.append(RenewLease(epoch, lease))
        self._move(RoleEvent.LEASED)

    def heard(self, newer_epoch: int) -> None:
        """
        A peer knows a newer epoch: this mastership is over, whoever has the next.
        It is not promised: a peer's word gives nobody a mastership.
        """
        if newer_epoch > self.known.epoch:
            self._give_up(f"epoch {newer_epoch} is known")
            self._move(RoleEvent.HEARD_NEWER)

    def disk_failed(self, epoch: int, reason: str) -> None:
        """
        Our disk has failed for too long, and another member is well (B9).
        """
        if self._is_mine(epoch):
            self._give_up(reason)
            self._move(RoleEvent.DISK_FAILED)

    def shutdown(self) -> None:
        """
        Whatever runs ends, and nothing begins any more.
        """
        self._give_up("it shuts down")
        self._move(RoleEvent.SHUTDOWN)

    # -- what is to be done --------------------------------------------------

    def next_effect(self) -> RoleEffect | None:
        """
        Returns what is to be done now; the same again until `did` or `failed`.
        """
        if self.role in (Role.PENDING, Role.SHUTDOWN):
            if self._running is not None:
                return self._running
            if self._resign is not None:
                return self._resign
        if self.role is Role.PENDING:
            return self._beginning()
        return self._news[0] if self._news else None

    def did(self, effect: RoleEffect) -> None:
        """
        It was carried out.
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
                self._news.popleft()
        self._settle()

    def failed(self, effect: RoleEffect, reason: str, *, is_final: bool) -> None:
        """
        It was not carried out. A beginning is tried again, unless something newer is
        decided; if that is of no use, a mastership is resigned, and following waits
        until it is told again. What ends or tells is not tried again.
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

    def _told(self, decision: Decision) -> RoleEvent:
        known = self.known
        if decision.epoch < known.epoch or decision.epoch <= self._given_up:
            return RoleEvent.TOLD_AGAIN
        is_same = decision.epoch == known.epoch
        if is_same and (known.master == self._me or not _adds(known, decision)):
            return RoleEvent.TOLD_AGAIN
        if decision.master == self._me:
            return RoleEvent.TOLD_MASTER
        return (
            RoleEvent.TOLD_FOLLOW
            if self._is_elsewhere(decision)
            else RoleEvent.TOLD_NOBODY
        )

    def _is_elsewhere(self, decision: Decision) -> bool:
        """
        Whether there is a master to follow: not our own former self (B1).
        """
        if decision.master is None or not decision.address:
            return False
        return decision.master.broker_id != self._me.broker_id

    def _repeated(self, decision: Decision) -> None:
        known, agreed = self.known, decision.agreed
        is_same = (decision.epoch, decision.master) == (known.epoch, known.master)
        if not is_same or known.master is None:
            return
        if agreed.set_epoch > known.agreed.set_epoch:
            self.known = replace(known, agreed=agreed)
            if self.role is Role.MASTER:
                self._news.append(TakeSet(agreed))
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

    def _beginning(self) -> RoleEffect | None:
        known = self.known
        if known.epoch <= self._given_up:
            return None
        if self._promised < known.epoch:
            return Promise(known.epoch)
        if known.master == self._me:
            return BeginMastership(known.epoch, known.agreed, self._lease)
        if self._is_elsewhere(known):
            may_wipe = not known.lists(self._me.broker_id)
            return Follow(known.address, known.epoch, may_wipe)
        return None

    def _settle(self) -> None:
        # Nothing runs and nothing is to begin: the switch is over.
        if self.role is Role.PENDING and self.next_effect() is None:
            is_given_up = self.known.master == self._me
            self._move(RoleEvent.GAVE_UP if is_given_up else RoleEvent.ENDED)

    def _move(self, event: RoleEvent) -> None:
        self.role = next_role(self.role, event)
        if self.role is not Role.MASTER:
            self._news.clear()
        self._settle()


def _adds(known: Decision, decision: Decision) -> bool:
    """
    Whether a decision of the same epoch says more: who is master, or where (R165).
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
    Leave the master; not a byte of it is written any more.
    """


@dataclass(frozen=True, slots=True)
class BeginMastership:
    """
    The log begins the epoch, and slaves are served.

    Attributes:
        epoch: of the mastership.
        agreed: the set as it was committed with the election.
        lease: see `Decision`.
    """

    epoch: int
    agreed: AgreedSet
    lease: Lease | None


@dataclass(frozen=True, slots=True)
class Follow:
    """
    Follow a master.

    Attributes:
        address: ``HOST:PORT``.
        epoch: of its mastership.
        may_wipe: the controller counts on nothing that this replica holds.
    """

    address: str
    epoch: int
    may_wipe: bool


@dataclass(frozen=True, slots=True)
class Resign:
    """
    Tell the controller that a mastership was given up; it has ended by now.
    """

    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class TakeSet:
    """
    The controller has a newer set of the mastership that runs (R117).
    """

    agreed: AgreedSet


@dataclass(frozen=True, slots=True)
class RenewLease:
    """
    The lease of the mastership that runs is another one.
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
