"""
Routes: registrations, epochs and removals.
"""

from __future__ import annotations

from typing import Any

import pytest
from lib.remoting.name_server_peers import registration, topic, topics

from pystore.nameserver.route_table import (
    Registered,
    RegistrationIgnored,
    RegistrationRefused,
    RouteTable,
)
from pystore.remoting.fields import decode_fields
from pystore.remoting.name_server_headers import RegisterBrokerRequest
from pystore.remoting.registration_body import DataVersion, RegistrationBody


class Routes:
    """
    A table, and brokers that each have a connection of their name.
    """

    def __init__(self) -> None:
        self.table = RouteTable()
        self.now_ms = 0

    def register(
        self,
        address: str,
        broker_id: int = 0,
        body: bytes | None = None,
        owner: str = "",
        **fields: object,
    ) -> Registered | RegistrationIgnored | RegistrationRefused:
        """
        A broker registers over its connection, or over another.
        """
        told = registration(address, broker_id, body, **fields)
        return self.table.register(
            decode_fields(RegisterBrokerRequest, told.ext_fields),
            RegistrationBody.decode(told.body),
            owner or address,
            self.now_ms,
        )

    def addresses(self) -> dict[int, str]:
        """
        The set, by the first word of each address.
        """
        found = self.table.addresses("C", "s")
        return {i: address.partition(":")[0] for i, address in found.items()}

    def queues(self, name: str = "T1") -> tuple[int, int] | None:
        """
        Queues and permissions of a topic.
        """
        route = self.table.route(name)
        if route is None:
            return None
        found = route.queues["s"]
        return found.read_queues, found.perm


@pytest.fixture
def routes() -> Routes:
    """
    An empty table.
    """
    return Routes()


def test_a_master_is_found_by_its_topics(routes: Routes) -> None:
    """
    An unregistered topic has no route.
    """
    assert Registered() == routes.register("a")
    assert {0: "a"} == routes.addresses()
    assert (4, 6) == routes.queues()
    assert routes.table.route("T3") is None
    assert {} == routes.table.addresses("D", "s")


def test_a_slave_gets_its_master_and_adds_only_its_address(
    routes: Routes,
) -> None:
    """
    Its topics are those of the master, or old.
    """
    assert Registered() == routes.register("b", 1)
    assert routes.queues() is None
    routes.register("a")
    assert Registered("a:1", "a:2") == routes.register("b", 1, topics(counter=9))
    assert {0: "a", 1: "b"} == routes.addresses()
    assert (4, 6) == routes.queues()


def test_topics_change_with_their_version_alone(routes: Routes) -> None:
    """
    What a later list leaves out stays, as an incremental one is no whole list.
    """
    routes.register("a")
    routes.register("a", body=topics({"T1": topic(2), "T3": topic(3)}))
    assert ((4, 6), (3, 6)) == (routes.queues("T1"), routes.queues("T3"))
    routes.register("a", body=topics({"T1": topic(2)}, counter=2))
    assert ((2, 6), (4, 6)) == (routes.queues("T1"), routes.queues("T2"))
    assert DataVersion(2, 0, 1000) == routes.table.data_version("s", "a:1")


def test_one_topic_of_an_unknown_broker_is_refused_and_changes_nothing(
    routes: Routes,
) -> None:
    """
    RocketMQ refuses it as well, but keeps listing a set without brokers.
    """
    refused = routes.register("a", body=topics({"T1": topic()}))
    assert isinstance(refused, RegistrationRefused)
    assert "one topic before all" in refused.reason
    assert [] == routes.table.brokers()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"brokerName": ""}, "without a name"),
        ({"brokerAddr": ""}, "without a name, an address"),
        ({"clusterName": ""}, "or a cluster"),
        ({"brokerId": -1}, "with the negative id -1"),
        ({"clusterName": "D"}, "C has a set of that name"),
    ],
)
def test_a_registration_without_an_address_is_refused(
    routes: Routes, fields: dict[str, Any], why: str
) -> None:
    """
    And one that would mix its queues with those of another cluster.
    """
    routes.register("a")
    refused = routes.register("b", **fields)
    assert isinstance(refused, RegistrationRefused)
    assert why in refused.reason
    assert {0: "a"} == routes.addresses()


def test_a_master_of_an_older_epoch_is_ignored(routes: Routes) -> None:
    """
    RMQ-R46: with its topics, also if it was in the set before.
    """
    routes.register("a", body=topics(epoch=5))
    routes.register("b", 2)
    old = routes.register("b", 0, topics({"T1": topic(8), "T2": topic()}, epoch=3))
    assert isinstance(old, RegistrationIgnored)
    assert "a:1 has epoch 5" in old.reason
    assert ({0: "a"}, (4, 6)) == (routes.addresses(), routes.queues())


def test_a_master_of_a_newer_epoch_replaces_the_old_one(routes: Routes) -> None:
    """
    The old one is ignored from then on, and its end removes no broker.
    """
    routes.register("a", body=topics(epoch=5))
    routes.register("b", 0, topics({"T1": topic(8), "T2": topic()}, epoch=7))
    assert isinstance(routes.register("a", body=topics(epoch=5)), RegistrationIgnored)
    assert [] == routes.table.close("a")
    assert ({0: "b"}, (8, 6)) == (routes.addresses(), routes.queues())


