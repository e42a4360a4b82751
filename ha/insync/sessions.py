"""
The newest session of each slave, and its acks. Pure.

A broker id counts once, with its newest session, even if several of its links are open
(RMQ-R95, RMQ-R217; RMQ-K.3, one session per slave). Facts of other sessions change
nothing (RMQ-R94, RMQ-R273).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pystore.errors import RemoteViolation
from pystore.ha.insync.facts import SessionAcked, SessionEnded, SessionOpened
from pystore.ha.wire.codes import AckStatus
from pystore.replicaset import Member

__all__ = ["Session", "Sessions"]


@dataclass(slots=True)
class Session:
    """
    One slave's link.

    Attributes:
        member: the slave's process.
        session_id: of the link.
        is_learner: it counts for nothing.
        is_legacy: its acks do not cover its disk.
        received_offset: it holds everything below; ``None``: no ack yet, which is
            not an ack of 0 (RMQ-R129).
        flushed_offset: it has everything below on disk; ``None``: never reported.
        status: of its log.
        is_filling: it lacks records that the set has (B11).
    """

    member: Member
    session_id: int
    is_learner: bool
    is_legacy: bool
    received_offset: int | None = None
    flushed_offset: int | None = None
    status: AckStatus = AckStatus.OK
    is_filling: bool = False

    @property
    def broker_id(self) -> int:
        """
        Of the slave.
        """
        return self.member.broker_id


class Sessions:
    """
    The live session of each broker id.
    """

    def __init__(self) -> None:
        self._live: dict[int, Session] = {}
        self._seen: set[int] = set()

    def __iter__(self) -> Iterator[Session]:
        return iter(self._live.values())

    def opened(self, fact: SessionOpened) -> int | None:
        """
        Adds a session, in place of an older one of the same slave.

        Returns:
            The session to close, if any: the replaced one, or the new one if a newer
            process of the same broker id has a session.
        """
        now = self._live.get(fact.broker_id)
        if now is not None and _is_older(fact, now):
            return fact.session_id
        self._live[fact.broker_id] = Session(
            Member(fact.broker_id, fact.incarnation),
            fact.session_id,
            fact.is_learner,
            fact.is_legacy,
            is_filling=fact.is_filling,
        )
        self._seen.add(fact.broker_id)
        return None if now is None else now.session_id

    def acked(self, fact: SessionAcked, end_offset: int) -> Session | None:
        """
        Takes an ack.

        Args:
            fact: the ack.
            end_offset: the end of our log, taken after the ack arrived.

        Returns:
            Its session; ``None`` if another session counts.

        Raises:
            RemoteViolation: it acks bytes that the master does not have (RMQ-R130), or
                less than before: close the link.
        """
        session = self._of(fact)
        if session is None:
            return None
        if fact.received_offset > end_offset:
            raise RemoteViolation(
                f"slave {fact.broker_id} acks offset {fact.received_offset}, "
                f"above the end {end_offset} of the master's log",
                offset=fact.received_offset,
            )
        if fact.received_offset < (session.received_offset or 0):
            raise RemoteViolation(
                f"slave {fact.broker_id} acks offset {fact.received_offset} "
                f"after offset {session.received_offset}",
                offset=fact.received_offset,
            )
        session.received_offset = fact.received_offset
        if fact.flushed_offset is not None and not session.is_legacy:
            session.flushed_offset = min(fact.flushed_offset, fact.received_offset)
        session.status = fact.status
        return session

    def left(self, fact: SessionEnded) -> Session | None:
        """
        Forgets a session.

        Returns:
            The session; ``None`` if it did not count, or ended before.
        """
        session = self._of(fact)
        if session is not None:
            del self._live[fact.broker_id]
        return session

    def counting(
        self, member: Member, continuing: frozenset[Member] = frozenset()
    ) -> Session | None:
        """
        Returns the session whose acks count for a listed member (B1).

        Args:
            member: as listed.
            continuing: restarted processes that count as the member of their broker
                id (B2).
        """
        session = self._live.get(member.broker_id)
        if session is None or session.is_learner:
            return None
        is_same = session.member == member or session.member in continuing
        return session if is_same else None

    def of(self, broker_id: int) -> Session | None:
        """
        Returns the live session of a broker id, of any process.
        """
        return self._live.get(broker_id)

    def has_seen(self, broker_id: int) -> bool:
        """
        Whether the slave ever had a session in this mastership.
        """
        return broker_id in self._seen

    def _of(self, fact: SessionAcked | SessionEnded) -> Session | None:
        session = self._live.get(fact.broker_id)
        is_live = session is not None and session.session_id == fact.session_id
        return session if is_live else None


def _is_older(fact: SessionOpened, live: Session) -> bool:
    ours = live.member.incarnation
    return (
        fact.incarnation is not None
        and ours is not None
        and fact.incarnation.counter < ours.counter
    )
