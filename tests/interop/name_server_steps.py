"""
Requests for two name servers, step by step, and a connection to send them.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass

from lib.remoting.name_server_peers import registration, request, topic, topics

from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.framing import CommandReader, encode_frame

CLIENT = "client"
"""The peer that only queries."""


@dataclass(frozen=True)
class Step:
    """
    One request to a name server, or the end of a connection.

    Attributes:
        peer: the peer of the connection.
        request: the request; ``None``: the peer closes the connection.
    """

    peer: str
    request: RemotingCommand | None = None


def routes(*names: str, cluster: str = "C", broker: str = "s") -> Iterator[Step]:
    """
    Yields queries for everything that a name server shows.
    """
    yield Step(CLIENT, request(RequestCode.GET_BROKER_CLUSTER_INFO))
    yield Step(CLIENT, request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
    group = RequestCode.GET_BROKER_MEMBER_GROUP
    yield Step(CLIENT, request(group, clusterName=cluster, brokerName=broker))
    for name in names:
        yield Step(CLIENT, request(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=name))


def set_steps() -> Iterator[Step]:
    """
    Yields the steps of a broker set, with queries after each step.
    """
    for step in _steps():
        yield step
        yield from routes("T1", "T2", "T3")


def _steps() -> Iterator[Step]:
    one = topics({"T1": topic()})
    yield Step("a", registration("a", body=topics(epoch=5)))
    yield Step("b", registration("b", 2, topics({"T3": topic(), "T1": topic(8)})))
    for counter in (1, 2):
        body = topics({"T1": topic(2), "T3": topic()}, counter, 5)
        yield Step("a", registration("a", body=body))
    yield from _versions()
    yield Step("c", registration("c", body=topics({"T1": topic(9)}, epoch=3)))
    yield Step("c", registration("c", 3, one))
    yield Step("c", registration("c", 3, bodyCrc32=5))
    yield Step("a", _named(RequestCode.WIPE_WRITE_PERM_OF_BROKER))
    yield Step("a", registration("a", body=topics(counter=2, epoch=5)))
    yield Step("a", _named(RequestCode.ADD_WRITE_PERM_OF_BROKER))
    yield Step("a", _named(RequestCode.WIPE_WRITE_PERM_OF_BROKER, "unknown"))
    yield Step("a", _deleted("T2", "another"))
    yield Step("a", _deleted("T2", "C"))
    # The slave is elected, and the old master does not know it.
    yield Step("b", registration("b", 0, topics({"T1": topic(6), "T2": topic()}, 1, 7)))
    yield Step("a", registration("a", body=topics(epoch=5)))
    yield Step("a")
    yield Step("d", registration("d", 4))
    yield Step("b", registration("b", 5, topics(counter=9)))
    yield Step("b", _stopped("b", 5))
    yield Step("d")
    # A slave that acts as master.
    yield Step("b", registration("b", 2, enableActingMaster="true"))
    yield Step("a", registration("a", enableActingMaster="true"))
    yield Step("a")
    mapping = {
        "bname": "s",
        "currIdMap": {"0": 0},
        "dirty": False,
        "epoch": 1,
        "scope": "__global__",
        "topic": "T1",
        "totalQueues": 4,
    }
    static = topics(counter=4, topicQueueMappingInfoMap={"T1": mapping})
    yield Step("a", registration("a", body=static))
    yield Step("b")
    yield Step("a")


def _versions() -> Iterator[Step]:
    for counter in (2, 3):
        body = b'{"counter":%d,"stateVersion":5,"timestamp":1000}' % counter
        yield Step(
            "a",
            request(
                RequestCode.QUERY_DATA_VERSION,
                body,
                brokerName="s",
                brokerAddr="a:1",
                clusterName="C",
                brokerId=0,
            ),
        )


def _named(code: int, name: str = "s") -> RemotingCommand:
    return request(code, brokerName=name)


def _deleted(name: str, cluster: str) -> RemotingCommand:
    return request(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic=name, clusterName=cluster)


def _stopped(address: str, broker_id: int) -> RemotingCommand:
    return request(
        RequestCode.UNREGISTER_BROKER,
        brokerName="s",
        brokerAddr=f"{address}:1",
        clusterName="C",
        brokerId=broker_id,
    )


class RawConnection:
    """
    A connection to a name server that sends and returns bytes.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._reader = CommandReader()

    def ask(self, command: RemotingCommand) -> RemotingCommand:
        """
        Returns the answer to a request.
        """
        self._socket.sendall(encode_frame(command))
        while (answer := self._reader.take()) is None:
            data = self._socket.recv(1 << 16)
            assert data, f"closed at request {command.code}"
            self._reader.feed(data)
        return answer

    def close(self) -> None:
        """
        Closes the connection.
        """
        self._socket.close()
