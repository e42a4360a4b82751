"""
Peers with more commands than they may have carried out in one turn of the loop. Pure.

A peer may send thousands of small requests in one piece. It has a few of them carried
out in a turn of the event loop. If each such peer had its next ones in the next turn, a
turn with thousands of peers would take seconds. So one of them has its turn, and one of
those that are known (`pystore.remoting.connection.Connection.prefer`).

Source: docs/remoting.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Backlog"]

C = TypeVar("C")


class Backlog(Generic[C]):
    """
    For one event loop. Peers are compared by identity, and wait in the order in which
    they came.

    Args:
        read: carries out the next commands of a peer, and adds it again if there are
            more.
    """

    __slots__ = ("_is_due", "_known", "_others", "_read")

    def __init__(self, read: Callable[[C], object]) -> None:
        self._read = read
        self._known: dict[C, None] = {}
        self._others: dict[C, None] = {}
        self._is_due = False

    def add(self, peer: C, call_soon: Callable[..., object], *, is_known: bool) -> None:
        """
        Lets a peer wait for its turn; again is fine.

        Args:
            peer: it.
            call_soon: calls a function with its arguments in the next turn of the loop.
            is_known: it does not wait for strangers.
        """
        if is_known:
            self._others.pop(peer, None)
            self._known[peer] = None
        elif peer not in self._known:
            self._others[peer] = None
        self._schedule(call_soon)

    def _queues(self) -> tuple[dict[C, None], ...]:
        return self._known, self._others

    def _schedule(self, call_soon: Callable[..., object]) -> None:
        if not self._is_due and (self._known or self._others):
            self._is_due = True
            call_soon(self._turn, call_soon)

    def _turn(self, call_soon: Callable[..., object]) -> None:
        self._is_due = False
        # Of each queue, before one of them can come again.
        turns = [(queue, next(iter(queue))) for queue in self._queues() if queue]
        for queue, peer in turns:
            del queue[peer]
        try:
            for _, peer in turns:
                self._read(peer)
        finally:
            self._schedule(call_soon)
