"""
The part that one link has in a rate of its host, while a replica catches up.

Only a backlog is held back. What the log grows by meanwhile passes freely: at a rate
below that of the writers a replica would never catch up. So does the tail of the log,
and everything for a replica that acknowledgements wait for.

Source: AR-R12; docs/autorecovery.md, *Rates*.
"""

from __future__ import annotations

from pystore.rates.shared_rate import SharedRate

__all__ = ["TAIL_BYTES", "BacklogRate"]

TAIL_BYTES = 64 << 10
"""A replica that lacks no more has caught up: a rate does not hold it back."""


class BacklogRate:
    """
    What one link has moved and may move. One thread at a time.

    Args:
        rate: of the host in this direction.
    """

    def __init__(self, rate: SharedRate) -> None:
        self._rate = rate
        self._end_offset: int | None = None
        self._free = 0

    def grown(self, end_offset: int, backlog: int) -> None:
        """
        Takes the end of the log.

        Args:
            end_offset: where it ends now.
            backlog: what the replica lacks, in bytes.
        """
        before = end_offset if self._end_offset is None else self._end_offset
        self._end_offset = end_offset
        self._free = min(self._free + max(0, end_offset - before), backlog)

    def allowed(self, bytes_max: int) -> int:
        """
        Returns how many bytes may be moved, at most *bytes_max*.
        """
        if self._free >= bytes_max:
            return bytes_max
        return self._free + self._rate.allowed(bytes_max - self._free)

    def spend(self, size: int) -> None:
        """
        Counts bytes that were moved.
        """
        free = min(self._free, size)
        self._free -= free
        if size > free:
            self._rate.spend(size - free)

    def wait_ms(self) -> int:
        """
        Returns how long it takes until bytes are allowed again; 0: some are.
        """
        return 0 if self._free else self._rate.wait_ms()
