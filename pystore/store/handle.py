"""
The life of a handle of a store, from its opening to its closing.

Opening and closing are shielded from signal handlers (`pystore.store.shield`). A handle
that a program forgets is closed by the garbage collector, with a `ResourceWarning`, and
one that is open when the interpreter ends normally is closed then. In a forked child
the handle of the parent takes no lock, since a thread that does not exist there may
hold it: closing it there only frees memory and descriptors.
"""

from __future__ import annotations

import atexit
import os
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import NoReturn, Self
from weakref import WeakSet

from pystore.errors import ForkedError, PystoreError
from pystore.events import LOGGER
from pystore.store.shield import ShieldedCall

__all__ = ["StoreHandle", "own"]

_open_handles: WeakSet[StoreHandle] = WeakSet()
_parts_of_open: dict[int, tuple[object, ...]] = {}
"""What each open handle closes with, by its id. The garbage collector finalizes the
objects of a cycle in any order: without this it could end a log before its handle."""


class StoreHandle:
    """
    What `CommitLog` and `Store` have in common. A context manager.

    Args:
        path: the store's directory.
        is_writable: whether it is opened for writing.
        lock: held while the handle closes.
    """

    path: Path
    # Also for `__del__` after an error in the constructor.
    _is_open = _is_closing = False
    _is_writable = False

    def __init__(
        self,
        path: Path,
        *,
        is_writable: bool,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        self.path = path
        self._is_writable = is_writable
        self._lock = nullcontext() if lock is None else lock
        self._closing_lock = Lock()
        self._closers: list[Callable[[], object]] = []
        self._pid = os.getpid()
        self._is_owned = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._is_forgotten():
            return
        try:
            text = f"unclosed {self!r}: use `with`, or close it"
            warnings.warn(text, ResourceWarning, source=self, stacklevel=2)
        finally:
            self._close_forgotten()

    def _is_forgotten(self) -> bool:
        return (
            self._is_open
            and self._is_writable
            and not self._is_owned
            and self._pid == os.getpid()
        )

    def _close_forgotten(self) -> None:
        try:
            self.close()
        except PystoreError as error:
            # No caller is there who could hear it.
            LOGGER.warning("%s: closing it failed: %s", self.path, error)

    def _opening(self, work: Callable[[], object]) -> ShieldedCall[None]:
        """
        Returns the call that opens the handle by *work*.
        """
        key = os.path.realpath(self.path)

        def do_open() -> None:
            work()
            self._is_open = True
            if self._is_writable:
                _open_handles.add(self)
                _parts_of_open[id(self)] = self._parts()

        return ShieldedCall(do_open, key, lambda _: self._finish())

    def close(self) -> None:
        """
        Dispatch and sync the rest, store the clean mark, and release the store. Calling
        it again is allowed, from any thread. An interrupted call is completed in the
        background. In a forked child, only its memory and descriptors are freed.

        Raises:
            PoisonedError: a write-back failed: the store is closed, not clean.
            StorageError: the system refused; the store is closed.
        """
        if self._pid != os.getpid():
            self._is_open = False
            self._release_in_child()
            _parts_of_open.pop(id(self), None)
            return
        if not self._is_open:
            return
        self._prepare_close()
        if self._closers:
            self._shielded(self._run_closers)
        with self._lock:
            self._shielded(self._finish)

    def before_close(self, closer: Callable[[], object]) -> None:
        """
        Call *closer* when the handle begins to close; the newest first.
        """
        self._closers.append(closer)

    def _shielded(self, work: Callable[[], None]) -> None:
        call = ShieldedCall(work, os.path.realpath(self.path))
        try:
            call.run()
        except BaseException:
            # Also Ctrl-C: the work goes on.
            call.abandon()
            raise

    def _run_closers(self) -> None:
        with self._closing_lock:
            while self._closers:
                self._closers.pop()()

    def _finish(self) -> None:
        self._run_closers()
        with self._closing_lock:
            if not self._is_open:
                return
            self._is_closing = True
            try:
                self._close()
            finally:
                self._is_open = False
                _open_handles.discard(self)
                _parts_of_open.pop(id(self), None)

    def _parts(self) -> tuple[object, ...]:
        """
        Objects with finalizers that closing needs; none refers to a handle.
        """
        raise NotImplementedError

    def _prepare_close(self) -> None:
        """
        Give up what only the calling thread can give up.
        """

    def _close(self) -> None:
        """
        Close everything, while no method runs.
        """
        raise NotImplementedError

    def _release_in_child(self) -> None:
        """
        Free memory and descriptors in a forked child, without a lock or a write.
        """
        raise NotImplementedError

    def _mark_forked(self) -> None:
        """
        In a forked child: no method waits for a lock of the parent.
        """
        self._lock = _ForkedLock(self.path)


def own(handle: StoreHandle) -> None:
    """
    Leaves the closing of a handle to another one.
    """
    handle._is_owned = True
    _open_handles.discard(handle)


class _ForkedLock:
    """
    Stands for a lock that a thread of the parent may hold for ever.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> NoReturn:
        raise ForkedError(
            f"{self._path} was opened by the parent process: open the store again",
            path=str(self._path),
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """
        Nothing was taken.
        """


def _mark_forked() -> None:
    for handle in list(_open_handles):
        handle._mark_forked()


def _close_at_exit() -> None:
    for handle in list(_open_handles):
        if handle._is_forgotten():
            handle._close_forgotten()


os.register_at_fork(after_in_child=_mark_forked)
atexit.register(_close_at_exit)
