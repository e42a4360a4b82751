"""
Small stores for tests: made, filled and killed in one line each.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from pystore.log import CommitLog
from pystore.messages import Message

SEGMENT = 1 << 16


def message(number: int, topic: str = "Topic", size: int = 100) -> Message:
    """
    A message that tells its number by its body.
    """
    body = number.to_bytes(8, "big").rjust(size, b"\x01")
    return Message(topic, body, queue_id=number % 3, keys=[f"k{number}"])


def fill(log: CommitLog, count: int, first: int = 0) -> list[int]:
    """
    Append messages one by one and answer their offsets.
    """
    return [log.append(message(first + i)).offset for i in range(count)]


def bodies(log: CommitLog) -> list[bytes]:
    """
    The body of every record, in order.
    """
    found = []
    for rows in log.scan():
        for offset in rows["offset"]:
            found.append(log.read(int(offset)).body)
    return found


def kill_while(root: Path, work: Callable[[CommitLog], object]) -> None:
    """
    Open the store in a child process, work, and die of SIGKILL.
    """
    child = os.fork()
    if child == 0:
        try:
            work(CommitLog(root, segment_size=SEGMENT))
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
