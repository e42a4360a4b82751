"""
A name server of pystore, in a thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pystore.nameserver.service import name_server
from pystore.remoting.server import RemotingServer

__all__ = ["serving"]

CLOSED_S = 60


@contextmanager
def serving() -> Iterator[int]:
    """
    Runs the name server on a separate event loop; yields its port.
    """
    loop = asyncio.new_event_loop()
    ours = name_server(lambda: int(loop.time() * 1000))
    server = RemotingServer(ours.handlers, closed=ours.closed)
    port = loop.run_until_complete(server.start())[1]
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield port
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(CLOSED_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
