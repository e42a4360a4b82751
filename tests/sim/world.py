"""
Virtual time, machines with clocks of their own, and the processes on them.

Nothing waits for real time: the next event happens when all processes wait.
"""

from __future__ import annotations

import os
import pickle
import signal
import tempfile
from collections.abc import Callable, Generator
from heapq import heappop, heappush
from math import ceil
from pathlib import Path
from random import Random
from typing import Any, BinaryIO

from sim.child import Program, serve
from sim.kernel import Kernel

__all__ = ["FOLDER", "MS", "SECOND", "Machine", "Process", "Task", "World"]

MS = 1_000_000
SECOND = 1_000 * MS
_YEAR_2026_NS = 1_767_225_600 * SECOND
_BOOTED_NS = 100 * SECOND

_MEMORY = Path("/dev/shm")
FOLDER = _MEMORY if _MEMORY.is_dir() else Path(tempfile.gettempdir())
"""Where stores are: syncs take no time there."""

Task = Generator[int, None, None]
"""Yields for how many ns it sleeps."""


class Machine:
    """
    A machine: an address, a clock since its start, a wall clock.

    Args:
        world: where it is.
        host: its IP address.

    Attributes:
        is_up: whether it has power.
        wall_ns: what to add to its clock for the wall clock.
    """

    def __init__(self, world: World, host: str) -> None:
        self.host = host
        self.is_up = True
        self.rate = world.draw.choice([1.0, 1.0, 0.95, 1.05])
        self._world = world
        self._booted_ns = world.now_ns - _BOOTED_NS
        self.wall_ns = _YEAR_2026_NS - self.clock_ns() + world.draw.randrange(SECOND)

    def clock_ns(self) -> int:
        """
        Returns the time since its start, by its clock.
        """
        return int((self._world.now_ns - self._booted_ns) * self.rate)

    def time_of(self, clock_ns: int) -> int:
        """
        Returns when its clock shows so much.
        """
        return self._booted_ns + ceil(clock_ns / self.rate) + 1

    def boot(self) -> None:
        """
        It starts again: its clock begins anew, its wall clock goes on.
        """
        wall_ns = self.clock_ns() + self.wall_ns
        self._booted_ns = self._world.now_ns - SECOND
        self.wall_ns = wall_ns - self.clock_ns()
        self.is_up = True


class Process:
    """
    A process of a machine.

    Args:
        world: where it is.
        machine: on which it runs.
        name: for messages.
        make: makes its program, in the process.
        heard: takes what it says, but for the network.

    Attributes:
        is_alive: whether it runs.
        steps_left: after so many `on_last_step` is called; ``None``: never.
        ended: is called once it runs no more.
    """

    def __init__(
        self,
        world: World,
        machine: Machine,
        name: str,
        make: Callable[[Kernel], Program],
        heard: Callable[..., None],
    ) -> None:
        self.name = name
        self.machine = machine
        self.is_alive = True
        self.ended: list[Callable[[], None]] = []
        self._world = world
        self._heard = heard
        self._paused_until = 0
        self.steps_left: int | None = None
        self.on_last_step: Callable[[], object] = bool
        self._arrived: list[tuple[Any, ...]] = []
        self._step_at = -1
        self._wake = 0
        self._fork(make)
        self._step_at = world.now_ns
        world.at(world.now_ns, self._step)

    def _fork(self, make: Callable[[Kernel], Program]) -> None:
        down, up = os.pipe(), os.pipe()
        seed = self._world.draw.getrandbits(64)
        self.pid = os.fork()
        if not self.pid:
            os.close(down[1])
            os.close(up[0])
            given, taken = os.fdopen(down[0], "rb"), os.fdopen(up[1], "wb")
            serve(given, taken, self.machine.host, seed, make)
        os.close(down[0])
        os.close(up[1])
        self._given: BinaryIO = os.fdopen(down[1], "wb")
        self._taken: BinaryIO = os.fdopen(up[0], "rb")

    def deliver(self, *message: Any) -> None:
        """
        Something arrives now.
        """
        if self.is_alive:
            self._arrived.append(message)
            self._schedule(self._world.now_ns)

    def pause(self, ns: int) -> None:
        """
        It does nothing for a while, as by SIGSTOP.
        """
        self._paused_until = max(self._paused_until, self._world.now_ns + ns)

    @property
    def is_paused(self) -> bool:
        """
        Whether it is.
        """
        return self._paused_until > self._world.now_ns

    def kill(self) -> None:
        """
        Ends it by SIGKILL.
        """
        if not self.is_alive:
            return
        self.is_alive = False
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._given.close()
        self._taken.close()
        for told in self.ended:
            told()

    def _schedule(self, at_ns: int) -> None:
        at_ns = max(at_ns, self._paused_until, self._world.now_ns)
        if self._step_at < 0 or at_ns < self._step_at:
            self._step_at = at_ns
            self._wake += 1
            wake = self._wake
            self._world.at(at_ns, lambda: self._step() if wake == self._wake else None)

    def _step(self) -> None:
        if not self.is_alive:
            return
        self._step_at = -1
        if self.steps_left is not None:
            if not self.steps_left:
                self.steps_left = None
                self.on_last_step()
                return
            self.steps_left -= 1
        if self.is_paused:
            self._schedule(self._paused_until)
            return
        arrived, self._arrived = self._arrived, []
        machine = self.machine
        step = machine.clock_ns(), machine.wall_ns, arrived
        pickle.dump(step, self._given)
        self._given.flush()
        self._world.steps += 1
        try:
            deadline_ns, said = pickle.load(self._taken)
        except EOFError:
            # It died by itself.
            raise RuntimeError(f"{self.name} crashed") from None
        if deadline_ns is not None:
            self._schedule(machine.time_of(deadline_ns))
        for kind, *more in said:
            if kind in _OF_NETWORK:
                self._world.sent(self, kind, *more)
            elif kind == "ended":
                self._exited(*more)
            else:
                self._heard(kind, *more)

    def _exited(self, reason: str) -> None:
        self.kill()
        self._heard("ended", reason)


_OF_NETWORK = frozenset(
    ("connect", "listen", "unlisten", "data", "fin", "close", "reset", "taken")
)


class World:
    """
    Time and what happens in it.

    Args:
        seed: of all chance.

    Attributes:
        draw: chance.
        now_ns: the time.
        steps: of all processes so far.
        sent: takes what a process sends into the network.
    """

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.now_ns = 1_000 * SECOND
        self.steps = 0
        self.sent: Callable[..., object] = bool
        self._order = 0
        self._events: list[tuple[int, int, Callable[[], object]]] = []

    def at(self, time_ns: int, event: Callable[[], object]) -> None:
        """
        Something happens then.
        """
        self._order += 1
        heappush(self._events, (max(time_ns, self.now_ns), self._order, event))

    def after(self, ns: int, event: Callable[[], object]) -> None:
        """
        Something happens so much later.
        """
        self.at(self.now_ns + ns, event)

    def spawn(self, task: Task) -> None:
        """
        Runs a task until it ends.
        """

        def go_on() -> None:
            pause_ns = next(task, None)
            if pause_ns is not None:
                self.after(pause_ns, go_on)

        self.after(0, go_on)

    def run(self, ns: int, until: Callable[[], object] = bool) -> bool:
        """
        Lets time pass, until something is so at the latest; returns whether it is.
        """
        end_ns = self.now_ns + ns
        while not until():
            if not self._events or self._events[0][0] > end_ns:
                self.now_ns = end_ns
                return bool(until())
            self.now_ns, _, event = heappop(self._events)
            event()
        return True
