"""
The log of a slave, for tests: opened, killed, and fed with a master's bytes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from lib.store.stores import SEGMENT, fill
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.store.commit_log import CommitLog

__all__ = ["kill_while", "master_bytes", "opened", "record_end"]


def master_bytes(root: Path) -> bytes:
    """
    The bytes of a log of 3000 records, over seven segments.
    """
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 3000)
        return b"".join(bytes(block.view) for block in log.blocks())


def opened(root: Path) -> ReplicaLog:
    """
    A replica with the master's segment size.
    """
    return ReplicaLog(root, segment_size=SEGMENT)


def kill_while(root: Path, work: Callable[[ReplicaLog], object]) -> None:
    """
    Open the replica in a child process, work, and die of SIGKILL.
    """
    child = os.fork()
    if child == 0:
        try:
            # Without the name the log would be closed before the kill.
            log = opened(root)
            work(log)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def record_end(master: bytes, least: int) -> int:
    """
    The first record end above an offset.
    """
    at = 0
    while at <= least:
        at += int.from_bytes(master[at : at + 4])
    return at
