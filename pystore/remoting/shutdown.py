"""
How a server or a client lets go of everything, in bounded time.

Source: docs/remoting.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from pystore.remoting.connection import Connection, ConnectionOwner

__all__ = ["let_go"]


async def let_go(side: ConnectionOwner, connections: Collection[Connection]) -> None:
    """
    Cancels the handlers at work and closes connections: what was said may still go
    out, for as long as the limits say. Who cancels this ends the connections at once.

    Args:
        side: whose they are.
        connections: all that are open.
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
        name = "request is" if count == 1 else "requests are"
        side.say(f"{count} {name} still at work, and left behind")
