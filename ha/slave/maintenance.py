"""
Maintenance of a replica that receives bytes faster than it can build queues.

Building queue entries and receiving use the same interpreter. So a replica that catches
up receives first: its bounds are stored every time (A5), its queues and seals are
skipped, but not for long. After a crash the skipped part is built from the log.
"""

from __future__ import annotations

from pystore.store.store import Store

__all__ = ["RESTS_MAX", "RUSH_BYTES", "ReplicaMaintenance"]

RUSH_BYTES = 256 << 20
"""A log that grows by so many bytes in a second is catching up."""

RESTS_MAX = 7
"""The most calls in a row that skip the queues."""


class ReplicaMaintenance:
    """
    A store as `pystore.store.maintenance.MaintenanceThread` uses it, in that thread
    only.

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
        Stores the bounds, and does the other maintenance unless it is skipped.

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
