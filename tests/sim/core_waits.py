"""
Waits inside of the core, by turns of a kernel.

The marks and all that raises them are the core's own; only the sleep is here.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sim.kernel import current

from pystore.core.waits import OffsetWaiters, WaitOutcome
from pystore.net.receiver import Receiver

if TYPE_CHECKING:
    from pystore.core.log_writer import LogHandle
    from pystore.core.results import Appended

__all__ = ["install"]

_MS = 1_000_000
_real_wait = OffsetWaiters.wait
_real_append = OffsetWaiters.append
_waiting: Counter[int] = Counter()


def _wait(
    waits: OffsetWaiters, mark: int, end_offset: int, timeout_ms: int
) -> WaitOutcome:
    kernel = current()
    outcome = _real_wait(waits, mark, end_offset, 0)
    if outcome is not WaitOutcome.EXPIRED or timeout_ms <= 0 or kernel is None:
        return outcome
    _waiting[id(waits)] += 1
    try:
        kernel.wait(
            lambda: _real_wait(waits, mark, end_offset, 0) is not WaitOutcome.EXPIRED,
            timeout_ms * _MS,
        )
    finally:
        _waiting[id(waits)] -= 1
    return _real_wait(waits, mark, end_offset, 0)


def _append(
    waits: OffsetWaiters, log: LogHandle, form: bytes, mark: int, timeout_ms: int
) -> tuple[Appended, WaitOutcome]:
    appended, outcome = _real_append(waits, log, form, mark, 0)
    if outcome is WaitOutcome.EXPIRED:
        outcome = _wait(waits, mark, appended.end, timeout_ms)
    return appended, outcome


def _receive_into(
    receiver: Receiver, room: memoryview, *, is_waiting: bool = True
) -> int:
    found: int = receiver._socket.receive_into(room, is_waiting=is_waiting)  # type: ignore[attr-defined]
    return found


def install() -> None:
    """
    Replaces them in this program, for good.
    """
    OffsetWaiters.wait = _wait  # type: ignore[method-assign,assignment]
    OffsetWaiters.append = _append  # type: ignore[method-assign,assignment]
    OffsetWaiters.waiting = property(lambda waits: _waiting[id(waits)])  # type: ignore[assignment,method-assign]
    Receiver.receive_into = _receive_into  # type: ignore[method-assign,assignment]
