"""
One writer holds a store, of any program.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pystore.core.lock import Lock, lock_holder
from pystore.errors import (
    ClosedError,
    LockedError,
    NotAStoreError,
    PoisonedError,
    StorageError,
)

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
    with pytest.raises(NotAStoreError, match="not a regular file"):
        Lock(tmp_path / "lock")


def test_a_lock_outlives_every_other_descriptor_of_its_file(tmp_path: Path) -> None:
    """
    A record lock of the process would end with the first one that is closed.
    """
    path = tmp_path / "lock"
    with Lock(path) as lock:
        for _ in range(3):
            assert b"lock" == path.read_bytes()
        lock.check()

        assert _keeps_others_out(path)
    assert not _keeps_others_out(path)


def test_another_process_learns_who_holds_a_lock(tmp_path: Path) -> None:
    """
    The system does not name the holder of such a lock; a second lock does.
    """
    path = tmp_path / "lock"
    ask = "import sys; from pystore.core.lock import *; print(lock_holder(sys.argv[1]))"
    with Lock(path):
        asked = subprocess.check_output([sys.executable, "-c", ask, path], text=True)
        assert f"{os.getpid()}\n" == asked
        # What a copy of the file does to the second lock.
        path.read_bytes()
        asked = subprocess.check_output([sys.executable, "-c", ask, path], text=True)
        assert "-1\n" == asked


def test_a_child_that_outlives_its_parent_keeps_no_lock(tmp_path: Path) -> None:
    """
    The child shares the open file, and with it the lock, unless it closes it.
    """
    path = tmp_path / "lock"
    script = """
import os, sys, time
from pystore.core.lock import Lock
lock = Lock(sys.argv[1])
if os.fork() == 0:
    print("child", flush=True)
    sys.stdin.read()
    os._exit(0)
time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, path], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    ) as parent:  # fmt: skip
        assert parent.stdout is not None
        assert parent.stdin is not None
        assert "child\n" == parent.stdout.readline()
        parent.kill()
        parent.wait()
        Lock(path).release()
        parent.stdin.close()


def _remove(path: Path) -> None:
    path.unlink()


def _rename(path: Path) -> None:
    path.rename(path.with_name("other"))


def _replace(path: Path) -> None:
    path.with_name("other").write_bytes(b"lock")
    path.with_name("other").rename(path)


def _rename_directory(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


def _replace_directory_by_links(path: Path) -> None:
    _rename_directory(path)
    path.parent.mkdir()
    os.link(path.parent.with_name("moved") / "lock", path)


@pytest.mark.parametrize(
    "way",
    [_remove, _rename, _replace, _rename_directory, _replace_directory_by_links],
    ids=lambda way: way.__name__.strip("_"),
)
def test_a_lock_that_lost_its_name_fails_its_check(
    tmp_path: Path, way: Callable[[Path], None]
) -> None:
    """
    The file is locked still, and another program that opens the path does not see it.
    """
    (tmp_path / "store").mkdir()
    with Lock(tmp_path / "store" / "lock") as lock:
        lock.check()
        way(tmp_path / "store" / "lock")
        with pytest.raises(PoisonedError, match="close it, stop that program"):
            lock.check()


def test_a_backup_by_hard_links_is_no_loss(tmp_path: Path) -> None:
    """
    The name and the directory are the same: the check passes.
    """
    with Lock(tmp_path / "lock") as lock:
        os.link(tmp_path / "lock", tmp_path / "backup")
        lock.check()


def test_a_lock_of_two_names_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """
    Two stores would have one lock.
    """
    (tmp_path / "lock").write_bytes(b"lock")
    os.link(tmp_path / "lock", tmp_path / "other")

    with pytest.raises(NotAStoreError, match=r"2 names.*remove it in the copy"):
        Lock(tmp_path / "lock")


def test_a_removed_lock_is_still_known_in_its_process(tmp_path: Path) -> None:
    """
    A second handle would make another file, and count as another store.
    """
    with Lock(tmp_path / "lock"):
        (tmp_path / "lock").unlink()
        with pytest.raises(LockedError, match="this process"):
            Lock(tmp_path / "lock")


def test_a_released_lock_is_not_checked(tmp_path: Path) -> None:
    """
    One clear error.
    """
    lock = Lock(tmp_path / "lock")
    lock.release()

    with pytest.raises(ClosedError, match="was released"):
        lock.check()
