"""
Runs the handler of a request: each request gets a reply, whatever the handler does.

A handler that waits is a coroutine with a time-out. A handler that does not wait, as
for thousands of heartbeats a second, is a plain call.

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
"""A pending handler."""

P = TypeVar("P")


def begin(
    handler: Callable[[RemotingCommand, P], Reply | Handling],
    request: RemotingCommand,
    peer: P,
    say: Callable[[str], object],
) -> Reply | Handling:
    """
    Starts a handler. Returns its reply, or its coroutine for `finish`.

    Args:
        handler: of the request.
        request: as received.
        peer: its sender.
        say: receives one line for people if the handler raises.
    """
    try:
        return handler(request, peer)
    except Exception as error:
        # An error of a handler ends its own request only.
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
        request: as received.
        timeout_ms: for the handler.
        say: receives one line for people if the handler raises or times out.
    """
    limit = asyncio.timeout(timeout_ms / 1000)
    try:
        async with limit:
            return await handling
    except asyncio.CancelledError:
        # Either the connection is closing, or a task of the handler was cancelled.
        if cast("asyncio.Task[None]", asyncio.current_task()).cancelling():
            raise
        text = f"request {request.code}: its handler was cancelled"
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
