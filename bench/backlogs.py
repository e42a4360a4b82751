"""
Backlogs, and the two ways to send them over a link: pystore, or bare system calls.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from child import Child
from contest import Contender, Timed
from machine import warm_cache

from pystore.segments.store_copy import StoreCopy

__all__ = [
    "BLOCK",
    "Backlog",
    "bare_link",
    "catch_up",
    "full_segments",
    "make_backlog",
    "serving",
]

BLOCK = 256 << 10
"""The longest block in a frame, unless a bench passes another one."""


@dataclass(frozen=True)
class Backlog:
    """
    A master's closed store.

    Attributes:
        root: of the store.
        segment: bytes of one file.
        end_offset: of its log.
    """

    root: Path
    segment: int
    end_offset: int

    def master(self, block_bytes: int = BLOCK) -> Child:
        """
        Opens it and serves.
        """
        return Child("master_child.py", self.root, self.segment, block_bytes)


def make_backlog(root: Path, size_bytes: int, segment: int) -> Backlog:
    """
    Fills a new store with bodies of this total size, and reads it into the cache.
    """
    with Child("master_child.py", root, segment, BLOCK) as master:
        end_offset = master.call("fill", size_bytes)
    warm_cache(list((root / "commitlog").iterdir()))
    return Backlog(root, segment, end_offset)


def full_segments(root: Path) -> Backlog:
    """
    The full segments of a closed store; their end is 0 if there are none.
    """
    facts = StoreCopy(root).facts
    full = facts.bases()
    end = full[-1] + facts.segment_size if full else 0
    return Backlog(root, facts.segment_size, end)


@contextmanager
def serving(root: Path) -> Iterator[str]:
    """
    A process that serves the segments of a store to repairs; yields its address.
    """
    command = [sys.executable, "-m", "pystore", "recovery", "serve", str(root)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        yield child.stdout.readline().split()[-1]
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def bare_link(
    folder: Callable[[], Path], backlog: Backlog, piece: int, *, is_synced: bool = False
) -> Contender:
    """
    Timed: the same bytes by ``sendfile``, ``recv`` and ``pwrite`` of a piece each, and
    if wanted ``fdatasync`` of each file.
    """

    @contextmanager
    def contend() -> Iterator[Timed]:
        program = Path(__file__).with_name("bare_link.py")
        command = [sys.executable, str(program), str(folder())]
        command += map(str, (piece, backlog.segment, backlog.end_offset))
        command.append(str(backlog.root / "commitlog"))
        command += ["sync"] * is_synced
        yield lambda: float(subprocess.check_output(command, text=True))

    return contend


def catch_up(
    folder: Callable[[], Path], backlog: Backlog, block_bytes: int
) -> Contender:
    """
    Timed: from dialling to the last byte in the slave's log. Opening is not.
    """

    @contextmanager
    def contend() -> Iterator[Timed]:
        with (
            backlog.master(block_bytes) as master,
            Child("slave_child.py", folder(), backlog.segment, 1) as slave,
        ):
            address = master.call("address")
            yield lambda: slave.call("catch_up", address, backlog.end_offset)
            assert slave.call("end_offset") == backlog.end_offset
            slave.call("leave")

    return contend
