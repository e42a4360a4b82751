"""
One connection: both sides send requests and answers.
"""

from __future__ import annotations

import asyncio

import pytest
from lib.remoting.peers import ASK_BACK, ECHO, HANDLERS, HANG
from lib.remoting.virtual_time_loop import move, run, until

from pystore.errors import InvalidError
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection, ConnectionOwner
from pystore.remoting.errors import NoAnswer, NotSent
from pystore.remoting.framing import encode_frame
from pystore.remoting.limits import RemotingLimits
from pystore.remoting.reply import Reply


async def pair(limits: RemotingLimits | None = None) -> tuple[Connection, Connection]:
    """
    Returns two ends of a connection, which answer alike.
    """
    loop = asyncio.get_running_loop()
    side = ConnectionOwner(HANDLERS, limits or RemotingLimits())
    accepted: list[Connection] = []
    there = ConnectionOwner(HANDLERS, RemotingLimits(), opened=accepted.append)
    server = await loop.create_server(lambda: Connection(there), "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    _, here = await loop.create_connection(lambda: Connection(side), *address)
    await until(lambda: accepted)
    server.close()
    return here, accepted[0]


async def raw_pair(
    said: list[str],
) -> tuple[Connection, asyncio.StreamReader, asyncio.StreamWriter]:
    """
    Returns a connection, and the other end byte by byte.
    """
    loop = asyncio.get_running_loop()
    accepted = loop.create_future()
    server = await asyncio.start_server(
        lambda *streams: accepted.set_result(streams), "127.0.0.1", 0
    )
    address = server.sockets[0].getsockname()
    side = ConnectionOwner(HANDLERS, RemotingLimits(), said.append)
    _, here = await loop.create_connection(lambda: Connection(side), *address)
    reader, writer = await accepted
    server.close()
    return here, reader, writer


def test_answers_find_their_questions_in_any_order() -> None:
    """
    In both directions at once, also while a request is handled.
    """

    async def main() -> None:
        here, there = await pair()
        bodies = [b"%d" % number for number in range(50)]
        calls = [
            side.call(RemotingCommand(code, body=body), 1000)
            for body in bodies
            for side, code in ((here, ECHO), (there, ECHO), (here, ASK_BACK))
        ]
        answers = [one.body for one in await asyncio.gather(*calls)]
        expected = [one for body in bodies for one in (body, body, body + b"!")]
        assert expected == answers
        here.close()
        await there.wait_closed()

    run(main())


def test_a_missing_answer_times_out_and_a_late_one_is_ignored() -> None:
    """
    The connection stays open.
    """

    async def main() -> None:
        here, there = await pair()
        call = asyncio.ensure_future(here.call(RemotingCommand(HANG), 1000))
        await asyncio.sleep(0)
        move(1001)
        with pytest.raises(NoAnswer, match="did not answer request 12 in 1000 ms"):
            await call
        move(5000)
        assert b"x" == (await here.call(RemotingCommand(ECHO, body=b"x"), 1000)).body
        here.close()
        await there.wait_closed()

    run(main())


def test_the_end_of_a_connection_fails_waiting_calls() -> None:
    """
    Their outcome is open; a later call knows that it was not sent.
    """

    async def main() -> None:
        here, there = await pair()
        call = asyncio.ensure_future(here.call(RemotingCommand(HANG), 1000))
        await asyncio.sleep(0)
        there.abort()
        with pytest.raises(NoAnswer, match="closed the connection without an answer"):
            await call
        assert here.is_closed
        with pytest.raises(NotSent, match="is closed"):
            await here.call(RemotingCommand(ECHO), 1000)
        with pytest.raises(NotSent, match="is closed"):
            await here.send(RemotingCommand(ECHO), 1000)

    run(main())


def test_no_more_calls_wait_than_allowed() -> None:
    """
    Further calls fail at once.
    """

    async def main() -> None:
        here, there = await pair(RemotingLimits(calls_max=1))
        call = asyncio.ensure_future(here.call(RemotingCommand(HANG), 1000))
        await asyncio.sleep(0)
        with pytest.raises(NotSent, match="1 requests already wait for 127"):
            await here.call(RemotingCommand(ECHO), 1000)
        there.abort()
        with pytest.raises(NoAnswer):
            await call

    run(main())


def test_a_peer_that_reads_nothing_gets_no_more_requests() -> None:
    """
    What was not sent is said to be so.
    """

    async def main() -> None:
        said: list[str] = []
        here, _, writer = await raw_pair(said)
        body = bytes(8 << 20)
        await here.send(RemotingCommand(ECHO, body=body), 1000)
        assert not here.may_send
        late = asyncio.ensure_future(here.send(RemotingCommand(ECHO), 1000))
        await asyncio.sleep(0)
        move(1001)
        with pytest.raises(NotSent, match="accepts no bytes"):
            await late
        move(10_000)
        await here.wait_closed()
        assert "accepts no bytes any more" in said[-1]
        writer.transport.abort()

    run(main())


def test_a_request_that_fits_no_frame_is_not_sent() -> None:
    """
    The connection is as good as before.
    """

    async def main() -> None:
        here, there = await pair(RemotingLimits(frame_bytes_max=1000))
        with pytest.raises(InvalidError, match="at most 1000 are allowed"):
            await here.call(RemotingCommand(ECHO, body=bytes(1000)), 1000)
        assert (await here.call(RemotingCommand(ECHO), 1000)).is_response
        here.close()
        await there.wait_closed()

    run(main())


def test_unrequested_answers_are_ignored() -> None:
    """
    They may be late.
    """

    async def main() -> None:
        here, reader, writer = await raw_pair([])
        call = asyncio.ensure_future(here.call(RemotingCommand(ECHO), 1000))
        await reader.read(8)
        for opaque in (77, 0, 0):
            answer = Reply().to(RemotingCommand(ECHO, opaque))
            writer.write(encode_frame(answer))
        assert 0 == (await call).opaque
        here.close()
        here.close()
        await here.wait_closed()
        writer.close()

    run(main())
