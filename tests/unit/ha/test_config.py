"""
What a replica's place says when it serves and when it follows.
"""

from __future__ import annotations

from pystore.ha.config import ReplicaConfig
from pystore.ha.insync.config import SetRules
from pystore.replicaset import Incarnation, Member

PLACE = ReplicaConfig("cluster", "set", 4, heartbeat_ms=700, is_learner=True)


def test_a_master_serves_under_its_own_name() -> None:
    """
    Slaves of another set are turned away by it.
    """
    config = PLACE.master_config(9, 1 << 20)

    assert (config.cluster, config.broker_name, config.broker_id) == (
        "cluster",
        "set",
        4,
    )
    assert (config.epoch, config.segment_size) == (9, 1 << 20)
    assert config.heartbeat_ms == 700


def test_a_slave_of_an_idle_set_is_heard_more_often_than_it_must_be_caught_up() -> None:
    """
    A third of that time at most, however short it is; else it would leave and join.
    """
    for lag_ms, expected in ((15_000, 5_000), (1_000, 333), (1, 1)):
        config = ReplicaConfig("c", "b", 1, rules=SetRules(lag_ms_max=lag_ms))
        assert expected == config.master_config(1, 1 << 20).heartbeat_ms
    slow = ReplicaConfig("c", "b", 1, heartbeat_ms=100)
    assert 100 == slow.master_config(1, 1 << 20).heartbeat_ms


def test_a_slave_follows_with_its_incarnation() -> None:
    """
    B1: the master lists it by that.
    """
    me = Member(4, Incarnation(6, b"\x07" * 16))
    config = PLACE.slave_config(me, 9, may_wipe=lambda: True)

    assert (config.cluster, config.broker_name, config.broker_id) == (
        "cluster",
        "set",
        4,
    )
    assert Incarnation(config.incarnation, config.incarnation_bits) == me.incarnation
    assert config.epoch == 9
    assert config.is_learner
    assert config.may_wipe()
    assert config.heartbeat_ms == 700


def test_a_replica_serves_this_machine_alone_unless_told_otherwise() -> None:
    """
    The protocols have no passwords.
    """
    assert PLACE.host == "127.0.0.1"
