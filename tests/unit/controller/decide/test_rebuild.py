"""
Records that are rebuilt from stores: who is elected from them, and when.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from lib.controller.broker_set_driver import Brokers, incarnation, start

from pystore.controller.decide.rebuild import StoredBroker, rebuilt_sets
from pystore.controller.model.commands import Clean, Elect, ImportSet, Register, Trigger
from pystore.controller.model.facts import LastHeartbeat
from pystore.controller.model.log_end import LogEnd
from pystore.errors import InvalidError
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import Member

UUID = "a" * 32
SCAN = Elect(Trigger.CONTROLLER)


def stored(broker_id: int, epoch: int = 5, **more: object) -> StoredBroker:
    """
    The store of a broker that has started 3 times.
    """
    told = {"incarnation": incarnation(3, broker_id), "cluster_id": UUID} | more
    where = f"/store/{broker_id}"
    return StoredBroker(where, "cluster", "set", broker_id, epoch, **told)  # type: ignore[arg-type]


def rebuilt(*stores: StoredBroker) -> Brokers:
    """
    The set of these stores, as imported into an empty record store.
    """
    _, (state,) = rebuilt_sets(stores)
    brokers = Brokers()
    brokers.ask(ImportSet(state))
    return brokers


def test_the_longest_log_is_elected_once_all_have_registered() -> None:
    """
    In an epoch above every one that a store had; the leases of the lost controllers are
    waited for, and the other brokers are candidates as they are.
    """
    brokers = rebuilt(stored(1, 5), stored(2, 7), stored(3, 6))
    assert 4 == brokers.state.next_id
    for broker_id, end in ((1, 100), (2, 300)):
        process = start(3, bits=broker_id, epoch=5, end=end)
        brokers.register(broker_id, process)
        reason = brokers.refused(Elect(Trigger.BROKER, broker_id)).reason
        assert "did not register since" in reason
    brokers.register(3, start(4, bits=3, epoch=5, end=200))
    assert ResponseCode.SUCCESS == brokers.elect().code
    assert (8, Member(2, incarnation(3, 2))) == (brokers.state.epoch, brokers.master)
    others = {Member(1, incarnation(3, 1)), Member(3, incarnation(4, 3))}
    assert others == brokers.state.agreed.candidates
    assert {1, 3} == {one.broker_id for one in brokers.state.unreleased}
    assert () == brokers.state.losses


def test_a_lost_broker_is_waited_for_until_it_is_cleaned() -> None:
    """
    Its log might be the longest.
    """
    brokers = rebuilt(stored(1), stored(2))
    brokers.register(1, start(3, bits=1, epoch=5, end=100))
    assert "broker 2 did not register" in brokers.refused(SCAN).reason
    brokers.ask(Clean(frozenset({2})))
    brokers.elect()
    assert (6, 1) == (brokers.state.epoch, brokers.master.broker_id)
    assert 3 == brokers.state.next_id


def test_brokers_of_rocketmq_tell_their_ends_in_heartbeats() -> None:
    """
    They register when they start.
    """
    java = {"incarnation": None, "cluster_id": ""}
    brokers = rebuilt(stored(1, 4, **java), stored(2, 4, **java))
    assert not brokers.state.unreleased
    for broker_id, end in ((1, 90), (2, 100)):
        brokers.hear(broker_id, LastHeartbeat(position=LogEnd(4, end)))
        assert "did not register since" in brokers.refused(SCAN).reason
        brokers.ask(Register(broker_id, f"host:{broker_id}"))
    brokers.elect()
    assert (5, 2) == (brokers.state.epoch, brokers.master.broker_id)


def test_an_older_copy_of_a_store_is_not_elected() -> None:
    """
    The store that was read has started more often.
    """
    brokers = rebuilt(stored(1), stored(2))
    brokers.register(1, start(2, bits=9, epoch=5, end=500))
    brokers.register(2, start(3, bits=2, epoch=5, end=100))
    brokers.elect()
    assert 2 == brokers.master.broker_id


def test_a_set_that_never_had_a_master_begins_anew() -> None:
    """
    Its brokers have ids, and no record was acknowledged.
    """
    brokers = rebuilt(stored(1, 0), stored(2, 0))
    brokers.register(2, start(3, bits=2))
    brokers.elect(2)
    assert (1, 2, 3) == (
        brokers.state.epoch,
        brokers.master.broker_id,
        brokers.state.next_id,
    )


def test_stores_that_do_not_belong_together_are_named() -> None:
    """
    A copy of a store, and one of another record store.
    """
    with pytest.raises(InvalidError, match=r"/a and /b both are broker 1 of set set"):
        rebuilt_sets([replace(stored(1), where="/a"), replace(stored(1), where="/b")])
    with pytest.raises(InvalidError, match="different record stores, /store/1 to a"):
        rebuilt_sets([stored(1), stored(2, cluster_id="b" * 32)])


def test_one_rebuild_has_several_sets() -> None:
    """
    A broker of RocketMQ knows no UUID, and one that does is enough.
    """
    other = replace(stored(7, cluster_id=""), name="other")
    cluster_id, states = rebuilt_sets([stored(2), other, stored(1)])
    assert UUID == cluster_id
    assert [("other", 8), ("set", 3)] == [(one.name, one.next_id) for one in states]
    assert "" == rebuilt_sets([other])[0]
    assert [9, 9] == [one.next_id for one in rebuilt_sets([stored(2), other], 9)[1]]
