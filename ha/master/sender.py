"""
The sender of one link: its thread, or an appender that helps while the thread sleeps.

Otherwise an append that waits for a slave would first wait for the sender's thread to
wake up. So the appender sends the output itself, if no other thread sends and the
system accepts it at once. The sender's thread handles the rest, every error, and the
end of the link. One thread at a time holds the send lock, so frames leave in order. A
second thread does not wait for the lock: its holder checks for output again before it
sleeps.

Source: docs/replication.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pystore.ha.master.transport import GATHER_BYTES, Acquire, SlaveSocket

if TYPE_CHECKING:
    from pystore.ha.master.effects import SendBlock
    from pystore.ha.master.notifier import Notifier

__all__ = ["NextOutput", "Output", "Sender"]

HELPER_BYTES = 64 << 10
"""About the most that an appender sends for a sleeping sender."""


class Output(NamedTuple):
    """
    The next output of a link.

    Attributes:
        frames: in order; may be empty.
        until_ms: when to look for output again without a notification; 0: at once.
        is_over: the link sends nothing any more.
    """

    frames: list[bytes | SendBlock]
    until_ms: int
    is_over: bool


class NextOutput(Protocol):
    """
    Takes the next output.
    """

    def __call__(self, bytes_max: int, *, is_patient: bool) -> Output | None:
        """
        Args:
            bytes_max: about so many.
            is_patient: whether it may wait for a lock.

        Returns:
            ``None`` if it would have had to wait.
        """


class Sender:
    """
    Sends the output of one link.

    Args:
        wire: the socket.
        notifier: notifies when there may be output.
        acquire: returns the bytes of blocks.
        now_ms: a clock that never steps back.
        next_output: takes the next output.

    Attributes:
        is_asleep: whether an appender may send.
    """

    def __init__(
        self,
        wire: SlaveSocket,
        notifier: Notifier,
        acquire: Acquire,
        now_ms: Callable[[], int],
        next_output: NextOutput,
    ) -> None:
        self._wire = wire
        self._notifier = notifier
        self._acquire = acquire
        self._now_ms = now_ms
        self.next_output = next_output
        self._send_lock = threading.Lock()
        self.is_asleep = False
        self._until_ms = 0
        self._error: Exception | None = None

    def run(self) -> None:
        """
        Sends in the calling thread until the link ends.

        Raises:
            LinkLost: as `SlaveSocket.send`, in this thread or in an appender's.
        """
        self._notifier.add_helper(self._help)
        try:
            while True:
                seen = self._notifier.count
                with self._send_lock:
                    output = self._send_next()
                if output.is_over:
                    return
                self._sleep(seen, output.until_ms)
        finally:
            self._notifier.remove_helper(self._help)

    def _send_next(self) -> Output:
        if self._error is not None:
            raise self._error
        output = self.next_output(GATHER_BYTES, is_patient=True)
        assert output is not None  # it waits
        if output.frames or self._wire.has_rest:
            self._wire.send(output.frames, self._acquire)
        return output

    def _sleep(self, seen: int, until_ms: int) -> None:
        wait_ms = until_ms - self._now_ms()
        self._until_ms = until_ms
        self.is_asleep = True
        self._notifier.wait(seen, wait_ms)
        self.is_asleep = False

    def _help(self) -> bool:
        """
        Sends the output in an appender's thread; returns whether that was all, so
        that the sender may go on sleeping.
        """
        if not self.is_asleep or not self._send_lock.acquire(blocking=False):
            return False
        try:
            return not self._wire.has_rest and self._send_some()
        except Exception as error:
            # Not the appender's error: the sender's thread ends the link with it.
            self._error = error
            return False
        finally:
            self._send_lock.release()

    def _send_some(self) -> bool:
        output = self.next_output(HELPER_BYTES, is_patient=False)
        if output is None:
            return False
        is_sent = True
        if output.frames:
            is_sent = self._wire.send_now(output.frames, self._acquire)
        return is_sent and output.until_ms >= self._until_ms
