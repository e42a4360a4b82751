"""
A machine of a set, whose processes come and go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sim.child import Program
from sim.kernel import Kernel
from sim.world import SECOND, Machine, Process

if TYPE_CHECKING:
    from sim.broker_set import BrokerSet

__all__ = ["Place"]


class Place:
    """
    A machine with one program.

    Args:
        owner: the set.
        name: of the machine.
        host: its address.

    Attributes:
        process: that was started last.
        lines: what all of its processes told, each with the time.
        ended: why the last one ended by itself; empty: it did not.
    """

    def __init__(self, owner: BrokerSet, name: str, host: str) -> None:
        self.name = name
        self.machine = Machine(owner.world, host)
        self.process: Process | None = None
        self.lines: list[str] = []
        self.ended = ""
        self._owner = owner

    @property
    def is_up(self) -> bool:
        """
        Whether its process runs.
        """
        return self.process is not None and self.process.is_alive

    def start(self) -> None:
        """
        Starts a process.
        """
        assert not self.is_up
        if not self.machine.is_up:
            self.machine.boot()
        self.ended = ""
        owner = self._owner
        self.process = Process(
            owner.world, self.machine, self.name, self._program(), self._heard
        )
        owner.network.add(self.process)

    def kill(self) -> None:
        """
        Kills its process.
        """
        if self.process is not None:
            self.process.kill()

    def stop(self) -> None:
        """
        Has its process end in order.
        """
        if self.process is not None:
            self.process.deliver("stop")

    def _program(self) -> Callable[[Kernel], Program]:
        raise NotImplementedError

    def _took(self, kind: str, *more: Any) -> None:
        """
        Takes what only this kind of program says.
        """

    def _heard(self, kind: str, *more: Any) -> None:
        seconds = self._owner.world.now_ns / SECOND
        if kind == "defect":
            self._owner.defects.append(f"{self.name}: {more[0]}")
        elif kind == "line":
            self.lines.append(f"{seconds:.3f} {more[0]}")
        elif kind == "ended":
            self.ended = more[0] or "in order"
            self.lines.append(f"{seconds:.3f} ended: {self.ended}")
        else:
            self._took(kind, *more)
