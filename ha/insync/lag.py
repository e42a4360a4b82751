"""
When each slave last had everything that the master had. Pure.

Only acks move these times, never sends: a slave that receives bytes and does not ack
falls behind (RMQ-R99). The times belong to a broker id, so they outlive a link
(RMQ-R98).
"""

from __future__ import annotations

from collections import deque

__all__ = ["CaughtUpTimes", "EndHistory"]

_SPACING_MS = 100


class CaughtUpTimes:
    """
    The last time at which each slave was caught up (RMQ-R97).

    Args:
        began_ms: of the mastership. A slave without an ack counts as caught up at
            that time, so that it has time to connect.
    """

    def __init__(self, began_ms: int) -> None:
        self._began_ms = began_ms
        self._last_ms: dict[int, int] = {}

    def acked(
        self, broker_id: int, caught_up_ms: int | None, holds_all: bool, now_ms: int
    ) -> None:
        """
        Takes an ack; the time never moves back.

        Args:
            broker_id: of the slave.
            caught_up_ms: our send time of the newest frame whose end of the log the
                slave now holds.
            holds_all: it holds the whole log of the master.
            now_ms: the time.
        """
        proved_ms = now_ms if holds_all else caught_up_ms
        if proved_ms is not None:
            known_ms = self._last_ms.get(broker_id, proved_ms)
            self._last_ms[broker_id] = max(known_ms, min(proved_ms, now_ms))

    def last_ms(self, broker_id: int) -> int | None:
        """
        Returns when the slave was last caught up; ``None``: not in this mastership.
        """
        return self._last_ms.get(broker_id)

    def lag_ms(self, broker_id: int, now_ms: int) -> int:
        """
        Returns for how long the slave has not been caught up.
        """
        return now_ms - self._last_ms.get(broker_id, self._began_ms)


class EndHistory:
    """
    Earlier ends of the log: what slaves should have flushed by now (B9).

    Args:
        window_ms: how far back `end_before` is called.
    """

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._samples: deque[tuple[int, int]] = deque()

    def note(self, end_offset: int, now_ms: int) -> None:
        """
        Records the end of the log, unless the last record is recent.
        """
        samples = self._samples
        if samples and now_ms - samples[-1][0] < _SPACING_MS:
            return
        samples.append((now_ms, end_offset))
        while len(samples) > 1 and samples[1][0] <= now_ms - self._window_ms:
            samples.popleft()

    def end_before(self, time_ms: int) -> int | None:
        """
        Returns an end that the log had at that time or a little earlier; ``None``:
        none was recorded.
        """
        found = None
        for noted_ms, end_offset in self._samples:
            if noted_ms > time_ms:
                break
            found = end_offset
        return found
