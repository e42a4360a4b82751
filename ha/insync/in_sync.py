"""
The decisions of a master on acks and on its SyncStateSet. Pure.

The input is facts: acks of sessions, growth of the log, answers of the controller, the
time. The output is the confirm offset, the changes of the SyncStateSet to request, and
the outcomes of waits. One object holds everything of one mastership, and one thread
owns it; another epoch is another object.

Why a record with the ack `all` survives an election:

1. The controller elects from its set only. So an acknowledged record is held by every
   member of any set that the controller may have by now (`set_state`), including
   candidates of the election before (B7).
2. The master proposes only slaves that hold everything acknowledged so far, and from
   the request on, acks wait for them (`membership`, RMQ-R82).
3. A member is a process, not a broker id: the controller decides what a restarted
   process still holds (`sessions`, B1, B2).

Source: docs/in-sync.md (RMQ-C.1 to RMQ-C.6; B1 to B9, B12).
"""

from __future__ import annotations

from dataclasses import replace

from pystore.ha.insync.ack import Ack, AppendRefusal
from pystore.ha.insync.ack_policy import AckPolicy
from pystore.ha.insync.config import SetRules
from pystore.ha.insync.confirm_offset import AckHolders, ConfirmOffset
from pystore.ha.insync.facts import SessionAcked, SessionEnded, SessionOpened
from pystore.ha.insync.health import MasterHealth
from pystore.ha.insync.lag import CaughtUpTimes, EndHistory
from pystore.ha.insync.membership import Membership
from pystore.ha.insync.sessions import Session, Sessions
from pystore.ha.insync.set_change import SetChange
from pystore.ha.insync.set_state import MembershipState
from pystore.ha.wire.codes import AckStatus
from pystore.replicaset import AgreedSet, Member, ids_of

__all__ = ["InSync"]


