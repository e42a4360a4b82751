"""
The thread that keeps a log's bounds while a program uses it.

Bounds in LMDB are lower bounds that only matter after a power cut, so once a
second is enough (docs/crash-safety.md, A5). The thread sleeps between two looks
and does nothing while the log does not change.
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
    What a keeper looks after: a log or a store.
    """

    def keep(self) -> bool:
        """
        Store what changed.
        """
        ...


@public
class MaintenanceThread:
    """
    Calls ``keep`` once a second until it is stopped. A context manager.

    Args:
        kept: a log or a store, open for writing.
        interval_s: between two calls.

    Attributes:
        error: why the last call failed, or ``None``. A keeper goes on trying: a full
            disk passes; a poisoned log stays poisoned, and its appends say so.
    """

    def __init__(self, kept: Maintained, interval_s: float = INTERVAL_S) -> None:
        self.error: PystoreError | None = None
        self._kept = kept
        self._interval_s = interval_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="pystore-keeper", daemon=True
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
        Wait for a call that runs, and end the thread; again is fine.
        """
        self._stopping.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            try:
                self._kept.keep()
            except PystoreError as error:
                # Nobody waits for this thread; whoever asks finds the reason.
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
    Open a `CommitLog` with a keeper that closes with it.

    Args:
        path: the store's directory.
        mode: ``w`` or ``r``; a reader has nothing to keep.
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
    Open a `Store` with a keeper that closes with it.

    Args:
        path: the store's directory.
        mode: ``w`` or ``r``; a reader has nothing to keep.
        options: of `CommitLog`.

    Raises:
        PystoreError: as `Store`.
    """
    store = Store(path, mode=mode, lock=threading.RLock(), **options)
    if mode == "w":
        store.before_close(MaintenanceThread(store).stop)
    return store
