"""
Sets of brokers: ids, addresses and epochs.
"""

from __future__ import annotations

from pystore.nameserver.broker_registry import Broker, BrokerRegistry, BrokerSet
from pystore.remoting.registration_body import DataVersion


def broker(address: str, epoch: int = 0, owner: str = "c") -> Broker:
    """
    A broker of that address.
    """
    return Broker(address, None, DataVersion(1, epoch, 0), (), owner, 0)


def test_a_set_is_returned_in_the_order_of_its_ids() -> None:
    """
    Not in the order of registration.
    """
    group = BrokerSet("C", "s")
    for broker_id, address in ((3, "c"), (0, "a"), (2, "b")):
        group.put(broker_id, broker(address))

    assert [(0, "a"), (2, "b"), (3, "c")] == list(group.data().addresses.items())


def test_epochs_are_compared_between_addresses_only() -> None:
    """
    A broker that begins again is the same one; equal epochs leave the last.
    """
    group = BrokerSet("C", "s")
    group.put(0, broker("a", 5))

    assert group.newer(0, broker("a", 3)) is None
    assert group.newer(0, broker("b", 5)) is None
    assert group.newer(1, broker("b", 3)) is None
    assert group.brokers[0] is group.newer(0, broker("b", 4))


def test_the_sets_of_a_connection_are_returned_once() -> None:
    """
    The link is removed by the call.
    """
    sets = BrokerRegistry()
    group = BrokerSet("C", "s")
    sets.enter(group, 0, broker("a", owner="x"))

    assert [group] == sets.owned_by("x")
    assert [] == sets.owned_by("x")
    assert group.brokers[0] is sets.find("s", "a")
