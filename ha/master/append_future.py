"""
Tickets: appends that were made, and whose acks are asked for later.

A producer that waits for each of its appends has one of them under way. With tickets
it has as many as it likes: the append is checked and made at once, and the ticket says
what became of its ack, whenever that is asked. A ticket holds nothing: one that nobody
asks costs nothing, and one may be asked again.

Source: docs/in-sync.md; R206, R211, R216, B8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pystore.core.results import Appended
from pystore.ha.insync.ack import Ack, AckResult

__all__ = ["AppendFuture", "WaitForAck", "wait_all"]

WaitForAck = Callable[[Ack, int, int], AckResult]
"""Waits for an ack up to an end, for so many ms, and answers how that ended."""


class AppendFuture:
    """
    Of one append, in the mastership that made it. Any thread.

    Args:
        appended: where the records are.
        ack: what they were promised.
        wait: of that mastership.
    """

    __slots__ = ("_wait", "ack", "appended")

    def __init__(self, appended: Appended, ack: Ack, wait: WaitForAck) -> None:
        self.appended = appended
        self.ack = ack
        self._wait = wait

    def wait(self, timeout_ms: int = 3_000) -> AckResult:
        """
        Waits until the append has its ack, and answers how that ended.

        An ack that was reached stays so. One that was not when the mastership ended is
        fenced for ever: the next master has the records, or has not. `leader` and
        `leader-synced` are decided at this moment, under the lease as it is now.

        Args:
            timeout_ms: how long it may take; 0 or less only looks.

        Raises:
            PoisonedError: our own disk failed, and the ack wants it.
        """
        return self._wait(self.ack, self.appended.end, timeout_ms)


def wait_all(
    futures: Sequence[AppendFuture], timeout_ms: int, now_ms: Callable[[], int]
) -> list[AckResult]:
    """
    Waits for tickets, in order of their appends, and answers how each ended.

    Sleeps for the last one: by then those below mostly have their acks, too, and say
    so without a call of the core. Out of order the answers are the same.

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
