"""
A forked child that runs a function, reports its result, and waits until it is killed.
"""

from __future__ import annotations

import json
import os
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["as_user", "forked"]


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


def as_user(user: int, judge: Callable[[], list[str]]) -> list[str]:
    """
    Runs *judge* as another user, who is another process.
    """
    if user == os.getuid():
        return judge()
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            found = judge()
        except BaseException:
            # Nothing of the parent may run here.
            found = [traceback.format_exc()]
        os.write(writing, json.dumps(found).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        text = pipe.read()
    os.wait()
    objections: list[str] = json.loads(text)
    return objections
