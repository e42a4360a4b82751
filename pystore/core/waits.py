"""
Waiting until an offset that rises is there, in the core and without the GIL.

An append of a replicated log is acknowledged when a mark, such as what all replicas
hold, passes its end. Many threads wait for that at once, and whoever raises the mark
wakes one of them: the others are woken one by another, as those of an append are.

Source: csrc/waiters.h.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING

from pystore.bindings.ffi import HAS_GIL, borrow, check, fail, ffi, give_back, lib
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

# Looking a function up in `lib` takes half as long as calling it.
_ps_log_append_quietly = lib.ps_log_append_quietly
_ps_waits_append = lib.ps_waits_append
_ps_waits_raise = lib.ps_waits_raise
_ps_waits_ring = lib.ps_waits_ring
_ps_waits_wait = lib.ps_waits_wait


class WaitOutcome(IntEnum):
    """
    How a wait ended.
    """

    REACHED = 1
    """The mark is at the end that was waited for, or above it."""
    EXPIRED = 2
    """It was not within the time."""
    ENDED = 3
    """Nobody waits here any more."""


# By number: to call the enum takes ten times as long. There is no outcome 0.
_OUTCOMES: tuple[WaitOutcome, ...] = (WaitOutcome.EXPIRED, *WaitOutcome)


class OffsetWaiters:
    """
    Marks, and the threads that wait for them. Any thread may call anything.

    Args:
        marks: how many, at most 8; each begins at offset 0.
        in_line: who is woken wakes the next, since all want the interpreter; else
            all are woken at once.

    Raises:
        InvalidError: none, or too many.
        StorageError: no memory.
    """

    __slots__ = ("_waits", "_words")

    def __init__(self, marks: int, *, in_line: bool = HAS_GIL) -> None:
        made = ffi.new("ps_waits **")
        scratch = borrow()
        try:
            status = lib.ps_waits_open(marks, int(in_line), made, scratch.error)
        except (OverflowError, TypeError) as error:  # what cffi raises
            raise InvalidError(f"{marks!r} marks: {error}") from error
        check(status, scratch.error)
        give_back(scratch)
        # A call keeps it, so it is not freed while somebody waits.
        self._waits: CData = ffi.gc(made[0], lib.ps_waits_free)
        self._words = {
            mark: lib.ps_waits_word(self._waits, mark) for mark in range(marks)
        }

    def raise_to(self, mark: int, offset: int) -> None:
        """
        Moves a mark up to *offset*, never back, and wakes who waits for at most that.

        Short: it may be called under a lock that the woken want next.

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

    def ring(self, mark: int) -> None:
        """
        Moves a mark up by one, and wakes who waits for that.

        Raises:
            InvalidError: no such mark.
        """
        scratch = borrow()
        status = _ps_waits_ring(self._waits, mark, scratch.error)
        check(status, scratch.error)
        give_back(scratch)

    def wait(self, mark: int, end_offset: int, timeout_ms: int) -> WaitOutcome:
        """
        Waits until a mark is at *end_offset* or above, and answers how that ended.

        Signals are seen five times a second meanwhile.

        Args:
            mark: its number, from 0 on.
            end_offset: in bytes.
            timeout_ms: how long it may take; 0 or less only looks.

        Raises:
            InvalidError: no such mark, or no offset.
            ForkedError: it was made before a fork, and the mark is not there.
        """
        scratch = borrow()
        left_ms = timeout_ms
        while True:
            # The core does not come back to Python for a signal.
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
                asked = f"mark {mark!r} at {end_offset!r}"
                raise InvalidError(f"no wait for {asked}: {error}") from error
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
        Appends messages as ``LogHandle.append`` does, and waits for a mark to pass
        them: one crossing, which many threads that share an interpreter need.

        Args:
            log: open for writing.
            form: of the messages.
            mark: its number, from 0 on.
            timeout_ms: how long the wait may take.

        Raises:
            PystoreError: as ``LogHandle.append``, and nothing was waited for.
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
            fail(status, scratch.error, log.path)
        appended = _tuple_new(Appended, _unpack_appended(scratch.appended_bytes))
        number: int = scratch.count[0]
        give_back(scratch)
        if number == _EXPIRED and timeout_ms > step_ms:
            return appended, self.wait(mark, appended.end, timeout_ms - step_ms)
        return appended, _OUTCOMES[number]

    @staticmethod
    def append_quietly(log: LogHandle, form: bytes) -> Appended:
        """
        Appends messages as ``LogHandle.append`` does with ``Ack.SHARED``, without
        waking who sleeps until the log rings: the caller does their work, and calls
        `ring` for what it leaves.

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
            fail(status, scratch.error, log.path)
        appended = _tuple_new(Appended, _unpack_appended(scratch.appended_bytes))
        give_back(scratch)
        return appended

    def rung_by(self, log: LogHandle) -> None:
        """
        From now on each publication of a log rings mark 0, until `rung_no_more`.
        """
        scratch = borrow()
        check(lib.ps_log_ring(log.pointer, self._waits, scratch.error), scratch.error)
        give_back(scratch)

    def rung_no_more(self, log: LogHandle) -> None:
        """
        To be called before this is let go of.
        """
        scratch = borrow()
        check(lib.ps_log_ring(log.pointer, ffi.NULL, scratch.error), scratch.error)
        give_back(scratch)

    def mark(self, mark: int) -> int:
        """
        Returns where a mark is, in bytes.

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
        How many threads wait now.
        """
        count: int = lib.ps_waits_waiting(self._waits)
        return count

    def end(self) -> None:
        """
        Lets everyone who waits come back, and nobody wait from here on.

        Marks rise as before, and who asks for what is there hears so. Again is fine.
        """
        lib.ps_waits_end(self._waits)
