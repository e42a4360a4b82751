"""
A server of the remoting protocol on real sockets: answers and limits.
"""

from __future__ import annotations

import asyncio
import socket

import pytest
from lib.remoting.peers import BEAT, ECHO, FAIL, GIVE_UP, HANG, HUGE, serving
from lib.remoting.virtual_time_loop import move, run, until

from pystore.errors import StorageError
from pystore.remoting.codes import CommandFlag, ResponseCode, Serialisation
from pystore.remoting.command import RemotingCommand
from pystore.remoting.framing import encode_frame
from pystore.remoting.limits import RemotingLimits
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer


def test_both_serialisations_are_answered_with_their_opaque() -> None:
    """
    The answer is in JSON.
    """

    async def main() -> None:
        async with serving() as talk:
            peer = await talk.connect()
            for serialisation in Serialisation:
                request = RemotingCommand(
                    ECHO, 5, 0, {"a": "b"}, b"body", serialisation=serialisation
                )
                response = await peer.ask(request)
                assert response == Reply(ext_fields={"a": "b"}, body=b"body").to(
                    request
                )

    run(main())


@pytest.mark.parametrize(
    ("code", "expected", "remark"),
    [
        (999, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, " request type 999 not supp"),
        (FAIL, ResponseCode.SYSTEM_ERROR, "LookupError: no such thing"),
        (BEAT, ResponseCode.CONTROLLER_INVALID_REQUEST, "brokerId is missing"),
        (HUGE, ResponseCode.SYSTEM_ERROR, "at most 16777216 are allowed"),
        (GIVE_UP, ResponseCode.SYSTEM_ERROR, "its handler was cancelled"),
    ],
)
def test_a_request_that_fails_is_answered_and_the_connection_goes_on(
    code: int, expected: int, remark: str
) -> None:
    """
    With the code of RocketMQ, and one line.
    """

    async def main() -> None:
        async with serving() as talk:
            peer = await talk.connect()
            response = await peer.ask(RemotingCommand(code, 7))
            assert response is not None
            assert (expected, 7) == (response.code, response.opaque)
            assert remark in (response.remark or "")
            assert await peer.ask(RemotingCommand(ECHO, 8))

    run(main())


def test_a_one_way_request_is_never_answered() -> None:
    """
    Not even with an error.
    """

    async def main() -> None:
        async with serving() as talk:
            peer = await talk.connect()
            for code in (ECHO, FAIL, 999):
                request = RemotingCommand(code, 1, CommandFlag.ONE_WAY)
                peer.writer.write(encode_frame(request))
            response = await peer.ask(RemotingCommand(ECHO, 2))
            assert response is not None
            assert 2 == response.opaque

    run(main())


def test_a_request_that_hangs_holds_up_no_other_and_is_answered_in_the_end() -> None:
    """
    Answers come in any order.
    """

    async def main() -> None:
        async with serving() as talk:
            peer = await talk.connect()
            peer.writer.write(encode_frame(RemotingCommand(HANG, 1)))
            response = await peer.ask(RemotingCommand(ECHO, 2))
            assert response is not None
            assert 2 == response.opaque
            move(5001)
            response = await peer.receive()
            assert response is not None
            assert (1, ResponseCode.SYSTEM_ERROR) == (response.opaque, response.code)
            assert "request 12 took longer than 5000 ms" == response.remark

    run(main())


def test_no_more_requests_of_a_peer_are_read_than_are_carried_out() -> None:
    """
    The rest waits where it comes from.
    """

    async def main() -> None:
        async with serving(RemotingLimits(requests_max=2)) as talk:
            peer = await talk.connect()
            for opaque in range(3):
                peer.writer.write(encode_frame(RemotingCommand(HANG, opaque)))
            peer.writer.write(encode_frame(RemotingCommand(ECHO, 9)))
            other = await talk.connect()
            assert await other.ask(RemotingCommand(ECHO, 1))
            move(5001)
            received = [await peer.receive() for _ in range(3)]
            assert [0, 1, 9] == sorted(one.opaque for one in received if one)

    run(main())


