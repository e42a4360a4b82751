"""
A copy of a log beside which something happens while a repair reads it.
"""

from __future__ import annotations

from collections.abc import Callable

from pystore.segments.store_copy import StoreCopy

__all__ = ["MeddledCopy"]


class MeddledCopy(StoreCopy):
    """
    A copy beside which something happens, once, before it gives a block.

    Attributes:
        meddle: what happens.
    """

    meddle: Callable[[], object] | None = None

    def block(self, base: int, index: int) -> bytes:
        """
        As `StoreCopy.block`.
        """
        meddle, self.meddle = self.meddle, None
        if meddle is not None:
            meddle()
        return super().block(base, index)
