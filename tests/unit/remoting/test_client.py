"""
A client of the remoting protocol on real sockets.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.remoting.peers import ECHO, HANDLERS, HANG, LEAVE
from lib.remoting.virtual_time_loop import move, run, until

from pystore.errors import ClosedError, InvalidError
from pystore.net.address import parse_address
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.errors import NoAnswer, NotSent
from pystore.remoting.server import RemotingServer


@asynccontextmanager
async def speaking() -> AsyncIterator[tuple[RemotingClient, RemotingServer, str]]:
    """
    A client, a server, and the server's address.
    """
    async with RemotingServer(HANDLERS) as server, RemotingClient() as client:
        host, port = await server.start()
        yield client, server, f"{host}:{port}"


def test_all_calls_to_an_address_share_one_connection() -> None:
    """
    Also those that came while it was made.
    """

    async def main() -> None:
        async with speaking() as (client, server, address):
            calls = [
                client.call(address, RemotingCommand(ECHO, body=b"%d" % number))
                for number in range(100)
            ]
            answers = await asyncio.gather(*calls)
            assert [b"%d" % number for number in range(100)] == [
                answer.body for answer in answers
            ]
            await client.send(address, RemotingCommand(ECHO))
            assert 1 == len(server.connections)

    run(main())


def test_a_refusal_is_an_answer() -> None:
    """
    The caller decides about its meaning.
    """

    async def main() -> None:
        async with speaking() as (client, _, address):
            answer = await client.call(address, RemotingCommand(99))
            assert ResponseCode.REQUEST_CODE_NOT_SUPPORTED == answer.code

    run(main())


def test_an_ended_connection_is_opened_again() -> None:
    """
    With the next call.
    """

    async def main() -> None:
        async with speaking() as (client, server, address):
            await client.call(address, RemotingCommand(ECHO))
            (first,) = server.connections
            first.abort()
            await until(lambda: not server.connections)
            await until(lambda: not client.addresses)
            assert (await client.call(address, RemotingCommand(ECHO))).is_response

    run(main())


def test_a_peer_that_shuts_down_did_nothing() -> None:
    """
    The next call has a connection of its own.
    """

    async def main() -> None:
        async with speaking() as (client, server, address):
            with pytest.raises(NotSent, match="shuts down; try again, or another peer"):
                await client.call(address, RemotingCommand(LEAVE))
            (first,) = server.connections
            assert (await client.call(address, RemotingCommand(ECHO))).is_response
            assert first not in server.connections

    run(main())


def test_a_peer_that_shuts_down_ends_what_it_began() -> None:
    """
    Other calls on the connection have their answers before it is closed.
    """

    async def main() -> None:
        async with speaking() as (client, server, address):
            hanging = asyncio.ensure_future(client.call(address, RemotingCommand(HANG)))
            with pytest.raises(NotSent, match="shuts down"):
                await client.call(address, RemotingCommand(LEAVE))
            assert (await client.call(address, RemotingCommand(ECHO))).is_response
            assert 2 == len(server.connections)
            hanging.cancel()
            await until(lambda: 1 == len(server.connections))

    run(main())


def test_a_call_to_an_unreachable_address_is_not_sent() -> None:
    """
    The next call tries to connect again.
    """

    async def main() -> None:
        async with RemotingClient() as client:
            with socket.create_server(("127.0.0.1", 0)) as taken:
                port = taken.getsockname()[1]
            for _ in range(2):
                with pytest.raises(NotSent, match=f"127.0.0.1:{port} cannot be reach"):
                    await client.call(f"127.0.0.1:{port}", RemotingCommand(ECHO))

    run(main())


def test_a_connection_that_is_never_accepted_times_out() -> None:
    """
    Its queue of connections is full, as behind a firewall that drops packets.
    """

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:
            host, port = deaf.getsockname()
            full = []
            for _ in range(8):
                one = socket.socket()
                one.settimeout(0)
                one.connect_ex((host, port))
                full.append(one)
            async with RemotingClient() as client:
                call = asyncio.ensure_future(
                    client.call(f"{host}:{port}", RemotingCommand(ECHO), 10_000)
                )
                for _ in range(5):
                    await asyncio.sleep(0)
                move(3001)
                with pytest.raises(
                    NotSent, match="did not accept a connection in 3000 ms"
                ):
                    await call
            for one in full:
                one.close()

    run(main())


def test_closing_fails_waiting_calls_and_refuses_later_ones() -> None:
    """
    Twice is once.
    """

    async def main() -> None:
        async with speaking() as (client, _, address):
            await client.call(address, RemotingCommand(ECHO))
            call = asyncio.ensure_future(client.call(address, RemotingCommand(HANG)))
            for _ in range(3):
                await asyncio.sleep(0)
            await client.close()
            await client.close()
            with pytest.raises(NoAnswer, match="without an answer"):
                await call
            with pytest.raises(ClosedError, match="the remoting client is closed"):
                await client.call(address, RemotingCommand(ECHO))

    run(main())


def test_closing_fails_calls_that_wait_for_a_connection() -> None:
    """
    It was not sent.
    """

    async def main() -> None:
        async with speaking() as (client, _, address):
            call = asyncio.ensure_future(client.call(address, RemotingCommand(ECHO)))
            await asyncio.sleep(0)
            await client.close()
            with pytest.raises(ClosedError, match="the remoting client is closed"):
                await call

    run(main())


def test_closing_does_not_wait_for_a_peer_that_does_not_read() -> None:
    """
    Unsent bytes have some seconds.
    """

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as deaf:
            client = RemotingClient()
            host, port = deaf.getsockname()
            body = bytes(15 << 20)
            await client.send(f"{host}:{port}", RemotingCommand(ECHO, body=body))
            closing = asyncio.ensure_future(client.close())
            for _ in range(9):
                await asyncio.sleep(0)
            assert not closing.done()
            move(3001)
            await asyncio.wait_for(closing, 5)

    run(main())


def test_a_connection_that_ends_is_forgotten_while_another_fails() -> None:
    """
    In any order of the two events.
    """

    async def main() -> None:
        async with speaking() as (client, server, address):
            await client.call(address, RemotingCommand(ECHO))
            for turns in range(12):
                await client.call(address, RemotingCommand(ECHO))
                failing = asyncio.ensure_future(
                    client.call("127.0.0.1:1", RemotingCommand(ECHO))
                )
                for _ in range(turns):
                    await asyncio.sleep(0)
                for connection in server.connections:
                    connection.abort()
                with pytest.raises(NotSent):
                    await failing
                await until(lambda: not client.addresses)

    run(main())


def test_a_cancelled_caller_ends_no_other_call() -> None:
    """
    Two wait for the same connection, one is cancelled.
    """

    async def main() -> None:
        async with speaking() as (client, _, address):
            one, other = (
                asyncio.ensure_future(client.call(address, RemotingCommand(ECHO)))
                for _ in range(2)
            )
            await asyncio.sleep(0)
            one.cancel()
            assert (await other).is_response
            with pytest.raises(asyncio.CancelledError):
                await one

    run(main())


def test_an_idle_connection_is_closed_and_forgotten() -> None:
    """
    Brokers come and go; their addresses do not pile up.
    """

    async def main() -> None:
        async with speaking() as (client, server, address):
            await client.call(address, RemotingCommand(ECHO))
            assert {address} == client.addresses
            move(120_001)
            await until(lambda: not server.connections)
            await until(lambda: not client.addresses)

    run(main())


_HOSTS = [
    "a" * 64,
    f"{'a' * 64}.example",
    "a..b",
    ".a",
    "x" * 254,
    "\u00e4" * 64,
    "a\0b",
    "\ud800",
    "a\x1b[31mb",
    "a b",
]


@pytest.mark.parametrize("host", _HOSTS, ids=ascii)
def test_a_host_that_no_name_can_be_is_an_error_of_pystore(host: str) -> None:
    """
    Python's resolver raises others, which no caller expects.
    """

    async def main() -> None:
        async with RemotingClient() as client:
            with pytest.raises(InvalidError, match="is no name of a host"):
                await client.call(f"{host}:1", RemotingCommand(ECHO), 1000)

    run(main())


@given(st.text(max_size=70))
def test_any_text_is_refused_as_a_host_or_can_be_resolved(host: str) -> None:
    """
    Resolving begins with these conversions.
    """
    try:
        found, _ = parse_address(f"{host}:1")
    except InvalidError:
        # Most texts are none.
        return
    assert b"\0" not in found.encode("idna")
