"""
A slave over a real socket that says what a test wants, frame by frame.
"""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Any

from lib.ha.master_bench import EMPTY, ack, shake
from lib.ha.master_fixture import EPOCH, MasterStage
from lib.store.stores import SEGMENT
from lib.values import replace
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.frames import Body, Frame, HandshakeMaster, TransferData
from pystore.ha.wire.v3 import encode

__all__ = ["RawSlave", "StrangerSlave"]


class RawSlave:
    """
    A v3 slave that says what a test wants. A context manager.

    Args:
        stage: whose service it talks to.
        **changes: to its handshake, which is broker 2's with an empty log.
    """

    def __init__(self, stage: MasterStage, **changes: Any) -> None:
        self.socket = stage.dial()
        self._data = bytearray()
        self.session_id = 0
        empty = {"end_offset": 0, "flushed_offset": 0, "last_epoch": -1}
        self._shake = shake(segment_size=SEGMENT, **{**empty, **changes})

    def __enter__(self) -> RawSlave:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def say(self, body: Body, epoch: int = EPOCH) -> None:
        """
        Sends a frame.
        """
        self.socket.sendall(encode(Frame(epoch, 0, body)))

    def hear(self) -> Frame:
        """
        Returns the next frame.

        Raises:
            ConnectionError: the master closed the connection.
        """
        while True:
            frame, size = take_frame(memoryview(bytes(self._data)), 16 << 20)
            if frame is not None:
                del self._data[:size]
                return frame
            piece = self.socket.recv(1 << 20)
            if not piece:
                raise ConnectionError("the master closed the connection")
            self._data += piece

    def greet(self) -> HandshakeMaster:
        """
        Shakes hands, and returns the answer.
        """
        self.say(self._shake)
        return self.answer()

    def greet_with(self, body: Body, count: int) -> None:
        """
        Shakes hands, and goes on without waiting for the answer.
        """
        frames = [self._shake] + [body] * count
        raw = b"".join(encode(Frame(EPOCH, 0, one)) for one in frames)
        self.socket.sendall(raw)

    def ask(self, body: Body, count: int) -> None:
        """
        Sends a frame again and again, without reading.
        """
        raw = encode(Frame(EPOCH, 0, body)) * 1_000
        for _ in range(count // 1_000):
            self.socket.sendall(raw)

    def answer(self) -> HandshakeMaster:
        """
        Returns the answer to the handshake.
        """
        body = self.hear().body
        assert isinstance(body, HandshakeMaster)
        self.session_id = body.session_id
        return body

    def begin(self) -> RawSlave:
        """
        Shakes hands, begins at the front of the log, and returns itself.
        """
        assert self.greet().reason == ""
        self.say(replace(EMPTY, session_id=self.session_id))
        assert self.data().block == b""
        return self

    def data(self) -> TransferData:
        """
        Returns the next frame, which has to be data.
        """
        body = self.hear().body
        assert isinstance(body, TransferData)
        return replace(body, block=bytes(body.block))

    def read_to(self, end_offset: int) -> bytes:
        """
        Returns the log up to there, from where it stands.
        """
        found = bytearray()
        at = -1
        while at < end_offset:
            data = self.data()
            found += data.block
            at = data.offset + len(data.block)
        return bytes(found)

    def ack(self, received: int, epoch: int = EPOCH, **changes: Any) -> None:
        """
        Says what it holds.
        """
        self.say(
            ack(received, session_id=self.session_id, echo_end_offset=2**62, **changes),
            epoch,
        )

    def is_closed(self) -> bool:
        """
        Reads to the end of the link, which has to come.
        """
        try:
            while self.socket.recv(1 << 20):
                pass
        except ConnectionError:
            # Closed with unread bytes: closed all the same.
            return True
        return True


class StrangerSlave(RawSlave):
    """
    A slave that knows the names of a set, and no secret.

    Args:
        address: ``HOST:PORT`` of the master.
        **changes: to its handshake.
    """

    def __init__(self, address: str, **changes: Any) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        self._data = bytearray()
        self.session_id = 0
        claims = {"end_offset": 0, "flushed_offset": 0, "last_epoch": -1, **changes}
        self._shake = shake(**claims)
