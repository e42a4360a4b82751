"""
What a replica's place says when it serves and when it follows.
"""

from __future__ import annotations

from pystore.ha.config import ReplicaConfig
from pystore.ha.insync.member import Member

PLACE = ReplicaConfig("cluster", "set", 4, heartbeat_ms=700, is_learner=True)


def test_a_master_serves_under_its_own_name() -> None:
    """
    Slaves of another set are turned away by it.
    """
    terms = PLACE.master_terms(9, 1 << 20)

    assert (terms.cluster, terms.broker_name, terms.broker_id) == ("cluster", "set", 4)
    assert (terms.epoch, terms.segment_size) == (9, 1 << 20)
    assert terms.heartbeat_ms == 700


def test_a_slave_follows_with_its_incarnation() -> None:
    """
    B1: the master lists it by that.
    """
    me = Member(4, (6, b"\x07" * 16))
    terms = PLACE.slave_terms(me, 9, may_wipe=True)

    assert (terms.cluster, terms.broker_name, terms.broker_id) == ("cluster", "set", 4)
    assert (terms.incarnation, terms.incarnation_bits) == me.incarnation
    assert terms.epoch == 9
    assert terms.is_learner
    assert terms.may_wipe
    assert terms.heartbeat_ms == 700


def test_a_replica_serves_this_machine_alone_unless_told_otherwise() -> None:
    """
    The protocols have no passwords.
    """
    assert PLACE.host == "127.0.0.1"
