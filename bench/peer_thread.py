"""
A peer of a controller that asks it repeatedly, in a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from pystore.net.tls import ClientTls
from pystore.remoting.client import RemotingClient

__all__ = ["LEADS_S", "peer_thread"]

LEADS_S = 60.0
"""How long a controller may take until it leads."""

Ask = Callable[[RemotingClient], Awaitable[object]]


@contextmanager
def peer_thread(
    begin: Ask, repeat: Ask, tls: ClientTls | None = None
) -> Iterator[None]:
    """
    Asks as long as the block runs.

    Args:
        begin: called once, before the block.
        repeat: called again and again.
        tls: of the connections; ``None``: plain bytes.

    Raises:
        BaseException: that of one of the two.
    """
    over, begun = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    async def run() -> None:
        async with RemotingClient(tls=tls) as client:
            await begin(client)
            begun.set()
            while not over.is_set():
                await repeat(client)

    def work() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            # Any error: the thread of the bench raises it.
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert begun.wait(2 * LEADS_S), errors
        yield
    finally:
        over.set()
        thread.join()
    if errors:
        raise errors[0]
