"""
The threads of one process, one at a time, and the time that they see.

Each thread of the product is a real one, but it runs only while it has the turn, and
gives that up only where it would wait: for a lock, a socket, a mark of the core, the
time. Which of the threads that could run is next is drawn from the seed. Nothing waits
for real time, so a process does the same again with the same seed.

The clock stands still while a thread runs. The process gets its next time, and what
arrives from other processes, when all threads wait (`sim.child`).
"""

from __future__ import annotations

import _thread
import traceback
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

__all__ = ["Kernel", "Task", "current"]

_YIELDS = 6
"""One of so many locks that are free is taken after other threads had a turn."""


class Task:
    """
    A thread.

    Attributes:
        is_done: it has ended.
        ready: whether it need not wait any more.
        deadline_ns: when it waits no more; ``None``: no limit.
    """

    __slots__ = ("deadline_ns", "is_done", "ready", "turn")

    def __init__(self) -> None:
        self.is_done = False
        self.ready: Callable[[], object] = bool
        self.deadline_ns: int | None = None
        self.turn = _thread.allocate_lock()
        self.turn.acquire()


class Kernel:
    """
    Threads and clocks of this process. Only its thread with the turn may call it.

    Args:
        draw: chance.
        now_ns: the time since the machine started.

    Attributes:
        draw: chance.
        now_ns: as given; moves in `run`.
        said: messages to the world outside.
        tasks: by the number of the thread.
    """

    def __init__(self, draw: Random, now_ns: int) -> None:
        self.draw = draw
        self.now_ns = now_ns
        self.said: list[tuple[Any, ...]] = []
        self.tasks: dict[int, Task] = {}
        self._waiting: list[Task] = []
        self._main = self._current = Task()

    # -- for the main thread ---------------------------------------------------

    def run(self) -> int | None:
        """
        Runs threads until all of them wait.

        Returns:
            when the first of them would go on by itself; ``None``: none would.
        """
        task = self._next()
        if task is not None:
            self._give(task)
            self._main.turn.acquire()
        ends = [one.deadline_ns for one in self._waiting if one.deadline_ns is not None]
        return min(ends, default=None)

    # -- for threads with the turn ---------------------------------------------

    @property
    def is_main(self) -> bool:
        """
        Whether the main thread has the turn: it must not wait.
        """
        return self._current is self._main

    def wait(self, ready: Callable[[], object], timeout_ns: int | None = None) -> bool:
        """
        Waits until something is so; returns whether it is.

        Args:
            ready: is called after each turn; does not wait.
            timeout_ns: how long at most; ``None``: without a limit.
        """
        if self.is_main:
            raise RuntimeError("the main thread of a virtual process never waits")
        task = self._current
        task.ready = ready
        task.deadline_ns = None if timeout_ns is None else self.now_ns + timeout_ns
        self._waiting.append(task)
        following = self._next()
        if following is not task:
            self._give(following or self._main)
            task.turn.acquire()
        return bool(ready())

    def yields(self) -> None:
        """
        Lets other threads have a turn first, by chance.
        """
        if not self.is_main and not self.draw.randrange(_YIELDS):
            self.wait(_at_once)

    def start(
        self,
        run: Callable[..., object],
        args: Sequence[Any] = (),
        named: dict[str, Any] | None = None,
    ) -> int:
        """
        Starts a thread; returns its number.
        """
        task = Task()
        task.ready = _at_once

        def begin() -> None:
            task.turn.acquire()
            try:
                run(*args, **(named or {}))
            except BaseException as error:
                # Any error: the world judges it.
                self.defect(error)
            finally:
                task.is_done = True
                self._give(self._next() or self._main)

        number = _thread.start_new_thread(begin, ())
        self.tasks[number] = task
        self._waiting.append(task)
        return number

    def say(self, *message: Any) -> None:
        """
        Sends a message to the world outside.
        """
        self.said.append(message)

    def defect(self, error: BaseException | None) -> None:
        """
        An error ended a thread.
        """
        self.say("defect", "".join(traceback.format_exception(error)))

    # -- turns -------------------------------------------------------------------

    def _next(self) -> Task | None:
        now = self.now_ns
        able = [
            one
            for one in self._waiting
            if (one.deadline_ns is not None and one.deadline_ns <= now) or one.ready()
        ]
        if not able:
            return None
        task = able[0] if len(able) == 1 else self.draw.choice(able)
        self._waiting.remove(task)
        return task

    def _give(self, task: Task) -> None:
        self._current = task
        task.turn.release()


def _at_once() -> bool:
    return True


class _Place:
    kernel: Kernel | None = None


place = _Place()
"""Where the kernel of this process is, once it has one."""


def current() -> Kernel | None:
    """
    Returns the kernel of this process; ``None``: its time is real.
    """
    return place.kernel
