"""
An LMDB directory is one handle's in a process.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pystore.core.lock import lock_holder
from pystore.errors import BusyError, StorageError
from pystore.fs.lmdb_claim import LmdbClaim

ofd = pytest.mark.skipif(
    not hasattr(fcntl, "F_OFD_SETLK"), reason="no locks of an open file description"
)


def test_a_directory_is_claimed_once_by_whatever_path(tmp_path: Path) -> None:
    """
    Until the release, after which the next claim stands.
    """
    (tmp_path / "link").symlink_to(tmp_path)
    first = LmdbClaim(tmp_path)
    for path in (tmp_path, tmp_path / "link"):
        with pytest.raises(BusyError, match="close that store first"):
            LmdbClaim(path)
    first.release()
    second = LmdbClaim(tmp_path / "link")

    first.release()
    with pytest.raises(BusyError):
        LmdbClaim(tmp_path)
    second.release()


def test_a_forgotten_claim_is_given_up(tmp_path: Path) -> None:
    """
    With the object that had it.
    """
    LmdbClaim(tmp_path)

    LmdbClaim(tmp_path).release()


def test_a_forked_child_inherits_no_claim(tmp_path: Path) -> None:
    """
    The handle is the parent's; its release in the child gives nothing away.
    """
    claim = LmdbClaim(tmp_path)
    child = os.fork()
    if child == 0:
        own = LmdbClaim(tmp_path)
        claim.release()
        try:
            LmdbClaim(tmp_path)
        except BusyError:
            own.release()
            os._exit(0)
        os._exit(1)
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    claim.release()


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    """
    The error has the path.
    """
    with pytest.raises(StorageError, match=r"cannot open .*none"):
        LmdbClaim(tmp_path / "none")


@ofd
def test_a_held_lock_survives_the_reading_of_its_file(tmp_path: Path) -> None:
    """
    As by a copy of the directory in the process that has it open.
    """
    lock = tmp_path / "lock.mdb"
    lock.write_bytes(bytes(10))
    claim = LmdbClaim(tmp_path)
    assert lock_holder(lock) is None
    claim.hold()
    lock.read_bytes()

    assert lock_holder(lock) is not None
    claim.release()
    assert lock_holder(lock) is None


FORKING = """
import os, signal, sys
from pathlib import Path
from pystore.fs.lmdb_claim import LmdbClaim
claim = LmdbClaim(Path(sys.argv[1]))
claim.hold()
if os.fork() == 0:
    print("forked", flush=True)
    sys.stdin.read()
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


@ofd
def test_a_child_that_outlives_its_parent_holds_no_lock(tmp_path: Path) -> None:
    """
    Else no process could open the directory again.
    """
    lock = tmp_path / "lock.mdb"
    lock.write_bytes(bytes(10))
    with subprocess.Popen(
        [sys.executable, "-c", FORKING, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None
        assert b"forked\n" == parent.stdout.readline()
        parent.wait()

        assert lock_holder(lock) is None
