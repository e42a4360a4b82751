"""
The requests of one connection that wait for their answers. For one event loop.

Source: formats 3.1; docs/remoting.md.
"""

from __future__ import annotations

import asyncio

from pystore.remoting.command import RemotingCommand
from pystore.remoting.errors import NoAnswer

__all__ = ["PendingCalls"]

_OPAQUE_MASK = (1 << 31) - 1


class PendingCalls:
    """
    The pending requests by their opaque numbers.
    """

    __slots__ = ("_answers", "_next_opaque")

    def __init__(self) -> None:
        self._answers: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._next_opaque = 0

    def __len__(self) -> int:
        """
        Returns how many wait.
        """
        return len(self._answers)

    def opaque(self) -> int:
        """
        Returns a number that no pending request has.
        """
        while True:
            opaque = self._next_opaque
            self._next_opaque = (opaque + 1) & _OPAQUE_MASK
            if opaque not in self._answers:
                return opaque

    def begin(
        self, opaque: int, loop: asyncio.AbstractEventLoop
    ) -> asyncio.Future[RemotingCommand]:
        """
        Returns what the answer to a request will be set in.
        """
        answer: asyncio.Future[RemotingCommand] = loop.create_future()
        self._answers[opaque] = answer
        return answer

    def take(self, response: RemotingCommand) -> None:
        """
        Takes a response; one that is late is dropped.
        """
        answer = self._answers.get(response.opaque)
        if answer is not None and not answer.done():
            answer.set_result(response)

    def end(self, opaque: int) -> None:
        """
        Ends the wait of a request, answered or not.
        """
        answer = self._answers.pop(opaque)
        if not answer.cancel() and not answer.cancelled():
            # Read it, or asyncio warns that it was never retrieved.
            answer.exception()

    def fail(self, reason: str) -> None:
        """
        Ends all: no answer will arrive.
        """
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(NoAnswer(reason))
