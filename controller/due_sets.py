"""
Which sets are to be looked at now, and which again later. Pure.

A set whose master is dead is looked at again and again until it has one: a single try
that fails would leave it without (R231). Not all at once, after a controller has
started or a network was down: whoever asks for a later look draws by how much it moves.

Source: R231, R236, R62; C3.
"""

from __future__ import annotations

from heapq import heappop, heappush

from pystore.controller.facts import Facts
from pystore.controller.state import SetKey, SetState
from pystore.controller.views import living_leadership

__all__ = ["RETRY_MS", "DueSets", "needs_master"]

RETRY_MS = 1_000
"""After how long a set that has no master yet is looked at again, at the earliest."""


def needs_master(state: SetState, facts: Facts) -> bool:
    """
    Returns whether an election is to be tried. Where nobody is alive it is tried until
    that is recorded, and then when somebody comes.
    """
    if not state.is_known or not state.is_automatic:
        return False
    if living_leadership(state, facts) is not None:
        return False
    return state.master is not None or bool(facts.pulses)


class DueSets:
    """
    When each set is to be looked at next: one time a set, the earliest asked for. One
    thread; times are boot time.
    """

    __slots__ = ("_at_ns", "_queue")

    def __init__(self) -> None:
        self._at_ns: dict[SetKey, int] = {}
        self._queue: list[tuple[int, SetKey]] = []

    def look(self, key: SetKey, at_ns: int) -> None:
        """
        A set is to be looked at then, or earlier.
        """
        known = self._at_ns.get(key)
        if known is None or at_ns < known:
            self._at_ns[key] = at_ns
            heappush(self._queue, (at_ns, key))

    def retry(self, key: SetKey, now_ns: int, chance: float) -> None:
        """
        A look has changed nothing.

        Args:
            key: of the set.
            now_ns: the time.
            chance: from 0 to 1, drawn anew each time: the pause is up to twice as long.
        """
        self.look(key, now_ns + int(RETRY_MS * 1_000_000 * (1 + chance)))

    def take(self, now_ns: int) -> list[SetKey]:
        """
        Returns the sets that are due, the longest due first, and forgets them: who
        finds that more is to be done asks for another look.
        """
        due: list[SetKey] = []
        while self._queue and self._queue[0][0] <= now_ns:
            at_ns, key = heappop(self._queue)
            if self._at_ns.get(key) == at_ns:
                del self._at_ns[key]
                due.append(key)
        return due

    @property
    def next_ns(self) -> int | None:
        """
        When `take` returns something again, at the earliest.
        """
        return self._queue[0][0] if self._queue else None
