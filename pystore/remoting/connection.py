"""
One connection of a server or a client: both sides may send requests.

Requests of a peer are carried out concurrently and answered in any order. Those whose
handler waits for nothing, as for heartbeats, are answered at once, however many others
are pending. A connection stops reading from a peer that does not read its answers, and
closes if that lasts.
Bytes that are not a frame close the connection, because the start of the next frame is
unknown.

All calls come from the event loop; its clock is the only one.

Source: formats 3.1, 3.6, client protocol 0; docs/remoting.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from mmap import mmap
from typing import cast

from pystore.errors import InvalidError, RemoteViolation
from pystore.net.service_loop import ServiceLoop
from pystore.remoting.admission import Admission, OpenAdmission, Signs, unsigned
from pystore.remoting.backlog import Backlog
from pystore.remoting.binding import RequestBinding
from pystore.remoting.codes import VERSION, CommandFlag, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.dispatch import Handling, begin, finish
from pystore.remoting.errors import NoAnswer, NotSent
from pystore.remoting.framing import CommandReader, encode_frame
from pystore.remoting.limits import RemotingLimits
from pystore.remoting.line_rate import LineRate
from pystore.remoting.pending_calls import PendingCalls
from pystore.remoting.prepared_reply import PreparedReply
from pystore.remoting.repeated_request import RequestForm
from pystore.remoting.reply import Reply, failure_reply, unknown_code_reply
from pystore.remoting.unread import UnreadBytes

__all__ = ["Connection", "ConnectionOwner", "Handler", "Repeats"]

_RECEIVED_BYTES_MAX = 256 << 10
_BEGIN_BYTES_MAX = 16 << 10
"""Read at the begin of a frame, before its length is checked: most frames are shorter,
and of a frame that is too long no more is copied."""

Handler = Callable[[RemotingCommand, "Connection"], Reply | Handling]
"""Answers a request; a plain function answers at once. One-way: no reply is sent."""

Repeats = Callable[[Sequence[int]], PreparedReply | None]
"""Answers a request that differs from an earlier one in numbers only: the opaque
number, and those of some fields. ``None``: the handler has to answer it."""


@dataclass(frozen=True, slots=True)
class ConnectionOwner:
    """
    What all connections of a server or a client share.

    Attributes:
        handlers: by request code.
        limits: of memory and time.
        say: receives one line for people about each failed connection.
        opened: called with a connection before the first read.
        closed: called with it once, whichever side closed it.
        admission: decides over each received request, before its handler.
        signs: called with each request before it is sent.
        running: the pending handlers.
        received: the receive buffer: the loop reads from one connection at a time.
        begin: a part of it, for the begin of a frame.
        backlog: those with more commands than they may have carried out at once.
        unread: the bytes of incomplete requests.
        violations: the lines about bytes that are no frame.
    """

    handlers: Mapping[int, Handler]
    limits: RemotingLimits
    say: Callable[[str], object] = bool
    opened: Callable[[Connection], object] = bool
    closed: Callable[[Connection], object] = bool
    admission: Admission[Connection] = field(default_factory=OpenAdmission)
    signs: Signs[Connection] = unsigned
    running: set[asyncio.Task[None]] = field(default_factory=set)
    received: memoryview = field(
        # It takes no memory before the first read: a question may be refused.
        default_factory=lambda: memoryview(mmap(-1, _RECEIVED_BYTES_MAX))
    )
    begin: memoryview = field(init=False)
    backlog: Backlog[Connection] = field(init=False)
    unread: UnreadBytes[Connection] = field(init=False)
    violations: LineRate = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "violations", LineRate(self.say))
        object.__setattr__(self, "backlog", Backlog[Connection](Connection.read_more))
        object.__setattr__(self, "begin", self.received[:_BEGIN_BYTES_MAX])
        limits = self.limits
        count = max(limits.unread_bytes_max, 2 * limits.received_bytes_max)
        object.__setattr__(self, "unread", UnreadBytes(count))


def _size(request: RemotingCommand) -> int:
    """
    Returns about how many bytes a decoded request takes.
    """
    fields = sum(len(name) + len(text) for name, text in request.ext_fields.items())
    return len(request.body) + len(request.remark or "") + fields


class Connection(asyncio.BufferedProtocol):
    """
    A connection as a protocol of `asyncio`.

    Args:
        owner: its owner.

    Attributes:
        peer: the address of the peer, for people.
        host: the same without the port.
        binding: of the signed requests that this connection takes or sends; ``None``:
            its peer has asked for none, or knows none.
    """

    def __init__(self, owner: ConnectionOwner) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        limits = owner.limits
        self._reader = CommandReader(limits.received_bytes_max, limits.header_bytes_max)
        self._calls = PendingCalls()
        self._in_flight = 0
        # Of the peer, not to run yet; an empty deque takes ten times the memory.
        self._waiting: list[tuple[Handling, RemotingCommand]] = []
        self._waiting_bytes = 0
        self._active_at = self._loop.time()
        self._writable = asyncio.Event()
        self._writable.set()
        # `wait_closed` makes an event: thousands of connections have none.
        self._is_ended = False
        self._end: asyncio.Event | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._unsent = 0
        self._is_retired = False
        self._is_unread = self._is_known = False
        self._dispatched = 0
        self._repeated: tuple[RequestForm, Repeats, bool] | None = None
        self._learnt: tuple[RemotingCommand, Sequence[str], Repeats] | None = None
        # Since the last request that fitted a form.
        self._unfit = 0
        self.peer = self.host = "a disconnected peer"
        self.binding: RequestBinding | None = None

    @property
    def is_closed(self) -> bool:
        """
        Whether nothing can be sent any more.
        """
        return self._is_ended or self._transport.is_closing()

    @property
    def descriptor(self) -> int:
        """
        The file descriptor of its socket; -1: it is closed.
        """
        return cast("int", self._transport.get_extra_info("socket").fileno())

    @property
    def may_send(self) -> bool:
        """
        Whether the peer accepts bytes; otherwise calls wait.
        """
        return self._writable.is_set()

    def prefer(self) -> None:
        """
        Reads from this peer before others that are not preferred: it is known. In the
        loop of a service, and until the next pause in reading. Idempotent.
        """
        self._is_known = True
        if isinstance(self._loop, ServiceLoop) and not self.is_closed:
            self._loop.prefer(self.descriptor)

    # -- asyncio's calls -----------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """
        Sets the connection up.
        """
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(self._owner.limits.write_bytes_max)
        name = transport.get_extra_info("peername")
        if name:
            host, port = name[:2]
            self.host = host
            self.peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._arm("idle", self._owner.limits.idle_timeout_ms, self._check_idle)
        self._owner.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """
        Returns the shared receive buffer: a new buffer for each read would cost more
        than the heartbeat in it.
        """
        return self._owner.received if self._reader.held else self._owner.begin

    def buffer_updated(self, nbytes: int) -> None:
        """
        Handles received bytes.
        """
        received = self._owner.received[:nbytes]
        is_begin = not self._reader.held
        if self._repeated is not None and is_begin and self._repeats(bytes(received)):
            return
        self._learnt = None
        self._reader.feed(received)
        self.read_more()
        if is_begin:
            self._learn(received)

    def pause_writing(self) -> None:
        """
        Stops reading from a peer that reads too little.
        """
        self._writable.clear()
        self._unsent = self._transport.get_write_buffer_size()
        self._arm("send", self._owner.limits.send_timeout_ms, self._check_sending)

    def resume_writing(self) -> None:
        """
        Resumes reading.
        """
        self._disarm("send")
        self._writable.set()
        self.read_more()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """
        Handles the end of the connection. Pending handlers run to their end; their
        answers are dropped.
        """
        self._is_ended = True
        if self._end is not None:
            self._end.set()
        self._writable.set()
        self._owner.unread.note(self, 0)
        self._reader.drop()
        self._repeated = self._learnt = None
        # The transport of asyncio refers to itself by this method. Without it a closed
        # connection is freed at once, and not by the next collection: of thousands of
        # strangers there would be many, each as long as all connections are many.
        getattr(self._transport, "__dict__", {}).pop("_read_ready_cb", None)
        for name in list(self._timers):
            self._disarm(name)
        for waited, _ in self._waiting:
            waited.close()
        self._waiting.clear()
        self._calls.fail(f"{self.peer} closed the connection without an answer")
        self._owner.closed(self)

    # -- repeated requests of the peer -------------------------------------------

    def expect_repeats(
        self, request: RemotingCommand, names: Sequence[str], answer: Repeats
    ) -> None:
        """
        Called by a handler for its request: the next ones that differ only in their
        numbers go to `answer` instead, without being decoded. A connection has one such
        form of a request, the last one that was made.

        Args:
            request: of the handler.
            names: of the fields whose numbers differ.
            answer: receives the opaque number, and those of the names in their order.
        """
        count, self._unfit = self._unfit, self._unfit + 1
        if not count & count - 1:
            # At the powers of two: requests that never repeat cost no forms.
            self._learnt = request, names, answer

    def _learn(self, received: memoryview) -> None:
        if self._learnt is None:
            return
        request, names, answer = self._learnt
        # Of a read of several requests, or of a part of one, there is no form.
        form = RequestForm.of(bytes(received), request, names)
        if form is not None:
            self._repeated = form, answer, request.is_one_way

    def _repeats(self, frame: bytes) -> bool:
        """
        Answers a repeated request; returns whether it is one.
        """
        assert self._repeated
        form, answer, is_one_way = self._repeated
        repeat = form.read(frame)
        if repeat is None or not self._writable.is_set():
            return False
        if not self._owner.admission.admits_repeat(repeat, self):
            return False
        try:
            reply = answer(repeat.numbers)
        except Exception:
            # The handler meets the same error, and its peer is told.
            return False
        if reply is None:
            return False
        if self.binding is not None and repeat.sequence is not None:
            self.binding.take_number(repeat.sequence)
        self._unfit = 0
        self._active_at = self._loop.time()
        if not is_one_way:
            self._transport.write(reply.frame(repeat.numbers[0]))
        return True

    # -- requests of the peer --------------------------------------------------

    def read_more(self) -> None:
        """
        Carries out the next commands that were received, in its turn (`Backlog`).
        """
        count = self._dispatched
        self._read_requests()
        if self._reader.held or self._is_unread:
            self._note_unread(is_next=self._dispatched != count)

    def _note_unread(self, *, is_next: bool) -> None:
        held, unread = self._reader.held, self._owner.unread
        if self.is_closed:
            held = 0
        self._is_unread = held > 0
        if is_next:
            # The request before it is complete.
            unread.note(self, 0)
        unread.note(self, held)
        while (one := unread.excess()) is not None:
            unread.note(one, 0)
            unread.closed += 1
            if not unread.closed & unread.closed - 1:
                # At the powers of two: a flood of them fills no log.
                self._owner.say(
                    f"connection to {one.peer} closed: the incomplete requests of all "
                    "peers take too much memory, and its request began first; "
                    f"{unread.closed} were closed so"
                )
            one.abort()
            # The object may live on for a while.
            one._reader.drop()

    def _read_requests(self) -> None:
        try:
            for _ in range(self._owner.limits.row_max):
                if self.is_closed or not self._may_read():
                    break
                command = self._reader.take()
                if command is None:
                    self._transport.resume_reading()
                    return
                self._dispatched += 1
                self._active_at = self._loop.time()
                self._dispatch(command)
            else:
                # Other connections have their turn now.
                self._read_later()
        except RemoteViolation as violation:
            # The rest of the stream cannot be decoded.
            line = f"connection to {self.peer} closed: it sent {violation}"
            self._owner.violations.say(line, self._loop.time())
            self._transport.abort()
            return
        if not self.is_closed:
            self._transport.pause_reading()

    def _read_later(self) -> None:
        self._owner.backlog.add(self, self._loop.call_soon, is_known=self._is_known)

    def _may_read(self) -> bool:
        limits = self._owner.limits
        return (
            len(self._waiting) < limits.waiting_max
            and self._waiting_bytes < limits.waiting_bytes_max
            and self._writable.is_set()
        )

    def _dispatch(self, command: RemotingCommand) -> None:
        if command.is_response:
            self._calls.take(command)
            return
        admitted = self._owner.admission.admit(command, self)
        if isinstance(admitted, Reply):
            self._answer(command, admitted)
            return
        handler = self._owner.handlers.get(command.code)
        if handler is None:
            self._answer(command, unknown_code_reply(command.code))
        else:
            self._carry_out(handler, admitted)

    def _carry_out(self, handler: Handler, request: RemotingCommand) -> None:
        found = begin(handler, request, self, self._say)
        if isinstance(found, Reply):
            # A heartbeat, above all: it neither counts nor waits.
            self._answer(request, found)
        elif self._in_flight < self._owner.limits.requests_max:
            self._start(found, request)
        else:
            self._waiting.append((found, request))
            self._waiting_bytes += _size(request)

    def _start(self, found: Handling, request: RemotingCommand) -> None:
        if len(self._owner.running) >= self._owner.limits.running_max:
            found.close()
            self._answer(
                request, Reply(ResponseCode.SYSTEM_BUSY, "too many requests at once")
            )
            return
        self._in_flight += 1
        task = self._loop.create_task(self._serve(found, request))
        self._owner.running.add(task)
        task.add_done_callback(partial(self._served, found))

    async def _serve(self, handling: Handling, request: RemotingCommand) -> None:
        timeout_ms = self._owner.limits.request_timeout_ms
        reply = await finish(handling, request, timeout_ms, self._say)
        while not self._writable.is_set():
            await self._writable.wait()
        self._answer(request, reply)

    def _served(self, handling: Handling, task: asyncio.Task[None]) -> None:
        # The coroutine never started if the task was cancelled before.
        handling.close()
        self._owner.running.discard(task)
        self._in_flight -= 1
        if self.is_closed:
            return
        while self._waiting and self._in_flight < self._owner.limits.requests_max:
            waited, request = self._waiting.pop(0)
            self._waiting_bytes -= _size(request)
            self._start(waited, request)
        if self._reader.held:
            self._read_later()
        else:
            self.read_more()
        self._close_if_retired()

    def _say(self, line: str) -> None:
        self._owner.say(f"{self.peer}, {line}")

    def _answer(self, request: RemotingCommand, reply: Reply) -> None:
        if request.is_one_way or self.is_closed:
            return
        if isinstance(reply, PreparedReply):
            self._write(reply.frame(request.opaque))
            return
        try:
            frame = encode_frame(reply.to(request), self._owner.limits.frame_bytes_max)
        except InvalidError as error:
            # Our reply is too long or not Unicode; the peer waits for an answer.
            frame = encode_frame(failure_reply(error).to(request))
        self._write(frame)

    # -- our requests ---------------------------------------------------------

    async def call(self, request: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """
        Sends a request and waits for the answer, which may be a refusal.

        Args:
            request: this method sets its opaque and flag.
            timeout_ms: for sending and waiting.

        Raises:
            NotSent: the connection is closed, too many calls wait, or the peer accepts
                no bytes.
            NoAnswer: no answer arrived in time, or before the connection ended.
            InvalidError: the request does not fit a frame.
        """
        if len(self._calls) >= self._owner.limits.calls_max:
            raise NotSent(f"{len(self._calls)} requests already wait for {self.peer}")
        opaque = self._calls.opaque()
        command = replace(request, opaque=opaque, flag=CommandFlag(0), version=VERSION)
        answer = self._calls.begin(opaque, self._loop)
        deadline = self._loop.time() + timeout_ms / 1000
        try:
            await self._send(command, deadline)
            async with asyncio.timeout_at(deadline):
                return await answer
        except TimeoutError as error:
            # Our own time-out: `_send` raises `NotSent` for its one.
            raise NoAnswer(
                f"{self.peer} did not answer request {request.code} in {timeout_ms} ms"
            ) from error
        finally:
            self._calls.end(opaque)
            self._close_if_retired()

    async def send(self, request: RemotingCommand, timeout_ms: int) -> None:
        """
        Sends a one-way request.

        Args:
            request: this method sets its opaque and flag.
            timeout_ms: how long the peer may accept no bytes.

        Raises:
            NotSent: the connection is closed, or the peer accepts no bytes.
            InvalidError: the request does not fit a frame.
        """
        opaque, flag = self._calls.opaque(), CommandFlag.ONE_WAY
        command = replace(request, opaque=opaque, flag=flag, version=VERSION)
        await self._send(command, self._loop.time() + timeout_ms / 1000)

    async def _send(self, request: RemotingCommand, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                while not self._writable.is_set():
                    await self._writable.wait()
        except TimeoutError as error:
            # The peer reads nothing: the request would wait behind unsent bytes.
            raise NotSent(f"{self.peer} accepts no bytes") from error
        if self.is_closed:
            raise NotSent(f"the connection to {self.peer} is closed")
        # Signed in the order in which they are sent: each is bound to its turn.
        signed = self._owner.signs(request, self)
        self._write(encode_frame(signed, self._owner.limits.frame_bytes_max))

    def _write(self, frame: bytes) -> None:
        self._active_at = self._loop.time()
        self._transport.write(frame)

    # -- the end -------------------------------------------------------------

    def close(self) -> None:
        """
        Closes the connection after sending all bytes. Idempotent.
        """
        if not self._is_ended:
            self._transport.close()
            self._unsent = self._transport.get_write_buffer_size()
            self._arm("send", self._owner.limits.send_timeout_ms, self._check_sending)

    def retire(self) -> None:
        """
        Closes the connection once nothing waits for an answer, at either end.
        """
        self._is_retired = True
        self._close_if_retired()

    def _close_if_retired(self) -> None:
        if self._is_retired and not (self._calls or self._in_flight or self._waiting):
            self.close()

    def abort(self) -> None:
        """
        Closes the connection now. Idempotent.
        """
        if not self._is_ended:
            self._transport.abort()

    async def wait_closed(self) -> None:
        """
        Waits for the end: after `close` as long as the peer accepts bytes, after
        `abort` a moment.
        """
        if self._end is None:
            self._end = asyncio.Event()
        if not self._is_ended:
            await self._end.wait()

    def _arm(self, name: str, after_ms: float, check: Callable[[], None]) -> None:
        self._disarm(name)
        self._timers[name] = self._loop.call_later(after_ms / 1000, check)

    def _disarm(self, name: str) -> None:
        if name in self._timers:
            self._timers.pop(name).cancel()

    def _check_idle(self) -> None:
        timeout_ms = self._owner.limits.idle_timeout_ms
        idle_ms = (self._loop.time() - self._active_at) * 1000
        if idle_ms < timeout_ms:
            self._arm("idle", timeout_ms - idle_ms, self._check_idle)
        elif self._calls or self._in_flight or self._waiting:
            self._arm("idle", timeout_ms, self._check_idle)
        else:
            self.close()

    def _check_sending(self) -> None:
        unsent = self._transport.get_write_buffer_size()
        if unsent < self._unsent:
            self._unsent = unsent
            self._arm("send", self._owner.limits.send_timeout_ms, self._check_sending)
            return
        self._owner.say(
            f"connection to {self.peer} closed: it accepts no bytes any more"
        )
        self._transport.abort()
