"""
Free ports of this machine for servers of tests.
"""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

__all__ = ["free_port"]

_LOWEST, _ABOVE = 11_000, 20_000
"""
Below those of the rig of RocketMQ, and the range from which systems take the ports of
outgoing connections (from 32768 on Linux): a connection of any process could have the
port before the server listens, as a broker does that is not the master yet.
"""


def free_port(count: int = 3) -> int:
    """
    Returns the first of so many free ports in a row: a broker uses three.
    """
    while True:
        port = random.SystemRandom().randrange(_LOWEST, _ABOVE)
        with ExitStack() as stack:
            try:
                for number in range(count):
                    address = "127.0.0.1", port + number
                    stack.enter_context(socket.create_server(address))
            except OSError:
                # One is taken: others.
                continue
            return port
