"""
Several rates that count the same bytes: the slowest decides.

Source: AR-R12; docs/autorecovery.md, *Rates*.
"""

from __future__ import annotations

from collections.abc import Callable

from pystore.rates.shared_rate import SharedRate

__all__ = ["JointRate"]


class JointRate:
    """
    The rates. Any thread.

    Args:
        rates: each of which may have other users, too.
    """

    def __init__(self, *rates: SharedRate) -> None:
        self._rates = rates

    @property
    def bytes_per_second(self) -> int:
        """
        The lowest of the limits; 0: there is none.
        """
        limits = [one.bytes_per_second for one in self._rates]
        return min((one for one in limits if one), default=0)

    def use(self, size: int, sleep: Callable[[float], object] | None = None) -> None:
        """
        Counts bytes that were moved, and waits until others may follow.

        Args:
            size: of them.
            sleep: as `SharedRate.use`.
        """
        for one in self._rates:
            one.use(size, sleep)
