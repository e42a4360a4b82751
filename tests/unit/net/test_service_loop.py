"""
The event loop of a service.
"""

from __future__ import annotations

import asyncio
import socket
import sys

import pytest

from pystore.net.bounded_selector import EVENTS_MAX
from pystore.net.service_loop import ServiceLoop


@pytest.mark.skipif(sys.platform != "linux", reason="only epoll takes a bound")
def test_a_preferred_file_is_read_before_those_that_were_ready_earlier() -> None:
    """
    In one turn of the loop, while many others wait for theirs.
    """
    pairs = [socket.socketpair() for _ in range(4 * EVENTS_MAX)]
    order: list[int] = []
    loop = ServiceLoop()

    def read(number: int) -> None:
        pairs[number][0].recv(1)
        order.append(number)

    async def main() -> None:
        last = len(pairs) - 1
        for number, (here, _) in enumerate(pairs):
            loop.add_reader(here.fileno(), read, number)
        for _, there in pairs:
            there.send(b"x")
        loop.prefer(pairs[last][0].fileno())
        while len(order) < len(pairs):
            await asyncio.sleep(0)
        assert last == order[0]
        assert [*range(last)] == order[1:]
        for here, _ in pairs:
            loop.remove_reader(here.fileno())

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
        for here, there in pairs:
            here.close()
            there.close()
