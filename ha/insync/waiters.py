"""
Appends that wait for their ack, by the offset where they end. Pure.

A wait is over when the one offset of its ack has passed its end, in whatever order
waits began and whatever others wait for (R218). Nothing is polled: whoever changed
an offset settles (R219).
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from pystore.ha.insync.ack import Ack, Outcome

__all__ = ["Ended", "Waiters"]

Ended = tuple[int, Ack, int, Outcome]
"""Ticket, ack, end offset, outcome."""


class Waiters:
    """
    Heaps of waits: per ack by end, and over all by deadline.
    """

    def __init__(self) -> None:
        self._tickets = 0
        self._by_end: dict[Ack, list[tuple[int, int]]] = {ack: [] for ack in Ack}
        self._by_deadline: list[tuple[int, int, str, int]] = []
        self._open: set[int] = set()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, ack: Ack, end_offset: int, deadline_ms: int) -> int:
        """
        Begins a wait.

        Returns:
            Its ticket.
        """
        self._tickets += 1
        ticket = self._tickets
        self._open.add(ticket)
        heappush(self._by_end[ack], (end_offset, ticket))
        entry = (deadline_ms, ticket, ack.value, end_offset)
        heappush(self._by_deadline, entry)
        return ticket

    def settle(
        self,
        judge: Callable[[Ack, int], Outcome | None],
        expired: Callable[[Ack, int], Outcome],
        now_ms: int,
    ) -> list[Ended]:
        """
        Ends the waits that are decided, then those whose time is up.

        Args:
            judge: says what became of an ack with that end; ``None``: it waits. If
                it waits, so do all with a higher end.
            expired: says what became of one whose time is up.
            now_ms: the time.
        """
        ended: list[Ended] = []
        for ack, heap in self._by_end.items():
            while heap:
                end_offset, ticket = heap[0]
                if ticket in self._open:
                    outcome = judge(ack, end_offset)
                    if outcome is None:
                        break
                    self._open.discard(ticket)
                    ended.append((ticket, ack, end_offset, outcome))
                heappop(heap)
        while self._by_deadline and self._is_due(now_ms):
            _, ticket, name, end_offset = heappop(self._by_deadline)
            if ticket in self._open:
                self._open.discard(ticket)
                ack = Ack(name)
                ended.append((ticket, ack, end_offset, expired(ack, end_offset)))
        return ended

    def next_deadline(self) -> int | None:
        """
        Returns when the next wait runs out.
        """
        return self._by_deadline[0][0] if self._by_deadline else None

    def _is_due(self, now_ms: int) -> bool:
        deadline_ms, ticket, _, _ = self._by_deadline[0]
        # Those that ended already are cleared away on the way.
        return ticket not in self._open or deadline_ms <= now_ms
