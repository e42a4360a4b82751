"""
Which replicas must leave the SyncStateSet, and which may join it. Pure.

The wanted set is computed from the present facts each time, never from the last wanted
set. Two slaves that leave at the same time leave in one change (RMQ-R93), and a change
that is no longer needed is not requested (RMQ-R90).

Acks wait for the candidates of an election until each is admitted or removed by a
committed change (B7). So a candidate that the controller refuses leaves with the next
change, and one that cannot join leaves after as long as a member may lag (B12).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pystore.ha.insync.config import SetRules
from pystore.ha.insync.confirm_offset import ConfirmOffset
from pystore.ha.insync.lag import CaughtUpTimes, EndHistory
from pystore.ha.insync.sessions import Session, Sessions
from pystore.ha.insync.set_state import MembershipState
from pystore.ha.wire.codes import AckStatus
from pystore.replicaset import Member

__all__ = ["Membership", "WantedSet"]


@dataclass(frozen=True, slots=True)
class WantedSet:
    """
    The set that the master wants, and why.

    Attributes:
        members: with the master (RMQ-R91).
        candidates: those that may stay candidates.
        reasons: one sentence for each replica that joins or leaves.
        filling: the ids of those that join and lack records of the set (B11).
    """

    members: frozenset[Member]
    candidates: frozenset[Member]
    reasons: tuple[str, ...]
    filling: frozenset[int]


@dataclass(slots=True)
class Membership:
    """
    The slaves' state, judged by the rules of the set.

    Attributes:
        rules: of the set.
        epoch_start: where the mastership's own bytes begin.
        set_state: the agreed set and open changes.
        sessions: of the slaves.
        catch_up: when each slave was caught up.
        end_history: earlier ends of the master's log.
        progress: the confirm offset and the offsets of each ack.
        next_check_ms: when lags are checked next.
        candidates_until_ms: when the candidates of the election leave the set (B12).
        may_add_filling: the controller elects no replica that lacks records (B11).
    """

    rules: SetRules
    epoch_start: int
    set_state: MembershipState
    sessions: Sessions
    catch_up: CaughtUpTimes
    end_history: EndHistory
    progress: ConfirmOffset
    next_check_ms: int
    candidates_until_ms: int
    may_add_filling: bool = False
    _late: dict[int, str] = field(default_factory=dict)
    _refused_until_ms: dict[int, int] = field(default_factory=dict)
    _was_asleep: bool = False
    _refused_candidates: set[Member] = field(default_factory=set)
    _is_election_over: bool = False

    def session_of(self, member: Member) -> Session | None:
        """
        Returns the session whose acks count for a listed member.
        """
        return self.sessions.counting(member, self.set_state.agreed.continuing)

    def refused(self, broker_ids: frozenset[int], now_ms: int) -> None:
        """
        The controller refused these slaves: they are not proposed for a while
        (RMQ-R111), and candidates among them must leave first (B12). A member stays.
        """
        candidates = self.set_state.agreed.candidates
        self._refused_candidates |= {
            one for one in candidates if one.broker_id in broker_ids
        }
        until_ms = now_ms + self.rules.refused_ms
        self._refused_until_ms.update(dict.fromkeys(broker_ids, until_ms))

    def acked(self, session: Session, caught_up_ms: int | None, now_ms: int) -> None:
        """
        Takes an ack that its session has already recorded.
        """
        holds_all = (session.received_offset or 0) >= self.progress.ends.newest
        broker_id = session.broker_id
        self.catch_up.acked(broker_id, caught_up_ms, holds_all, now_ms)
        if broker_id in self._late and self._lag(session.member, now_ms) is None:
            del self._late[broker_id]

    def check(self, now_ms: int) -> None:
        """
        Checks the lags, if a check is due (RMQ-R87).

        If a check comes a whole period late, acks may be waiting to be read as well:
        it removes no slave, the next check does.
        """
        self._is_election_over = now_ms >= self.candidates_until_ms
        if now_ms < self.next_check_ms:
            return
        is_late = now_ms - self.next_check_ms > self.rules.check_ms
        self.next_check_ms = now_ms + self.rules.check_ms
        self._was_asleep = is_late and not self._was_asleep
        if self._was_asleep:
            return
        lags = {one.broker_id: self._lag(one, now_ms) for one in self._listed()}
        self._late = {number: lag for number, lag in lags.items() if lag is not None}

    def next_due_ms(self) -> int:
        """
        Returns when `check` is due at the latest.
        """
        is_waiting = self.set_state.agreed.candidates and not self._is_election_over
        if is_waiting:
            return min(self.next_check_ms, self.candidates_until_ms)
        return self.next_check_ms

    def joiners(self, now_ms: int) -> list[Session]:
        """
        Returns the slaves that are nearly caught up and not in the set.
        """
        return self.near(self.outsiders(), now_ms)

    def outsiders(self) -> list[Session]:
        """
        Returns the sessions of slaves that are not in the agreed set.
        """
        members = self.set_state.agreed.members
        return [one for one in self.sessions if one.member not in members]

    def near(self, outsiders: Iterable[Session], now_ms: int) -> list[Session]:
        """
        Returns the sessions that are nearly caught up.
        """
        return [one for one in outsiders if self._is_near(one, now_ms)]

    def wanted_set(self, now_ms: int) -> WantedSet:
        """
        Returns the set that the master should request.
        """
        agreed = self.set_state.agreed
        joining = [one for one in self.joiners(now_ms) if self._holds_acknowledged(one)]
        coming = {one.member for one in joining}
        leaving = {one: self._removal_reason(one) for one in self._listed() - coming}
        gone = {member for member, reason in leaving.items() if reason is not None}
        # A restarted broker takes the place of its older process.
        numbers = {one.broker_id for one in coming}
        staying = {one for one in agreed.candidates if one.broker_id not in numbers}
        return WantedSet(
            (agreed.members - gone) | coming,
            frozenset(staying - gone),
            (
                *(
                    f"broker {one.broker_id} left the SyncStateSet: {leaving[one]}"
                    for one in _ordered(gone)
                ),
                *(
                    f"broker {one.broker_id} joined the SyncStateSet: it is in sync"
                    for one in _ordered(coming)
                ),
            ),
            frozenset(one.broker_id for one in joining if one.is_filling),
        )

    def _listed(self) -> frozenset[Member]:
        agreed = self.set_state.agreed
        return (agreed.members | agreed.candidates) - {self.set_state.master}

    def _lag(self, member: Member, now_ms: int) -> str | None:
        """
        Returns why a listed member lags now; ``None``: it does not.
        """
        session = self.session_of(member)
        limit_ms = self.rules.lag_ms_max
        if session is None:
            is_late = (
                member not in self.set_state.agreed.candidates
                and not self.sessions.has_seen(member.broker_id)
            )
            return "it never connected" if is_late else None
        if self.catch_up.lag_ms(member.broker_id, now_ms) > limit_ms:
            return f"it was not caught up for {limit_ms} ms"
        if self._is_unflushed(session, now_ms - limit_ms):
            return f"it did not flush for {limit_ms} ms"
        return None

    def _is_unflushed(self, session: Session, time_ms: int) -> bool:
        """
        Whether a slave has not flushed what the log held at that time (B9).
        """
        if not self.rules.serves_synced or session.flushed_offset is None:
            return False
        due = self.end_history.end_before(time_ms)
        return due is not None and session.flushed_offset < due

    def _removal_reason(self, member: Member) -> str | None:
        """
        Returns why a listed member must leave the set; ``None``: it stays.
        """
        session = self.session_of(member)
        if session is None:
            if self.sessions.has_seen(member.broker_id):
                return "its connection closed"
        elif session.status is AckStatus.SHUTTING_DOWN:
            return "it shuts down"
        elif session.status is AckStatus.POISONED and self.rules.serves_synced:
            return "its disk cannot flush"
        elif _is_below(session.received_offset, self.progress.confirm_offset):
            return "it holds less than the confirm offset"
        return self._late.get(member.broker_id) or self._candidate_end(member)

    def _candidate_end(self, member: Member) -> str | None:
        """
        Returns why acks wait for a candidate no longer (B12).
        """
        if member not in self.set_state.agreed.candidates:
            return None
        if member in self._refused_candidates:
            return "the controller does not admit it"
        if self._is_election_over:
            return f"it was not admitted within {self.rules.lag_ms_max} ms"
        return None

    def _is_near(self, session: Session, now_ms: int) -> bool:
        """
        Whether the confirm offset waits for a slave, so that the slave can reach it.

        While the log grows, only the master holds all of it at any moment. So the
        confirm offset waits for a slave that was caught up a moment ago; otherwise the
        slave could join only when an ack finds the log idle (RMQ-R82, in a form that
        holds under load).
        """
        received = session.received_offset
        if received is None or received < self.epoch_start or self._is_barred(session):
            return False
        if self._is_known(session) or now_ms < self._refused_until_ms.get(
            session.broker_id, now_ms
        ):
            return False
        if self.catch_up.lag_ms(session.broker_id, now_ms) > self.rules.lag_ms_max:
            # The next check would remove it, whatever it held when it was heard.
            return False
        last_ms = self.catch_up.last_ms(session.broker_id)
        is_recent = last_ms is not None and now_ms - last_ms <= self.rules.join_lag_ms
        return (
            is_recent or received >= self.progress.ends.newest
        ) and not self._is_unflushed(session, now_ms - self.rules.join_lag_ms)

    def _is_barred(self, session: Session) -> bool:
        return (
            session.is_learner
            or (session.is_filling and not self.may_add_filling)
            or session.status is not AckStatus.OK
        )

    def _is_known(self, session: Session) -> bool:
        """
        Whether the slave is a member, or another process of its broker id is one and
        must leave first; so must a candidate that the controller refused.
        """
        listed = {one.broker_id: one for one in self._listed()}
        member = listed.get(session.broker_id)
        if member is None:
            return False
        is_candidate = member in self.set_state.agreed.candidates
        if not is_candidate or member in self._refused_candidates:
            return True
        return self.session_of(member) is not session

    def _holds_acknowledged(self, session: Session) -> bool:
        """
        Whether the slave holds everything that was ever acknowledged.
        """
        progress = self.progress
        if _is_below(session.received_offset, progress.confirm_offset):
            return False
        if session.is_legacy or not self.rules.serves_synced:
            return True
        return (session.flushed_offset or 0) >= progress.all_synced_offset


def _is_below(received_offset: int | None, confirm_offset: int) -> bool:
    return received_offset is not None and received_offset < confirm_offset


def _ordered(members: set[Member]) -> list[Member]:
    return sorted(members, key=lambda one: one.broker_id)
