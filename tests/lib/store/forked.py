"""
A forked child that runs a function, reports its result, and waits until it is killed.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["forked"]


@contextmanager
def forked(work: Callable[[], object]) -> Iterator[Callable[[], str]]:
    """
    Runs ``work`` in a child, which then sleeps; yields after its result.

    The result is the text of the value of ``work``, or the name of its error. The block
    gets a function that kills the child and returns that text; the end of the block
    kills the child as well.
    """
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Threads of other tests may live; the child uses none of theirs.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            result = str(work())
        except BaseException as error:
            result = type(error).__name__
        os.write(writer, result.encode() or b" ")
        while True:
            signal.pause()
    os.close(writer)
    result = os.read(reader, 4096).decode().strip()
    os.close(reader)
    is_alive = True

    def kill() -> str:
        nonlocal is_alive
        if is_alive:
            is_alive = False
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        return result

    try:
        yield kill
    finally:
        kill()