def test_an_old_master_is_ignored_after_the_new_one_is_gone(
    routes: Routes,
) -> None:
    """
    RocketMQ remembers live ones only, and sends clients to it; here a slave stays.
    """
    routes.register("a", body=topics(epoch=5))
    routes.register("b", 0, topics(epoch=7))
    routes.register("c", 3, topics(epoch=7))
    routes.table.close("b")
    assert isinstance(routes.register("a", body=topics(epoch=5)), RegistrationIgnored)
    assert {3: "c"} == routes.addresses()
    routes.register("a", body=topics(epoch=8))
    assert {0: "a", 3: "c"} == routes.addresses()


def test_a_master_without_a_controller_has_no_epoch_to_be_too_old(
    routes: Routes,
) -> None:
    """
    A set may leave the controller while some of its slaves run.
    """
    routes.register("b", 0, topics(epoch=7))
    routes.register("c", 3)
    routes.table.close("b")
    assert Registered() == routes.register("a")


def test_an_address_stands_under_its_last_id(routes: Routes) -> None:
    """
    As when a slave is elected.
    """
    routes.register("a", body=topics(epoch=1))
    routes.register("b", 2, topics(epoch=1))
    routes.register("b", 0, topics(epoch=2))
    routes.register("a", 1, topics(epoch=2))
    assert {0: "b", 1: "a"} == routes.addresses()


def test_a_closed_connection_takes_out_all_its_brokers(routes: Routes) -> None:
    """
    RocketMQ takes out the first, and the others two minutes later.
    """
    routes.register("a", owner="c")
    routes.register("b", 0, brokerName="t", owner="c")
    assert ["a:1", "b:1"] == routes.table.close("c")
    assert ([], []) == (routes.table.brokers(), routes.table.topics())


def test_a_connection_that_was_replaced_closes_without_effect(routes: Routes) -> None:
    """
    The broker stands with its last registration.
    """
    routes.register("a", owner="first")
    routes.register("a", owner="second")
    assert [] == routes.table.close("first")
    assert {0: "a"} == routes.addresses()


def test_slaves_without_a_master_keep_the_topics(routes: Routes) -> None:
    """
    Consumers still read there.
    """
    routes.register("a")
    routes.register("b", 1)
    routes.table.close("a")
    assert ({1: "b"}, (4, 6)) == (routes.addresses(), routes.queues())


def test_an_acting_master_is_read_only(routes: Routes) -> None:
    """
    With a lost master or without any: the smallest id provides the topics.
    """
    routes.register("b", 1, enableActingMaster="true")
    assert (4, 4) == routes.queues()
    routes.register("a", enableActingMaster="true")
    assert (4, 6) == routes.queues()
    routes.table.close("a")
    assert (4, 4) == routes.queues()
    routes.register("c", 2, topics(counter=5, table={"T5": topic(), "T6": topic()}))
    assert routes.queues("T5") is None


def test_an_unregistered_broker_is_removed_with_its_empty_set(routes: Routes) -> None:
    """
    Once more is fine.
    """
    routes.register("a")
    for _ in range(2):
        routes.table.unregister("s", "a:1")
        assert ([], []) == (routes.table.brokers(), routes.table.topics())


def test_a_silent_broker_is_removed_after_two_minutes_or_its_own_time(
    routes: Routes,
) -> None:
    """
    A sign of life is enough to stay.
    """
    routes.register("a")
    routes.register("b", 1, heartbeatTimeoutMillis=10_000)
    assert [] == routes.table.expire(10_000)
    assert ["b:1"] == routes.table.expire(10_001)
    routes.table.touch("s", "a:1", 100_000)
    assert [] == routes.table.expire(220_000)
    assert ["a:1"] == routes.table.expire(220_001)


def test_permissions_last_until_the_topics_change(
    routes: Routes,
) -> None:
    """
    A registration that says nothing new changes nothing.
    """
    routes.register("a", body=topics({"T1": topic(perm=7), "T2": topic()}))
    assert 2 == routes.table.wipe_write_perm("s")
    routes.register("a", body=topics({"T1": topic(perm=7), "T2": topic()}))
    assert (4, 5) == routes.queues()
    assert 2 == routes.table.add_write_perm("s")
    assert (4, 7) == routes.queues()
    assert 0 == routes.table.wipe_write_perm("t")


def test_a_deleted_topic_is_gone_until_a_broker_has_it(routes: Routes) -> None:
    """
    Of one cluster, or of all.
    """
    routes.register("a")
    routes.register("b", brokerName="t", clusterName="D")
    routes.table.delete_topic("T1", "C")
    found = routes.table.route("T1")
    assert found is not None
    assert ["t"] == list(found.queues)
    routes.table.delete_topic("T1")
    assert routes.queues() is None
    routes.register("a")
    assert (4, 6) == routes.queues()


def test_a_route_names_the_filter_servers_of_its_brokers(routes: Routes) -> None:
    """
    By the address of the broker.
    """
    body = topics().replace(b'"filterServerList": []', b'"filterServerList": ["f"]')
    routes.register("a", body=body)
    found = routes.table.route("T1")
    assert found is not None
    assert {"a:1": ("f",)} == found.filter_servers
