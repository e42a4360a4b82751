"""
The limit of a catch-up: ``sendfile``, ``recv``, ``pwrite``, and nothing else.

Usage: bare_link.py NEW_FOLDER PIECE_BYTES SEGMENT END_OFFSET COMMITLOG; prints the
seconds from the connection to the last write. Files are allocated as a store's are,
and not synced.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

__all__ = ["PIECES"]

PIECES = tuple(size << 10 for size in (64, 128, 256, 512, 1024))
"""Sizes of a piece that are tried."""


def _send(connected: socket.socket, source: Path, piece: int, end: int) -> None:
    sent = 0
    for path in sorted(source.iterdir()):
        with path.open("rb") as file:
            size = min(path.stat().st_size, end - sent)
            at = 0
            while at < size:
                count = min(piece, size - at)
                at += os.sendfile(connected.fileno(), file.fileno(), at, count)
        sent += size
    connected.shutdown(socket.SHUT_WR)


def _receive(
    connected: socket.socket, folder: Path, piece: int, segment: int, end: int
) -> None:
    buffer = memoryview(bytearray(piece))
    for base in range(0, end, segment):
        file = os.open(folder / f"{base:020}", os.O_CREAT | os.O_RDWR)
        os.posix_fallocate(file, 0, segment)
        at, size = 0, min(segment, end - base)
        while at < size:
            found = connected.recv_into(buffer[: size - at])
            if not found:
                raise EOFError(f"{base + at} of {end} bytes")
            at += os.pwrite(file, buffer[:found], at)
        os.close(file)


def main() -> None:
    """
    Sends in a process of its own, receives in this one.
    """
    folder, piece, segment, end = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        sender = os.fork()
        if not sender:
            connected, _ = listener.accept()
            _send(connected, Path(sys.argv[5]), piece, end)
            os._exit(0)
        start = time.perf_counter()
        with socket.create_connection(address) as connected:
            _receive(connected, folder, piece, segment, end)
        taken = time.perf_counter() - start
        os.waitpid(sender, 0)
    print(taken)


if __name__ == "__main__":
    main()
