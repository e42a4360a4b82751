"""
One connection: both sides send requests and answers.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from lib.remoting.peers import ASK_BACK, BEAT, ECHO, HANDLERS, HANG, Peer
from lib.remoting.virtual_time_loop import move, run, until

from pystore.errors import InvalidError
from pystore.net.bounded_selector import EVENTS_MAX
from pystore.net.service_loop import ServiceLoop
from pystore.remoting.codes import CommandFlag
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection, ConnectionOwner
from pystore.remoting.errors import NoAnswer, NotSent
from pystore.remoting.framing import CommandReader, encode_frame
from pystore.remoting.limits import RemotingLimits
from pystore.remoting.prepared_reply import PreparedReply
from pystore.remoting.repeated_request import RequestForm
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer


async def pair(limits: RemotingLimits | None = None) -> tuple[Connection, Connection]:
    """
    Returns two ends of a connection, which answer alike.
    """
    loop = asyncio.get_running_loop()
    side = ConnectionOwner(HANDLERS, limits or RemotingLimits())
    accepted: list[Connection] = []
    there = ConnectionOwner(HANDLERS, RemotingLimits(), opened=accepted.append)
    server = await loop.create_server(lambda: Connection(there), "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    _, here = await loop.create_connection(lambda: Connection(side), *address)
    await until(lambda: accepted)
    server.close()
    return here, accepted[0]


async def raw_pair(
    said: list[str],
) -> tuple[Connection, asyncio.StreamReader, asyncio.StreamWriter]:
    """
    Returns a connection, and the other end byte by byte.
    """
    loop = asyncio.get_running_loop()
    accepted = loop.create_future()
    server = await asyncio.start_server(
        lambda *streams: accepted.set_result(streams), "127.0.0.1", 0
    )
    address = server.sockets[0].getsockname()
    side = ConnectionOwner(HANDLERS, RemotingLimits(), said.append)
    _, here = await loop.create_connection(lambda: Connection(side), *address)
    reader, writer = await accepted
    server.close()
    return here, reader, writer


def test_answers_find_their_questions_in_any_order() -> None:
    """
    In both directions at once, also while a request is handled.
    """

    async def main() -> None:
        here, there = await pair()
        bodies = [b"%d" % number for number in range(50)]
        calls = [
            side.call(RemotingCommand(code, body=body), 1000)
            for body in bodies
            for side, code in ((here, ECHO), (there, ECHO), (here, ASK_BACK))
        ]
        answers = [one.body for one in await asyncio.gather(*calls)]
        expected = [one for body in bodies for one in (body, body, body + b"!")]
        assert expected == answers
        here.close()
        await there.wait_closed()

    run(main())


def test_a_missing_answer_times_out_and_a_late_one_is_ignored() -> None:
    """
    The connection stays open.
    """

    async def main() -> None:
        here, there = await pair()
        call = asyncio.ensure_future(here.call(RemotingCommand(HANG), 1000))
        await asyncio.sleep(0)
        move(1001)
        with pytest.raises(NoAnswer, match="did not answer request 12 in 1000 ms"):
            await call
        move(5000)
        assert b"x" == (await here.call(RemotingCommand(ECHO, body=b"x"), 1000)).body
        here.close()
        await there.wait_closed()

    run(main())


def test_the_end_of_a_connection_fails_waiting_calls() -> None:
    """
    Their outcome is open; a later call knows that it was not sent.
    """

    async def main() -> None:
        here, there = await pair()
        call = asyncio.ensure_future(here.call(RemotingCommand(HANG), 1000))
        await asyncio.sleep(0)
        there.abort()
        with pytest.raises(NoAnswer, match="closed the connection without an answer"):
            await call
        assert here.is_closed
        with pytest.raises(NotSent, match="is closed"):
            await here.call(RemotingCommand(ECHO), 1000)
        with pytest.raises(NotSent, match="is closed"):
            await here.send(RemotingCommand(ECHO), 1000)

    run(main())


def test_no_more_calls_wait_than_allowed() -> None:
    """
    Further calls fail at once.
    """

    async def main() -> None:
        here, there = await pair(RemotingLimits(calls_max=1))
        call = asyncio.ensure_future(here.call(RemotingCommand(HANG), 1000))
        await asyncio.sleep(0)
        with pytest.raises(NotSent, match="1 requests already wait for 127"):
            await here.call(RemotingCommand(ECHO), 1000)
        there.abort()
        with pytest.raises(NoAnswer):
            await call

    run(main())


def test_a_peer_that_reads_nothing_gets_no_more_requests() -> None:
    """
    What was not sent is said to be so.
    """

    async def main() -> None:
        said: list[str] = []
        here, _, writer = await raw_pair(said)
        body = bytes(8 << 20)
        await here.send(RemotingCommand(ECHO, body=body), 1000)
        assert not here.may_send
        late = asyncio.ensure_future(here.send(RemotingCommand(ECHO), 1000))
        await asyncio.sleep(0)
        move(1001)
        with pytest.raises(NotSent, match="accepts no bytes"):
            await late
        move(10_000)
        await here.wait_closed()
        assert "accepts no bytes any more" in said[-1]
        writer.transport.abort()

    run(main())


def test_a_request_that_fits_no_frame_is_not_sent() -> None:
    """
    The connection is as good as before.
    """

    async def main() -> None:
        here, there = await pair(RemotingLimits(frame_bytes_max=1000))
        with pytest.raises(InvalidError, match="at most 1000 are allowed"):
            await here.call(RemotingCommand(ECHO, body=bytes(1000)), 1000)
        assert (await here.call(RemotingCommand(ECHO), 1000)).is_response
        here.close()
        await there.wait_closed()

    run(main())


def test_unrequested_answers_are_ignored() -> None:
    """
    They may be late.
    """

    async def main() -> None:
        here, reader, writer = await raw_pair([])
        call = asyncio.ensure_future(here.call(RemotingCommand(ECHO), 1000))
        await reader.read(8)
        for opaque in (77, 0, 0):
            answer = Reply().to(RemotingCommand(ECHO, opaque))
            writer.write(encode_frame(answer))
        assert 0 == (await call).opaque
        here.close()
        here.close()
        await here.wait_closed()
        writer.close()

    run(main())


def _repeated(opaque: int, end: int, name: str = "n") -> RemotingCommand:
    return RemotingCommand(
        BEAT, opaque, ext_fields={"name": name, "end": str(end)}, version=3
    )


class _Repeating:
    """
    A server whose handler expects repeats, and one connection to it, byte by byte.

    Attributes:
        handled: the requests that were decoded for the handler.
        numbers: of those that were not.
        reply: to these; ``None``: the handler is wanted.
        said: lines for people.
    """

    def __init__(self) -> None:
        self.handled: list[RemotingCommand] = []
        self.numbers: list[list[int]] = []
        self.reply: PreparedReply | None = PreparedReply(Reply(7))
        self.said: list[str] = []

    def _handle(self, request: RemotingCommand, peer: Connection) -> Reply:
        self.handled.append(request)
        peer.expect_repeats(request, ["end"], self._again)
        return Reply()

    def _again(self, numbers: Sequence[int]) -> PreparedReply | None:
        self.numbers.append(list(numbers))
        if numbers[1] == 666:
            raise LookupError("no such end")
        return self.reply

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Peer]:
        """
        The connection.
        """
        handlers = {BEAT: self._handle, ECHO: HANDLERS[ECHO]}
        async with RemotingServer(handlers, say=self.said.append) as server:
            peer = Peer(*await asyncio.open_connection(*await server.start()))
            try:
                yield peer
            finally:
                peer.writer.close()


async def _code(peer: Peer, request: RemotingCommand) -> tuple[int, int]:
    answer = await peer.ask(request)
    assert answer is not None
    return answer.opaque, answer.code


def test_a_request_that_differs_in_numbers_only_is_not_decoded_again() -> None:
    """
    Others are, in between and in pieces, and the answers keep their order.
    """

    async def main() -> None:
        it = _Repeating()
        async with it.running() as peer:
            assert (1, 0) == await _code(peer, _repeated(1, 10))
            assert (2, 7) == await _code(peer, _repeated(2, 2000))
            assert (3, 0) == await _code(peer, RemotingCommand(ECHO, 3))
            assert (4, 7) == await _code(peer, _repeated(4, 0))
            assert [[2, 2000], [4, 0]] == it.numbers
            # Several in one piece, and one in two pieces.
            first, second = (encode_frame(_repeated(one, 5)) for one in (5, 6))
            peer.writer.write(first + second[:9])
            answer = await peer.receive()
            assert answer is not None
            assert (5, 0) == (answer.opaque, answer.code)
            peer.writer.write(second[9:])
            answer = await peer.receive()
            assert answer is not None
            assert (6, 0) == (answer.opaque, answer.code)
            # Another request is the one that is expected from now on.
            assert (7, 0) == await _code(peer, _repeated(7, 5, "other"))
            assert (8, 7) == await _code(peer, _repeated(8, 6, "other"))
            assert (9, 0) == await _code(peer, _repeated(9, 6))
            assert [1, 5, 6, 7, 9] == [one.opaque for one in it.handled]

    run(main())


def test_a_repeat_that_is_not_answered_goes_to_the_handler() -> None:
    """
    Also if it raised: the handler is where errors are answered.
    """

    async def main() -> None:
        it = _Repeating()
        async with it.running() as peer:
            for opaque, end, code in ((1, 1, 0), (2, 666, 0), (3, 3, 7)):
                assert (opaque, code) == await _code(peer, _repeated(opaque, end))
            it.reply = None
            assert (4, 0) == await _code(peer, _repeated(4, 4))
            assert [1, 2, 4] == [one.opaque for one in it.handled]
            assert not it.said

    run(main())


def test_one_way_repeats_are_not_answered() -> None:
    """
    As the heartbeats of RocketMQ's brokers.
    """

    async def main() -> None:
        it, sent = _Repeating(), list[int]()
        async with it.running() as peer:
            for opaque in (1, 2, 3):
                sent.append(opaque)
                request = replace(
                    _repeated(opaque, opaque), flag=int(CommandFlag.ONE_WAY)
                )
                peer.writer.write(encode_frame(request))
                await until(lambda: len(it.handled + it.numbers) == len(sent))
            assert (4, 0) == await _code(peer, RemotingCommand(ECHO, 4))
            assert [[2, 2], [3, 3]] == it.numbers

    run(main())


def test_requests_that_never_repeat_make_few_forms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Each would cost, and help nothing.
    """
    made: list[int] = []

    def of(_: bytes, request: RemotingCommand, __: Sequence[str]) -> None:
        made.append(request.opaque)

    async def main() -> None:
        it = _Repeating()
        async with it.running() as peer:
            with monkeypatch.context() as patched:
                patched.setattr(RequestForm, "of", of)
                for number in range(40):
                    await _code(peer, _repeated(number, 1, f"n{number}"))
            assert [0, 1, 2, 4, 8, 16, 32] == made
            for number in range(40, 65):
                assert (number, 0) == await _code(peer, _repeated(number, 1))
            assert (65, 7) == await _code(peer, _repeated(65, 1))
            # It helped, so another one gets a form at once.
            assert (66, 0) == await _code(peer, _repeated(66, 1, "new"))
            assert (67, 7) == await _code(peer, _repeated(67, 1, "new"))

    run(main())


