"""
A request from its handler to its reply: whatever the handler does, there is one.

A handler that waits for something is a coroutine with a time-out. One that does not,
which is what thousands of heartbeats a second meet, is no more than a call.

Source: formats 3.6; docs/remoting.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from pystore.remoting.codes import ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.reply import Reply, failure_reply

__all__ = ["Handling", "begin", "finish"]

Handling = Coroutine[Any, Any, Reply]
"""A handler at work."""

P = TypeVar("P")


def begin(
    handler: Callable[[RemotingCommand, P], Reply | Handling],
    request: RemotingCommand,
    peer: P,
    say: Callable[[str], object],
) -> Reply | Handling:
    """
    Returns the reply of a handler that does not wait, or what is to be finished.

    Args:
        handler: of the request.
        request: as it came.
        peer: whose it is.
        say: one line for people, if the handler raises.
    """
    try:
        return handler(request, peer)
    except Exception as error:
        # Whatever a handler raises is its request's end, and no other's.
        return _failed(request, failure_reply(error), say)


async def finish(
    handling: Handling,
    request: RemotingCommand,
    timeout_ms: int,
    say: Callable[[str], object],
) -> Reply:
    """
    Returns the reply of a handler that waits.

    Args:
        handling: from `begin`.
        request: as it came.
        timeout_ms: for the handler.
        say: one line for people, if the handler raises or takes longer.
    """
    limit = asyncio.timeout(timeout_ms / 1000)
    try:
        async with limit:
            return await handling
    except asyncio.CancelledError:
        # Of what the handler waited for, unless we are being closed.
        if cast("asyncio.Task[None]", asyncio.current_task()).cancelling():
            raise
        text = f"request {request.code}: what it waited for was cancelled"
        return Reply(ResponseCode.SYSTEM_ERROR, text)
    except Exception as error:
        # As in `begin`.
        reply = failure_reply(error)
        if limit.expired():
            text = f"request {request.code} took longer than {timeout_ms} ms"
            reply = Reply(ResponseCode.SYSTEM_ERROR, text)
        return _failed(request, reply, say)


def _failed(
    request: RemotingCommand, reply: Reply, say: Callable[[str], object]
) -> Reply:
    say(f"request {request.code}: {reply.remark}")
    return reply