def test_a_busy_peer_takes_turns_with_others() -> None:
    """
    Also where no request waits for anything.
    """

    async def main() -> None:
        async with serving(RemotingLimits(row_max=2)) as talk:
            peer = await talk.connect()
            frames = [encode_frame(RemotingCommand(BEAT, one)) for one in range(5)]
            peer.writer.write(b"".join(frames))
            await until(lambda: talk.said)
            assert 2 == len(talk.said)
            received = [await peer.receive() for _ in range(5)]
            assert [0, 1, 2, 3, 4] == [one.opaque for one in received if one]

    run(main())


def test_too_many_requests_of_all_peers_are_answered_as_busy() -> None:
    """
    As when RocketMQ's pool of threads is full.
    """

    async def main() -> None:
        async with serving(RemotingLimits(running_max=1)) as talk:
            peer = await talk.connect()
            peer.writer.write(encode_frame(RemotingCommand(HANG, 1)))
            response = await peer.ask(RemotingCommand(ECHO, 2))
            assert response is not None
            assert (2, ResponseCode.SYSTEM_BUSY) == (response.opaque, response.code)

    run(main())


_BEAT_FIELDS = {"brokerId": "1"}


def test_heartbeats_are_served_while_as_many_requests_run_as_may() -> None:
    """
    They wait for nothing, so they never count; a busy answer would be a lost lease.
    """

    async def main() -> None:
        # None of them may end before the last one began, on a slow machine either.
        limits = RemotingLimits(request_timeout_ms=600_000)
        async with serving(limits) as talk:
            assert 4096 == limits.running_max
            for _ in range(limits.running_max // limits.requests_max):
                other = await talk.connect()
                for opaque in range(limits.requests_max):
                    other.writer.write(encode_frame(RemotingCommand(HANG, opaque)))
            # Before that a request of another peer would take the place of one.
            await until(lambda: talk.hanging == limits.running_max)
            peer = await talk.connect()
            busy = await peer.ask(RemotingCommand(ECHO, 1))
            assert busy is not None
            assert busy.code == ResponseCode.SYSTEM_BUSY
            for asked in (peer, other):
                beat = RemotingCommand(BEAT, 99, ext_fields=_BEAT_FIELDS)
                answered = await asked.ask(beat)
                assert answered is not None
                assert (99, ResponseCode.SUCCESS) == (answered.opaque, answered.code)

    run(main())


@pytest.mark.parametrize("waiting", [0, 1, 3, 4])
def test_heartbeats_of_a_peer_do_not_wait_for_its_other_requests(waiting: int) -> None:
    """
    Those that may not run yet wait, in their order, and heartbeats pass them.
    """

    async def main() -> None:
        limits = RemotingLimits(requests_max=2, waiting_max=4)
        async with serving(limits) as talk:
            peer = await talk.connect()
            for opaque in range(2):
                peer.writer.write(encode_frame(RemotingCommand(HANG, opaque)))
            for opaque in range(2, 2 + waiting):
                peer.writer.write(encode_frame(RemotingCommand(ECHO, opaque)))
            beat = RemotingCommand(BEAT, 99, ext_fields=_BEAT_FIELDS)
            if waiting < limits.waiting_max:
                answered = await peer.ask(beat)
                assert answered is not None
                assert (99, ResponseCode.SUCCESS) == (answered.opaque, answered.code)
            else:
                # Nothing more is read: otherwise a peer would take any memory.
                peer.writer.write(encode_frame(beat))
                other = await talk.connect()
                assert await other.ask(RemotingCommand(ECHO, 1))
            move(5001)
            expected = {0, 1, *range(2, 2 + waiting)}
            expected |= {99} if waiting == limits.waiting_max else set()
            received = [await peer.receive() for _ in expected]
            assert expected == {one.opaque for one in received if one}

    run(main())


def test_large_requests_that_wait_are_not_read_without_bound() -> None:
    """
    They count by their bytes, too.
    """

    async def main() -> None:
        limits = RemotingLimits(requests_max=1, waiting_bytes_max=1000)
        async with serving(limits) as talk:
            peer = await talk.connect()
            peer.writer.write(encode_frame(RemotingCommand(HANG, 0)))
            for opaque in (1, 2):
                request = RemotingCommand(ECHO, opaque, body=bytes(1000))
                peer.writer.write(encode_frame(request))
            beat = RemotingCommand(BEAT, 99, ext_fields=_BEAT_FIELDS)
            peer.writer.write(encode_frame(beat))
            other = await talk.connect()
            assert await other.ask(RemotingCommand(ECHO, 1))
            move(5001)
            received = [await peer.receive() for _ in range(4)]
            opaques = [one.opaque for one in received if one]
            assert {0, 1, 2, 99} == set(opaques)
            assert 0 == opaques[0]

    run(main())


def test_waiting_requests_end_with_their_connection() -> None:
    """
    They were never started.
    """

    async def main() -> None:
        async with serving(RemotingLimits(requests_max=1)) as talk:
            peer = await talk.connect()
            for opaque in range(3):
                peer.writer.write(encode_frame(RemotingCommand(ECHO, opaque)))
                peer.writer.write(encode_frame(RemotingCommand(HANG, opaque)))
            other = await talk.connect()
            assert await other.ask(RemotingCommand(ECHO, 1))
            peer.writer.transport.abort()
            await until(lambda: len(talk.server.connections) == 1)
            move(5001)
            assert await other.ask(RemotingCommand(ECHO, 2))

    run(main())


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x7f\xff\xff\xff", "a frame of 2147483651 bytes"),
        (b"\x00\x00\x00\x04\x07\x00\x00\x00", "serialisation 7"),
        (b"\x16\x03\x01\x02\x00", "looks like TLS"),
        (encode_frame(RemotingCommand(1)).replace(b"code", b"\xff\xfe\xfd\xfc"), "UTF"),
    ],
)
def test_garbage_closes_its_own_connection_with_a_reason(data: bytes, why: str) -> None:
    """
    Others do not notice.
    """

    async def main() -> None:
        async with serving() as talk:
            other, peer = await talk.connect(), await talk.connect()
            peer.writer.write(data)
            assert await peer.receive() is None
            assert await other.ask(RemotingCommand(ECHO, 1))
            (line,) = talk.said
            assert why in line
            assert "\n" not in line

    run(main())


