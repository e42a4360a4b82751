"""
Closes a server or a client in bounded time.

Source: docs/remoting.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from pystore.remoting.connection import Connection, ConnectionOwner

__all__ = ["let_go"]


async def let_go(side: ConnectionOwner, connections: Collection[Connection]) -> None:
    """
    Cancels pending handlers and closes connections; unsent bytes are sent within the
    time limit. Cancelling this coroutine closes the connections at once.

    Args:
        side: their owner.
        connections: all open ones.
    """
    for connection in connections:
        connection.close()
    for task in side.running:
        task.cancel()
    loop = asyncio.get_running_loop()
    ends = [loop.create_task(one.wait_closed()) for one in connections]
    try:
        if ends or side.running:
            limit_s = side.limits.close_timeout_ms / 1000
            await asyncio.wait([*ends, *side.running], timeout=limit_s)
    finally:
        for connection in connections:
            connection.abort()
    await asyncio.gather(*ends)
    if side.running:
        count = len(side.running)
        name = "handler" if count == 1 else "handlers"
        side.say(f"{count} request {name} did not end in time and were abandoned")
