"""
Locks, threads, queues, sockets and sleep of the standard library, by turns of a kernel.

`install` is for the beginning of a program, before the product is imported. Until the
process has a kernel, everything is as without it, but for one thread alone.
"""

from __future__ import annotations

import importlib
import os
import queue
import random
import select
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from sim.kernel import current, place
from sim.sockets import VirtualSocket, create_server, select_sockets

__all__ = ["install"]

_NS = 1_000_000_000


class Lock:
    """
    As `threading.Lock`.
    """

    __slots__ = ("__weakref__", "_is_held")

    def __init__(self) -> None:
        self._is_held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """
        As `threading.Lock.acquire`.
        """
        kernel = current()
        if kernel is not None:
            kernel.yields()
        if self._is_held:
            if not blocking:
                return False
            assert kernel is not None, "a lock is held, and there is one thread alone"
            limit_ns = None if timeout < 0 else _limit_ns(timeout)
            if not kernel.wait(self._is_free, limit_ns):
                return False
        self._is_held = True
        return True

    def release(self) -> None:
        """
        As `threading.Lock.release`.
        """
        if not self._is_held:
            raise RuntimeError("release unlocked lock")
        self._is_held = False

    def locked(self) -> bool:
        """
        As `threading.Lock.locked`.
        """
        return self._is_held

    def _is_free(self) -> bool:
        return not self._is_held

    def _at_fork_reinit(self) -> None:
        self._is_held = False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def _start_new_thread(
    run: Callable[..., object],
    args: tuple[Any, ...],
    named: dict[str, Any] | None = None,
) -> int:
    kernel = current()
    assert kernel is not None, "no thread before the process has a kernel"
    return kernel.start(run, args, named)


def _await_end(
    thread: threading.Thread, block: bool = True, timeout: float = -1
) -> None:
    """
    As `threading.Thread._wait_for_tstate_lock`.
    """
    kernel = current()
    if thread._is_stopped or kernel is None:  # type: ignore[attr-defined]
        return
    assert thread.ident is not None
    task = kernel.tasks[thread.ident]
    if block and not task.is_done:
        kernel.wait(lambda: task.is_done, None if timeout < 0 else _limit_ns(timeout))
    if task.is_done:
        thread._tstate_lock = None  # type: ignore[attr-defined]
        thread._is_stopped = True  # type: ignore[attr-defined]


def _limit_ns(seconds: float) -> int:
    """
    Rounded up: who waits for a moment finds the clock past it, or would wait for ever
    without any time passing.
    """
    return int(seconds * _NS) + bool(seconds) * 1000


def _sleep(seconds: float, real: Callable[[float], None] = time.sleep) -> None:
    kernel = current()
    if kernel is None:
        real(seconds)
    else:
        kernel.wait(bool, _limit_ns(seconds))


def _urandom(size: int, real: Callable[[int], bytes] = os.urandom) -> bytes:
    kernel = current()
    return real(size) if kernel is None else kernel.draw.randbytes(size)


def _statvfs(
    path: Any, real: Callable[[Any], os.statvfs_result] = os.statvfs
) -> os.statvfs_result:
    if current() is None:
        return real(path)
    # Half of it is used: the disk of the machine is none of the virtual one.
    return os.statvfs_result((4096, 4096, 1 << 20, 1 << 19, 1 << 19, 9, 9, 9, 0, 255))


class _Threads(dict[threading.Thread, None]):
    """
    The threads of an executor in the order of their starts, in which it waits for their
    ends: that of a set is of their addresses, another one in each run.
    """

    def add(self, thread: threading.Thread) -> None:
        """
        As of a set.
        """
        self[thread] = None


def install() -> None:
    """
    Replaces them in this program, for good.
    """
    parts: tuple[tuple[Any, dict[str, Any]], ...] = (
        (
            threading,
            {
                "Lock": Lock,
                "_allocate_lock": Lock,
                "_CRLock": None,
                "_start_new_thread": _start_new_thread,
            },
        ),
        (threading.Thread, {"_wait_for_tstate_lock": _await_end}),
        (queue, {"SimpleQueue": queue._PySimpleQueue}),  # type: ignore[attr-defined]
        (time, {"sleep": _sleep}),
        (os, {"urandom": _urandom, "statvfs": _statvfs}),
        (random, {"_urandom": _urandom}),
        (socket, {"socket": VirtualSocket, "create_server": create_server}),
        (select, {"select": select_sockets}),
    )
    assert place.kernel is None
    for owner, names in parts:
        for name, value in names.items():
            assert hasattr(owner, name), f"{owner} has no {name} in this Python"
            setattr(owner, name, value)
    # It makes a lock when it is imported, which has to be a virtual one. A name of the
    # module hides the built-in one, which it uses for its threads alone.
    executors = importlib.import_module("concurrent.futures.thread")
    vars(executors)["set"] = _Threads
