"""
Futures: appends that were made, and whose acks are waited for later.

A producer that waits for each of its appends has one of them under way. With futures it
has as many as it wants: the append is checked and made at once, and the future waits
for its ack at any later time. A future holds no resources, and may be waited for again.
A thread waits, a coroutine of asyncio awaits in any event loop, a function is called.

Source: docs/in-sync.md; RMQ-R206, RMQ-R211, RMQ-R216, B8.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Protocol

from pystore.core.results import Appended
from pystore.errors import InvalidError, PystoreError
from pystore.ha.insync.ack import Ack, AckResult

__all__ = ["AppendFuture", "AppendWaits", "wait_all"]


class AppendWaits(Protocol):
    """
    The waits of one mastership, for an ack and the end offset of an append. Any thread.
    """

    def wait(self, ack: Ack, end_offset: int, timeout_ms: int) -> AckResult:
        """
        Waits in this thread, for at most so long.
        """
        ...

    def ended(self, ack: Ack, end_offset: int) -> AckResult | None:
        """
        Returns how the ack ended, without a wait; ``None``: it has not ended.
        """
        ...

    def until_ended(
        self, ack: Ack, end_offset: int
    ) -> Coroutine[object, object, AckResult]:
        """
        Waits in a coroutine.
        """
        ...

    def call(
        self,
        ack: Ack,
        end_offset: int,
        told: Callable[[AckResult | PystoreError], object],
    ) -> None:
        """
        Calls a function with the result, or with the error that ended the wait.
        """
        ...


class AppendFuture:
    """
    The ack of one append, in the mastership that made it. Any thread.

    Args:
        appended: where the records are.
        ack: that the append asked for.
        waits: of that mastership.
        epoch: of that mastership.
    """

    __slots__ = ("_ended", "_waits", "ack", "appended", "epoch")

    def __init__(
        self, appended: Appended, ack: Ack, waits: AppendWaits, epoch: int
    ) -> None:
        self.appended = appended
        self.ack = ack
        self.epoch = epoch
        self._waits = waits
        self._ended: AckResult | PystoreError | None = None

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
        return self._waits.wait(self.ack, self.appended.end, timeout_ms)

    def __await__(self) -> Generator[object, object, AckResult]:
        """
        Waits in a coroutine of asyncio, in any event loop, and returns how the wait
        ended.

        There is no timeout: it ends when the ack is reached, when all members hold the
        append and are fewer than the minimum, or with the mastership. Around it,
        `asyncio.timeout` limits it. A cancelled wait changes nothing: the append is in
        the log, and may be waited for again.

        Raises:
            PoisonedError: the master's disk failed, and the ack needs it.
        """
        end_offset = self.appended.end
        ended = self._waits.ended(self.ack, end_offset)
        if ended is not None:
            return ended
        return (yield from self._waits.until_ended(self.ack, end_offset).__await__())

    def add_done_callback(self, told: Callable[[AppendFuture], object]) -> None:
        """
        Calls a function with this future once the ack has ended as for ``await``; its
        `result` says how.

        It is called once, in a thread of the mastership that all futures share, so it
        must not block; it may append. If the mastership has ended, it is called at
        once in this thread. An exception of it is logged by the logger `pystore.ha`.
        """

        def end(ended: AckResult | PystoreError) -> None:
            self._ended = ended
            told(self)

        self._waits.call(self.ack, self.appended.end, end)

    def result(self) -> AckResult:
        """
        Returns how the ack ended, in or after a call of `add_done_callback`.

        Raises:
            PoisonedError: the master's disk failed, and the ack needs it.
            InvalidError: no function was called yet.
        """
        ended = self._ended
        if ended is None:
            raise InvalidError(
                f"the append up to {self.appended.end} has no result yet: call it in "
                "a function given to add_done_callback, or use wait or await"
            )
        if isinstance(ended, PystoreError):
            raise ended
        return ended


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
