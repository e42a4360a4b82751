"""
Each request gets a reply, whatever its handler does.
"""

from __future__ import annotations

import asyncio

import pytest
from lib.remoting.peers import beat, echo, fail, give_up, hang
from lib.remoting.virtual_time_loop import move, run

from pystore.remoting.codes import ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection, ConnectionOwner, Handler
from pystore.remoting.dispatch import begin, finish
from pystore.remoting.limits import RemotingLimits
from pystore.remoting.reply import Reply

REQUEST = RemotingCommand(904, ext_fields={"brokerId": "1"})


async def reply_of(
    handler: Handler, said: list[str], request: RemotingCommand = REQUEST
) -> Reply:
    """
    Returns the reply to a request, whose handler has a second.
    """
    found = begin(
        handler, request, Connection(ConnectionOwner({}, RemotingLimits())), said.append
    )
    if isinstance(found, Reply):
        return found
    return await finish(found, request, 1000, said.append)


def test_a_plain_handler_replies_at_once() -> None:
    """
    No other task has a turn meanwhile.
    """

    async def main() -> None:
        peer = Connection(ConnectionOwner({}, RemotingLimits()))
        assert Reply() == begin(beat, REQUEST, peer, bool)
        assert Reply(ext_fields=REQUEST.ext_fields) == await reply_of(echo, [])

    run(main())


@pytest.mark.parametrize(
    ("handler", "code", "remark"),
    [
        (beat, ResponseCode.CONTROLLER_INVALID_REQUEST, "brokerId is missing"),
        (fail, ResponseCode.SYSTEM_ERROR, "LookupError: no such thing"),
    ],
)
def test_a_failed_handler_is_answered_and_reported(
    handler: Handler, code: int, remark: str
) -> None:
    """
    Whether it waits or not.
    """

    async def main() -> None:
        said: list[str] = []
        reply = await reply_of(handler, said, RemotingCommand(904))
        assert code == reply.code
        assert remark in (reply.remark or "")
        assert [f"request 904: {reply.remark}"] == said

    run(main())


def test_a_slow_handler_is_cancelled() -> None:
    """
    With a line; what it waited for does not count.
    """

    async def main() -> None:
        said: list[str] = []
        waiting = asyncio.ensure_future(reply_of(hang, said))
        await asyncio.sleep(0)
        move(1001)
        text = "request 904 took longer than 1000 ms"
        assert Reply(ResponseCode.SYSTEM_ERROR, text) == await waiting
        assert [f"request 904: {text}"] == said

    run(main())


def test_a_cancellation_inside_a_handler_is_answered() -> None:
    """
    A handler may wait for a task that another one cancels.
    """

    async def main() -> None:
        reply = await reply_of(give_up, [])
        assert "its handler was cancelled" in (reply.remark or "")
        waiting = asyncio.ensure_future(reply_of(hang, []))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(main())
