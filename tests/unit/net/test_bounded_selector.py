"""
A selector that reports few files at once.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import sys
from collections.abc import Iterator

import pytest

from pystore.net.bounded_selector import EVENTS_MAX, BoundedSelector

COUNT = 5 * EVENTS_MAX

needs_epoll = pytest.mark.skipif(
    sys.platform != "linux", reason="only epoll takes a bound"
)


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    """
    Connected sockets.
    """
    found = [socket.socketpair() for _ in range(COUNT)]
    yield found
    for here, there in found:
        here.close()
        there.close()


@needs_epoll
def test_all_ready_files_have_their_turn_and_few_at_once(
    pairs: list[tuple[socket.socket, socket.socket]],
) -> None:
    """
    Also if all of them stay ready.
    """
    with BoundedSelector() as selector:
        for number, (here, there) in enumerate(pairs):
            selector.register(here, selectors.EVENT_READ, number)
            there.send(b"x")
        seen: list[int] = []
        for _ in range(2 * COUNT // EVENTS_MAX):
            found = selector.select(0)
            assert EVENTS_MAX == len(found)
            seen += [key.data for key, _ in found]
        assert sorted(2 * [*range(COUNT)]) == sorted(seen)


def test_files_are_reported_with_what_they_are_ready_for(
    pairs: list[tuple[socket.socket, socket.socket]],
) -> None:
    """
    Of what was asked for; the end of a connection is both.
    """
    both = selectors.EVENT_READ | selectors.EVENT_WRITE
    with BoundedSelector() as selector:
        here, there = pairs[0]
        selector.register(here, selectors.EVENT_READ, "one")
        assert not selector.select(0)
        assert not selector.select(0.001)
        assert not selector.select(-1)
        selector.modify(here, both, "two")
        for sent, expected in ((b"", selectors.EVENT_WRITE), (b"x", both)):
            there.send(sent)
            [(key, events)] = selector.select(None)
            assert (here, "two", expected) == (key.fileobj, key.data, events)
        there.close()
        assert both == selector.select(None)[0][1]
        selector.unregister(here)
        assert not selector.select(0)


@needs_epoll
def test_preferred_files_come_first_and_others_have_their_turn(
    pairs: list[tuple[socket.socket, socket.socket]],
) -> None:
    """
    As many of each at once.
    """
    with BoundedSelector() as selector:
        for number, (here, there) in enumerate(pairs):
            selector.register(here, selectors.EVENT_READ, number)
            there.send(b"x")
        first = {*range(COUNT - 2 * EVENTS_MAX, COUNT)}
        for number in first:
            selector.prefer(pairs[number][0].fileno())
            selector.prefer(pairs[number][0].fileno())
        seen: list[int] = []
        for _ in range(3):
            found = [key.data for key, _ in selector.select(0)]
            assert 2 * EVENTS_MAX == len(found)
            assert first >= {*found[:EVENTS_MAX]}
            seen += found
        assert {*range(COUNT)} == {*seen}


@needs_epoll
def test_a_preferred_file_ends_a_wait_changes_and_goes(
    pairs: list[tuple[socket.socket, socket.socket]],
) -> None:
    """
    As any other; one that is registered again is not preferred.
    """
    both = selectors.EVENT_READ | selectors.EVENT_WRITE
    with BoundedSelector() as selector:
        here, there = pairs[0]
        selector.prefer(here.fileno())
        selector.register(here, selectors.EVENT_READ, "one")
        selector.prefer(here.fileno())
        assert not selector.select(0.001)
        there.send(b"x")
        [(key, events)] = selector.select(None)
        assert ("one", selectors.EVENT_READ) == (key.data, events)
        selector.modify(here, both, "two")
        [(key, events)] = selector.select(None)
        assert ("two", both) == (key.data, events)
        selector.unregister(here)
        assert not selector.select(0)
        selector.register(here, selectors.EVENT_READ, "three")
        other, its_peer = pairs[1]
        selector.register(other, selectors.EVENT_READ, "first")
        selector.prefer(other.fileno())
        its_peer.send(b"x")
        assert ["first", "three"] == [key.data for key, _ in selector.select(None)]
        number = other.fileno()
        other.close()
        assert "first" == selector.unregister(number).data
        assert ["three"] == [key.data for key, _ in selector.select(None)]


@needs_epoll
def test_a_loop_handles_few_files_in_a_turn(
    pairs: list[tuple[socket.socket, socket.socket]],
) -> None:
    """
    So what others scheduled runs in between.
    """
    loop = asyncio.SelectorEventLoop(BoundedSelector())
    read = 0
    most = 0

    def receive(here: socket.socket) -> None:
        nonlocal read
        read += len(here.recv(1))

    async def main() -> None:
        nonlocal most
        for here, there in pairs:
            loop.add_reader(here, receive, here)
            there.send(b"x")
        while read < COUNT:
            before = read
            await asyncio.sleep(0)
            most = max(most, read - before)
        for here, _ in pairs:
            loop.remove_reader(here)

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
    assert 0 < most <= EVENTS_MAX
