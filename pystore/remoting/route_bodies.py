"""
The bodies of a name server's answers: routes, broker sets, topics. Pure.

Broker ids are keys with quotes, which RocketMQ's clients of all versions read.

Source: client protocol 1.1, 1.4; docs/name-server.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pystore.remoting.json_body import render_body
from pystore.remoting.registration_body import TopicQueues

__all__ = ["BrokerData", "TopicRoute", "encode_cluster_info", "encode_topic_list"]


@dataclass(frozen=True, slots=True)
class BrokerData:
    """
    The brokers of a set in a route.

    Attributes:
        cluster: of the set.
        broker_name: of the set.
        addresses: by broker id; 0 is the master.
        enable_acting_master: whether a slave may serve readers in place of the master.
    """

    cluster: str
    broker_name: str
    addresses: Mapping[int, str]
    enable_acting_master: bool = False

    def row(self) -> dict[str, object]:
        """
        Returns its JSON object.
        """
        return {
            "brokerAddrs": dict(self.addresses),
            "brokerName": self.broker_name,
            "cluster": self.cluster,
            "enableActingMaster": self.enable_acting_master,
        }


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """
    The body of the answer to 105.

    Attributes:
        brokers: the sets that have the topic.
        queues: of the topic in each set, by broker name.
        filter_servers: their addresses, by the address of their broker.
    """

    brokers: tuple[BrokerData, ...]
    queues: Mapping[str, TopicQueues]
    filter_servers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def encode(self) -> bytes:
        """
        Returns the body.
        """
        mappings = {
            name: one.mapping
            for name, one in self.queues.items()
            if one.mapping is not None
        }
        return render_body(
            {
                "brokerDatas": [one.row() for one in self.brokers],
                "filterServerTable": dict(self.filter_servers),
                "queueDatas": [
                    {
                        "brokerName": name,
                        "perm": one.perm,
                        "readQueueNums": one.read_queues,
                        "topicSysFlag": one.sys_flag,
                        "writeQueueNums": one.write_queues,
                    }
                    for name, one in self.queues.items()
                ],
                "topicQueueMappingByBroker": mappings or None,
            }
        )


def encode_cluster_info(brokers: Iterable[BrokerData]) -> bytes:
    """
    Returns the body of the answer to 106.
    """
    sets: dict[str, object] = {}
    clusters: dict[str, list[str]] = {}
    for one in brokers:
        sets[one.broker_name] = one.row()
        clusters.setdefault(one.cluster, []).append(one.broker_name)
    return render_body({"brokerAddrTable": sets, "clusterAddrTable": clusters})


def encode_topic_list(topics: Iterable[str]) -> bytes:
    """
    Returns the body of the answer to 206.
    """
    return render_body({"topicList": list(topics)})
