"""
The received bytes that are not read yet, of all connections of a server. Pure.

A peer may send the beginning of a request, and nothing more. One such request is
bounded, but thousands of connections can be open. So their sum is bounded, too: beyond
it the connection is closed whose request is incomplete for the longest time. A peer
that sends its requests in one piece is never that one, however many do not.

Source: docs/remoting.md.
"""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["UnreadBytes"]

C = TypeVar("C")


class UnreadBytes(Generic[C]):
    """
    For one event loop. Connections are compared by identity.

    Args:
        bytes_max: of all connections.

    Attributes:
        total: the bytes of all connections now.
        closed: how many connections were closed for this.
    """

    __slots__ = ("_bytes_max", "_held", "closed", "total")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        # The one that is incomplete for the longest time comes first.
        self._held: dict[C, int] = {}
        self.total = self.closed = 0

    def note(self, connection: C, count: int) -> None:
        """
        Takes note of the unread bytes of a connection after each read; 0: its requests
        are complete, or it is closed.
        """
        before = self._held.get(connection, 0)
        if count:
            self._held[connection] = count
        elif before:
            del self._held[connection]
        self.total += count - before

    def excess(self) -> C | None:
        """
        Returns the connection to close; ``None``: the sum is within the bound.
        """
        return next(iter(self._held)) if self.total > self._bytes_max else None
