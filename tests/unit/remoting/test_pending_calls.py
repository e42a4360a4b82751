"""
The requests that wait for their answers.
"""

from __future__ import annotations

import asyncio

import pytest

from pystore.remoting.command import RemotingCommand
from pystore.remoting.errors import NoAnswer
from pystore.remoting.pending_calls import PendingCalls


def test_each_answer_reaches_its_own_request() -> None:
    """
    In any order; a second one, and one of no request, are dropped.
    """

    async def main() -> None:
        calls, loop = PendingCalls(), asyncio.get_running_loop()
        waiting = {}
        for _ in range(3):
            opaque = calls.opaque()
            waiting[opaque] = calls.begin(opaque, loop)
        assert 3 == len(calls) == len(waiting)
        for opaque in reversed(waiting):
            calls.take(RemotingCommand(opaque, opaque))
            calls.take(RemotingCommand(99, opaque))
        calls.take(RemotingCommand(0, 1_000))
        for opaque, answer in waiting.items():
            assert opaque == (await answer).code
            calls.end(opaque)
        assert 0 == len(calls)

    asyncio.run(main())


def test_all_fail_with_the_connection() -> None:
    """
    Each with the reason; one that was answered keeps its answer.
    """

    async def main() -> None:
        calls, loop = PendingCalls(), asyncio.get_running_loop()
        first, second = calls.begin(1, loop), calls.begin(2, loop)
        calls.take(RemotingCommand(0, 1))
        calls.fail("the peer has gone")
        assert 0 == (await first).code
        with pytest.raises(NoAnswer, match="the peer has gone"):
            await second
        calls.end(1)
        calls.end(2)

    asyncio.run(main())
