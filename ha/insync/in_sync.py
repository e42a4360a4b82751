"""
Who holds what: the one place where a master decides on acks and on its set. Pure.

In come facts: what sessions said, how the log grew, what the controller answered, the
time. Out come the confirm offset, the changes of the SyncStateSet to ask for, and the
ends of waits. Everything that belongs to one mastership is in one object, which one
thread owns; another epoch is another object.

The chain that makes an `all` survive an election:

1. Only the controller's set is elected from, so what is acknowledged is held by
   everyone in any set that may be the controller's by now (`agreement`), candidates
   of the election before included (B7).
2. Nobody is asked into the set who does not hold everything acknowledged so far, and
   from the moment that it is asked for, it is waited for (`membership`, R82).
3. A member is a process, not a number: what a restarted one still has is for the
   controller to say (`sessions`, B1, B2).

Source: docs/in-sync.md (C, F; B1 to B9).
"""

from __future__ import annotations

from dataclasses import replace

from pystore.ha.insync.ack import Ack, AppendRefusal
from pystore.ha.insync.ack_policy import AckPolicy
from pystore.ha.insync.config import SetRules
from pystore.ha.insync.confirm_offset import AckHolders, ConfirmOffset
from pystore.ha.insync.facts import SessionAcked, SessionEnded, SessionOpened
from pystore.ha.insync.lag import CaughtUpTimes, EndHistory
from pystore.ha.insync.membership import Membership
from pystore.ha.insync.sessions import Session, Sessions
from pystore.ha.insync.set_change import SetChange
from pystore.ha.insync.set_state import MembershipState
from pystore.ha.wire.codes import AckStatus
from pystore.replicaset import AgreedSet, Member

__all__ = ["InSync"]


