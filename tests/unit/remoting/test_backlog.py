"""
Peers with more commands than they may have carried out at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from lib.remoting.peers import BEAT, Peer
from lib.remoting.virtual_time_loop import run, until

from pystore.remoting.backlog import Backlog
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.framing import encode_frame
from pystore.remoting.limits import RemotingLimits
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer


class _Turns:
    """
    The turns of a loop, by hand.
    """

    def __init__(self) -> None:
        self._soon: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def call_soon(self, call: Callable[..., object], *args: object) -> None:
        """
        Calls it in the next turn.
        """
        self._soon.append((call, args))

    def turn(self) -> int:
        """
        Carries out one turn; returns how many calls it had.
        """
        calls, self._soon = self._soon, []
        for call, args in calls:
            call(*args)
        return len(calls)


def test_one_peer_has_its_turn_and_one_that_is_known() -> None:
    """
    In the order in which they came; again is fine.
    """
    read: list[str] = []
    backlog, turns = Backlog(read.append), _Turns()
    for peer in ("a", "b", "A", "a", "B", "c"):
        backlog.add(peer, turns.call_soon, is_known=peer.isupper())

    seen = []
    while turns.turn():
        seen.append("".join(read))
        read.clear()
    assert ["Aa", "Bb", "c"] == seen


def test_a_peer_with_still_more_waits_for_the_others() -> None:
    """
    Also if it became known meanwhile, and if the reading of one failed.
    """
    turns = _Turns()
    read: list[str] = []

    def more(peer: str) -> None:
        read.append(peer)
        if read.count(peer) < 3:
            backlog.add(peer, turns.call_soon, is_known=False)
        if peer == "b":
            raise LookupError

    backlog = Backlog(more)
    backlog.add("a", turns.call_soon, is_known=False)
    backlog.add("b", turns.call_soon, is_known=False)
    backlog.add("a", turns.call_soon, is_known=True)
    for _ in range(9):
        try:
            turns.turn()
        except LookupError:
            # As the loop does, it goes on.
            continue
    assert sorted("aaabbb") == sorted(read)
    assert "ab" == "".join(sorted(read[:2]))


@pytest.mark.parametrize("known", [0, 1])
def test_a_turn_carries_out_few_commands_of_peers_that_sent_many(known: int) -> None:
    """
    And a known peer does not wait for the others.
    """
    limits = RemotingLimits()
    count, each = 40, 100
    order: list[int] = []

    def handle(request: RemotingCommand, peer: Connection) -> Reply:
        order.append(request.opaque)
        if request.opaque == 0:
            peer.prefer()
        return Reply()

    async def main() -> None:
        async with RemotingServer({BEAT: handle}, limits) as server:
            address = await server.start()
            peers = [
                Peer(*await asyncio.open_connection(*address)) for _ in range(count)
            ]
            await until(lambda: len(server.connections) == count)
            if known:
                await peers[-1].ask(RemotingCommand(BEAT, 0))
            for number, peer in enumerate(peers, 1):
                frame = encode_frame(RemotingCommand(BEAT, number))
                peer.writer.write(frame * each)
            most, first = 0, known + count * limits.row_max
            while len(order) < known + count * each:
                before = len(order)
                await asyncio.sleep(0)
                if before >= first:
                    most = max(most, len(order) - before)
            assert limits.row_max <= most <= 2 * limits.row_max
            last = len(order) - 1 - order[::-1].index(count)
            if known:
                assert last < known + first + 2 * each
            for peer in peers:
                peer.writer.transport.abort()

    run(main())
