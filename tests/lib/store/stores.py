"""
Small stores for tests: made, filled and killed in one line each.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pystore.message.message import Message
from pystore.store.commit_log import CommitLog

SEGMENT = 1 << 16


def message(number: int, topic: str = "Topic", size: int = 100) -> Message:
    """
    A message with its number in its body.
    """
    body = number.to_bytes(8, "big").rjust(size, b"\x01")
    return Message(topic, body, queue_id=number % 3, keys=[f"k{number}"])


def fill(log: CommitLog, count: int, first: int = 0) -> list[int]:
    """
    Append messages one by one and answer their offsets.
    """
    return [log.append(message(first + i)).offset for i in range(count)]


def from_other(root: Path) -> tuple[str, Path]:
    """
    The option of a repair that takes another store, which is made beside this one.
    """
    found = root.with_name("other")
    CommitLog(found, segment_size=SEGMENT).close()
    return "--from", found


def bodies(log: CommitLog) -> list[bytes]:
    """
    The body of every record, in order.
    """
    found = []
    for rows in log.scan():
        for offset in rows["offset"]:
            found.append(log.read(int(offset)).body)
    return found


def kill_while(
    root: Path,
    work: Callable[[CommitLog], object],
    **options: Any,
) -> None:
    """
    Open the store in a child process, work, and die of SIGKILL.
    """
    child = os.fork()
    if child == 0:
        try:
            # No garbage, it would close.
            log = CommitLog(root, **{"segment_size": SEGMENT, **options})
            work(log)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def in_killed_child(work: Callable[[Callable[[object], object]], None]) -> list[Any]:
    """
    The reports of a child before it killed itself.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(write, "wb") as pipe:
                work(lambda answer: pipe.write(pickle.dumps(answer)))
                pipe.flush()
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    os.close(write)
    answers = []
    with os.fdopen(read, "rb") as pipe:
        while pipe.peek(1):
            answers.append(pickle.load(pipe))
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    return answers


def make_folder() -> Path:
    """
    An empty folder for many short-lived stores: in memory where the budget is
    small, since there nothing waits for a disk. The caller removes it.
    """
    memory = "/dev/shm"
    is_fast = os.environ.get("HYPOTHESIS_PROFILE", "fast") == "fast"
    where = memory if is_fast and os.access(memory, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="pystore-property-", dir=where))


def remove_folder(folder: Path) -> None:
    """
    Remove what `make_folder` made.
    """
    shutil.rmtree(folder)