def test_half_requests_of_many_peers_take_bounded_memory() -> None:
    """
    The oldest of them are closed; a peer that sends whole requests is not.
    """

    async def main() -> None:
        limits = RemotingLimits(received_bytes_max=10_000, unread_bytes_max=20_000)
        async with serving(limits) as talk:
            whole = await talk.connect()
            half = encode_frame(RemotingCommand(ECHO, 1, body=bytes(9_000)))[:8_000]
            peers = [await talk.connect() for _ in range(10)]
            for peer in peers:
                peer.writer.write(half)
                assert await whole.ask(RemotingCommand(ECHO, 1, body=bytes(9_000)))
            await until(lambda: len(talk.server.connections) == 3)
            assert await peers[0].receive() is None
            peers[-1].writer.write(bytes(2_000))
            assert await whole.ask(RemotingCommand(ECHO, 2))
            lines = [line for line in talk.said if "incomplete requests" in line]
            assert len(lines) == 4, talk.said

    run(main())


def test_a_peer_that_does_not_read_is_closed_and_costs_little() -> None:
    """
    Nothing more is read from it, and it has its time.
    """

    async def main() -> None:
        async with serving() as talk:
            peer = await talk.connect()
            frame = encode_frame(RemotingCommand(ECHO, 1, body=bytes(1 << 20)))
            for _ in range(100):
                peer.writer.write(frame)
            (connection,) = talk.server.connections
            await until(lambda: not connection.may_send)
            move(10_001)
            await until(lambda: talk.closed)
            assert "accepts no bytes any more" in talk.said[-1]
            peer.writer.transport.abort()

    run(main())


