"""
Who sends on a link: its thread, or whoever hurries while that one sleeps.

An append that waits for a slave would else wait for a thread to wake up first. So it
sends by itself what is there, if nobody else does and the system takes it at once;
what it does not take, every trouble and the end of the link are the thread's. One at
a time has the right to send, so frames leave in their order; who comes second passes
by, because who has the right looks again before it goes.

Source: docs/replication.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pystore.ha.master.transport import GATHER_BYTES, Acquire, SlaveSocket

if TYPE_CHECKING:
    from pystore.ha.master.effects import SendBlock
    from pystore.ha.master.notifier import Notifier

__all__ = ["NextOutput", "Output", "Sender"]

LENT_BYTES = 64 << 10
"""Who hurries sends at most so much, give or take a head: the rest is no hurry."""


@dataclass(frozen=True, slots=True)
class Output:
    """
    What goes out next.

    Attributes:
        frames: in order; none: nothing does.
        until_ms: when to look again without a ring; 0: at once.
        is_over: nothing will go out any more.
    """

    frames: list[bytes | SendBlock]
    until_ms: int
    is_over: bool


class NextOutput(Protocol):
    """
    Takes what goes out next.
    """

    def __call__(self, bytes_max: int, *, is_patient: bool) -> Output | None:
        """
        Args:
            bytes_max: about so many.
            is_patient: whether it may wait for a lock.

        Returns:
            ``None`` if it would have had to.
        """


class Sender:
    """
    The way out of one link.

    Args:
        wire: where to.
        notifier: rings when there is something to look at.
        acquire: where blocks come from.
        now_ms: a clock that never steps back.
        gather: takes what goes out next.

    Attributes:
        is_asleep: whether who hurries may send.
    """

    def __init__(
        self,
        wire: SlaveSocket,
        notifier: Notifier,
        acquire: Acquire,
        now_ms: Callable[[], int],
        gather: NextOutput,
    ) -> None:
        self._wire = wire
        self._notifier = notifier
        self._acquire = acquire
        self._now_ms = now_ms
        self.gather = gather
        self._right = threading.Lock()
        self.is_asleep = False
        self._until_ms = 0
        self._trouble: Exception | None = None

    def run(self) -> None:
        """
        Sends in the calling thread until all is over.

        Raises:
            LinkLost: as `SlaveSocket.send`, here or in a thread that rang.
        """
        self._notifier.help(self._lend_a_hand)
        try:
            while True:
                rings = self._notifier.rings
                with self._right:
                    gathered = self._turn()
                if gathered.is_over:
                    return
                self._sleep(rings, gathered.until_ms)
        finally:
            self._notifier.help_no_more(self._lend_a_hand)

    def _turn(self) -> Output:
        if self._trouble is not None:
            raise self._trouble
        gathered = self.gather(GATHER_BYTES, is_patient=True)
        assert gathered is not None  # it waits
        if gathered.frames or self._wire.has_rest:
            self._wire.send(gathered.frames, self._acquire)
        return gathered

    def _sleep(self, rings: int, until_ms: int) -> None:
        wait_ms = until_ms - self._now_ms()
        self._until_ms = until_ms
        self.is_asleep = True
        self._notifier.wait(rings, wait_ms)
        self.is_asleep = False

    def _lend_a_hand(self) -> bool:
        """
        Sends what is there, in the thread of one who hurries; answers whether that
        was all, and the sender may sleep as long as it was about to.
        """
        if not self.is_asleep or not self._right.acquire(blocking=False):
            return False
        try:
            return not self._wire.has_rest and self._send_some()
        except Exception as error:
            # No business of one who appends: the thread ends the link with it.
            self._trouble = error
            return False
        finally:
            self._right.release()

    def _send_some(self) -> bool:
        gathered = self.gather(LENT_BYTES, is_patient=False)
        if gathered is None:
            return False
        is_sent = True
        if gathered.frames:
            is_sent = self._wire.send_now(gathered.frames, self._acquire)
        return is_sent and gathered.until_ms >= self._until_ms
