"""
The limit of a controller's heartbeats: a protocol of asyncio that decodes nothing, and
answers all that it reads with the same bytes.

Usage: bare_server.py; then it executes commands (`child.py`).
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import cast

from child import serve

from pystore.controller.protocol.extensions import LeaseGrant, lease_fields
from pystore.remoting.command import RemotingCommand
from pystore.remoting.framing import encode_frame
from pystore.remoting.reply import Reply

__all__: list[str] = []

_ANSWER = encode_frame(
    Reply(ext_fields=lease_fields(LeaseGrant(epoch=1))).to(RemotingCommand(904))
)
"""What a controller answers to a broker without a lease."""


class _Bare(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:  # noqa: ARG002
        self._transport.write(_ANSWER)


def main() -> None:
    """
    Serves from an event loop in a thread of its own.
    """
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    served = loop.create_server(_Bare, "127.0.0.1", 0, backlog=1024)
    server = asyncio.run_coroutine_threadsafe(served, loop).result()
    host, port = server.sockets[0].getsockname()
    serve({"address": lambda: f"{host}:{port}", "pid": os.getpid})


if __name__ == "__main__":
    main()
