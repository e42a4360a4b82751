"""
Waiters for rising offsets, in the core and without the GIL.

An append of a replicated log is acknowledged when a mark, such as the confirm offset,
passes its end. Many threads wait at once. The thread that raises the mark wakes one of
them, and each woken waiter wakes the next, as in the commit queue.

Source: csrc/waiters.h.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING

from pystore.bindings.ffi import HAS_GIL, borrow, check, ffi, give_back, lib
from pystore.core.results import Appended
from pystore.errors import InvalidError

if TYPE_CHECKING:
    from pystore._core import CData
    from pystore.core.log_writer import LogHandle

__all__ = ["OffsetWaiters", "WaitOutcome"]

_SLICE_MS = 200
_NS_PER_MS = 1_000_000
_EXPIRED: int = lib.PS_WAIT_EXPIRED

_unpack_appended = struct.Struct("=QQqqQ").unpack
_tuple_new = tuple.__new__

# A look-up in `lib` takes half as long as the call.
_ps_log_append_quietly = lib.ps_log_append_no_wake
_ps_waits_append = lib.ps_waiters_append
_ps_waits_raise = lib.ps_waiters_raise
_ps_waits_ring = lib.ps_waiters_notify
_ps_waits_wait = lib.ps_waiters_wait


class WaitOutcome(IntEnum):
    """
    How a wait ended.
    """

    REACHED = 1
    """The mark is at the wanted offset or above."""
    EXPIRED = 2
    """The mark was not there within the time."""
    ENDED = 3
    """``end`` was called."""


# By number: a call of the enum takes ten times as long. There is no outcome 0.
_OUTCOMES: tuple[WaitOutcome, ...] = (WaitOutcome.EXPIRED, *WaitOutcome)


class OffsetWaiters:
    """
    Marks and their waiters. Any thread may call any method.

    Args:
        marks: their number, at most 8; each begins at offset 0.
        one_by_one: each woken waiter wakes one other, since all need the GIL; else two.

    Raises:
        InvalidError: no mark, or too many.
        StorageError: no memory.
    """

    __slots__ = ("_waits", "_words")

    def __init__(self, marks: int, *, one_by_one: bool = HAS_GIL) -> None:
        made = ffi.new("ps_waiters **")
        scratch = borrow()
        try:
            status = lib.ps_waiters_open(marks, int(one_by_one), made, scratch.error)
        except (OverflowError, TypeError) as error:  # what cffi raises
            raise InvalidError(f"{marks!r} marks: {error}") from error
        check(status, scratch.error)
        give_back(scratch)
        # A running call keeps a reference, so it is not freed under a waiter.
        self._waits: CData = ffi.gc(made[0], lib.ps_waiters_free)
        self._words = {
            mark: lib.ps_waiters_word(self._waits, mark) for mark in range(marks)
        }

    def raise_to(self, mark: int, offset: int) -> None:
        """
        Moves a mark up to *offset*, never back, and wakes the waiters for at most that.

        It is short, so it may be called under a lock that woken waiters take next.

        Args:
            mark: its number, from 0 on.
            offset: in bytes.

        Raises:
            InvalidError: no such mark, or no offset.
        """
        scratch = borrow()
        try:
            status = _ps_waits_raise(self._waits, mark, offset, scratch.error)
        except (OverflowError, TypeError) as error:  # what cffi raises
            raise InvalidError(f"mark {mark!r} to {offset!r}: {error}") from error
        check(status, scratch.error)
        give_back(scratch)

    def notify(self, mark: int) -> None:
        """
        Moves a mark up by one, and wakes its waiters.

        Raises:
            InvalidError: no such mark.
        """
        scratch = borrow()
        status = _ps_waits_ring(self._waits, mark, scratch.error)
        check(status, scratch.error)
        give_back(scratch)

    def wait(self, mark: int, end_offset: int, timeout_ms: int) -> WaitOutcome:
        """
        Waits until a mark is at *end_offset* or above, and returns the outcome.

        Python handles signals five times a second meanwhile.

        Args:
            mark: its number, from 0 on.
            end_offset: in bytes.
            timeout_ms: 0 or less: do not wait.

        Raises:
            InvalidError: no such mark, or no offset.
            ForkedError: this is a forked child, and the mark is below.
        """
        scratch = borrow()
        left_ms = timeout_ms
        while True:
            # A signal does not end a call of the core.
            step_ms = min(left_ms, _SLICE_MS)
            left_ms -= step_ms
            try:
                status = _ps_waits_wait(
                    self._waits,
                    mark,
                    end_offset,
                    step_ms * _NS_PER_MS if step_ms > 0 else 0,
                    scratch.count,
                    scratch.error,
                )
            except (OverflowError, TypeError) as error:  # what cffi raises
                wanted = f"mark {mark!r} at {end_offset!r}"
                raise InvalidError(f"no wait for {wanted}: {error}") from error
            check(status, scratch.error)
            number: int = scratch.count[0]
            if number != _EXPIRED or left_ms <= 0:
                give_back(scratch)
                outcome: WaitOutcome = _OUTCOMES[number]
                return outcome

    def append(
        self, log: LogHandle, form: bytes, mark: int, timeout_ms: int
    ) -> tuple[Appended, WaitOutcome]:
        """
        Appends messages as ``LogHandle.append`` does, and waits until a mark passes
        their end: in one call of the core, so that a thread needs the GIL once.

        Args:
            log: open for writing.
            form: of the messages.
            mark: its number, from 0 on.
            timeout_ms: of the wait.

        Raises:
            PystoreError: as ``LogHandle.append``, without a wait.
        """
        scratch = borrow()
        step_ms = max(min(timeout_ms, _SLICE_MS), 0)
        try:
            status = _ps_waits_append(
                self._waits,
                mark,
                step_ms * _NS_PER_MS,
                log.pointer,
                form,
                len(form),
                scratch.appended,
                scratch.count,
                scratch.error,
            )
        except (OverflowError, TypeError) as error:  # what cffi raises
            kind = type(form).__name__
            raise InvalidError(f"mark {mark!r}, {kind}: {error}") from error
        if status:
            log.refuse(status, scratch.error)
        appended = _tuple_new(Appended, _unpack_appended(scratch.appended_bytes))
        number: int = scratch.count[0]
        give_back(scratch)
        if number == _EXPIRED and timeout_ms > step_ms:
            return appended, self.wait(mark, appended.end, timeout_ms - step_ms)
        return appended, _OUTCOMES[number]

    @staticmethod
    def append_quietly(log: LogHandle, form: bytes) -> Appended:
        """
        Appends messages as ``LogHandle.append`` does with `LocalAck.SHARED`, without
        waking the waiters of `notify_on_publish`: the caller does their work, and calls
        `notify` for the rest.

        Args:
            log: open for writing.
            form: of the messages.

        Raises:
            PystoreError: as ``LogHandle.append``.
        """
        scratch = borrow()
        try:
            status = _ps_log_append_quietly(
                log.pointer, form, len(form), scratch.appended, scratch.error
            )
        except TypeError as error:  # what cffi raises
            kind = type(form).__name__
            raise InvalidError(f"no message form but {kind}: {error}") from error
        if status:
            log.refuse(status, scratch.error)
        appended = _tuple_new(Appended, _unpack_appended(scratch.appended_bytes))
        give_back(scratch)
        return appended

    def notify_on_publish(self, log: LogHandle) -> None:
        """
        Each publication of a log notifies mark 0 from now on, until `stop_notifying`.
        """
        scratch = borrow()
        check(lib.ps_log_notify(log.pointer, self._waits, scratch.error), scratch.error)
        give_back(scratch)

    def stop_notifying(self, log: LogHandle) -> None:
        """
        Ends `notify_on_publish`; call it before the last reference is dropped.
        """
        scratch = borrow()
        check(lib.ps_log_notify(log.pointer, ffi.NULL, scratch.error), scratch.error)
        give_back(scratch)

    def mark(self, mark: int) -> int:
        """
        Returns the offset of a mark.

        Raises:
            InvalidError: no such mark.
        """
        try:
            offset: int = self._words[mark][0]
        except KeyError as error:
            raise InvalidError(f"no mark {mark!r}") from error
        return offset

    @property
    def waiting(self) -> int:
        """
        The number of waiting threads.
        """
        count: int = lib.ps_waiters_waiting(self._waits)
        return count

    def end(self) -> None:
        """
        Ends all waits, now and from now on. Calling it again is allowed.

        Marks still rise, and a wait for an offset that a mark has reached returns
        ``REACHED``.
        """
        lib.ps_waiters_end(self._waits)
