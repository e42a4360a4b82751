"""
A virtual process: a forked one that runs only when it is told to, with the time that
it is told.

The world sends what arrives and the time; the process runs until all of its threads
wait, and answers what it sends and when it would go on by itself. It dies by SIGKILL,
as any process.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import random
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from random import Random
from typing import Any, BinaryIO, Protocol

from sim import kernel as kernels
from sim import sockets
from sim.clock import set_clock
from sim.kernel import Kernel

__all__ = ["Program", "Step", "serve"]

_OF_NETWORK = frozenset(("accept", "connected", "broken", "data", "fin", "taken"))

_SET_PARENT_DEATH_SIGNAL = 1

Step = tuple[int, int, list[tuple[Any, ...]]]
"""Time and wall clock in ns, and what arrives."""


class Program(Protocol):
    """
    What a virtual process runs.
    """

    def run(self) -> None:
        """
        Runs it, in a thread of its own.
        """
        ...

    def arrived(self, kind: str, *more: Any) -> None:
        """
        Takes a message that is none of the network.
        """
        ...

    def stepped(self) -> None:
        """
        All threads wait.
        """
        ...


def serve(
    given: BinaryIO,
    taken: BinaryIO,
    host: str,
    seed: int,
    make: Callable[[Kernel], Program],
) -> None:
    """
    Serves steps until there are no more. It does not return.
    """
    # It ends with its world, however that ends.
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    code = 1
    try:
        _serve(given, taken, host, seed, make)
        code = 0
    except BaseException:
        # Any error: a forked process must not go on as its parent.
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _serve(
    given: BinaryIO,
    taken: BinaryIO,
    host: str,
    seed: int,
    make: Callable[[Kernel], Program],
) -> None:
    now_ns, wall_ns, arrived = pickle.load(given)
    set_clock(now_ns, now_ns + wall_ns)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    kernel = kernels.place.kernel = Kernel(Random(seed), now_ns)
    sockets.place.net = net = sockets.Net(host)
    random.seed(seed)
    threading.excepthook = lambda told: kernel.defect(told.exc_value)
    program = make(kernel)

    def run() -> None:
        try:
            program.run()
            kernel.say("ended", "")
        except BaseException as error:
            # Any error: the world is told, and judges.
            kernel.say("ended", f"{type(error).__name__}: {error}")
            traceback.print_exc()

    kernel.start(run)
    while True:
        for kind, *more in arrived:
            if kind in _OF_NETWORK:
                net.arrived(kind, *more)
            else:
                program.arrived(kind, *more)
        deadline_ns = kernel.run()
        program.stepped()
        said, kernel.said = kernel.said, []
        pickle.dump((deadline_ns, said), taken)
        taken.flush()
        try:
            step: Step = pickle.load(given)
        except EOFError:
            # The world has ended.
            return
        kernel.now_ns, wall_ns, arrived = step
        set_clock(kernel.now_ns, kernel.now_ns + wall_ns)