def test_an_idle_connection_is_closed_after_two_minutes() -> None:
    """
    Half a command does not count; a whole one starts the time again.
    """

    async def main() -> None:
        async with serving() as talk:
            idle, busy = await talk.connect(), await talk.connect()
            assert await idle.ask(RemotingCommand(ECHO, 1))
            move(100_000)
            assert await busy.ask(RemotingCommand(ECHO, 1))
            idle.writer.write(encode_frame(RemotingCommand(ECHO, 2))[:-1])
            move(20_001)
            assert await idle.receive() is None
            assert await busy.ask(RemotingCommand(ECHO, 2))
            assert 1 == len(talk.closed)

    run(main())


def test_more_connections_than_allowed_are_closed_at_once() -> None:
    """
    This is reported once; a free place is used again.
    """

    async def main() -> None:
        async with serving(RemotingLimits(connections_max=2)) as talk:
            first = await talk.connect()
            await talk.connect()
            await until(lambda: 2 == len(talk.server.connections))
            assert await (await talk.connect()).receive() is None
            assert await (await talk.connect()).receive() is None
            assert 1 == len(talk.said)
            assert "2 connections are open" in talk.said[0]
            first.writer.close()
            await until(lambda: talk.closed)
            assert await (await talk.connect()).ask(RemotingCommand(ECHO, 1))

    run(main())


def test_a_thousand_idle_connections_delay_no_request() -> None:
    """
    Ten thousand are in the slow tests.
    """
    run(idle_connections(1000))


@pytest.mark.slow
def test_ten_thousand_idle_connections_delay_no_request() -> None:
    """
    As many as fit under the limit of open files of this process, two for each.
    """
    resource = pytest.importorskip("resource")
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)

    run(idle_connections(min(10_000, (allowed - 800) // 2)))


async def idle_connections(count: int) -> None:
    """
    Opens so many, and asks something beside them.
    """
    async with serving() as talk:
        sockets: list[socket.socket] = []
        try:
            while len(sockets) < count:
                sockets.append(socket.create_connection(talk.address))
                if len(sockets) % 500 == 0:
                    await until(lambda: len(sockets) == len(talk.server.connections))
            peer = await talk.connect()
            assert await peer.ask(RemotingCommand(ECHO, 1))
            assert count + 1 == len(talk.server.connections)
        finally:
            for one in sockets:
                one.close()


def test_closing_ends_connections_and_handlers() -> None:
    """
    Twice is once.
    """

    async def main() -> None:
        async with serving() as talk:
            peer = await talk.connect()
            peer.writer.write(encode_frame(RemotingCommand(HANG, 1)))
            assert await peer.ask(RemotingCommand(ECHO, 2))
            await talk.server.close()
            await talk.server.close()
            assert await peer.receive() is None
            assert frozenset() == talk.server.connections
            with pytest.raises(OSError, match="onnect"):
                await asyncio.open_connection(*talk.address)

    run(main())


@pytest.mark.parametrize("turns", range(8))
def test_a_peer_that_connects_during_the_close_is_closed(turns: int) -> None:
    """
    At each step of the accept.
    """

    async def main() -> None:
        async with serving() as talk:
            with socket.create_connection(talk.address) as late:
                for _ in range(turns):
                    await asyncio.sleep(0)
                await talk.server.close()
                for _ in range(8):
                    await asyncio.sleep(0)
                late.settimeout(5)
                assert b"" == _received(late)
            assert frozenset() == talk.server.connections

    run(main())


def _received(peer: socket.socket) -> bytes:
    try:
        return peer.recv(1)
    except ConnectionError:
        # Closed as hard as can be.
        return b""


def test_an_address_in_use_is_one_clear_error() -> None:
    """
    It names the address.
    """

    async def main() -> None:
        async with serving() as talk:
            with pytest.raises(StorageError, match="cannot listen on 127"):
                await RemotingServer({}).start(*talk.address)

    run(main())


def test_a_server_on_an_open_address_warns() -> None:
    """
    A server on a loopback address does not warn.
    """

    async def main() -> None:
        said: list[str] = []
        async with RemotingServer({}, say=said.append) as server:
            await server.start("0.0.0.0")
        assert 1 == len(said)
        assert said[0].startswith("warning: remoting listens on 0.0.0.0:")

    run(main())
