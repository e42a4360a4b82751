"""
The maintenance thread of an open log or store.

Once a second it stores the bounds of a log; a store also dispatches and seals. The
bounds are lower bounds that only matter after a power cut, so that is often enough
(docs/crash-safety.md, A5).
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Protocol, Unpack

from pystore.core.options import LogArguments
from pystore.errors import PystoreError
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store
from pystore.stored_names import public

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["INTERVAL_S", "MaintenanceThread", "open_log", "open_store"]

INTERVAL_S = 1.0


class Maintained(Protocol):
    """
    A log or a store, as the maintenance thread uses it.
    """

    def keep(self) -> bool:
        """
        Store changed bounds; returns whether there were any.
        """
        ...


@public
class MaintenanceThread:
    """
    Calls ``keep`` once a second until it is stopped. A context manager.

    Args:
        maintained: a log or a store, open for writing.
        interval_s: between two calls.

    Attributes:
        error: of the last call, or ``None``. The thread continues after an error: a
            disk may be full for a time only; a poisoned log stays poisoned, and its
            appends raise.
    """

    def __init__(self, maintained: Maintained, interval_s: float = INTERVAL_S) -> None:
        self.error: PystoreError | None = None
        self._maintained = maintained
        self._interval_s = interval_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="pystore-maintenance", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> MaintenanceThread:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """
        Wait for a running call, and end the thread; calling it again is allowed.
        """
        self._stopping.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            try:
                self._maintained.keep()
            except PystoreError as error:
                # No caller waits for this thread; the error is in the attribute.
                self.error = error
            else:
                self.error = None


@public
def open_log(
    path: str | os.PathLike[str],
    *,
    mode: str = "w",
    **options: Unpack[LogArguments],
) -> CommitLog:
    """
    Open a `CommitLog` with a maintenance thread, which ends when the log closes.

    Args:
        path: the store's directory.
        mode: ``w`` or ``r``; a reader has no maintenance thread.
        options: of `CommitLog`.

    Raises:
        PystoreError: as `CommitLog`.
    """
    log = CommitLog(path, mode=mode, **options)
    if mode == "w":
        log.before_close(MaintenanceThread(log).stop)
    return log


@public
def open_store(
    path: str | os.PathLike[str],
    *,
    mode: str = "w",
    **options: Unpack[LogArguments],
) -> Store:
    """
    Open a `Store` with a maintenance thread, which ends when the store closes.

    Args:
        path: the store's directory.
        mode: ``w`` or ``r``; a reader has no maintenance thread.
        options: of `CommitLog`.

    Raises:
        PystoreError: as `Store`.
    """
    store = Store(path, mode=mode, lock=threading.RLock(), **options)
    if mode == "w":
        store.before_close(MaintenanceThread(store).stop)
    return store
