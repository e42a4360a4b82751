"""
A generator of TLS handshakes that fail: each connection is reset as soon as the server
has answered, or has closed it.

Usage: handshakes_child.py HOST:PORT; then it executes commands (`child.py`).
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import sys
import threading
import time

from child import serve

__all__ = ["Handshakes"]

_NICE = 10
_THREADS = 32
_ANSWER_S = 10.0
_RESET = struct.pack("ii", 1, 0)


def client_hello() -> bytes:
    """
    The first message of a client, as the standard library makes it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    engine = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    try:
        engine.do_handshake()
    except ssl.SSLWantReadError:
        # It waits for the answer of the server.
        return outgoing.read()
    raise AssertionError("a handshake without a server")


def _messages() -> dict[str, bytes]:
    hello = client_hello()
    changed = bytearray(hello)
    changed[len(hello) // 2 :] = os.urandom(len(hello) - len(hello) // 2)
    return {"first message only": hello, "changed first message": bytes(changed)}


class Handshakes:
    """
    The connections, in threads.

    Args:
        address: of the server.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._place = host, int(port)
        self._messages = _messages()
        self._answered = [0] * _THREADS

    def make(self, kind: str, seconds: float) -> float:
        """
        Makes as many as it can for so long; returns how many failed in a second: the
        server has answered the message, or has closed the connection for it.

        Args:
            kind: ``first message only`` or ``changed first message``.
            seconds: how long.
        """
        self._answered = [0] * _THREADS
        end_s = time.monotonic() + seconds
        threads = [
            threading.Thread(target=self._run, args=(one, self._messages[kind], end_s))
            for one in range(_THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(self._answered) / seconds

    def _run(self, number: int, message: bytes, end_s: float) -> None:
        while time.monotonic() < end_s:
            with socket.socket() as one:
                one.settimeout(_ANSWER_S)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                one.connect(self._place)
                try:
                    one.sendall(message)
                    one.recv(1)
                except ConnectionError:
                    # The server has reset it.
                    pass
                self._answered[number] += 1


def main() -> None:
    """
    Executes commands.
    """
    # Strangers have machines of their own.
    os.nice(_NICE)
    serve({"make": Handshakes(sys.argv[1]).make})


if __name__ == "__main__":
    main()
