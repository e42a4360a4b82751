"""
A process that opens a store for writing and stops between ``abort`` and the live page.
"""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pystore.core.live_page import LivePage, LiveWords
from pystore.store.commit_log import CommitLog

__all__ = ["paused_opening"]

_READY, _GO, _DONE = b"r", b"g", b"d"


@contextmanager
def paused_opening(
    root: Path, work: Callable[[CommitLog], object]
) -> Iterator[Callable[[], None]]:
    """
    Opens a store in a forked child, which stops before it begins the live page: the
    block is entered then.

    The block gets a function that lets the child go on: it returns when the child has
    opened the store and done ``work``. The child closes the store at the end of the
    block.
    """
    to_child, to_parent = os.pipe(), os.pipe()
    with warnings.catch_warnings():
        # Threads of other tests may live; the child uses none of theirs.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(to_child[1])
            os.close(to_parent[0])
            _open_in_child(root, work, to_child[0], to_parent[1])
            code = 0
        except BaseException:
            # The parent's test fails, and this says why.
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(to_child[0])
    os.close(to_parent[1])

    def resume() -> None:
        os.write(to_child[1], _GO)
        assert os.read(to_parent[0], 1) == _DONE

    try:
        assert os.read(to_parent[0], 1) == _READY
        yield resume
    finally:
        # The child ends at the end of its pipe, wherever it waits.
        os.close(to_child[1])
        _, status = os.waitpid(pid, 0)
        os.close(to_parent[0])
    assert status == 0


def _open_in_child(
    root: Path, work: Callable[[CommitLog], object], asked: int, told: int
) -> None:
    begin = LivePage.begin

    def begin_later(self: LivePage, words: LiveWords) -> None:
        os.write(told, _READY)
        assert os.read(asked, 1) == _GO
        begin(self, words)

    LivePage.begin = begin_later  # type: ignore[method-assign]  # this process ends
    with CommitLog(root) as log:
        work(log)
        os.write(told, _DONE)
        os.read(asked, 1)
