"""
A proxy on loopback that makes the faults of a network, for links between processes.

Each connection is two threads, one per direction. What a fault holds back is kept,
not lost: TCP loses nothing either, it only does not come.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType

__all__ = ["TO_MASTER", "TO_SLAVE", "Proxy"]

TO_MASTER = 0
TO_SLAVE = 1

_PIECE_BYTES = 64 << 10
_BUFFER_BYTES = 32 << 10
_RESET = struct.pack("ii", 1, 0)


@dataclass(eq=False)
class _Link:
    """
    One connection: the slave's socket and the one to the master.
    """

    slave: socket.socket
    master: socket.socket
    is_frozen: bool = False
    threads: list[threading.Thread] = field(default_factory=list)


class Proxy:
    """
    Stands between slaves and a master. A context manager; any thread.

    Args:
        target: the master's address.

    Attributes:
        address: where slaves connect to.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._links: list[_Link] = []
        self._delay_s = 0.0
        self._is_refusing = False
        self._carried = threading.Condition()
        self._carried_bytes = 0
        self._over = threading.Event()
        self._flows = (threading.Event(), threading.Event())
        for flow in self._flows:
            flow.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        # What waits in buffers is no part of a stall.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        self.address: tuple[str, int] = self._listener.getsockname()
        self._accepting = threading.Thread(target=self._keep_accepting)
        self._accepting.start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        with suppress(OSError):  # macOS: a listener is not connected
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        for flow in self._flows:
            flow.set()
        for link in list(self._links):
            link.is_frozen = False
            _hang_up(link)
            for thread in link.threads:
                thread.join()
            link.slave.close()
            link.master.close()

    # -- faults --------------------------------------------------------------

    def stall(self, direction: int) -> None:
        """
        Bytes of that direction do not arrive any more, and are not taken either.
        """
        self._flows[direction].clear()

    def resume(self, direction: int) -> None:
        """
        They arrive again, those that were held back first.
        """
        self._flows[direction].set()

    def delay(self, seconds: float) -> None:
        """
        Every piece arrives so much later.
        """
        self._delay_s = seconds

    def wait_for_bytes(self, count: int, timeout_s: float) -> bool:
        """
        Waits until so many bytes have arrived at slaves, and answers whether they did.
        """
        with self._carried:
            return self._carried.wait_for(
                lambda: self._carried_bytes >= count, timeout_s
            )

    def cut(self) -> int:
        """
        Both ends of every link are told that it broke; answers how many did.
        """
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            for end in (link.slave, link.master):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            _hang_up(link)
            for thread in link.threads:
                thread.join()
            link.slave.close()
            link.master.close()
        return len(links)

    def refuse(self) -> None:
        """
        New links break at once.
        """
        self._is_refusing = True

    def freeze(self) -> int:
        """
        Links are half open from now on: neither bytes nor their ends arrive, and
        without a message. New links work. Returns how many there are.
        """
        with self._lock:
            for link in self._links:
                link.is_frozen = True
            return len(self._links)

    # -- threads -------------------------------------------------------------

    def _keep_accepting(self) -> None:
        while not self._over.is_set():
            try:
                slave, _ = self._listener.accept()
            except OSError:
                # The proxy closes.
                return
            # A fault finds either the whole link or none.
            with self._lock:
                self._join(slave)

    def _join(self, slave: socket.socket) -> None:
        try:
            if self._is_refusing:
                raise ConnectionRefusedError
            master = socket.create_connection(self._target)
        except OSError:
            # No master listens, and the slave gets the same error.
            slave.close()
            return
        link = _Link(slave, master)
        ways = (slave, master, TO_MASTER), (master, slave, TO_SLAVE)
        link.threads = [
            threading.Thread(target=self._carry, args=(link, *way)) for way in ways
        ]
        for thread in link.threads:
            thread.start()
        self._links.append(link)

    def _carry(
        self, link: _Link, source: socket.socket, goal: socket.socket, direction: int
    ) -> None:
        flow = self._flows[direction]
        try:
            while True:
                flow.wait()
                piece = source.recv(_PIECE_BYTES)
                if self._delay_s:
                    self._over.wait(self._delay_s)
                flow.wait()
                if link.is_frozen:
                    return
                if not piece:
                    goal.shutdown(socket.SHUT_WR)
                    return
                goal.sendall(piece)
                if direction == TO_SLAVE:
                    with self._carried:
                        self._carried_bytes += len(piece)
                        self._carried.notify_all()
        except OSError:
            # One end broke, or the proxy cut it: the other end hears of it.
            if not link.is_frozen:
                _hang_up(link)


def _hang_up(link: _Link) -> None:
    for end in (link.slave, link.master):
        with suppress(OSError):  # it has gone already
            end.shutdown(socket.SHUT_RDWR)
