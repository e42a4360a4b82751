"""
A proxy that spoils one frame of each link between a slave and its master.

Frames of one direction are counted; instead of the one that it was told, the peer gets
something that no honest peer sends, and whatever follows is not carried any more.
"""

from __future__ import annotations

import queue
import random
import socket
import threading
from contextlib import suppress
from enum import Enum
from types import TracebackType

from cluster.proxy import TO_MASTER

from pystore.ha.wire.decoder import take_frame

__all__ = ["Spoil", "Tamperer"]

_HEADER = 24
_FRAME_BYTES_MAX = 16 << 20
_LONGEST = (1 << 20).to_bytes(4, "big")
_TOO_LONG = (_FRAME_BYTES_MAX + 1).to_bytes(4, "big")


class Spoil(Enum):
    """
    What becomes of a frame.
    """

    GARBAGE = "its body is noise"
    TRUNCATED = "half of it comes, then the link ends"
    OVERSIZED = "its length is one that no frame has"
    ENDLESS = "its length is allowed, and its end never comes"

    def of(self, frame: bytes) -> bytes:
        """
        Returns what is sent instead of a frame.
        """
        noise = random.Random(len(frame)).randbytes(len(frame))
        match self:
            case Spoil.GARBAGE:
                return frame[:_HEADER] + noise[_HEADER:]
            case Spoil.TRUNCATED:
                return frame[: len(frame) // 2]
            case Spoil.OVERSIZED:
                return _TOO_LONG + frame[4:]
            case Spoil.ENDLESS:
                return _LONGEST + frame[4:]


class Tamperer:
    """
    Stands between one slave and a master. A context manager.

    Args:
        target: the master's address.
        direction: whose frames are spoiled, by where they go.
        plan: the numbers of the frames that are spoiled, and how: one on each link that
            comes so far, in this order; links behind these are honest.

    Attributes:
        address: where the slave connects to.
        done: gets each part of the plan once it is done.
    """

    def __init__(
        self, target: tuple[str, int], direction: int, plan: list[tuple[int, Spoil]]
    ) -> None:
        self.done: queue.Queue[tuple[int, Spoil]] = queue.Queue()
        self._target = target
        self._direction = direction
        self._plan = list(plan)
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._accepting = threading.Thread(target=self._keep_accepting)
        self._accepting.start()

    def __enter__(self) -> Tamperer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for one in (self._listener, *self._sockets):
            with suppress(OSError):  # it has ended already
                one.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()

    def _keep_accepting(self) -> None:
        while True:
            try:
                slave, _ = self._listener.accept()
            except OSError:
                # The test is over.
                return
            master = socket.create_connection(self._target)
            self._sockets += (slave, master)
            part = self._plan[0] if self._plan else None
            ways = [(slave, master), (master, slave)]
            is_first = self._direction == TO_MASTER
            spoiled, honest = ways if is_first else ways[::-1]
            self._start(self._carry, *honest)
            self._start(self._carry, *spoiled, part)

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _carry(
        self,
        source: socket.socket,
        goal: socket.socket,
        part: tuple[int, Spoil] | None = None,
    ) -> None:
        with suppress(OSError):  # one end broke: the other end hears of it
            if part is None or not self._carry_frames(source, goal, *part):
                while piece := source.recv(1 << 16):
                    goal.sendall(piece)
            else:
                # The honest end may continue: its bytes are read and dropped.
                while source.recv(1 << 16):
                    pass
        for end in (source, goal):
            with suppress(OSError):  # it has gone already
                end.shutdown(socket.SHUT_RDWR)

    def _carry_frames(
        self, source: socket.socket, goal: socket.socket, number: int, spoil: Spoil
    ) -> bool:
        """
        Carries frames until one was spoiled; answers whether one was.
        """
        held = b""
        count = 0
        while piece := source.recv(1 << 16):
            held += piece
            while True:
                frame, size = take_frame(memoryview(held), _FRAME_BYTES_MAX)
                if frame is None:
                    break
                raw, held = held[:size], held[size:]
                if count == number:
                    goal.sendall(spoil.of(raw))
                    if spoil is Spoil.TRUNCATED:
                        goal.shutdown(socket.SHUT_WR)
                    self.done.put(self._plan.pop(0))
                    return True
                goal.sendall(raw)
                count += 1
        return False
