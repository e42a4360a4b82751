"""
Syncs a replica's log in a thread of its own, when its master waits for the disk.

A sync takes longer than a frame, and frames are received meanwhile. If no caller waits
for the disk, the core's own flusher syncs the log, twice a second.

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
    Runs one sync at a time. A context manager; one thread requests syncs.

    Args:
        sync: of the log; the log itself remembers an error.
    """

    def __init__(self, sync: Callable[[], object]) -> None:
        self._sync = sync
        self._asked = threading.Event()
        self._is_over = False
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        """
        Whether a requested sync is under way.
        """
        return self._asked.is_set()

    def ask(self) -> None:
        """
        Requests a sync; has no effect while one is under way.
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
            with suppress(PystoreError):  # the log remembers that it is poisoned
                self._sync()
            if not self._is_over:
                self._asked.clear()
