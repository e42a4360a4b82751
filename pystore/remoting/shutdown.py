"""
Closes a server or a client in bounded time.

Source: docs/remoting.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from pystore.remoting.connection import Connection, ConnectionOwner

__all__ = ["close_all"]


async def close_all(
    owner: ConnectionOwner, connections: Collection[Connection]
) -> None:
    """
    Cancels pending handlers and closes connections; unsent bytes are sent within the
    time limit. Cancelling this coroutine closes the connections at once.

    Args:
        owner: their owner.
        connections: all open ones.
    """
    for connection in connections:
        connection.close()
    for task in owner.running:
        task.cancel()
    loop = asyncio.get_running_loop()
    ends = [loop.create_task(one.wait_closed()) for one in connections]
    try:
        if ends or owner.running:
            limit_s = owner.limits.close_timeout_ms / 1000
            await asyncio.wait([*ends, *owner.running], timeout=limit_s)
    finally:
        for connection in connections:
            connection.abort()
    await asyncio.gather(*ends)
    if owner.running:
        count = len(owner.running)
        name = "handler was" if count == 1 else "handlers were"
        owner.say(f"{count} request {name} abandoned after the time limit")
