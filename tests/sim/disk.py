"""
A disk of a virtual process that stands still, fails, or is full.

The core's disk is a real one in memory, so these are the answers of the core for such a
disk, at its seam: `pystore.core.log_writer.LogHandle`.
"""

from __future__ import annotations

from typing import Any

from sim.kernel import Kernel

from pystore.core.log_writer import LogHandle
from pystore.core.results import Ends
from pystore.errors import FullError, PoisonedError

__all__ = ["FAILED", "FULL", "STILL", "WELL", "Disk"]

WELL, STILL, FAILED, FULL = "well", "still", "failed", "full"

_real_sync, _real_ends = LogHandle.sync, LogHandle.ends
_real_append, _real_append_raw = LogHandle.append, LogHandle.append_raw


class Disk:
    """
    The disk of this process.

    Args:
        kernel: of this process.

    Attributes:
        state: of the disk.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.state = WELL
        self._kernel = kernel
        disk = self

        def sync(log: LogHandle, *given: int) -> None:
            disk.await_answer()
            _real_sync(log, *given)

        def ends(log: LogHandle) -> Ends:
            found = _real_ends(log)
            is_failed = disk.state == FAILED
            return found._replace(poisoned=True) if is_failed else found

        def append(log: LogHandle, *given: Any, **named: Any) -> Any:
            disk.check_space()
            return _real_append(log, *given, **named)

        def append_raw(log: LogHandle, *given: Any) -> int:
            disk.check_space()
            return _real_append_raw(log, *given)

        LogHandle.sync = sync  # type: ignore[method-assign,assignment]
        LogHandle.ends = ends  # type: ignore[method-assign,assignment]
        LogHandle.append = append  # type: ignore[method-assign,assignment]
        LogHandle.append_raw = append_raw  # type: ignore[method-assign,assignment]

    def await_answer(self) -> None:
        """
        Waits for a disk that stands still.

        Raises:
            PoisonedError: it failed.
        """
        if self.state == STILL and not self._kernel.is_main:
            self._kernel.wait(lambda: self.state != STILL)
        if self.state == FAILED:
            raise PoisonedError("the disk failed")

    def check_space(self) -> None:
        """
        Raises:
            FullError: it is full.
            PoisonedError: it failed.
        """
        if self.state == FULL:
            raise FullError("the disk is full")
        if self.state == FAILED:
            raise PoisonedError("the disk failed")
