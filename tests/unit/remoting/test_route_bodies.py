"""
Routes as the name server of RocketMQ 5.3.3 wrote them.
"""

from __future__ import annotations

from pystore.remoting.json_body import parse_body
from pystore.remoting.registration_body import TopicQueues
from pystore.remoting.route_bodies import (
    BrokerData,
    TopicRoute,
    encode_cluster_info,
    encode_topic_list,
)

# What it answered to registrations of the same brokers.
ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"1.1.1.1:1","1":"1.1.1.2:1"},'
    b'"brokerName":"a","cluster":"C","enableActingMaster":false}],'
    b'"filterServerTable":{},"queueDatas":[{"brokerName":"a","perm":6,'
    b'"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
)
CLUSTERS = (
    b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"1.1.1.1:1",1:"1.1.1.2:1"},'
    b'"brokerName":"a","cluster":"C","enableActingMaster":false}},'
    b'"clusterAddrTable":{"C":["a"]}}'
)
SET = BrokerData("C", "a", {0: "1.1.1.1:1", 1: "1.1.1.2:1"})


def test_a_route_is_written_as_rocketmq_does() -> None:
    """
    To the byte, for a client of 4.9.4 or newer.
    """
    assert ROUTE == TopicRoute((SET,), {"a": TopicQueues(4, 4, 6)}).encode()


def test_a_route_names_filter_servers_and_static_topics() -> None:
    """
    Both are absent or empty for all others.
    """
    mapping = {"bname": "a", "totalQueues": 4}
    route = TopicRoute(
        (SET,), {"a": TopicQueues(4, 4, 6, 0, mapping)}, {"1.1.1.1:1": ("f:1",)}
    )
    found = parse_body(route.encode())

    assert isinstance(found, dict)
    assert {"a": mapping} == found["topicQueueMappingByBroker"]
    assert {"1.1.1.1:1": ["f:1"]} == found["filterServerTable"]


def test_sets_are_written_as_rocketmq_does_with_quotes_around_ids() -> None:
    """
    Bare numbers as keys are no JSON; Java reads both.
    """
    assert parse_body(CLUSTERS) == parse_body(encode_cluster_info([SET]))


def test_topics_are_written_as_rocketmq_does() -> None:
    """
    To the byte.
    """
    assert b'{"topicList":["T1","T2"]}' == encode_topic_list(["T1", "T2"])
