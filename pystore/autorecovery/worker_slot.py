"""
One slot of a worker: its name, and its place in the queue.

A worker process repairs several segments at once (AR-R13), one in each slot. The slots
share the session with the record store, not their places.
"""

from __future__ import annotations

from collections.abc import Callable

from pystore.autorecovery.pauses import RecentPauses
from pystore.autorecovery.search import WorkSearch
from pystore.records.record_store import RecordStore

__all__ = ["WorkerSlot"]

_NONCE_BITS = 48


class WorkerSlot:
    """
    A slot. One thread.

    Args:
        store: of the queue.
        name: of process and slot, such as ``host-7:4711/0``: `holder` tells it.
        chance: returns numbers from 0 up to 1, such as `random.Random.random`; each
            slot has its own.

    Attributes:
        name: as given.
        search: its place in the queue.
        pauses: that it knows of.
        is_disabled: when it looked last, taking was disabled.
    """

    def __init__(
        self, store: RecordStore, name: str, chance: Callable[[], float]
    ) -> None:
        self.name = name
        self.search = WorkSearch(store, chance)
        self.pauses = RecentPauses(store)
        self.is_disabled = False
        self._chance = chance
        self._claims = 0

    def nonce(self) -> str:
        """
        Returns another text at each call: it tells a lock of this slot from an earlier
        one.
        """
        self._claims += 1
        return f"{int(self._chance() * (1 << _NONCE_BITS)):x}.{self._claims}"
