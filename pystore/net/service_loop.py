"""
The event loop of a service: few connections have their turn at once, and those of known
peers first.
"""

from __future__ import annotations

import asyncio

from pystore.net.bounded_selector import BoundedSelector

__all__ = ["ServiceLoop"]


class ServiceLoop(asyncio.SelectorEventLoop):
    """
    An event loop whose turns stay short, however many connections are ready.
    """

    def __init__(self) -> None:
        self._bounded = BoundedSelector()
        super().__init__(self._bounded)

    def prefer(self, file: int) -> None:
        """
        Reads a file before the others, as long as it is read without a pause.
        Idempotent.
        """
        self._bounded.prefer(file)
