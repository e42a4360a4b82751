"""
Many strangers in one process, each on a connection of its own to one controller. A
stranger whose connection is closed connects again.

Usage: strangers_child.py HOST:PORT COUNT; then it executes commands (`child.py`).
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count, cycle
from typing import cast

from child import serve

from pystore.controller.protocol.calls import (
    Call,
    GetNextBrokerId,
    GetReplicaInfo,
    RegisterBroker,
    SendHeartbeat,
)
from pystore.controller.protocol.client_codec import command_of
from pystore.remoting.framing import encode_frame

__all__ = ["Strangers"]

_NICE = 10
_TICK_S = 0.01
_RATE = 1000  # connections, or requests, in a second
_CONNECTING = 200
_HEAD = struct.Struct(">iI")
_HALF_BYTES = 64 << 10
_LARGE_BYTES = 15_000_000
_PIECE_BYTES = 1 << 20


class _Stranger(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.transport = None


def _named() -> Iterator[bytes]:
    """
    Requests that name a set each, which nobody knows.
    """
    for number in count():
        name, address = f"stranger-{number}", f"127.0.0.1:{number % 50_000 + 1}"
        requests: tuple[Call, ...] = (
            SendHeartbeat("cluster", name, 1, address, 0, 0, 0),
            GetReplicaInfo(name),
            GetNextBrokerId("cluster", name),
            RegisterBroker("cluster", name, 1, address),
        )
        command = command_of(requests[number % len(requests)], 0)
        yield encode_frame(replace(command, opaque=number))


_BYTES: dict[str, Callable[[], Iterator[bytes]]] = {
    "connections": lambda: cycle([b""]),
    "names": _named,
    # A frame of twice the bytes that are sent.
    "half frames": lambda: cycle(
        [_HEAD.pack(2 * _HALF_BYTES, 100) + bytes(_HALF_BYTES)]
    ),
    "large requests": lambda: cycle(
        [_HEAD.pack(_LARGE_BYTES, 100) + bytes(_PIECE_BYTES)]
    ),
}


class Strangers:
    """
    The strangers, in an event loop of their own.

    Args:
        address: of the controller.
        count: how many.
    """

    def __init__(self, address: str, count: int) -> None:
        host, _, port = address.rpartition(":")
        self._place = host, int(port)
        self._strangers = [_Stranger() for _ in range(count)]
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def visit(self, kind: str, seconds: float) -> int:
        """
        The strangers do this for so long, each in its turn, and leave. Returns how many
        times one connected or sent.

        Args:
            kind: ``connections``, ``names``, ``half frames`` or ``large requests``.
            seconds: how long.
        """
        doing = self._visit(_BYTES[kind](), seconds, once=kind == "half frames")
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result()

    async def _visit(self, sent: Iterator[bytes], seconds: float, *, once: bool) -> int:
        limit = asyncio.Semaphore(_CONNECTING)
        began_s, done, total = self._loop.time(), 0, len(self._strangers)
        full: set[_Stranger] = set()

        async def turn(one: _Stranger, data: bytes) -> None:
            async with limit:
                if one.transport is None:
                    full.discard(one)
                    with suppress(OSError):  # refused: it comes again
                        await self._loop.create_connection(lambda: one, *self._place)
            if one.transport is not None and one not in full:
                one.transport.write(data)
                if once:
                    full.add(one)

        tasks: set[asyncio.Task[None]] = set()
        while (now_s := self._loop.time() - began_s) < seconds:
            rate = max(_RATE, 2 * total / seconds)
            while done < now_s * rate and len(tasks) < 2 * _CONNECTING:
                task = self._loop.create_task(
                    turn(self._strangers[done % total], next(sent))
                )
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                done += 1
            await asyncio.sleep(_TICK_S)
        await asyncio.gather(*tasks)
        for one in self._strangers:
            if one.transport is not None:
                one.transport.abort()
        while any(one.transport for one in self._strangers):
            await asyncio.sleep(_TICK_S)
        return done


def main() -> None:
    """
    Executes commands.
    """
    address, total = sys.argv[1:]
    # Strangers have machines of their own.
    os.nice(_NICE)
    strangers = Strangers(address, int(total))
    serve({"visit": strangers.visit})


if __name__ == "__main__":
    main()
