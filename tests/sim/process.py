"""
A process: what was scheduled in one life does not happen in the next.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TypeVar

from sim.clock import LocalClock
from sim.messages import Ended

__all__ = ["Crashed", "Process"]

_T = TypeVar("_T")


class Crashed(Exception):
    """
    The process ends in the middle of what it does.
    """


class Process:
    """
    Lives and dies; a broker or a controller adds what it does meanwhile.

    Args:
        clock: of its machine.
        random: chance.

    Attributes:
        is_up: whether it runs.
        paused_until: it does nothing before that.
        fuse: how many steps until it ends, and how, if it burns.
    """

    def __init__(self, clock: LocalClock, random: Random) -> None:
        self.clock = clock
        self.random = random
        self.is_up = False
        self.paused_until = 0
        self.fuse: tuple[int, Ended] | None = None
        self._life = 0

    def begin(self) -> None:
        """
        A new life.
        """
        assert not self.is_up
        self._life += 1
        self.is_up, self.paused_until = True, 0

    def end(self, how: Ended) -> None:
        """
        The process is gone.
        """
        raise NotImplementedError

    def after(self) -> None:
        """
        Something happened.
        """
        raise NotImplementedError

    def own(self, event: Callable[[], None]) -> Callable[[], None]:
        """
        Returns an event that happens only in this life, and not while it is paused.
        """
        life = self._life

        def run() -> None:
            if self._life != life or not self.is_up:
                return
            if self.paused_until > self.clock.now:
                self.clock.at(self.paused_until, run)
                return
            try:
                event()
            except Crashed:
                # The process ends where it was; what it had done is done.
                assert self.fuse is not None
                self.end(self.fuse[1])
                return
            self.after()

        return run

    def hearing(self, take: Callable[[_T], None]) -> Callable[[_T], None]:
        """
        Returns what takes bytes, or an answer, in this life only.
        """
        life = self._life

        def hear(piece: _T) -> None:
            if self._life == life:
                self.own(partial(take, piece))()

        return hear

    def every(self, period: int, event: Callable[[], None]) -> None:
        """
        Something happens again and again, from a moment of chance on.
        """

        def again() -> None:
            event()
            self.clock.after(period, self.own(again))

        self.clock.after(self.random.randint(1, period), self.own(again))

    def step(self) -> None:
        """
        One thing is done, or is about to be.

        Raises:
            Crashed: the fuse has burned down.
        """
        if self.fuse is not None:
            left, how = self.fuse
            self.fuse = left - 1, how
            if left <= 0:
                raise Crashed
