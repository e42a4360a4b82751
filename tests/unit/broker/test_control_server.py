"""
The server of the control socket, with strangers on it: real sockets, and an answer that
the test chooses.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import stat
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pystore.broker.control_protocol import (
    HEAD_BYTES,
    ControlLimits,
    encode_answer,
    encode_frame,
    parse_content,
)
from pystore.broker.control_server import ControlServer

WAIT_S = 20


def echo(content: bytes) -> bytes:
    """
    Answers with the request.
    """
    return encode_answer({"echo": parse_content(content)})


@asynccontextmanager
async def serving(
    folder: Path, answer: Callable[[bytes], bytes] = echo, **limits: int
) -> AsyncIterator[Path]:
    """
    A server on the socket ``s``.
    """
    path = folder / "s"
    server = ControlServer(path, answer, ControlLimits(**limits))
    await server.start()
    try:
        yield path
    finally:
        await server.close()
    assert not path.exists()


def connected(path: Path) -> socket.socket:
    """
    A connection that blocks.
    """
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(WAIT_S)
    one.connect(str(path))
    return one


def answer_on(one: socket.socket) -> dict[str, Any] | None:
    """
    The next answer; ``None``: the connection is closed.
    """
    try:
        head = one.recv(HEAD_BYTES, socket.MSG_WAITALL)
        if len(head) < HEAD_BYTES:
            return None
        size = int.from_bytes(head)
        found: dict[str, Any] = json.loads(one.recv(size, socket.MSG_WAITALL))
    except (ConnectionResetError, BrokenPipeError):
        # Closed with bytes of ours unread.
        return None
    return found


def asked(path: Path, value: object) -> dict[str, Any] | None:
    """
    The answer to one request on a connection of its own.
    """
    with connected(path) as one:
        one.sendall(encode_frame(json.dumps({"v": value}).encode()))
        return answer_on(one)


def test_requests_of_one_connection_are_answered_in_order(tmp_path: Path) -> None:
    """
    Also those that arrive together, or byte by byte.
    """

    def work(path: Path) -> list[object]:
        frames = [encode_frame(b'{"v": %d}' % number) for number in range(20)]
        with connected(path) as one:
            one.sendall(b"".join(frames))
            found = [answer_on(one) for _ in frames]
            for byte in frames[3]:
                one.sendall(bytes([byte]))
            return [*found, answer_on(one)]

    async def main() -> list[object]:
        async with serving(tmp_path) as path:
            assert 0o600 == stat.S_IMODE(path.lstat().st_mode)
            return await asyncio.to_thread(work, path)

    expected = [
        {"schemaVersion": 1, "echo": {"v": number}} for number in (*range(20), 3)
    ]
    assert expected == asyncio.run(main())


@pytest.mark.parametrize("seed", range(4))
def test_garbage_harms_only_its_own_connection(tmp_path: Path, seed: int) -> None:
    """
    A frame that is too long ends its connection with a reason; whatever comes, others
    are served.
    """
    print(f"seed {seed}")
    draw = random.Random(seed)

    def work(path: Path) -> None:
        with ExitStack() as stack:
            for _ in range(30):
                one = stack.enter_context(connected(path))
                try:
                    one.sendall(draw.randbytes(draw.randrange(1, 200)))
                    if draw.random() < 0.5:
                        one.shutdown(socket.SHUT_WR)
                except (BrokenPipeError, ConnectionResetError):
                    # It was refused by its first bytes.
                    continue
            assert asked(path, 1) == {"schemaVersion": 1, "echo": {"v": 1}}
        with connected(path) as one:
            one.sendall(b"\xff" * 8)
            refused = answer_on(one)
            assert refused is not None
            assert "bad-request" == refused["error"]["code"]
            assert answer_on(one) is None

    async def main() -> None:
        def answer(content: bytes) -> bytes:
            return echo(content) if content[:1] == b"{" else encode_answer({})

        async with serving(tmp_path, answer) as path:
            await asyncio.to_thread(work, path)

    asyncio.run(main())


def test_half_a_frame_has_one_deadline(tmp_path: Path) -> None:
    """
    A byte now and then does not prolong it; a connection without a request has none.
    """

    def work(path: Path) -> None:
        with connected(path) as idle, connected(path) as slow:
            slow.sendall(encode_frame(b"x" * 1000)[:10])
            closed = threading.Event()

            def drip() -> None:
                while not closed.wait(0.02):
                    try:
                        slow.sendall(b"x")
                    except (BrokenPipeError, ConnectionResetError):
                        # The server has closed it.
                        return

            dripping = threading.Thread(target=drip)
            dripping.start()
            try:
                assert answer_on(slow) is None
            finally:
                closed.set()
                dripping.join()
            idle.sendall(encode_frame(b'{"v": 1}'))
            assert answer_on(idle) is not None

    async def main() -> None:
        async with serving(tmp_path, frame_timeout_ms=300) as path:
            await asyncio.to_thread(work, path)

    asyncio.run(main())


def test_a_hundred_connections_leave_room_for_the_next(tmp_path: Path) -> None:
    """
    The one that is idle for the longest time makes room for a new one.
    """

    def work(path: Path) -> None:
        with ExitStack() as stack:
            many = [stack.enter_context(connected(path)) for _ in range(100)]
            assert asked(path, 1) is not None
            many[-1].sendall(encode_frame(b'{"v": 2}'))
            assert answer_on(many[-1]) == {"schemaVersion": 1, "echo": {"v": 2}}
            assert answer_on(many[0]) is None

    async def main() -> None:
        async with serving(tmp_path, connections_max=10) as path:
            await asyncio.to_thread(work, path)

    asyncio.run(main())


class Held:
    """
    Answers that wait until the test lets them go.
    """

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.may_go = threading.Event()
        self._begun = threading.Semaphore(0)

    def answer(self, content: bytes) -> bytes:
        """
        Notes the size of the request, and waits.
        """
        self.sizes.append(len(content))
        self._begun.release()
        self.may_go.wait(WAIT_S)
        return encode_answer({})

    def await_begun(self) -> None:
        """
        Waits until one more request is under way.
        """
        assert self._begun.acquire(timeout=WAIT_S)


def test_connections_with_requests_are_not_closed_for_others(tmp_path: Path) -> None:
    """
    One more is refused while they are under way.
    """
    held = Held()

    def work(path: Path) -> None:
        with ExitStack() as stack:
            many = [stack.enter_context(connected(path)) for _ in range(3)]
            for one in many:
                one.sendall(encode_frame(b"{}"))
                held.await_begun()
            with connected(path) as more:
                refused = answer_on(more)
            assert refused is not None
            assert "busy" == refused["error"]["code"]
            held.may_go.set()
            assert [{"schemaVersion": 1}] * 3 == [answer_on(one) for one in many]

    async def main() -> None:
        async with serving(tmp_path, held.answer, connections_max=3) as path:
            await asyncio.to_thread(work, path)

    asyncio.run(main())


def test_a_frame_waits_for_the_bytes_of_others(tmp_path: Path) -> None:
    """
    There is room for one long frame; a short one fits beside it, a second long one is
    read after it.
    """
    held = Held()

    def work(path: Path) -> None:
        long = encode_frame(b"x" * 700)
        with connected(path) as one, connected(path) as two, connected(path) as three:
            one.sendall(long)
            held.await_begun()
            two.sendall(long)
            three.sendall(encode_frame(b"{}"))
            held.await_begun()
            assert [700, 2] == held.sizes
            held.may_go.set()
            assert all(answer_on(each) for each in (one, two, three))
            assert [700, 2, 700] == held.sizes

    async def main() -> None:
        async with serving(
            tmp_path, held.answer, frame_bytes_max=1000, bytes_max=1000
        ) as path:
            await asyncio.to_thread(work, path)

    asyncio.run(main())


def test_without_room_for_its_bytes_a_request_is_refused(tmp_path: Path) -> None:
    """
    After the time for a frame; the bytes that it waited for are not lost.
    """
    held = Held()

    def work(path: Path) -> None:
        long = encode_frame(b"x" * 700)
        with connected(path) as one, connected(path) as two:
            one.sendall(long)
            held.await_begun()
            two.sendall(long)
            refused = answer_on(two)
            assert refused is not None
            assert "busy" == refused["error"]["code"]
            assert "no room for a request of 700 bytes" in refused["error"]["text"]
            assert answer_on(two) is None
            held.may_go.set()
            assert answer_on(one) == {"schemaVersion": 1}
        with connected(path) as three:
            three.sendall(long)
            assert answer_on(three) == {"schemaVersion": 1}

    async def main() -> None:
        async with serving(
            tmp_path,
            held.answer,
            frame_bytes_max=1000,
            bytes_max=1000,
            frame_timeout_ms=200,
        ) as path:
            await asyncio.to_thread(work, path)

    asyncio.run(main())


def test_a_peer_that_reads_nothing_is_closed(tmp_path: Path) -> None:
    """
    After the time for an answer.
    """

    def answer(_: bytes) -> bytes:
        return b"x" * (4 << 20)

    def work(path: Path) -> None:
        with connected(path) as one:
            one.sendall(encode_frame(b"{}"))
            # Its bytes fill the buffers of the system, and no more.
            threading.Event().wait(0.5)
            size = 0
            while part := one.recv(1 << 20):
                size += len(part)
            assert size < 4 << 20

    async def main() -> None:
        async with serving(tmp_path, answer, send_timeout_ms=200) as path:
            await asyncio.to_thread(work, path)

    asyncio.run(main())


def test_closing_ends_connections_and_removes_the_file(tmp_path: Path) -> None:
    """
    Also those that wait for an answer.
    """
    held = Held()

    async def main() -> None:
        server = ControlServer(tmp_path / "s", held.answer)
        await server.start()
        with connected(tmp_path / "s") as one:
            one.sendall(encode_frame(b"{}"))
            await asyncio.to_thread(held.await_begun)
            await server.close()
            await server.close()
            held.may_go.set()
            assert await asyncio.to_thread(answer_on, one) is None

    asyncio.run(main())
    assert not (tmp_path / "s").exists()
