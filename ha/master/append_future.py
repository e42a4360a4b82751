"""
Futures: appends that were made, and whose acks are waited for later.

A producer that waits for each of its appends has one of them under way. With futures it
has as many as it wants: the append is checked and made at once, and the future waits
for its ack at any later time. A future holds no resources, and may be waited for again.

Source: docs/in-sync.md; RMQ-R206, RMQ-R211, RMQ-R216, B8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pystore.core.results import Appended
from pystore.ha.insync.ack import Ack, AckResult

__all__ = ["AppendFuture", "WaitForAck", "wait_all"]

WaitForAck = Callable[[Ack, int, int], AckResult]
"""Waits for an ack up to an end offset, for so many ms, and returns the result."""


class AppendFuture:
    """
    The ack of one append, in the mastership that made it. Any thread.

    Args:
        appended: where the records are.
        ack: that the append asked for.
        wait: of that mastership.
    """

    __slots__ = ("_wait", "ack", "appended")

    def __init__(self, appended: Appended, ack: Ack, wait: WaitForAck) -> None:
        self.appended = appended
        self.ack = ack
        self._wait = wait

    def wait(self, timeout_ms: int = 3_000) -> AckResult:
        """
        Waits until the append has its ack, and returns how that ended.

        An ack that was reached stays reached. One that was not reached when the
        mastership ended is fenced for ever: the next master may have the records, or
        not. `leader` and
        `leader-synced` are decided at this moment, under the lease as it is now.

        Args:
            timeout_ms: how long it may take; 0 or less: does not wait.

        Raises:
            PoisonedError: the master's disk failed, and the ack needs it.
        """
        return self._wait(self.ack, self.appended.end, timeout_ms)


def wait_all(
    futures: Sequence[AppendFuture], timeout_ms: int, now_ms: Callable[[], int]
) -> list[AckResult]:
    """
    Waits for futures, in the order of their appends, and returns how each ended.

    It sleeps for the last one: by then the earlier ones usually have their acks, and
    need no call of the core. In another order the results are the same.

    Args:
        futures: of any masterships.
        timeout_ms: how long they may take together.
        now_ms: a clock that never steps back.

    Raises:
        PoisonedError: as `AppendFuture.wait`.
    """
    until_ms = now_ms() + timeout_ms
    settled = [one.wait(until_ms - now_ms()) for one in reversed(futures)]
    settled.reverse()
    return settled
