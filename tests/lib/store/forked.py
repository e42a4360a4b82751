"""
A forked child that does something, says so, and stays until it is killed.
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
    Runs ``work`` in a child, which then sleeps; yields once it was done.

    The child's answer is the text of what ``work`` returned, or the name of the
    error it raised. The block gets a function that kills the child at once and
    answers that text; leaving the block does so, too.
    """
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Threads of other tests may live; the child uses none of theirs.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            said = str(work())
        except BaseException as error:
            said = type(error).__name__
        os.write(writer, said.encode() or b" ")
        while True:
            signal.pause()
    os.close(writer)
    said = os.read(reader, 4096).decode().strip()
    os.close(reader)
    is_alive = True

    def kill() -> str:
        nonlocal is_alive
        if is_alive:
            is_alive = False
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        return said

    try:
        yield kill
    finally:
        kill()
