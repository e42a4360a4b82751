"""
The limit of a catch-up: ``sendfile``, ``recv``, ``pwrite``, and nothing else; over TLS
``sendall`` from a mapping of the file.

Usage: bare_link.py NEW_FOLDER PIECE_BYTES SEGMENT END_OFFSET COMMITLOG [sync]; prints
the seconds from the connection to the last write. Files are allocated as a store's are,
and not synced; with ``sync`` each one is, when it is whole.
"""

from __future__ import annotations

import os
import socket
import ssl
import sys
import time
from mmap import PROT_READ, mmap
from pathlib import Path

from tls_files import client_tls, server_tls

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


def _send_encrypted(
    connected: ssl.SSLSocket, source: Path, piece: int, end: int
) -> None:
    sent = 0
    for path in sorted(source.iterdir()):
        size = min(path.stat().st_size, end - sent)
        with path.open("rb") as file, mmap(file.fileno(), 0, prot=PROT_READ) as whole:
            view = memoryview(whole)[:size]
            for at in range(0, size, piece):
                connected.sendall(view[at : at + piece])
            view.release()
        sent += size
    connected.unwrap()


def _receive(
    connected: socket.socket,
    folder: Path,
    piece: int,
    segment: int,
    end: int,
    *,
    is_synced: bool,
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
        if is_synced:
            os.fdatasync(file)
        os.close(file)


def main() -> None:
    """
    Sends in a process of its own, receives in this one.
    """
    folder, sizes = Path(sys.argv[1]), tuple(map(int, sys.argv[2:5]))
    piece, _, end = sizes
    is_synced = sys.argv[6:] == ["sync"]
    # Before the fork: an error ends both.
    server, client = server_tls(), client_tls()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        sender = os.fork()
        if not sender:
            connected, _ = listener.accept()
            source = Path(sys.argv[5])
            if server is None:
                _send(connected, source, piece, end)
            else:
                context = server.context()
                with context.wrap_socket(connected, server_side=True) as secured:
                    _send_encrypted(secured, source, piece, end)
            os._exit(0)
        start = time.perf_counter()
        with socket.create_connection(address) as connected:
            if client is None:
                _receive(connected, folder, *sizes, is_synced=is_synced)
            else:
                context = client.context()
                secured = context.wrap_socket(connected, server_hostname=address[0])
                _receive(secured, folder, *sizes, is_synced=is_synced)
                secured.unwrap()
        taken = time.perf_counter() - start
        os.waitpid(sender, 0)
    print(taken)


if __name__ == "__main__":
    main()
