"""
Closing a server or a client ends in bounded time.
"""

from __future__ import annotations

import asyncio

import pytest
from lib.remoting.peers import BEAT, ECHO, HANDLERS, STAY, serving
from lib.remoting.virtual_time_loop import move, run, until

from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection, ConnectionOwner
from pystore.remoting.framing import encode_frame
from pystore.remoting.limits import RemotingLimits
from pystore.remoting.shutdown import close_all


def test_closing_does_not_wait_for_an_endless_handler() -> None:
    """
    It reports the handler, and ends.
    """

    async def main() -> None:
        async with serving() as talk:
            peer = await talk.connect()
            peer.writer.write(encode_frame(RemotingCommand(STAY, 1)))
            assert await peer.ask(RemotingCommand(ECHO, 2))
            closing = asyncio.ensure_future(talk.server.close())
            await until(lambda: not talk.server.connections)
            assert not closing.done()
            move(3001)
            await asyncio.wait_for(closing, 5)
            assert (
                "1 request handler was abandoned after the time limit" == talk.said[-1]
            )
            await _end_the_rest()

    run(main())


async def _end_the_rest() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for _ in range(100):
        for task in rest:
            task.cancel()
        await asyncio.sleep(0)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_closing_does_not_wait_for_a_peer_that_does_not_read(
    *, is_cancelled: bool
) -> None:
    """
    Unsent bytes have some seconds; a cancelled close ends all connections at once.
    """

    async def main() -> None:
        async with serving() as talk:
            peer = await talk.connect()
            frame = encode_frame(RemotingCommand(ECHO, 1, body=bytes(1 << 20)))
            for _ in range(100):
                peer.writer.write(frame)
            (connection,) = talk.server.connections
            await until(lambda: not connection.may_send)
            closing = asyncio.ensure_future(talk.server.close())
            for _ in range(9):
                await asyncio.sleep(0)
            if is_cancelled:
                closing.cancel()
            else:
                move(3001)
            await asyncio.wait([closing], timeout=5)
            await until(lambda: talk.closed)
            assert closing.done()
            peer.writer.transport.abort()

    run(main())


def test_a_handler_that_has_not_begun_is_closed() -> None:
    """
    Python does not warn about a coroutine that was never awaited.
    """

    async def main() -> None:
        said: list[str] = []
        accepted: list[Connection] = []
        side = ConnectionOwner(HANDLERS, RemotingLimits(), said.append, accepted.append)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(side), "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(*address)
        frames = (encode_frame(RemotingCommand(code)) for code in (BEAT, ECHO))
        writer.write(b"".join(frames))
        await until(lambda: said)
        (echoing,) = side.running
        await close_all(side, accepted)
        assert echoing.cancelled()
        assert b"brokerId is missing" in await reader.read()
        writer.close()
        server.close()

    run(main())
