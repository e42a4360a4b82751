"""
The maintenance thread of an open log or store.

Once a second it stores the bounds of a log; a store also dispatches and seals. The
bounds are lower bounds that only matter after a power cut, so that is often enough
(docs/crash-safety.md, A5).
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from pystore.core.options import DEFAULTS, Mode
from pystore.events import EventSink
from pystore.fs.layout import store_root
from pystore.message.message import BODY_SIZE_MAX
from pystore.store.commit_log import CommitLog
from pystore.store.shield import ShieldedCall
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
        maintained: a log or a store, open for writing. The thread has a weak
            reference: it ends when the program forgets the log or store.
        interval_s: between two calls.

    Attributes:
        error: of the last call, or ``None``. The thread continues after an error: a
            disk may be full for a time only; a poisoned log stays poisoned, and its
            appends raise.
    """

    def __init__(self, maintained: Maintained, interval_s: float = INTERVAL_S) -> None:
        self.error: Exception | None = None
        self._maintained = weakref.ref(maintained)
        self._pid = os.getpid()
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
        Wait for a running call, and end the thread; calling it again is allowed. A
        forked child has no such thread.
        """
        if self._pid != os.getpid():
            return
        self._stopping.set()
        is_here = self._thread.ident == threading.get_ident()
        # At the end of the interpreter its thread never runs again.
        if self._thread.is_alive() and not is_here and not sys.is_finalizing():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            maintained = self._maintained()
            if maintained is None:
                return
            try:
                maintained.keep()
            except Exception as error:
                # No caller waits for this thread; the store tells the error as an
                # event. A defect must not end the maintenance either.
                self.error = _without_frames(error)
            else:
                self.error = None
            # Not kept while the thread waits; it may be the last reference.
            del maintained


def _without_frames(error: Exception) -> Exception:
    """
    Returns the error without the frames that it passed, which keep their store alive.
    """
    seen: BaseException | None = error
    while seen is not None:
        seen.__traceback__ = None
        seen = seen.__cause__ or seen.__context__
    return error


@public
def open_log(
    path: str | os.PathLike[str],
    *,
    mode: Mode = "w",
    create: bool = True,
    segment_size: int = 0,
    property_crc: bool = True,
    message_size_max: int = BODY_SIZE_MAX,
    flush_interval_ms: int = DEFAULTS.flush_interval_ms,
    writeback_bytes: int = DEFAULTS.writeback_bytes,
    store_host: str = DEFAULTS.store_host,
    accept_loss: bool = False,
    save_to: str | os.PathLike[str] | None = None,
    on_event: EventSink | None = None,
    delay_levels: str = "",
    queue_file_bytes: int | None = None,
) -> CommitLog:
    """
    Open a `CommitLog` with a maintenance thread, which ends when the log closes.

    Args:
        path: the store's directory.
        mode: ``w`` or ``r``; a reader has no maintenance thread.
        create: with ``w``: create a store in a missing or empty directory.
        segment_size: of new stores, in bytes; 0: 1 GiB.
        property_crc: append RocketMQ's property CRC.
        message_size_max: the largest body, in bytes.
        flush_interval_ms: the interval of the flusher; 0: no flusher.
        writeback_bytes: bytes between two early write-backs; 0: none.
        store_host: the ``address:port`` of the broker in records.
        accept_loss: open although promised bytes are bad; see `CommitLog`.
        save_to: the parent of the directory for removed bytes; see `CommitLog`.
        on_event: called with each `pystore.events.StoreEvent`, in any thread.
        delay_levels: the broker's ``messageDelayLevel``; empty: RocketMQ's default.
        queue_file_bytes: size of missing queue files, as in `CommitLog`.

    Raises:
        PystoreError: as `CommitLog`.
    """
    return _maintained(
        partial(
            CommitLog,
            path,
            mode=mode,
            create=create,
            segment_size=segment_size,
            property_crc=property_crc,
            message_size_max=message_size_max,
            flush_interval_ms=flush_interval_ms,
            writeback_bytes=writeback_bytes,
            store_host=store_host,
            accept_loss=accept_loss,
            save_to=save_to,
            on_event=on_event,
            delay_levels=delay_levels,
            queue_file_bytes=queue_file_bytes,
        ),
        path,
        mode,
    )


@public
def open_store(
    path: str | os.PathLike[str],
    *,
    mode: Mode = "w",
    queue_file_bytes: int | None = None,
    create: bool = True,
    segment_size: int = 0,
    property_crc: bool = True,
    message_size_max: int = BODY_SIZE_MAX,
    flush_interval_ms: int = DEFAULTS.flush_interval_ms,
    writeback_bytes: int = DEFAULTS.writeback_bytes,
    store_host: str = DEFAULTS.store_host,
    accept_loss: bool = False,
    save_to: str | os.PathLike[str] | None = None,
    on_event: EventSink | None = None,
    delay_levels: str = "",
) -> Store:
    """
    Open a `Store` with a maintenance thread, which ends when the store closes.

    Args:
        path: the store's directory.
        mode: ``w`` or ``r``; a reader has no maintenance thread.
        queue_file_bytes: size of new queue files, as in `Store`.
        create: with ``w``: create a store in a missing or empty directory.
        segment_size: of new stores, in bytes; 0: 1 GiB.
        property_crc: append RocketMQ's property CRC.
        message_size_max: the largest body, in bytes.
        flush_interval_ms: the interval of the flusher; 0: no flusher.
        writeback_bytes: bytes between two early write-backs; 0: none.
        store_host: the ``address:port`` of the broker in records.
        accept_loss: open although promised bytes are bad; see `CommitLog`.
        save_to: the parent of the directory for removed bytes; see `CommitLog`.
        on_event: called with each `pystore.events.StoreEvent`, in any thread.
        delay_levels: the broker's ``messageDelayLevel``, for the queue entries of
            delayed records; empty: RocketMQ's default.

    Raises:
        PystoreError: as `Store`.
    """
    return _maintained(
        partial(
            Store,
            path,
            mode=mode,
            queue_file_bytes=queue_file_bytes,
            lock=threading.RLock(),
            create=create,
            segment_size=segment_size,
            property_crc=property_crc,
            message_size_max=message_size_max,
            flush_interval_ms=flush_interval_ms,
            writeback_bytes=writeback_bytes,
            store_host=store_host,
            accept_loss=accept_loss,
            save_to=save_to,
            on_event=on_event,
            delay_levels=delay_levels,
        ),
        path,
        mode,
    )


_Opened = TypeVar("_Opened", CommitLog, Store)


def _maintained(
    open_it: Callable[[], _Opened], path: str | os.PathLike[str], mode: Mode
) -> _Opened:
    """
    Returns an opened log or store, with a maintenance thread if it is for writing.
    """

    def work() -> _Opened:
        opened = open_it()
        try:
            if mode == "w":
                opened.before_close(MaintenanceThread(opened).stop)
        except BaseException:
            # Any error, such as no thread: release the lock.
            opened.close()
            raise
        return opened

    opening = ShieldedCall(
        work, os.path.realpath(store_root(path)), lambda opened: opened.close()
    )
    try:
        return opening.run()
    except BaseException:
        # Also Ctrl-C: no caller gets the handle.
        opening.abandon()
        raise
