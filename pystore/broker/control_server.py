"""
The server of the control socket.

The event loop reads frames and writes answers; a request is carried out in a thread of
a pool of its own, which has a thread for each connection that may be open. So a request
that waits for replicas delays no other. Frames are read only while there is room for
their bytes, and half a frame has one deadline.

Source: docs/operations.md, *The control socket*.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pystore.broker.control_protocol import (
    HEAD_BYTES,
    ControlCode,
    ControlError,
    ControlLimits,
    content_size,
    encode_frame,
    refusal,
)
from pystore.broker.control_socket import ControlSocket
from pystore.errors import RemoteViolation

__all__ = ["ControlServer"]


class _ByteBudget:
    """
    The bytes of requests under way. A short request passes a long one that waits. One
    event loop.
    """

    def __init__(self, size: int) -> None:
        self._left = size
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def take(self, size: int) -> None:
        """
        Waits until there is room.
        """
        if size <= self._left:
            self._left -= size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            # The deadline, or the end; perhaps its turn had just come.
            if not turn.cancelled():
                self.give_back(size)
            raise

    def give_back(self, size: int) -> None:
        """
        Makes room for others.
        """
        self._left += size
        waiting, self._waiting = self._waiting, []
        for wanted, turn in waiting:
            if turn.done():
                continue  # cancelled
            if wanted <= self._left:
                self._left -= wanted
                turn.set_result(None)
            else:
                self._waiting.append((wanted, turn))


class _Peer:
    """
    One connection.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.task = asyncio.current_task()
        self.is_idle = True


class ControlServer:
    """
    Serves the control socket from `start` to `close`. One event loop.

    Args:
        path: of the socket.
        answer: carries out the content of a frame and returns that of the answer; in
            any thread.
        limits: of memory and time.
    """

    def __init__(
        self,
        path: Path,
        answer: Callable[[bytes], bytes],
        limits: ControlLimits | None = None,
    ) -> None:
        self._path = path
        self._answer = answer
        self._limits = limits or ControlLimits()
        # The order is that of the last requests: the first one is idle the longest.
        self._peers: dict[_Peer, None] = {}
        self._budget = _ByteBudget(self._limits.bytes_max)
        self._threads = ThreadPoolExecutor(
            self._limits.connections_max, "pystore-control"
        )
        self._socket: ControlSocket | None = None
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """
        Listens.

        Raises:
            PystoreError: as `ControlSocket`.
        """
        self._socket = ControlSocket(self._path)
        try:
            self._server = await asyncio.start_unix_server(
                self._serve, sock=self._socket.listener
            )
        except BaseException:
            # Any error: the file is removed.
            self._socket.close()
            raise

    async def close(self) -> None:
        """
        Removes the file, and closes all connections. Idempotent.
        """
        if self._server is not None:
            self._server.close()
        if self._socket is not None:
            self._socket.close()
        tasks = [one.task for one in self._peers if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._socket = self._server = None

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        peer = _Peer(writer)
        # `drain` waits until the peer has all of an answer.
        writer.transport.set_write_buffer_limits(0)
        try:
            if not self._has_room():
                text = f"{len(self._peers)} connections are open, each with a request"
                await self._refuse(peer, ControlCode.BUSY, text)
                return
            self._peers[peer] = None
            while await self._serve_one(peer, reader) and peer in self._peers:
                # The newest one now.
                del self._peers[peer]
                self._peers[peer] = None
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            # The peer has gone, or is too slow.
            return
        except asyncio.CancelledError:
            # The server closes. asyncio reports a handler that ends as cancelled.
            return
        finally:
            self._peers.pop(peer, None)
            # All answers were sent, or the peer does not read them.
            writer.transport.abort()

    def _has_room(self) -> bool:
        """
        Whether one more connection has a place; if need be, an idle one is closed.
        """
        if len(self._peers) < self._limits.connections_max:
            return True
        idle = next((one for one in self._peers if one.is_idle), None)
        if idle is None:
            return False
        del self._peers[idle]
        idle.writer.transport.abort()
        return True

    async def _serve_one(self, peer: _Peer, reader: asyncio.StreamReader) -> bool:
        """
        Serves one request; returns whether the connection goes on.
        """
        first = await reader.read(1)
        if not first:
            return False
        peer.is_idle = False
        wanted = held = 0
        try:
            async with asyncio.timeout(self._limits.frame_timeout_ms / 1000):
                head = first + await reader.readexactly(HEAD_BYTES - 1)
                wanted = content_size(head, self._limits.frame_bytes_max)
                await self._budget.take(wanted)
                held = wanted
                content = await reader.readexactly(wanted)
        except (RemoteViolation, TimeoutError) as error:
            # A wrong size, half a frame, or no room for its bytes. Where the next
            # frame would begin is not known.
            self._budget.give_back(held)
            if isinstance(error, RemoteViolation):
                await self._refuse(peer, ControlCode.BAD_REQUEST, str(error))
            elif wanted and not held:
                text = f"no room for a request of {wanted} bytes beside the others"
                await self._refuse(peer, ControlCode.BUSY, text)
            return False
        except BaseException:
            # The peer has gone, or the server closes.
            self._budget.give_back(held)
            raise
        try:
            loop = asyncio.get_running_loop()
            answer = await loop.run_in_executor(self._threads, self._answer, content)
            await self._send(peer, answer)
        finally:
            self._budget.give_back(held)
        peer.is_idle = True
        return True

    async def _refuse(self, peer: _Peer, code: ControlCode, text: str) -> None:
        await self._send(peer, refusal(ControlError(code, text)))

    async def _send(self, peer: _Peer, answer: bytes) -> None:
        async with asyncio.timeout(self._limits.send_timeout_ms / 1000):
            peer.writer.write(encode_frame(answer))
            await peer.writer.drain()
