"""
What answers to heartbeats say of a lease: it fails closed (C0).
"""

from __future__ import annotations

from pystore.broker.lease_answers import LeaseAnswers, SentHeartbeat
from pystore.controller.protocol.calls import HeartbeatAnswer
from pystore.controller.protocol.extensions import LeaseGrant
from pystore.ha.master.lease import NO_LEASE, UNLEASED, lease_from

SENT = SentHeartbeat(4, 5_000_000_000, 70_000)
GRANT = HeartbeatAnswer(LeaseGrant(8_000, 4))
REFUSAL = HeartbeatAnswer(LeaseGrant(0, 4))
JAVA = HeartbeatAnswer()


def test_a_grant_counts_from_the_sending_of_the_heartbeat() -> None:
    """
    Whichever controller gives it: only a leader does.
    """
    lease = lease_from(5_000_000_000, 70_000, 8_000)
    for is_leader in (True, False):
        told = LeaseAnswers().lease_of(SENT, GRANT, is_leader=is_leader)
        assert (4, lease) == told


def test_a_refusal_of_the_leader_is_one_for_the_epoch_that_asked() -> None:
    """
    Controllers that do not lead refuse everything, and end no lease.
    """
    answers = LeaseAnswers()
    assert (4, NO_LEASE) == answers.lease_of(SENT, REFUSAL, is_leader=True)
    assert None is answers.lease_of(SENT, REFUSAL, is_leader=False)
    # One of an older build names no epoch.
    old = HeartbeatAnswer(LeaseGrant())
    assert (4, NO_LEASE) == answers.lease_of(SENT, old, is_leader=True)


def test_only_a_leader_without_leases_takes_the_limit_away() -> None:
    """
    RocketMQ's: not one that follows, and none after a controller that grants leases.
    """
    answers = LeaseAnswers()
    assert None is answers.lease_of(SENT, JAVA, is_leader=False)
    assert (4, UNLEASED) == answers.lease_of(SENT, JAVA, is_leader=True)
    answers.lease_of(SENT, REFUSAL, is_leader=False)
    assert None is answers.lease_of(SENT, JAVA, is_leader=True)