def test_closed_connections_are_freed_without_a_collection() -> None:
    """
    Also those that sent no frame: of thousands of strangers the garbage would be much,
    and a collection of all objects stops a server for long.
    """
    opened: list[weakref.ref[object]] = []

    def note(connection: Connection) -> None:
        opened.append(weakref.ref(connection))
        opened.append(weakref.ref(connection._transport))

    async def main() -> None:
        async with RemotingServer(HANDLERS, opened=note) as server:
            address = await server.start()
            for sent in (b"", bytes(100), encode_frame(_repeated(1, 1)), b"\0\0\1"):
                for _ in range(5):
                    peer = Peer(*await asyncio.open_connection(*address))
                    peer.writer.write(sent)
                    if sent[:1] == b"\0" and len(sent) == 100:
                        assert await peer.receive() is None
                    await until(lambda: server.connections or opened[-1]() is None)
                    peer.writer.close()
                    await until(lambda: not server.connections)
            assert 40 == len(opened)
            await until(lambda: not any(one() for one in opened))

    gc.collect()
    gc.disable()
    try:
        run(main())
    finally:
        gc.enable()


def test_a_preferred_peer_is_read_before_others() -> None:
    """
    However many others have sent their requests before.
    """
    order: list[int] = []

    def handle(request: RemotingCommand, peer: Connection) -> Reply:
        order.append(request.opaque)
        if request.opaque == 0:
            peer.prefer()
        return Reply()

    async def main() -> None:
        async with RemotingServer({BEAT: handle}) as server:
            address = await server.start()
            count = 3 * EVENTS_MAX
            peers = [
                Peer(*await asyncio.open_connection(*address)) for _ in range(count)
            ]
            await until(lambda: len(server.connections) == count)
            known = peers[-1]
            await known.ask(RemotingCommand(BEAT, 0))
            for opaque, peer in enumerate(peers, 1):
                peer.writer.write(encode_frame(RemotingCommand(BEAT, opaque)))
            await until(lambda: len(order) == 1 + count)
            assert order.index(count) <= EVENTS_MAX
            for peer in peers:
                peer.writer.close()

    with asyncio.Runner(loop_factory=ServiceLoop) as runner:
        runner.run(main())


def test_little_of_a_frame_is_read_before_its_length_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Thousands of strangers may begin requests of 15 MB, and send as much as is taken.
    """
    fed: list[int] = []
    feed = CommandReader.feed

    def counted(reader: CommandReader, data: memoryview) -> None:
        fed.append(len(data))
        feed(reader, data)

    async def main() -> None:
        async with RemotingServer(HANDLERS) as server:
            address = await server.start()
            one, other = [
                Peer(*await asyncio.open_connection(*address)) for _ in range(2)
            ]
            request = RemotingCommand(ECHO, 1, body=bytes(1 << 20))
            assert (1, 0) == await _code(one, request)
            monkeypatch.setattr(CommandReader, "feed", counted)
            one.writer.write((20 << 20).to_bytes(4) + bytes(1 << 20))
            other.writer.write((20 << 20).to_bytes(4) + bytes(1 << 20))
            await until(lambda: not server.connections)
            assert 2 == len(fed)
            assert max(fed) <= 16 << 10
            for peer in (one, other):
                peer.writer.transport.abort()

    run(main())
