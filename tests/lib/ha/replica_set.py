"""
The in-sync decisions of a master with its slaves, in the terms of tests.

Sizes are in bytes, times in milliseconds; broker 1 is the master. Nothing here
decides anything: it supplies the facts that a real link would bring.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import count

from lib.ha.ack_waits import AckWaits
from pystore.ha.insync.config import SetRules
from pystore.ha.insync.facts import SessionAcked, SessionEnded, SessionOpened
from pystore.ha.insync.in_sync import InSync
from pystore.ha.insync.set_change import SetChange
from pystore.ha.wire.codes import AckStatus
from pystore.replicaset import AgreedSet, Incarnation, Member

__all__ = ["EPOCH", "ReplicaSet", "member", "members"]

EPOCH = 7


def member(broker_id: int, start: int = 1) -> Member:
    """
    A broker's process: its ``start`` makes the incarnation.
    """
    return Member(broker_id, Incarnation(start, bytes([start]) * 16))


def members(*broker_ids: int) -> frozenset[Member]:
    """
    Brokers in their first incarnation.
    """
    return frozenset(map(member, broker_ids))


class ReplicaSet:
    """
    The master of a set, and its slaves.

    Args:
        listed: the set that the controller committed.
        candidates: other replicas that may be elected.
        end: of the log, all of it flushed; where the epoch begins.
        confirm: as the master knew it before.
        rules: the numbers.

    Attributes:
        monitor: the in-sync decisions.
        waits: appends that wait for their acks.
    """

    def __init__(
        self,
        listed: Iterable[int] = (1,),
        candidates: Collection[int] = (),
        *,
        end: int = 0,
        confirm: int = 0,
        rules: SetRules | None = None,
    ) -> None:
        self.now = 0
        self.end = end
        self._set_epoch = 1
        self._sessions = count(1)
        self._live: dict[int, tuple[int, bool]] = {}
        self.monitor = InSync(
            member(1),
            EPOCH,
            end,
            AgreedSet(members(*listed), 1, members(*candidates)),
            flushed_offset=end,
            confirm_offset=confirm,
            now_ms=0,
            rules=rules,
        )
        self.waits = AckWaits(self.monitor.ack_policy)

    @property
    def confirm(self) -> int:
        """
        The confirm offset.
        """
        return self.monitor.confirm_offset

    @property
    def set_ids(self) -> set[int]:
        """
        Broker ids of the agreed set.
        """
        return {one.broker_id for one in self.monitor.set_now.members}

    def append(self, end: int, flushed: int | None = None) -> None:
        """
        The log ends here; flushed too, unless said otherwise.
        """
        self.end = end
        self.monitor.grew(end, end if flushed is None else flushed, self.now)

    def wait_until(self, now: int) -> None:
        """
        Time passes, with ticks when they are due.
        """
        while (due := self.monitor.next_deadline()) <= now:
            self.now = max(self.now, due)
            self.monitor.tick(self.now)
        self.now = now

    def connect(
        self,
        broker_id: int,
        *,
        start: int = 1,
        learner: bool = False,
        legacy: bool = False,
        filling: bool = False,
    ) -> int:
        """
        A slave shakes hands; answers the number of its session.
        """
        session = next(self._sessions)
        incarnation = None if legacy else member(broker_id, start).incarnation
        fact = SessionOpened(
            broker_id, incarnation, session, None, learner, legacy, filling
        )
        if self.monitor.opened(fact, self.now) != session:
            self._live[broker_id] = session, legacy
        return session

    def ack(
        self,
        broker_id: int,
        received: int,
        *,
        flushed: int | None = None,
        sent: int | None = None,
        session: int | None = None,
        status: AckStatus = AckStatus.OK,
    ) -> None:
        """
        A slave acks; what it received is flushed, unless said otherwise.

        Args:
            broker_id: whose.
            received: its end.
            flushed: and how much of that is durable.
            sent: when we sent the newest frame whose end it holds.
            session: another than its newest.
            status: what ails it.
        """
        number, legacy = self._live.get(broker_id, (0, False))
        durable = received if flushed is None else flushed
        fact = SessionAcked(
            broker_id,
            number if session is None else session,
            received,
            None if legacy else durable,
            sent,
            status,
        )
        self.monitor.acked(fact, self.end, self.now)

    def leave(
        self, broker_id: int, session: int | None = None, graceful: bool = False
    ) -> None:
        """
        A link ends: the newest of that slave, unless said otherwise.
        """
        number = self._live[broker_id][0] if session is None else session
        self.monitor.left(SessionEnded(broker_id, number, graceful), self.now)

    def ask(self) -> SetChange:
        """
        The change that the master asks for now; there must be one.
        """
        change = self.monitor.proposal(self.now)
        assert change is not None, "the master asks for nothing"
        return change

    def asked_ids(self) -> set[int] | None:
        """
        Asks, and answers the broker ids of the set, or ``None`` for no wish.
        """
        change = self.monitor.proposal(self.now)
        return None if change is None else {one.broker_id for one in change.members}

    def agree(self, change: SetChange) -> None:
        """
        The controller takes a change.
        """
        self._set_epoch = change.set_epoch + 1
        agreed = AgreedSet(change.members, self._set_epoch, change.candidates)
        self.monitor.agreed(agreed, self.now)

    def settle_set(self) -> set[int]:
        """
        Asks and agrees until nothing is asked for; answers the set.
        """
        while (change := self.monitor.proposal(self.now)) is not None:
            self.agree(change)
        return self.set_ids

    def admit(self, *broker_ids: int) -> None:
        """
        Slaves connect, ack everything, and come in.
        """
        for broker_id in broker_ids:
            self.connect(broker_id)
            self.ack(broker_id, self.end)
        assert set(broker_ids) <= self.settle_set()
