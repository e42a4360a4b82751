"""
A file of the log that another program makes shorter while it is read.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from lib.store.segment_files import segment as segment_at

from pystore.core.log_reader import LogReader
from pystore.errors import CorruptError, InvalidError, OffsetOutOfRange, PystoreError
from pystore.message.message import Message
from pystore.store.commit_log import CommitLog

SEGMENT = 1 << 20
BODY = b"b" * 4000


def filled(root: Path) -> int:
    """
    A store of two segments; returns the offset of a record in the newest one.
    """
    with CommitLog(root, segment_size=SEGMENT) as log:
        found = [log.append(Message("t", BODY)).offset for _ in range(400)]
    return found[380]


def in_child(work: Callable[[], object]) -> tuple[str, int]:
    """
    The error that ``work`` raised in a forked child, and the signal that ended it.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            faulthandler.disable()  # the signal is expected
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            work()
            os.write(write, b"none")
        except PystoreError as error:
            # The parent compares it.
            os.write(write, f"{type(error).__name__} {error}".encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    return text, os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def shorten(root: Path, at: int) -> None:
    """
    What another program does: the file of an offset ends there.
    """
    os.truncate(segment_at(root, SEGMENT), at % SEGMENT)


READS: dict[str, Callable[[CommitLog, int], object]] = {
    "a read": lambda log, at: log.read(at),
    "a scan": lambda log, at: list(log.scan(at)),
    "a scan from before": lambda log, at: list(log.scan(at - at % SEGMENT)),
    "an acquired block": lambda log, at: log.reader.acquire(at, 4096),
    "blocks": lambda log, at: [bytes(one.view) for one in log.blocks(at)],
    "copied blocks": lambda log, at: list(log.blocks(at, is_copied=True)),
}


@pytest.mark.parametrize("kind", READS)
@pytest.mark.parametrize("is_warm", [True, False], ids=["mapped", "new"])
def test_a_read_of_a_file_that_became_shorter_is_an_error(
    tmp_path: Path, kind: str, is_warm: bool
) -> None:
    """
    The process goes on, whether the bytes were mapped before or not.
    """
    root = tmp_path / "store"
    at = filled(root)

    def work() -> None:
        log = CommitLog(root, mode="r")
        if is_warm:
            list(log.scan())
            [bytes(one.view) for one in log.blocks()]
        shorten(root, at)
        READS[kind](log, at)

    text, ended_by = in_child(work)

    assert 0 == ended_by
    assert text.startswith("CorruptError ")
    assert str(segment_at(root, SEGMENT)) in text or "offset" in text


def test_a_view_of_a_file_that_became_shorter_ends_the_process(
    tmp_path: Path,
) -> None:
    """
    No library can give an error for a touched byte; the copy stays as it was.
    """
    root = tmp_path / "store"
    filled(root)

    def touch(*, is_copied: bool) -> None:
        log = CommitLog(root, mode="r")
        held = list(log.blocks(is_copied=is_copied))
        shorten(root, SEGMENT + 4096)
        assert BODY in bytes(held[-1].view)

    assert ("none", 0) == in_child(lambda: touch(is_copied=True))
    with segment_at(root, SEGMENT).open("r+b") as segment:
        segment.truncate(SEGMENT)
    assert ("", signal.SIGBUS) == in_child(lambda: touch(is_copied=False))


def test_copied_blocks_have_the_bytes_of_the_log(tmp_path: Path) -> None:
    """
    The same ranges and bytes as views, from any offset, in blocks of any size.
    """
    root = tmp_path / "store"
    filled(root)
    with LogReader(root) as log:
        end = log.scan(0).finish().offset
        log.limit(end)
        for start, size in ((0, SEGMENT), (5, 4096), (SEGMENT - 3, 7), (end - 1, 10)):
            stop = min(end, start + 9 * size)
            views = list(log.blocks(start, stop, size))
            copies = list(log.blocks(start, stop, size, is_copied=True))

            assert [(one.offset, bytes(one.view)) for one in views] == [
                (one.offset, bytes(one.view)) for one in copies
            ]
        with pytest.raises(OffsetOutOfRange):
            log.copy(end)
        with pytest.raises(InvalidError):
            log.copy(0, 0)


def test_a_copy_names_the_file_that_is_gone(tmp_path: Path) -> None:
    """
    A segment that another program removed is an error of the copy.
    """
    root = tmp_path / "store"
    at = filled(root)
    with CommitLog(root, mode="r") as log:
        segment_at(root, SEGMENT).unlink()

        with pytest.raises((OffsetOutOfRange, CorruptError), match="segment"):
            log.reader.copy(at)
