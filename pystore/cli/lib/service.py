"""
What the daemons share: the limit of open files, the end by a signal.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress

from pystore.cli.lib.interrupt import service_exit_code, signals_to_handle
from pystore.net.service_loop import ServiceLoop
from pystore.remoting.limits import RemotingLimits

__all__ = ["allow_files", "many_peers", "run_until_signal"]

_FILES_BESIDE = 1000
"""Open files that are not connections."""

_THRESHOLDS = 5_000, 5, 200
"""
Of the collector: new objects before a collection of these, such collections before one
of their survivors, and these before one of all objects. That of the objects of ten
thousand connections stops a service for 0.1 s and more.
"""

_SWITCH_S = 0.0005
"""How long a thread may keep another one from running. A commit gives the interpreter
up ten times, and may wait as long each time while requests are decoded."""


def allow_files() -> None:
    """
    Raises the limit of open files: each connection needs one, and 1024 is a common
    limit.
    """
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = RemotingLimits().connections_max + _FILES_BESIDE
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        # macOS may refuse the allowed maximum; then fewer brokers can connect.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


@contextmanager
def many_peers() -> Iterator[None]:
    """
    Lets this process serve thousands of connections without long pauses as long as the
    block runs: threads take turns more often, and garbage is collected less often,
    without the objects that exist already. Closed connections and answered requests
    need no collection, as nothing of them refers to itself.
    """
    switch_s, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(*_THRESHOLDS)
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(switch_s)


def run_until_signal(work: Coroutine[None, None, None]) -> int | None:
    """
    Runs the work of a daemon in an event loop of its own. A signal cancels it, and its
    clean-up is awaited.

    Returns:
        the exit code for the signal; ``None``: the work ended by itself.

    Raises:
        BaseException: what the work raised.
    """
    with asyncio.Runner(loop_factory=ServiceLoop) as runner:
        return runner.run(_until_signal(work))


async def _until_signal(work: Coroutine[None, None, None]) -> int | None:
    loop = asyncio.get_running_loop()
    running = asyncio.ensure_future(work)
    numbers: list[int] = []

    def stop(number: int) -> None:
        numbers.append(number)
        # A second cancellation would interrupt the clean-up.
        if len(numbers) == 1:
            running.cancel()

    for number in signals_to_handle():
        loop.add_signal_handler(number, stop, number)
    try:
        await running
    except asyncio.CancelledError:
        # A signal; all answered commits are on disk.
        if not numbers:
            raise
    return service_exit_code(numbers[0]) if numbers else None
