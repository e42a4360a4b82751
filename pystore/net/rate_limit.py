"""
A limit of the bytes per second that go one way: to one slave, into one store that is
repaired. Pure.

Source: formats 7.2 (``haFlowControlEnable``, ``maxHaTransferByteInSecond``).
"""

from __future__ import annotations

__all__ = ["RateLimit"]

_BURST_MS = 100
_PIECE_MS = 10
_SECOND_MS = 1000


class RateLimit:
    """
    A budget that grows with time, up to the bytes of 100 ms. It grants nothing below
    the bytes of 10 ms. One thread.

    Args:
        bytes_per_second: 0: no limit.
        now_ms: the time.
    """

    def __init__(self, bytes_per_second: int, now_ms: int) -> None:
        self._set(bytes_per_second)
        self._left = self._most
        self._seen_ms = now_ms

    def _set(self, bytes_per_second: int) -> None:
        self._rate = bytes_per_second
        # In bytes times 1,000, so that rounding loses nothing.
        self._most = max(bytes_per_second * _BURST_MS, _SECOND_MS)
        self._least = max(bytes_per_second * _PIECE_MS, _SECOND_MS)

    def change(self, bytes_per_second: int, now_ms: int) -> None:
        """
        Sets another rate. The budget stays, also one that is overdrawn: a rate that is
        changed often grants no more.
        """
        self.allowed(now_ms, 0)
        if not self._rate:
            # Without a limit there was no budget.
            self._left, self._seen_ms = 0, now_ms
        self._set(bytes_per_second)
        self._left = min(self._left, self._most)

    def allowed(self, now_ms: int, bytes_max: int) -> int:
        """
        Returns how many bytes may be sent, at most *bytes_max*.
        """
        if not self._rate:
            return bytes_max
        grown = self._left + (now_ms - self._seen_ms) * self._rate
        self._left, self._seen_ms = min(grown, self._most), now_ms
        if self._left < self._least:
            return 0
        return min(bytes_max, self._left // _SECOND_MS)

    def spend(self, size: int) -> None:
        """
        Takes bytes from the budget.
        """
        if self._rate:
            self._left -= size * _SECOND_MS

    def wait_ms(self) -> int:
        """
        Returns how long it takes until bytes are allowed again; 0: some are.
        """
        if not self._rate:
            return 0
        missing = self._least - self._left
        return max(0, -(-missing // self._rate))
