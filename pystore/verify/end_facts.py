"""
The facts that decide whether a bad record is damage or the end of the log.

They are those of an opening, so that both give one verdict.
"""

from __future__ import annotations

from typing import Protocol

from pystore.bindings.ffi import Stop
from pystore.consumequeue.queues import ConsumeQueues
from pystore.recovery.behind import NOTHING, Behind, look_behind
from pystore.recovery.rocketmq import find_above
from pystore.recovery.segments import Segments
from pystore.recovery.survey import first_stale
from pystore.recovery.torn_tail import Bound, Evidence

__all__ = ["EndFacts", "StoreFacts"]


class EndFacts(Protocol):
    """
    The facts behind the stops of a scan.
    """

    def behind(
        self, offset: int, stop: Stop, /
    ) -> tuple[int | None, int | None, Behind]:
        """
        Returns `Findings.named_behind`, `Findings.later_segment` and the facts behind.
        """
        ...

    def first_stale(self, end: int, /) -> int | None:
        """
        Returns the first stale record below *end*; ``None``: there is none.
        """
        ...


class StoreFacts:
    """
    The facts of one store, found when they are asked for.

    Args:
        segments: of its log.
        queues: its consume queues, loaded.
        bound: of the store.
    """

    def __init__(
        self, segments: Segments, queues: ConsumeQueues, bound: Bound | Evidence
    ) -> None:
        self._segments = segments
        self._queues = queues
        self._bound = bound

    def behind(self, offset: int, stop: Stop) -> tuple[int | None, int | None, Behind]:
        """
        As `EndFacts.behind`. Below a bound no fact changes the verdict.
        """
        bound = self._bound
        if isinstance(bound, Bound):
            if offset < bound.offset:
                return None, None, NOTHING
            return None, None, look_behind(self._segments, offset, stop)
        named, later = find_above(
            self._segments, self._queues, offset, bound.checkpoint_ms
        )
        return named, later, look_behind(self._segments, offset, stop, self._queues)

    def first_stale(self, end: int) -> int | None:
        """
        As `EndFacts.first_stale`.
        """
        if isinstance(self._bound, Bound):
            return None
        return first_stale(self._segments, self._queues, self._bound, end)
