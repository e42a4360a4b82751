"""
A controller from a script: elections by B1 to B7, sets by version, leases.

It never crashes, and commits in one step; what makes it hard is the network between.
Requests are taken whenever they arrive, also long after their sender gave up. It
knows brokers from heartbeats alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from sim.clock import RATE_MAX, RATE_MIN

from pystore.ha.insync.member import AgreedSet, Member, SetChange

__all__ = [
    "GRANT_MS",
    "LEASE_MS",
    "Controller",
    "Election",
    "Heartbeat",
    "Refusal",
    "Role",
]

VALID_MS = 10_000
"""How long a heartbeat counts."""

LEASE_MS = 10_000
"""How long a new master waits for the lease of the one before, by our clock."""

GRANT_MS = int(LEASE_MS * RATE_MIN / RATE_MAX)
"""
How long a lease is by the master's clock, from the send time of the heartbeat that
it answers (C1): as long as ours passes at least, however slow the master's clock is
and however fast our own.
"""

SCAN_MS = 2_000


class Ended(Enum):
    """
    How the process before this one ended, as its store shows.
    """

    CLEAN = "clean"
    KILLED = "killed"
    POWER = "power"


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """
    What a broker says each second.

    Attributes:
        member: who.
        sent_ms: when, by its clock.
        last_epoch: of its table.
        end: of its log.
        before: how its last process ended.
        begun: the end that it recovered.
        is_learner: it is never elected.
        stepped_down: the epoch whose mastership it has given up, or -1.
        is_well: its disk works.
    """

    member: Member
    sent_ms: int
    last_epoch: int
    end: int
    before: Ended
    begun: int
    is_learner: bool = False
    stepped_down: int = -1
    is_well: bool = True


@dataclass(frozen=True, slots=True)
class Role:
    """
    What a broker is told.

    Attributes:
        epoch: the newest.
        master: whose it is, or ``None``.
        agreed: the set.
        broker_ids: who is known.
        lease_ms: until when the asker may decide `leader`; ``None``: it may not.
        is_listed: whether the asker is a member or a candidate.
    """

    epoch: int
    master: Member | None
    agreed: AgreedSet
    broker_ids: frozenset[int]
    lease_ms: int | None
    is_listed: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """
    A change that will never be taken.
    """

    broker_ids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Election:
    """
    One that happened.

    Attributes:
        epoch: the new one.
        master: who was elected.
        is_power_cut: by B3: what `all` promised may be lost.
    """

    epoch: int
    master: Member
    is_power_cut: bool


@dataclass(slots=True)
class _Known:
    """
    A broker, as the last heartbeats showed it.
    """

    beat: Heartbeat
    heard_ms: int
    highest_end: int


class Controller:
    """
    The state of one broker set.

    Args:
        continues: whether a restarted member that lost nothing is named beside the
            listed one, instead of being listed in its place (B2).

    Attributes:
        elections: all of them.
    """

    def __init__(self, *, continues: bool = False) -> None:
        self.elections: list[Election] = []
        self.epoch = 0
        self.master: Member | None = None
        self.agreed = AgreedSet(frozenset(), 0)
        self._continues = continues
        self._known: dict[int, _Known] = {}
        # A legacy member is listed without its process: which one it was.
        self._bound: dict[int, Member] = {}
        self._lease_end_ms = 0
        self._leases_from_ms = 0

    # -- what brokers say -----------------------------------------------------

    def beat(self, beat: Heartbeat, now: int) -> Role:
        """
        A broker lives; answers its role.
        """
        number = beat.member.broker_id
        known = self._known.get(number)
        if known is None or _is_newer(beat.member, known.beat.member):
            highest = known.highest_end if known else 0
            self._register(beat, highest)
            self._known[number] = _Known(beat, now, beat.end)
        elif beat.member == known.beat.member and beat.sent_ms >= known.beat.sent_ms:
            known.beat, known.heard_ms = beat, now
            known.highest_end = max(known.highest_end, beat.end)
        if beat.member == self.master and beat.stepped_down == self.epoch:
            # It resigned; its lease ends with that.
            self._lease_end_ms, self.master = now, None
        if self.master is None:
            self._elect(now)
        return self.role(beat, now)

    def role(self, beat: Heartbeat, now: int) -> Role:
        """
        What a broker is told.
        """
        lease_ms = None
        if beat.member == self.master and now >= self._leases_from_ms:
            lease_ms = beat.sent_ms + GRANT_MS
            self._lease_end_ms = now + LEASE_MS
        number = beat.member.broker_id
        listed = self.agreed.members | self.agreed.candidates
        return Role(
            self.epoch,
            self.master,
            self.agreed,
            frozenset(self._known),
            lease_ms,
            number in {one.broker_id for one in listed},
        )

    def alter(self, change: SetChange, master: Member, now: int) -> AgreedSet | Refusal:
        """
        A master asks for a set.
        """
        if master != self.master or change.epoch != self.epoch:
            return Refusal()
        if change.set_epoch != self.agreed.set_epoch:
            return Refusal()
        added = change.members - self.agreed.members
        dead = {one.broker_id for one in added if not self._is_alive(one, now)}
        if dead:
            return Refusal(frozenset(dead))
        for one in added:
            if one.incarnation is None:
                self._bound[one.broker_id] = self._known[one.broker_id].beat.member
        ids = {one.broker_id for one in change.members | change.candidates}
        self.agreed = AgreedSet(
            change.members,
            change.set_epoch + 1,
            change.candidates,
            frozenset(one for one in self.agreed.continuing if one.broker_id in ids),
        )
        return self.agreed

    def scan(self, now: int) -> None:
        """
        Looks for a dead master.
        """
        if self.master is None or not self._is_alive(self.master, now):
            self._elect(now)

    def designate(self, broker_id: int, now: int) -> bool:
        """
        An admin wants this member to be master.
        """
        known = self._known.get(broker_id)
        if known is None or not self._is_eligible(known.beat.member, now):
            return False
        self._begin(known.beat.member, now, is_power_cut=False)
        return True

    # -- elections ------------------------------------------------------------

    def _register(self, beat: Heartbeat, highest: int) -> None:
        """
        A new process of a broker: it takes the listed one's place only if it lost
        nothing (B1, B2).
        """
        member, agreed = beat.member, self.agreed
        is_whole = beat.before is Ended.CLEAN or (
            beat.before is Ended.KILLED and beat.begun >= highest
        )
        listed = agreed.members | agreed.candidates | agreed.continuing
        previous = Member(member.broker_id, _previous(member))
        if is_whole and self._bound.get(member.broker_id) == previous:
            self._bound[member.broker_id] = member
        # Another process that did lose something may lie between.
        if not is_whole or previous not in listed:
            return
        version = agreed.set_epoch + 1
        if self._continues and not self.master_is(member.broker_id):
            continuing = agreed.continuing | {member}
            self.agreed = replace(agreed, set_epoch=version, continuing=continuing)
            return

        def renamed(members: frozenset[Member]) -> frozenset[Member]:
            numbers = {one.broker_id for one in members}
            others = {one for one in members if one.broker_id != member.broker_id}
            own = {member} if member.broker_id in numbers else set()
            return frozenset(others | own)

        self.agreed = AgreedSet(
            renamed(agreed.members),
            version,
            renamed(agreed.candidates),
            agreed.continuing - {previous},
        )

    def master_is(self, broker_id: int) -> bool:
        """
        Whether the recorded master has this id.
        """
        return self.master is not None and self.master.broker_id == broker_id

    def _is_alive(self, member: Member, now: int) -> bool:
        known = self._known.get(member.broker_id)
        return (
            known is not None
            and (known.beat.member == member or member.incarnation is None)
            and now - known.heard_ms <= VALID_MS
        )

    def _is_eligible(self, member: Member, now: int) -> bool:
        """
        Whether it may be elected: listed as this process, or continuing one.
        """
        agreed = self.agreed
        listed = agreed.members | agreed.candidates | agreed.continuing
        number = member.broker_id
        is_bound = Member(number) in listed and self._bound.get(number) == member
        is_listed = is_bound or member in listed
        known = self._known.get(member.broker_id)
        is_fit = known is not None and known.beat.is_well and not known.beat.is_learner
        return is_listed and is_fit and self._is_alive(member, now)

    def _elect(self, now: int) -> None:
        known = [one.beat for one in self._known.values() if not one.beat.is_learner]
        alive = [one for one in known if self._is_alive(one.member, now)]
        if self.epoch == 0:
            if alive:
                self._begin(alive[0].member, now, is_power_cut=False)
            return
        # An incarnation never resumes mastership, and a master that lives keeps it.
        if self.master is not None and self._is_alive(self.master, now):
            return
        electable = [one for one in alive if self._is_eligible(one.member, now)]
        is_power_cut = False
        if not electable:
            electable = self._after_power_cut(alive)
            is_power_cut = True
        if electable:
            best = max(electable, key=lambda one: (one.last_epoch, one.end))
            self._begin(best.member, now, is_power_cut=is_power_cut)

    def _after_power_cut(self, alive: list[Heartbeat]) -> list[Heartbeat]:
        """
        B3: everyone who is listed has come back as another process, none eligible.
        """
        listed = {one.broker_id for one in self.agreed.members | self.agreed.candidates}
        back = [one for one in alive if one.member.broker_id in listed]
        return back if {one.member.broker_id for one in back} == listed else []

    def _begin(self, master: Member, now: int, *, is_power_cut: bool) -> None:
        old = self.agreed
        listed = old.members | old.candidates | old.continuing
        candidates = frozenset(
            one
            for one in listed
            if one.broker_id != master.broker_id and self._is_alive(one, now)
        )
        self.epoch += 1
        self.master = master
        self.agreed = AgreedSet(
            frozenset({master}),
            old.set_epoch + 1,
            frozenset() if is_power_cut else candidates,
        )
        self._leases_from_ms = max(self._leases_from_ms, self._lease_end_ms)
        self.elections.append(Election(self.epoch, master, is_power_cut))


def _is_newer(member: Member, other: Member) -> bool:
    assert member.incarnation is not None
    assert other.incarnation is not None
    return member.incarnation[0] > other.incarnation[0]


def _previous(member: Member) -> tuple[int, bytes]:
    assert member.incarnation is not None
    counter = member.incarnation[0] - 1
    return counter, incarnation_bits(member.broker_id, counter)


def incarnation_bits(broker_id: int, counter: int) -> bytes:
    """
    The random part of an incarnation: told by the script, so that a run repeats.
    """
    return bytes([broker_id, counter & 0xFF, counter >> 8]) + bytes(13)
