"""
The pace of a repair: it yields to the writers of the host.

Source: AR-R12; docs/autorecovery.md, *Rates*.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pystore.clocks import clock_ms
from pystore.rates.shared_rate import SharedRate

__all__ = ["Pace"]


class Pace:
    """
    A rate that may change while a repair runs. Any thread.

    Args:
        bytes_per_second: 0: no limit.
        now_ms: a clock that never steps back.
        sleep: lets seconds pass.
        host: the rate of the host, which all its repairs share; ``None``: it has none.
    """

    def __init__(
        self,
        bytes_per_second: int = 0,
        now_ms: Callable[[], int] = clock_ms,
        sleep: Callable[[float], object] = time.sleep,
        *,
        host: SharedRate | None = None,
    ) -> None:
        self._own = SharedRate(bytes_per_second, now_ms, sleep)
        self._host = host

    def change(self, bytes_per_second: int) -> None:
        """
        Sets another rate, from now on.
        """
        self._own.change(bytes_per_second)

    def spend(self, size: int, sleep: Callable[[float], object] | None = None) -> None:
        """
        Counts bytes that were moved, and waits until others may follow.

        Args:
            size: of them.
            sleep: lets seconds pass, or raises to end the wait; ``None``: that of the
                rate.
        """
        if self._host is not None:
            self._host.use(size, sleep)
        self._own.use(size, sleep)
