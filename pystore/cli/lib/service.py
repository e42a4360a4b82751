"""
What the daemons share: the limit of open files, the end by a signal.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Coroutine
from contextlib import suppress

from pystore.cli.lib.interrupt import service_exit_code, signals_to_handle
from pystore.remoting.limits import RemotingLimits

__all__ = ["allow_files", "run_until_signal"]

_FILES_BESIDE = 1000
"""Open files that are not connections."""


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


def run_until_signal(work: Coroutine[None, None, None]) -> int | None:
    """
    Runs the work of a daemon in an event loop of its own. A signal cancels it, and its
    clean-up is awaited.

    Returns:
        the exit code for the signal; ``None``: the work ended by itself.

    Raises:
        BaseException: what the work raised.
    """
    return asyncio.run(_until_signal(work))


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
