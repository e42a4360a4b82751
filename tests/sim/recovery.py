"""
A process of AutoRecovery beside a set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sim.kernel import Kernel
from sim.place import Place
from sim.recovery_program import RecoveryProgram

if TYPE_CHECKING:
    from sim.broker_set import BrokerSet

__all__ = ["Recovery"]

_SESSION_MS = 4_000


class Recovery(Place):
    """
    A machine with a candidate for the Auditor and a worker.
    """

    def __init__(self, owner: BrokerSet, number: int) -> None:
        super().__init__(owner, f"r{number}", f"10.0.3.{number}")

    def _program(self) -> Callable[[Kernel], RecoveryProgram]:
        addresses = tuple(one.address for one in self._owner.controllers)
        name = self.name
        return lambda kernel: RecoveryProgram(kernel, name, addresses, _SESSION_MS)

    def _took(self, kind: str, *more: Any) -> None:
        if kind == "ask":
            assert self.process is not None
            self._owner.records.asked(self.process, *more)
