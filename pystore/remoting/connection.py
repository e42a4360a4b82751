"""
One connection, of a server or of a client: both sides may ask and answer.

Requests of a peer are carried out at once and answered in any order; who does not
read our answers is not read from either, and is closed if it goes on. What a peer
sends that is no frame closes the connection: nobody knows where the next one begins.

All calls come from the event loop; its clock is the only one.

Source: formats 3.1, 3.6, client protocol 0; docs/remoting.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

from pystore.errors import InvalidError, RemoteViolation
from pystore.remoting.codes import VERSION, CommandFlag, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.dispatch import Handling, begin, finish
from pystore.remoting.errors import NoAnswer, NotSent
from pystore.remoting.framing import CommandReader, encode_frame
from pystore.remoting.limits import RemotingLimits
from pystore.remoting.reply import Reply, failure_reply, unknown_code_reply

__all__ = ["Connection", "ConnectionOwner", "Handler"]

_OPAQUE_MASK = (1 << 31) - 1
_RECEIVED_BYTES_MAX = 256 << 10

Handler = Callable[[RemotingCommand, "Connection"], Reply | Handling]
"""Answers a request: at once if it is a plain function; one-way, it answers nobody."""


@dataclass(frozen=True, slots=True)
class ConnectionOwner:
    """
    What all connections of a server or a client have in common.

    Attributes:
        handlers: by request code.
        limits: what is borne.
        say: one line for people, about a connection that went wrong.
        opened: is told of a connection before anything is read from it.
        closed: is told of it once, whoever closed it.
        running: the handlers at work.
        received: where bytes arrive: the loop reads from one connection at a time.
    """

    handlers: Mapping[int, Handler]
    limits: RemotingLimits
    say: Callable[[str], object] = bool
    opened: Callable[[Connection], object] = bool
    closed: Callable[[Connection], object] = bool
    running: set[asyncio.Task[None]] = field(default_factory=set)
    received: memoryview = field(
        default_factory=lambda: memoryview(bytearray(_RECEIVED_BYTES_MAX))
    )


class Connection(asyncio.BufferedProtocol):
    """
    A connection, made by `asyncio`.

    Args:
        side: whose it is.

    Attributes:
        peer: the other's address, for people.
    """

    def __init__(self, side: ConnectionOwner) -> None:
        self._side = side
        self._loop = asyncio.get_running_loop()
        limits = side.limits
        self._reader = CommandReader(limits.frame_bytes_max, limits.header_bytes_max)
        self._calls: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._next_opaque = 0
        self._in_flight = 0
        self._active_at = self._loop.time()
        self._writable = asyncio.Event()
        self._writable.set()
        self._gone = asyncio.Event()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._unsent = 0
        self._is_retired = False
        self.peer = "a peer that has gone"

    @property
    def is_closed(self) -> bool:
        """
        Whether nothing can be said any more.
        """
        return self._gone.is_set() or self._transport.is_closing()

    @property
    def descriptor(self) -> int:
        """
        The number of its open file; -1: it has none any more.
        """
        return cast("int", self._transport.get_extra_info("socket").fileno())

    @property
    def may_send(self) -> bool:
        """
        Whether the peer takes what is said; otherwise calls wait.
        """
        return self._writable.is_set()

    # -- asyncio's calls -----------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """
        The connection stands.
        """
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(self._side.limits.write_bytes_max)
        name = transport.get_extra_info("peername")
        if name:
            host, port = name[:2]
            self.peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._arm("idle", self._side.limits.idle_timeout_ms, self._check_idle)
        self._side.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """
        Bytes will come, into one buffer for all: one of this size for each time that
        something comes would cost more than a heartbeat does.
        """
        return self._side.received

    def buffer_updated(self, nbytes: int) -> None:
        """
        Bytes came.
        """
        self._reader.feed(self._side.received[:nbytes])
        self._read()

    def pause_writing(self) -> None:
        """
        The peer takes less than we say.
        """
        self._writable.clear()
        self._unsent = self._transport.get_write_buffer_size()
        self._arm("send", self._side.limits.send_timeout_ms, self._check_sending)

    def resume_writing(self) -> None:
        """
        The peer has caught up.
        """
        self._disarm("send")
        self._writable.set()
        self._read()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """
        It is over. Handlers at work end in peace; nobody hears their answers.
        """
        self._gone.set()
        self._writable.set()
        for name in list(self._timers):
            self._disarm(name)
        for call in self._calls.values():
            if not call.done():
                call.set_exception(
                    NoAnswer(f"{self.peer} closed the connection without an answer")
                )
        self._side.closed(self)

    # -- what the peer asks --------------------------------------------------

    def _read(self) -> None:
        try:
            for _ in range(self._side.limits.requests_max):
                if self.is_closed or not self._may_read():
                    break
                command = self._reader.take()
                if command is None:
                    self._transport.resume_reading()
                    return
                self._active_at = self._loop.time()
                self._dispatch(command)
            else:
                # Now it is the others' turn.
                self._loop.call_soon(self._read)
        except RemoteViolation as violation:
            # Nothing behind it can be read.
            self._side.say(f"{self.peer} is closed: it sent {violation}")
            self._transport.abort()
            return
        if not self.is_closed:
            self._transport.pause_reading()

    def _may_read(self) -> bool:
        return (
            self._in_flight < self._side.limits.requests_max and self._writable.is_set()
        )

    def _dispatch(self, command: RemotingCommand) -> None:
        if command.is_response:
            call = self._calls.get(command.opaque)
            if call is not None and not call.done():
                call.set_result(command)
            return
        handler = self._side.handlers.get(command.code)
        if handler is None:
            self._answer(command, unknown_code_reply(command.code))
        elif len(self._side.running) >= self._side.limits.running_max:
            self._answer(
                command, Reply(ResponseCode.SYSTEM_BUSY, "too many requests at once")
            )
        else:
            self._carry_out(handler, command)

    def _carry_out(self, handler: Handler, request: RemotingCommand) -> None:
        found = begin(handler, request, self, self._say)
        if isinstance(found, Reply):
            self._answer(request, found)
            return
        self._in_flight += 1
        task = self._loop.create_task(self._serve(found, request))
        self._side.running.add(task)
        task.add_done_callback(partial(self._served, found))

    async def _serve(self, handling: Handling, request: RemotingCommand) -> None:
        timeout_ms = self._side.limits.request_timeout_ms
        reply = await finish(handling, request, timeout_ms, self._say)
        while not self._writable.is_set():
            await self._writable.wait()
        self._answer(request, reply)

    def _served(self, handling: Handling, task: asyncio.Task[None]) -> None:
        # It was never begun, if the task was cancelled before.
        handling.close()
        self._side.running.discard(task)
        self._in_flight -= 1
        if not self.is_closed:
            self._read()

    def _say(self, line: str) -> None:
        self._side.say(f"{self.peer}, {line}")

    def _answer(self, request: RemotingCommand, reply: Reply) -> None:
        if request.is_one_way or self.is_closed:
            return
        try:
            frame = encode_frame(reply.to(request), self._side.limits.frame_bytes_max)
        except InvalidError as error:
            # Too long, or not Unicode: our mistake, which the peer waits for.
            frame = encode_frame(failure_reply(error).to(request))
        self._write(frame)

    # -- what we ask ---------------------------------------------------------

    async def call(self, request: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """
        Asks the peer and waits for its answer, which may be a refusal.

        Args:
            request: its opaque and flag are chosen here.
            timeout_ms: for all of it.

        Raises:
            NotSent: the connection is closed, too many calls wait, or the peer takes
                nothing.
            NoAnswer: in that time, or before the connection ended.
            InvalidError: a request that no frame holds.
        """
        if len(self._calls) >= self._side.limits.calls_max:
            raise NotSent(f"{len(self._calls)} requests wait for {self.peer} already")
        opaque = self._opaque()
        frame = self._request_frame(request, opaque, CommandFlag(0))
        answer: asyncio.Future[RemotingCommand] = self._loop.create_future()
        self._calls[opaque] = answer
        deadline = self._loop.time() + timeout_ms / 1000
        try:
            await self._send(frame, deadline)
            async with asyncio.timeout_at(deadline):
                return await answer
        except TimeoutError as error:
            # Of ours: `_send` tells its own.
            raise NoAnswer(
                f"{self.peer} did not answer request {request.code} in {timeout_ms} ms"
            ) from error
        finally:
            del self._calls[opaque]
            if not answer.cancel() and not answer.cancelled():
                # Looked at, lest asyncio takes it for forgotten.
                answer.exception()
            if self._is_retired and not self._calls:
                self.close()

    async def send(self, request: RemotingCommand, timeout_ms: int) -> None:
        """
        Says something that nobody answers.

        Args:
            request: its opaque and flag are chosen here.
            timeout_ms: how long the peer may take nothing.

        Raises:
            NotSent: the connection is closed, or the peer takes nothing.
            InvalidError: a request that no frame holds.
        """
        frame = self._request_frame(request, self._opaque(), CommandFlag.ONE_WAY)
        await self._send(frame, self._loop.time() + timeout_ms / 1000)

    def _opaque(self) -> int:
        while True:
            opaque = self._next_opaque
            self._next_opaque = (opaque + 1) & _OPAQUE_MASK
            if opaque not in self._calls:
                return opaque

    def _request_frame(
        self, request: RemotingCommand, opaque: int, flag: CommandFlag
    ) -> bytes:
        command = replace(request, opaque=opaque, flag=flag, version=VERSION)
        return encode_frame(command, self._side.limits.frame_bytes_max)

    async def _send(self, frame: bytes, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                while not self._writable.is_set():
                    await self._writable.wait()
        except TimeoutError as error:
            # The peer reads nothing: what we would say waits behind the rest.
            raise NotSent(f"{self.peer} takes no bytes") from error
        if self.is_closed:
            raise NotSent(f"the connection to {self.peer} is closed")
        self._write(frame)

    def _write(self, frame: bytes) -> None:
        self._active_at = self._loop.time()
        self._transport.write(frame)

    # -- the end -------------------------------------------------------------

    def close(self) -> None:
        """
        Ends the connection when what was said has gone; again is fine.
        """
        if not self._gone.is_set():
            self._transport.close()
            self._unsent = self._transport.get_write_buffer_size()
            self._arm("send", self._side.limits.send_timeout_ms, self._check_sending)

    def retire(self) -> None:
        """
        Ends the connection when all that wait for an answer have one, or gave up.
        """
        self._is_retired = True
        if not self._calls:
            self.close()

    def abort(self) -> None:
        """
        Ends the connection now; again is fine.
        """
        if not self._gone.is_set():
            self._transport.abort()

    async def wait_closed(self) -> None:
        """
        Waits until it is over: after `close` as long as the peer takes bytes, after
        `abort` a moment.
        """
        await self._gone.wait()

    def _arm(self, name: str, after_ms: float, check: Callable[[], None]) -> None:
        self._disarm(name)
        self._timers[name] = self._loop.call_later(after_ms / 1000, check)

    def _disarm(self, name: str) -> None:
        if name in self._timers:
            self._timers.pop(name).cancel()

    def _check_idle(self) -> None:
        timeout_ms = self._side.limits.idle_timeout_ms
        idle_ms = (self._loop.time() - self._active_at) * 1000
        if idle_ms < timeout_ms:
            self._arm("idle", timeout_ms - idle_ms, self._check_idle)
        elif self._calls or self._in_flight:
            self._arm("idle", timeout_ms, self._check_idle)
        else:
            self.close()

    def _check_sending(self) -> None:
        unsent = self._transport.get_write_buffer_size()
        if unsent < self._unsent:
            self._unsent = unsent
            self._arm("send", self._side.limits.send_timeout_ms, self._check_sending)
            return
        self._side.say(f"{self.peer} is closed: it takes no bytes any more")
        self._transport.abort()