class InSync:
    """
    The in-sync decisions of one mastership. One thread; times are milliseconds of a
    clock that never steps back.

    Args:
        master: this broker.
        epoch: of the mastership.
        epoch_start: where it begins: the end of the log at that moment.
        agreed: the set at the election.
        flushed_offset: the log is durable below it.
        confirm_offset: as this broker knew it as a slave.
        now_ms: the time.
        rules: of the set.

    Attributes:
        ack_policy: which acks are reached.
        refusals: by ack, why an append is refused (RMQ-R206). The value is replaced
            when it changes, so any thread may read it.

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
        self._set_state = MembershipState(master, epoch, agreed)
        self._sessions = Sessions()
        self._progress = ConfirmOffset(epoch_start, flushed_offset, confirm_offset)
        self._history = EndHistory(rules.lag_ms_max)
        self._membership = Membership(
            rules,
            epoch_start,
            self._set_state,
            self._sessions,
            CaughtUpTimes(now_ms),
            self._history,
            self._progress,
            now_ms + rules.first_check_ms,
            now_ms + rules.lag_ms_max,
        )
        self.ack_policy = AckPolicy(
            epoch, rules, self._set_state, self._membership, self._progress
        )
        self._quiet_until_ms = now_ms
        self._is_retry_due = False
        self._health = MasterHealth(rules.ill_ms_max)
        self._history.note(epoch_start, now_ms)
        self._outsiders: list[Session] = []
        self._holders = self._ack_holders()
        self.ack_policy.find_legacy()
        self.refusals = self._refusals()
        self._advance(now_ms)

    # Facts about sessions.

    def opened(self, fact: SessionOpened, now_ms: int) -> int | None:
        """
        A slave named where it continues; that is no ack yet (RMQ-R129).

        Returns:
            The id of the session to close, if any: an older one of the same slave, or
            this one, if a newer process of the slave has a session (RMQ-K.3).
        """
        closing = self._sessions.opened(fact)
        self._advance_anew(now_ms)
        return closing

    def acked(self, fact: SessionAcked, end_offset: int, now_ms: int) -> None:
        """
        A slave acked.

        Args:
            fact: the ack; it changes nothing if its session does not count.
            end_offset: the end of our log, taken after the ack arrived.
            now_ms: the time.

        Raises:
            RemoteViolation: it acks bytes that the master does not have, or less than
                before: close the link.
        """
        self._progress.ends.add(end_offset)
        session = self._sessions.acked(fact, end_offset)
        if session is not None:
            self._membership.acked(session, fact.caught_up_ms, now_ms)
            self._advance(now_ms)

    def left(self, fact: SessionEnded, now_ms: int) -> None:
        """
        A session ended; the end of a replaced session changes nothing (RMQ-R94,
        RMQ-R95).
        """
        if self._sessions.left(fact) is not None:
            self._advance_anew(now_ms)

    # Facts about the log and the time.

    def grew(self, end_offset: int, flushed_offset: int, now_ms: int) -> None:
        """
        The log grew, or more of it is durable.
        """
        own = self._progress
        own.ends.add(end_offset)
        flushed = max(own.flushed_offset, min(flushed_offset, end_offset))
        is_new = flushed > own.flushed_offset
        own.flushed_offset = flushed
        self._history.note(end_offset, now_ms)
        # If acks of slaves are needed, growth alone moves no offset.
        if is_new or self.is_alone:
            self._advance(now_ms)

    def ended(self, end_offset: int) -> None:
        """
        The log ended here a moment ago, so the confirm offset may move here.
        """
        self._progress.ends.add(end_offset)

    def poisoned(self, now_ms: int) -> None:
        """
        The master's log cannot be flushed any more (A12).
        """
        self._health.poisoned(now_ms)

    def append_refused(self, error: str, end_offset: int, now_ms: int) -> None:
        """
        The system refused an append, such as for a full disk (A13).

        Args:
            error: of the append, one line.
            end_offset: of the log.
            now_ms: the time.
        """
        self._progress.ends.add(end_offset)
        self._health.refused(error, end_offset, now_ms)

    def tick(self, now_ms: int) -> None:
        """
        Takes the time.
        """
        self._history.note(self._progress.ends.newest, now_ms)
        self._is_retry_due &= now_ms < self._quiet_until_ms
        self._membership.check(now_ms)
        self._advance(now_ms)

    def step_down(self, newer_epoch: int) -> None:
        """
        A peer knows a newer epoch: nothing is acknowledged any more.
        """
        own = self.ack_policy
        if newer_epoch > own.epoch:
            own.newer_epoch = max(newer_epoch, own.newer_epoch or 0)
            self.refusals = self._refusals()

    # Requests to the controller, and its answers.

    def proposal(self, now_ms: int) -> SetChange | None:
        """
        Returns the change to request from the controller now, if there is one. Its
        outcome is reported by `agreed`, `refused` or `unknown`; until then there is no
        other change.
        """
        is_quiet = (
            now_ms < self._quiet_until_ms or self.ack_policy.newer_epoch is not None
        )
        agreement = self._set_state
        if is_quiet or agreement.asked is not None:
            return None
        wish = self._membership.wanted_set(now_ms)
        agreed = agreement.agreed
        if (wish.members, wish.candidates) != (agreed.members, agreed.candidates):
            reason = "; ".join(wish.reasons)
        elif agreement.is_in_doubt:
            reason = "an earlier change of the SyncStateSet got no answer"
        else:
            return None
        change = agreement.ask(wish.members, wish.candidates, reason, wish.filling)
        self._advance_anew(now_ms)
        return change

    def agreed(self, agreed: AgreedSet, now_ms: int) -> None:
        """
        Takes the controller's set of this epoch, from an answer or a poll.

        Raises:
            LocalViolation: the set lacks the master, so it belongs to another
                mastership.
        """
        if self._set_state.adopt(agreed):
            self._quiet_until_ms, self._is_retry_due = now_ms, False
            self._advance_anew(now_ms)

    def refused(
        self, change: SetChange, broker_ids: frozenset[int], now_ms: int
    ) -> None:
        """
        The controller will never commit this change.

        Args:
            change: as it was requested.
            broker_ids: of the replicas that it refuses; none: the reason is another,
                and the set should be read.
            now_ms: the time.
        """
        self._set_state.refused(change)
        self._membership.refused(broker_ids, now_ms)
        added = change.members - self._set_state.agreed.members
        # Requested again at once only if the wanted set differs without them.
        if broker_ids.isdisjoint(one.broker_id for one in added):
            self._retry_later(now_ms)
        self._advance_anew(now_ms)

    def unknown(self, change: SetChange, now_ms: int) -> None:
        """
        No answer came: the change counts until its outcome is known (RMQ-R119).
        """
        self._set_state.unknown(change)
        self._retry_later(now_ms)
        self._advance_anew(now_ms)

    def settle_doubts(self, now_ms: int) -> None:
        """
        No earlier request can still reach the controller. For a controller that
        refuses a request for the same set, once its time limits have passed.
        """
        self._set_state.settle_doubts()
        self._advance_anew(now_ms)

    def received_by(self, broker_id: int) -> int | None:
        """
        Returns what the newest session of a slave holds; ``None``: it has none, or has
        not acked.
        """
        for one in self._sessions:
            if one.broker_id == broker_id:
                return one.received_offset
        return None

    def leased(self) -> None:
        """
        The controller granted a lease, so it is one of pystore: it elects no replica
        that lacks records, and such a one may be a member (B11).
        """
        self._membership.may_add_filling = True

    def may_suspend(self, broker_id: int) -> bool:
        """
        Whether a slave may be suspended: not while it is a member or may become one
        (RMQ-K.3).
        """
        return broker_id not in self._set_state.any_ids

    def may_join(self, broker_id: int) -> bool:
        """
        Whether a slave may become a member: it is none, or a candidate (RMQ-R82).
        """
        candidates = self._set_state.agreed.candidates
        return self.may_suspend(broker_id) or (
            bool(candidates) and broker_id in ids_of(candidates)
        )

    # Results.

    @property
    def confirm_offset(self) -> int:
        """
        Every replica that may be elected holds everything below; never moves back.
        """
        return self._progress.confirm_offset

    @property
    def flushed_offset(self) -> int:
        """
        The master's log is durable below it.
        """
        return self._progress.flushed_offset

    @property
    def is_alone(self) -> bool:
        """
        Whether no slave's ack is needed, so that the master's log alone decides.
        """
        return not (self._holders.members or self._holders.joiners)

    @property
    def set_now(self) -> AgreedSet:
        """
        The set that the controller committed last, as far as is known.
        """
        return self._set_state.agreed

    def problem(self, now_ms: int) -> str:
        """
        Returns what keeps the master from serving, one line; empty: nothing.
        """
        return self._health.problem(self._progress.ends.newest, now_ms)

    def resign_due_ms(self, now_ms: int) -> int | None:
        """
        Returns when the master will have been unable to serve for too long; ``None``:
        it is well.
        """
        return self._health.due_ms(self._progress.ends.newest, now_ms)

    def must_resign(self, now_ms: int) -> bool:
        """
        Whether the master could not append or sync for too long, and another member is
        well (B9, B13).
        """
        due_ms = self.resign_due_ms(now_ms)
        if due_ms is None or now_ms < due_ms:
            return False
        others = self._set_state.agreed.members - {self._set_state.master}
        wish = self._membership.wanted_set(now_ms).members
        return any(one in wish and self._is_well(one) for one in others)

    def next_deadline(self) -> int:
        """
        Returns when `tick` is due at the latest; waits have their own deadlines.
        """
        deadlines = [self._membership.next_due_ms()]
        if self._is_retry_due:
            deadlines.append(self._quiet_until_ms)
        for one in self._holders.joiners:
            last_ms = self._membership.catch_up.last_ms(one.broker_id)
            holds_all = (one.received_offset or 0) >= self._progress.ends.newest
            if last_ms is not None and not holds_all:
                deadlines.append(last_ms + self._rules.join_lag_ms + 1)
        return min(deadlines)

    def _retry_later(self, now_ms: int) -> None:
        self._quiet_until_ms = now_ms + self._rules.retry_ms
        self._is_retry_due = True

    def _advance_anew(self, now_ms: int) -> None:
        """
        Advances after a session or a set changed.
        """
        self._holders = self._ack_holders()
        self.ack_policy.find_legacy()
        self.refusals = self._refusals()
        self._advance(now_ms)

    def _refusals(self) -> dict[Ack, AppendRefusal | None]:
        return {ack: self.ack_policy.refusal(ack) for ack in Ack}

    def _advance(self, now_ms: int) -> None:
        holders = self._holders
        if self._outsiders or holders.joiners:
            near = self._membership.near(self._outsiders, now_ms)
            self._holders = holders = replace(holders, joiners=near)
        if self.ack_policy.newer_epoch is None:
            self._progress.advance(holders, self._rules.serves_synced)

    def _ack_holders(self) -> AckHolders:
        agreement = self._set_state
        others = agreement.any_set - {agreement.master}
        # Usually no slave is outside the set, and then there is no joiner to find.
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
