"""
A name server on real sockets: brokers register, clients ask.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from lib.remoting.name_server_peers import registration, request, said, topics
from lib.remoting.virtual_time_loop import run

from pystore.nameserver.service import name_server
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer

ROUTE = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T1")
OF_A: dict[str, Any] = {
    "brokerName": "s",
    "brokerAddr": "a:1",
    "clusterName": "C",
    "brokerId": 0,
}


class Serving:
    """
    A name server, a client of it, and its clock.
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self.lines: list[str] = []
        self.peers: list[Connection] = []
        self.name_server = name_server(lambda: self.now_ms, self.lines.append)

    async def ask(self, command: RemotingCommand) -> RemotingCommand:
        """
        Returns the answer to a request.
        """
        return await self.client.call(self.address, command)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Serving]:
        """
        On a socket.
        """
        server = RemotingServer(
            self.name_server.handlers,
            opened=self.peers.append,
            closed=self.name_server.closed,
        )
        async with server, RemotingClient() as self.client:
            host, port = await server.start()
            self.address = f"{host}:{port}"
            yield self


def test_a_broker_registers_and_a_client_finds_it() -> None:
    """
    A slave gets the address of its master.
    """

    async def main() -> None:
        async with Serving().running() as serving:
            assert (0, {}, None) == said(await serving.ask(registration("a")))
            slave = await serving.ask(registration("b", 1))
            assert {"masterAddr": "a:1", "haServerAddr": "a:2"} == slave.ext_fields
            code, _, body = said(await serving.ask(ROUTE))
            assert 0 == code
            assert isinstance(body, dict)
            assert {"0": "a:1", "1": "b:1"} == body["brokerDatas"][0]["brokerAddrs"]
            unknown = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T9")
            answer = await serving.ask(unknown)
            assert (ResponseCode.TOPIC_NOT_EXIST, b"") == (answer.code, answer.body)

    run(main())


def test_a_closed_connection_takes_its_broker_with_it() -> None:
    """
    At once, with a line for people.
    """

    async def main() -> None:
        async with Serving().running() as serving:
            async with RemotingClient() as broker:
                await broker.call(serving.address, registration("a"))
                assert 0 == (await serving.ask(ROUTE)).code
            await serving.peers[0].wait_closed()
            assert ResponseCode.TOPIC_NOT_EXIST == (await serving.ask(ROUTE)).code
            assert ["the name server removed broker a:1: its connection closed"] == (
                serving.lines
            )

    run(main())


def test_a_registration_on_a_closed_connection_is_refused() -> None:
    """
    Otherwise the broker would stay for two minutes.
    """

    async def main() -> None:
        async with Serving().running() as serving:
            async with RemotingClient() as broker:
                await broker.call(serving.address, ROUTE)
            peer = serving.peers[0]
            await peer.wait_closed()
            register = serving.name_server.handlers[RequestCode.REGISTER_BROKER]
            late = register(registration("a"), peer)
            assert isinstance(late, Reply)
            assert ResponseCode.SYSTEM_ERROR == late.code
            assert ResponseCode.TOPIC_NOT_EXIST == (await serving.ask(ROUTE)).code

    run(main())


def test_a_silent_broker_is_removed_after_its_time() -> None:
    """
    A heartbeat or an unchanged version is a sign of life.
    """

    async def main() -> None:
        async with Serving().running() as serving:
            await serving.ask(registration("a"))
            version = b'{"counter":1,"stateVersion":0,"timestamp":1000}'
            for sign in (
                request(RequestCode.BROKER_HEARTBEAT, **OF_A),
                request(RequestCode.QUERY_DATA_VERSION, version, **OF_A),
            ):
                serving.now_ms += 120_000
                await serving.ask(sign)
                serving.name_server.expire()
                assert 0 == (await serving.ask(ROUTE)).code
            serving.now_ms += 120_001
            serving.name_server.expire()
            assert ResponseCode.TOPIC_NOT_EXIST == (await serving.ask(ROUTE)).code
            assert [
                "the name server removed broker a:1: it was silent for too long"
            ] == (serving.lines)

    run(main())


@pytest.mark.parametrize(
    ("fields", "remark"),
    [
        ({"bodyCrc32": 5}, "crc32 not match"),
        ({"compressed": "true"}, "set compressedRegister=false there"),
        ({"brokerId": -1}, "registers with the negative id -1"),
    ],
)
def test_an_invalid_registration_is_refused_and_reported(
    fields: dict[str, Any], remark: str
) -> None:
    """
    With RocketMQ's code for it.
    """

    async def main() -> None:
        async with Serving().running() as serving:
            answer = await serving.ask(registration("a", **fields))
            assert ResponseCode.SYSTEM_ERROR == answer.code
            assert remark in (answer.remark or "")
            assert remark in serving.lines[0]

    run(main())


def test_a_body_is_checked_by_its_masked_crc() -> None:
    """
    As brokers compute it: without the top bit.
    """

    async def main() -> None:
        async with Serving().running() as serving:
            bodies = (topics(counter=n) for n in range(100))
            body = next(b for b in bodies if zlib.crc32(b) >> 31)
            crc = zlib.crc32(body) & 0x7FFFFFFF
            answer = await serving.ask(registration("a", 0, body, bodyCrc32=crc))
            assert ResponseCode.SUCCESS == answer.code

    run(main())


def test_a_stale_master_gets_an_answer_and_is_reported() -> None:
    """
    As RocketMQ answers it: with success, and without an address (RMQ-R46).
    """

    async def main() -> None:
        async with Serving().running() as serving:
            await serving.ask(registration("a", body=topics(epoch=5)))
            old = await serving.ask(registration("b", body=topics(epoch=3)))
            assert (0, {}, None) == said(old)
            assert ["stale epoch 3 of b:1 as id 0 of set s: a:1 has epoch 5"] == (
                serving.lines
            )

    run(main())


def test_administrators_change_and_list_topics() -> None:
    """
    The names of the counts are RocketMQ's.
    """

    async def main() -> None:
        async with Serving().running() as serving:
            await serving.ask(registration("a"))
            wipe = request(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="s")
            add = request(RequestCode.ADD_WRITE_PERM_OF_BROKER, brokerName="s")
            assert (0, {"wipeTopicCount": "2"}, None) == said(await serving.ask(wipe))
            assert (0, {"addTopicCount": "2"}, None) == said(await serving.ask(add))
            await serving.ask(request(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="T1"))
            names = request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
            assert (0, {}, {"topicList": ["T2"]}) == said(await serving.ask(names))
            await serving.ask(request(RequestCode.UNREGISTER_BROKER, **OF_A))
            assert (0, {}, {"topicList": []}) == said(await serving.ask(names))

    run(main())
