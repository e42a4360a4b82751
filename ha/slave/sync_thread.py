"""
Syncs a replica's log in a thread of its own, when its master waits for the disk.

A sync takes longer than a frame, and frames go on meanwhile. A log that nobody waits
for is synced by the core's own flusher, twice a second.

Source: docs/in-sync.md (`all-synced`, B9).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from pystore.errors import PystoreError

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["SyncThread"]


class SyncThread:
    """
    One sync at a time. A context manager; one thread asks.

    Args:
        sync: of the log; what it raises, the log knows.
    """

    def __init__(self, sync: Callable[[], object]) -> None:
        self._sync = sync
        self._asked = threading.Event()
        self._is_over = False
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        """
        Whether a sync that was asked for is under way.
        """
        return self._asked.is_set()

    def ask(self) -> None:
        """
        Syncs soon; nothing, while one is under way.
        """
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._keep_syncing, name="pystore-ha-sync", daemon=True
            )
            self._thread.start()
        self._asked.set()

    def __enter__(self) -> SyncThread:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over = True
        self._asked.set()
        if self._thread is not None:
            self._thread.join()

    def _keep_syncing(self) -> None:
        while True:
            self._asked.wait()
            if self._is_over:
                return
            with suppress(PystoreError):  # a poisoned log says so to whoever looks
                self._sync()
            if not self._is_over:
                self._asked.clear()