class InSync:
    """
    One mastership's judgement. One thread; times are milliseconds of a clock that
    never steps back.

    Args:
        master: ourselves.
        epoch: of the mastership.
        epoch_start: where it begins: the end of the log at that moment.
        agreed: the set as it was when we were elected.
        flushed_offset: how much of the log is durable.
        confirm_offset: what we knew as a slave.
        now_ms: the time.
        rules: the numbers.

    Attributes:
        promises: what appends are promised and given.
        refusals: why appends with an ack would not be kept, by ack (R206): a picture
            that is replaced when it changes, so any thread may look at it.

    Raises:
        LocalViolation: the set lacks the master.
    """

    def __init__(
        self,
        master: Member,
        epoch: int,
        epoch_start: int,
        agreed: AgreedSet,
        *,
        flushed_offset: int,
        confirm_offset: int,
        now_ms: int,
        rules: SetRules | None = None,
    ) -> None:
        self._rules = rules = rules or SetRules()
        self._agreement = MembershipState(master, epoch, agreed)
        self._sessions = Sessions()
        self._progress = ConfirmOffset(epoch_start, flushed_offset, confirm_offset)
        self._history = EndHistory(rules.lag_ms_max)
        self._membership = Membership(
            rules,
            epoch_start,
            self._agreement,
            self._sessions,
            CaughtUpTimes(now_ms),
            self._history,
            self._progress,
            now_ms + rules.first_check_ms,
        )
        self.promises = AckPolicy(
            epoch, rules, self._agreement, self._membership, self._progress
        )
        self._quiet_until_ms = now_ms
        self._poisoned_ms: int | None = None
        self._history.note(epoch_start, now_ms)
        self._outsiders: list[Session] = []
        self._holders = self._look()
        self.refusals = self._refusals()
        self._advance(now_ms)

    # What sessions say.

    def opened(self, fact: SessionOpened, now_ms: int) -> int | None:
        """
        A slave said where it goes on; nothing is acked by that yet (R129).

        Returns:
            The id of the session that is to be closed, if any: an older one of the
            same slave, or this one, if a newer process of it is here (K.3).
        """
        closing = self._sessions.opened(fact)
        self._advance_anew(now_ms)
        return closing

    def acked(self, fact: SessionAcked, end_offset: int, now_ms: int) -> None:
        """
        A slave said what it holds.

        Args:
            fact: the ack; of a session that does not count it changes nothing.
            end_offset: the end of our log, taken after the ack arrived.
            now_ms: the time.

        Raises:
            RemoteViolation: it acks what we do not have, or takes an ack back; the
                link is to be closed.
        """
        self._progress.ends.add(end_offset)
        session = self._sessions.acked(fact, end_offset)
        if session is not None:
            self._membership.acked(session, fact.caught_up_ms, now_ms)
            self._advance(now_ms)

    def left(self, fact: SessionEnded, now_ms: int) -> None:
        """
        A session is over; a replaced or forgotten one changes nothing (R94, R95).
        """
        if self._sessions.left(fact) is not None:
            self._advance_anew(now_ms)

    # What our own log and the clock say.

    def grew(self, end_offset: int, flushed_offset: int, now_ms: int) -> None:
        """
        The log has more bytes, or more of them are durable.
        """
        own = self._progress
        own.ends.add(end_offset)
        flushed = max(own.flushed_offset, min(flushed_offset, end_offset))
        is_new = flushed > own.flushed_offset
        own.flushed_offset = flushed
        self._history.note(end_offset, now_ms)
        # Where others are waited for, only their acks or our disk can move anything.
        if is_new or self.is_alone:
            self._advance(now_ms)

    def ended(self, end_offset: int) -> None:
        """
        The log ended here a moment ago: a place to which confirm may move.
        """
        self._progress.ends.add(end_offset)

    def poisoned(self, now_ms: int) -> None:
        """
        Our own log cannot be flushed any more (A12).
        """
        if self._poisoned_ms is None:
            self._poisoned_ms = now_ms

    def tick(self, now_ms: int) -> None:
        """
        Time passed.
        """
        self._history.note(self._progress.ends.newest, now_ms)
        self._membership.check(now_ms)
        self._advance(now_ms)

    def step_down(self, newer_epoch: int) -> None:
        """
        Somebody is master, or will be, with a newer epoch: nothing is acknowledged
        any more.
        """
        own = self.promises
        if newer_epoch > own.epoch:
            own.newer_epoch = max(newer_epoch, own.newer_epoch or 0)
            self.refusals = self._refusals()

    # What the controller says, and what it is asked for.

    def proposal(self, now_ms: int) -> SetChange | None:
        """
        Returns the change to ask the controller for now, if there is one. It is
        answered by `agreed`, `refused` or `unknown` before there is another.
        """
        is_quiet = (
            now_ms < self._quiet_until_ms or self.promises.newer_epoch is not None
        )
        agreement = self._agreement
        if is_quiet or agreement.asked is not None:
            return None
        wish = self._membership.wish(now_ms)
        agreed = agreement.agreed
        if (wish.members, wish.candidates) != (agreed.members, agreed.candidates):
            reason = "; ".join(wish.reasons)
        elif agreement.is_in_doubt:
            reason = "the outcome of an earlier change is unknown"
        else:
            return None
        change = agreement.ask(wish.members, wish.candidates, reason)
        self._advance_anew(now_ms)
        return change

    def agreed(self, agreed: AgreedSet, now_ms: int) -> None:
        """
        The controller's set, as it was answered or polled; of this epoch.

        Raises:
            LocalViolation: the set lacks us: it is another mastership's.
        """
        if self._agreement.adopt(agreed):
            self._quiet_until_ms = now_ms
            self._advance_anew(now_ms)

    def refused(
        self, change: SetChange, broker_ids: frozenset[int], now_ms: int
    ) -> None:
        """
        The controller will never take this change.

        Args:
            change: as it was asked for.
            broker_ids: whom it does not want; none: it is about something else, and
                the set should be read.
            now_ms: the time.
        """
        self._agreement.refused(change)
        self._membership.refused(broker_ids, now_ms)
        added = change.members - self._agreement.agreed.members
        # Asked for again at once only if the wish is another without them.
        if broker_ids.isdisjoint(one.broker_id for one in added):
            self._quiet_until_ms = now_ms + self._rules.retry_ms
        self._advance_anew(now_ms)

    def unknown(self, change: SetChange, now_ms: int) -> None:
        """
        No answer came: the change counts until it is known (R119).
        """
        self._agreement.unknown(change)
        self._quiet_until_ms = now_ms + self._rules.retry_ms
        self._advance_anew(now_ms)

    def settle_doubts(self, now_ms: int) -> None:
        """
        No earlier request is under way any more: for a controller that refuses to
        take the same set again, once its own time limits have passed.
        """
        self._agreement.settle_doubts()
        self._advance_anew(now_ms)

    def exclude(self, broker_id: int, now_ms: int) -> None:
        """
        A slave is to leave the set, and not to come in again before `readmit`.
        """
        self._membership.exclude(broker_id)
        self._advance(now_ms)

    def readmit(self, broker_id: int, now_ms: int) -> None:
        """
        It may come in again.
        """
        self._membership.readmit(broker_id)
        self._advance(now_ms)

    def may_suspend(self, broker_id: int) -> bool:
        """
        Whether a slave's bytes may be held back: not while it is a member or may
        become one; `exclude` it first (K.3).
        """
        return broker_id not in {one.broker_id for one in self._agreement.any_set}

    # What follows.

    @property
    def confirm_offset(self) -> int:
        """
        Everyone who may be elected holds everything below; never moves back.
        """
        return self._progress.confirm_offset

    @property
    def flushed_offset(self) -> int:
        """
        How much of our own log is known to be durable.
        """
        return self._progress.flushed_offset

    @property
    def is_alone(self) -> bool:
        """
        Whether nobody else is waited for, so that our own log moves everything.
        """
        return not (self._holders.members or self._holders.joiners)

    @property
    def set_now(self) -> AgreedSet:
        """
        The set that the controller committed last, as far as we know.
        """
        return self._agreement.agreed

    def must_resign(self, now_ms: int) -> bool:
        """
        Whether our disk has failed for too long and another member is well (B9).
        """
        since_ms = self._poisoned_ms
        if since_ms is None or now_ms - since_ms <= self._rules.lag_ms_max:
            return False
        others = self._agreement.agreed.members - {self._agreement.master}
        wish = self._membership.wish(now_ms).members
        return any(one in wish and self._is_well(one) for one in others)

    def highest_acks(self) -> dict[Member, int]:
        """
        Returns the highest ack of each incarnation, for the controller (B2).
        """
        return self._sessions.highest_acks()

    def next_deadline(self) -> int:
        """
        Returns when `tick` is due at the latest; waits have deadlines of their own.
        """
        deadlines = [self._membership.next_check_ms]
        for one in self._holders.joiners:
            last_ms = self._membership.catch_up.last_ms(one.broker_id)
            holds_all = (one.received_offset or 0) >= self._progress.ends.newest
            if last_ms is not None and not holds_all:
                deadlines.append(last_ms + self._rules.join_lag_ms + 1)
        return min(deadlines)

    def _advance_anew(self, now_ms: int) -> None:
        """
        After a session came or went, or a set changed.
        """
        self._holders = self._look()
        self.refusals = self._refusals()
        self._advance(now_ms)

    def _refusals(self) -> dict[Ack, AppendRefusal | None]:
        return {ack: self.promises.refusal(ack) for ack in Ack}

    def _advance(self, now_ms: int) -> None:
        holders = self._holders
        if self._outsiders or holders.joiners:
            near = self._membership.near(self._outsiders, now_ms)
            self._holders = holders = replace(holders, joiners=near)
        if self.promises.newer_epoch is None:
            self._progress.advance(holders, self._rules.serves_synced)

    def _look(self) -> AckHolders:
        agreement = self._agreement
        others = agreement.any_set - {agreement.master}
        # Most acks find nobody outside of the set, and so look at nobody's nearness.
        self._outsiders = self._membership.outsiders()
        return AckHolders(
            members=[self._membership.session_of(one) for one in others],
            joiners=(),
            is_enough=len(agreement.every_set) >= self._rules.min_in_sync,
            has_candidates=bool(agreement.agreed.candidates),
        )

    def _is_well(self, member: Member) -> bool:
        session: Session | None = self._membership.session_of(member)
        return session is not None and session.status is AckStatus.OK
