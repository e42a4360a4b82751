"""
A controller of a set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sim.kernel import Kernel
from sim.place import Place
from sim.programs import ControllerProgram

from pystore.controller.server.config import ControllerConfig

if TYPE_CHECKING:
    from sim.broker_set import BrokerSet

__all__ = ["Controller"]

_PORT = 9_878
_SESSION_MS = 4_000


class Controller(Place):
    """
    A machine with a controller.
    """

    def __init__(self, owner: BrokerSet, number: int) -> None:
        super().__init__(owner, f"c{number}", f"10.0.1.{number}")

    @property
    def address(self) -> str:
        """
        Where it listens.
        """
        return f"{self.machine.host}:{_PORT}"

    def _program(self) -> Callable[[Kernel], ControllerProgram]:
        settings = ControllerConfig(listen=self.address)
        if self._owner.is_quick:
            settings = replace(
                settings,
                zookeeper_session_timeout=_SESSION_MS,
                scan_inactive_master_interval=500,
            )
        return lambda kernel: ControllerProgram(kernel, settings)

    def _took(self, kind: str, *more: Any) -> None:
        if kind == "ask":
            assert self.process is not None
            self._owner.records.asked(self.process, *more)
