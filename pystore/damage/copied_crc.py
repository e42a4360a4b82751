"""
Property CRCs that differ: of another record, or of bytes that changed.

RocketMQ's brokers copy properties when they put a message again, the property CRC of
the first record with them. Such a record is content; only its checksum proves nothing.
The neighbours tell the two apart: where the nearest records on both sides have a
property CRC that holds, the writer made one for each record, and a CRC that differs is
damage (A6).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.row import Proof

__all__ = ["CopiedCrcCheck"]


class CopiedCrcCheck:
    """
    Finds damaged records among the rows of one scan, batch after batch.

    The scan passes over property CRCs that differ (``Check.PASS_COPIED``).

    Attributes:
        waiting: offset and size of the last records whose CRC differs, as long as the
            record behind them is not known.
    """

    def __init__(self) -> None:
        self._before: bool | None = None
        self.waiting: list[tuple[int, int]] = []

    def add(self, rows: NDArray[Any]) -> list[tuple[int, int]]:
        """
        Returns offset and size of each record that is damaged, as far as it is known.

        Args:
            rows: of ``RECORD_DTYPE``, in the order of the log.
        """
        if not len(rows):
            return []
        differs = (rows["proof"] & Proof.DIFFERS) != 0
        proved = (rows["proof"] & Proof.PROPERTY) != 0
        if not differs.any():
            found = self._decide(after=bool(proved[0]))
            self._before = bool(proved[-1])
            return found
        number = np.arange(len(rows))
        before = np.maximum.accumulate(np.where(differs, -1, number))
        after = np.where(differs, len(rows), number)
        after = np.minimum.accumulate(after[::-1])[::-1]
        plain = np.flatnonzero(~differs)
        found = self._decide(after=bool(proved[plain[0]])) if len(plain) else []
        for at in np.flatnonzero(differs).tolist():
            place = int(rows["offset"][at]), int(rows["size"][at])
            is_first = before[at] < 0
            left = self._before if is_first else bool(proved[before[at]])
            if left is False:
                continue
            if after[at] == len(rows):
                self.waiting.append(place)
            elif proved[after[at]]:
                found.append(place)
        if len(plain):
            self._before = bool(proved[plain[-1]])
        return found

    def finish(self) -> list[tuple[int, int]]:
        """
        Returns the damaged records at the end of the scan.
        """
        return self._decide(after=None)

    def _decide(self, *, after: bool | None) -> list[tuple[int, int]]:
        waiting, self.waiting = self.waiting, []
        if after is None:
            return waiting if self._before else []
        return waiting if after else []
