"""
One writer holds a store, of any program.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pystore.core.lock import Lock, lock_holder
from pystore.errors import LockedError, StorageError

# Holds byte 0 as Java does, reports it, and waits for the end of its input.
OTHER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def _held_elsewhere(path: Path) -> Iterator[int]:
    """
    Another process holds byte 0 until its input ends; yields its process id.
    """
    path.write_bytes(b"lock")
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, path], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout is not None
        assert "held\n" == other.stdout.readline()
        yield other.pid
        other.communicate()
    assert 0 == other.returncode


def _keeps_others_out(path: Path) -> bool:
    """
    Whether another process that tries to hold byte 0, as Java would, is refused.
    """
    other = subprocess.run(
        [sys.executable, "-c", OTHER, path],
        input="", capture_output=True, text=True, check=False,
    )  # fmt: skip
    return "BlockingIOError" in other.stderr


def test_the_file_is_made_as_java_makes_it(tmp_path: Path) -> None:
    """
    It holds the four bytes ``lock``.
    """
    with Lock(tmp_path / "lock") as lock:
        states = [lock.is_held]
    states.append(lock.is_held)

    assert [True, False] == states
    assert b"lock" == (tmp_path / "lock").read_bytes()


def test_a_second_writer_in_the_same_process_is_refused(tmp_path: Path) -> None:
    """
    POSIX would let it through; the entry in the process does not.
    """
    with Lock(tmp_path / "lock") as first:
        with pytest.raises(LockedError) as raised:
            Lock(tmp_path / "." / "lock")
        assert str(os.getpid()) in str(raised.value)

        first.release()
        with Lock(tmp_path / "lock"):
            assert not first.is_held


def test_another_process_that_holds_byte_0_is_named(tmp_path: Path) -> None:
    """
    A Java broker holds the same byte; the error says which process it is.
    """
    path = tmp_path / "lock"
    with _held_elsewhere(path) as pid, pytest.raises(LockedError, match=str(pid)):
        Lock(path)

    Lock(path).release()


def test_a_held_lock_keeps_other_processes_out(tmp_path: Path) -> None:
    """
    What Java would try while we hold it fails.
    """
    with Lock(tmp_path / "lock"):
        assert _keeps_others_out(tmp_path / "lock")


def test_releasing_twice_gives_nothing_of_others_back(tmp_path: Path) -> None:
    """
    The second release does not touch the lock of the next holder.
    """
    first = Lock(tmp_path / "lock")
    first.release()
    with Lock(tmp_path / "lock"):
        first.release()

        with pytest.raises(LockedError):
            Lock(tmp_path / "lock")


def test_a_forgotten_lock_is_given_back(tmp_path: Path) -> None:
    """
    An exception in the block releases the lock.
    """
    Lock(tmp_path / "lock")

    with Lock(tmp_path / "lock") as lock:
        assert lock.is_held


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """
    The path is in the line and in the error.
    """
    with pytest.raises(StorageError, match="missing") as raised:
        Lock(tmp_path / "missing" / "lock")

    assert os.fspath(tmp_path / "missing" / "lock") == raised.value.path


def test_a_forked_child_does_not_hold_the_lock_of_its_parent(tmp_path: Path) -> None:
    """
    POSIX locks are the process's own; releasing in the child is harmless.
    """
    with Lock(tmp_path / "lock") as lock:
        child = os.fork()
        if child == 0:
            lock.release()
            os._exit(0)
        assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        assert _keeps_others_out(tmp_path / "lock")


def test_the_holder_of_a_lock_is_read_without_taking_it(tmp_path: Path) -> None:
    """
    Another process, this one, none, and none without a file. The call opens the
    file, which would drop the lock of this process: so it is not opened then.
    """
    path = tmp_path / "lock"
    assert lock_holder(path) is None
    assert not path.exists()

    with _held_elsewhere(path) as pid:
        assert pid == lock_holder(path)
    assert lock_holder(path) is None

    with Lock(path):
        assert os.getpid() == lock_holder(path)
        assert _keeps_others_out(path)
    assert lock_holder(path) is None


def test_the_error_of_an_unreadable_lock_has_the_reason(tmp_path: Path) -> None:
    """
    Here a part of its path is a file.
    """
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(StorageError, match="lock: cannot open"):
        lock_holder(tmp_path / "file" / "lock")


def test_a_pipe_in_the_place_of_a_lock_blocks_no_call(tmp_path: Path) -> None:
    """
    An open of a pipe waits for its other end, which no process opens here.
    """
    os.mkfifo(tmp_path / "lock")

    assert lock_holder(tmp_path / "lock") is None
