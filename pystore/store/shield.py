"""
Calls that no signal handler interrupts: the opening and the closing of a store.

Python runs signal handlers in the main thread, between two instructions of whatever
runs there. A handler that raises, as that of Ctrl-C does, would leave a store half
open: its lock would have no owner. So the main thread has the work done by a thread of
its own, where no handler runs, and waits. If the wait is interrupted, the exception is
raised at once, and the work runs to its end: an opened store is then closed again, and
the next opening of the same store in this process waits for that.
"""

from __future__ import annotations

import _thread
import atexit
import itertools
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

__all__ = ["ShieldedCall", "settle"]

T = TypeVar("T")

_POLL_S = 0.02
_EXIT_WAIT_S = 2.0
_LOGGER = logging.getLogger("pystore")

_abandoned: set[ShieldedCall[Any]] = set()
_numbers = itertools.count()
_serving = threading.local()


class _End:
    """
    The end of a call, for those who wait for it; it keeps nothing else alive.
    """

    def __init__(self) -> None:
        self.is_here = False
        # Not `threading.Event`: an interrupt inside of its methods leaves it locked.
        self._gate = _thread.allocate_lock()
        self._gate.acquire()

    def set(self) -> None:
        self.is_here = True
        try:
            self._gate.release()
        except RuntimeError:
            # No thread took it since the last time.
            return

    def wait(self, timeout_s: float | None = None) -> None:
        waited_s = 0.0
        while not self.is_here and (timeout_s is None or waited_s < timeout_s):
            self._gate.acquire(timeout=_POLL_S)
            waited_s += _POLL_S


class ShieldedCall(Generic[T]):
    """
    One call, made by ``run``. If ``run`` raises, its caller calls ``abandon`` in the
    same ``try`` statement: a handler may also raise after the work was done.

    In another thread than the main one the work is done there: no handler interrupts
    it. Work waits for the earlier interrupted calls of its key, unless it is part of
    other such work.

    Args:
        work: the call.
        key: what it works on.
        undo: undoes finished work whose caller was interrupted, given its result.
            ``None``: finished work stays, and the end of the process waits for it.
    """

    def __init__(
        self,
        work: Callable[[], T],
        key: str,
        undo: Callable[[T], object] | None = None,
    ) -> None:
        # The first to take the work does it, or prevents it; the first to take the
        # outcome decides whether the result is delivered.
        self._work = [work]
        self._outcome = [True]
        self._undo = undo
        self._results: list[T] = []
        self._errors: list[BaseException] = []
        self._is_failed = False
        self._ended, self._settled = _End(), _End()
        self.number = next(_numbers)
        self.key = key

    def run(self) -> T:
        """
        Do the work, and return its result.

        Raises:
            BaseException: what the work raised, or a signal handler.
        """
        is_main = threading.get_ident() == threading.main_thread().ident
        if not is_main or sys.is_finalizing():  # a new thread would never run
            _serve([self])
        else:
            try:
                # Not `threading.Thread`: its start takes locks in this thread, which
                # an interrupt would leave taken.
                _thread.start_new_thread(_serve, ([self],))
            except RuntimeError:
                # No threads: a limit of the system, or the interpreter ends.
                _serve([self])
            self._ended.wait()
        if self._is_failed:
            raise self._errors.pop()
        return self._results[0]

    def abandon(self) -> None:
        """
        Prevent the work, or have it undone once it is done.
        """
        is_told = self._is_failed and not self._errors
        if is_told or self._take(self._work):
            return
        _abandoned.add(self)
        if self._take(self._outcome):
            # The thread that works undoes it.
            return
        try:
            _thread.start_new_thread(self._settle, ())
        except RuntimeError:
            # As in `run`.
            self._settle()

    def wait(self) -> None:
        """
        Wait until abandoned work is done, and undone.
        """
        self._settled.wait()

    def wait_at_exit(self) -> None:
        """
        As `wait`, but for an opening not for long: a recovery may take minutes.
        """
        self._settled.wait(None if self._undo is None else _EXIT_WAIT_S)

    @staticmethod
    def _take(tokens: list[Any]) -> bool:
        try:
            tokens.pop()
        except IndexError:
            # Another thread took it.
            return False
        return True

    def work(self) -> _End | None:
        """
        Do the work, in the thread that serves the call; ``None``: it was prevented.
        """
        try:
            work = self._work.pop()
        except IndexError:
            # Abandoned before it began.
            return None
        try:
            if not getattr(_serving, "is_inside", False):
                settle(self.key, self.number)
            with _inside():
                self._results.append(work())
        except BaseException as error:
            # `run` raises it in the thread of the caller.
            self._is_failed = True
            self._errors.append(error)
        if not self._take(self._outcome):
            self._settle()
        return self._ended

    def _settle(self) -> None:
        """
        Undo the work of an interrupted caller.
        """
        try:
            if self._errors:
                _LOGGER.warning("%s: %s", self.key, self._errors.pop())
            with _inside():
                while self._results and self._undo is not None:
                    self._undo(self._results.pop())
        except Exception:
            # No caller is left to hear it.
            _LOGGER.warning("%s: closing it failed", self.key, exc_info=True)
        _abandoned.discard(self)
        self._settled.set()


def _serve(calls: list[ShieldedCall[Any]]) -> None:
    trace = threading.gettrace()
    if trace is not None and sys.gettrace() is None:
        # For coverage and debuggers, as `threading.Thread` does.
        sys.settrace(trace)
    # No reference is left when the end is told: a handle is freed with the caller's.
    ended = calls.pop().work()
    if ended is not None:
        ended.set()


@contextmanager
def _inside() -> Iterator[None]:
    """
    Marks the thread: a call inside of other work does not wait for that work.
    """
    before = getattr(_serving, "is_inside", False)
    _serving.is_inside = True
    try:
        yield
    finally:
        _serving.is_inside = before


def settle(key: str, before: int | None = None) -> None:
    """
    Wait until no interrupted call works on *key*.

    Args:
        key: of the calls.
        before: only for calls with a lower number, so that no two wait for each other.
    """
    for call in list(_abandoned):
        if call.key == key and (before is None or call.number < before):
            call.wait()


def _settle_at_exit() -> None:
    for call in list(_abandoned):
        call.wait_at_exit()


# A forked child has none of the threads.
os.register_at_fork(after_in_child=_abandoned.clear)
atexit.register(_settle_at_exit)
