"""
The limit of the latency of `all`: two round trips on loopback, each with one hop
between threads, and nothing else.

Usage: bare_round_trips.py BYTES; then it executes commands (`child.py`). The main
thread sends this many bytes, another process answers with few, and another thread
receives the answer and wakes the main thread.
"""

from __future__ import annotations

import os
import socket
import statistics
import sys
import threading
import time

from child import serve

__all__: list[str] = []

_ANSWER = bytes(24)
_TRIPS = 2


def _echo(connected: socket.socket, size: int) -> None:
    buffer = memoryview(bytearray(size))
    while True:
        at = 0
        while at < size:
            found = connected.recv_into(buffer[at:])
            if not found:
                return
            at += found
        connected.sendall(_ANSWER)


class _Link:
    def __init__(self, size: int) -> None:
        self._data = bytes(size)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = listener.getsockname()
            if not os.fork():
                connected, _ = listener.accept()
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _echo(connected, size)
                os._exit(0)
            self._socket = socket.create_connection(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answered = threading.Lock()
        self._answered.acquire()
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        count = 0
        while found := self._socket.recv(1 << 16):
            count += len(found)
            while count >= len(_ANSWER):
                count -= len(_ANSWER)
                self._answered.release()

    def latencies(self, samples: int) -> list[float]:
        """
        The median of two round trips and the 99th of 100, in seconds.
        """
        taken: list[float] = []
        for _ in range(samples):
            start = time.perf_counter()
            for _ in range(_TRIPS):
                self._socket.sendall(self._data)
                self._answered.acquire()
            taken.append(time.perf_counter() - start)
        return [statistics.median(taken), statistics.quantiles(taken, n=100)[98]]


def main() -> None:
    """
    Executes commands.
    """
    serve({"latencies": _Link(int(sys.argv[1])).latencies})


if __name__ == "__main__":
    main()
