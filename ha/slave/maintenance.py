"""
What a replica's keeper does while bytes come faster than queues can be built.

Queue entries are made from the log, by an interpreter that receiving needs, too. So
a replica that catches up gets its bytes first: its bounds are kept every time (A5),
its queues and seals rest, but not for long. After a crash they are made again from
the log, as much of them as rested.
"""

from __future__ import annotations

from pystore.store.store import Store

__all__ = ["RESTS_MAX", "RUSH_BYTES", "ReplicaMaintenance"]

RUSH_BYTES = 256 << 20
"""A log that grows by so much in a second catches up."""

RESTS_MAX = 7
"""So many calls in a row leave the queues alone, at most."""


class ReplicaMaintenance:
    """
    A store as `pystore.store.maintenance.MaintenanceThread` sees it. The keeper's
    thread alone.

    Args:
        store: open for writing.
        rush_bytes: how much a log grows between two calls while it catches up.
    """

    def __init__(self, store: Store, rush_bytes: int = RUSH_BYTES) -> None:
        self._store = store
        self._rush_bytes = rush_bytes
        self._seen_end = self._end
        self._rests = 0

    @property
    def _end(self) -> int:
        return self._store.log.writer.log.ends().published_end

    def keep(self) -> bool:
        """
        Keep bounds, and mostly the rest.

        Raises:
            PystoreError: as `Store.keep`.
        """
        end = self._end
        grown, self._seen_end = end - self._seen_end, end
        if grown < self._rush_bytes or self._rests == RESTS_MAX:
            self._rests = 0
            return self._store.keep()
        self._rests += 1
        return self._store.log.keep()
