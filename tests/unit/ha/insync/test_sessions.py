"""
One session per slave: the newest.
"""

from __future__ import annotations

import pytest
from lib.ha.replica_set import member

from pystore.errors import RemoteViolation
from pystore.ha.insync.facts import SessionAcked, SessionEnded, SessionOpened
from pystore.ha.insync.sessions import Sessions
from pystore.ha.wire.codes import AckStatus


def opened(session: int, start: int = 1, *, learner: bool = False) -> SessionOpened:
    """Broker 2 opens a session."""
    incarnation = member(2, start).incarnation
    return SessionOpened(
        2, incarnation, session, 0, is_learner=learner, is_legacy=False
    )


def acked(session: int, received: int, flushed: int | None = 0) -> SessionAcked:
    """Broker 2 acks."""
    return SessionAcked(2, session, received, flushed, None, AckStatus.OK)


def test_a_newer_session_replaces_the_older_one() -> None:
    """
    RMQ-R95, RMQ-R217: which is to be closed, and whose acks and end are void.
    """
    sessions = Sessions()
    assert sessions.opened(opened(1)) is None
    assert 1 == sessions.opened(opened(2))

    assert sessions.acked(acked(1, 50), 100) is None
    assert sessions.left(SessionEnded(2, 1, is_graceful=False)) is None
    session = sessions.of(2)
    assert session is not None
    assert (2, None) == (session.session_id, session.received_offset)


def test_an_older_process_is_turned_away() -> None:
    """
    RMQ-K.3: the newer one is live.
    """
    sessions = Sessions()
    sessions.opened(opened(1, start=5))

    assert 2 == sessions.opened(opened(2, start=4))
    assert sessions.acked(acked(2, 50), 100) is None


def test_no_ack_is_not_an_ack_of_nothing() -> None:
    """
    RMQ-R129: the one is silence, the other a fact.
    """
    sessions = Sessions()
    sessions.opened(opened(1))
    session = sessions.of(2)
    assert session is not None
    assert session.received_offset is None
    sessions.acked(acked(1, 0), 100)

    assert 0 == session.received_offset


def test_an_ack_that_takes_another_back_is_a_violation() -> None:
    """
    RMQ-R128: within a session a log only grows.
    """
    sessions = Sessions()
    sessions.opened(opened(1))
    sessions.acked(acked(1, 50), 100)

    with pytest.raises(RemoteViolation, match="acks offset 49 after offset 50"):
        sessions.acked(acked(1, 49), 100)


def test_an_ack_at_our_end_is_none() -> None:
    """
    RMQ-R130: only one above it is.
    """
    sessions = Sessions()
    sessions.opened(opened(1))
    assert sessions.acked(acked(1, 100), 100) is not None

    with pytest.raises(RemoteViolation, match="above the end 100"):
        sessions.acked(acked(1, 101), 100)


def test_nothing_is_flushed_that_was_not_received() -> None:
    """
    Whatever the peer says.
    """
    sessions = Sessions()
    sessions.opened(opened(1))
    session = sessions.acked(acked(1, 50, 80), 100)

    assert session is not None
    assert 50 == session.flushed_offset


def test_a_learner_speaks_for_no_member() -> None:
    """
    RMQ-R203: not even for itself, where the set lists it.
    """
    sessions = Sessions()
    sessions.opened(opened(1, learner=True))

    assert sessions.counting(member(2)) is None


def test_a_session_ends_once() -> None:
    """
    RMQ-R94: and the slave stays known.
    """
    sessions = Sessions()
    sessions.opened(opened(1))
    assert sessions.left(SessionEnded(2, 1, is_graceful=False)) is not None
    assert sessions.left(SessionEnded(2, 1, is_graceful=False)) is None

    assert sessions.has_seen(2)
    assert [] == list(sessions)
