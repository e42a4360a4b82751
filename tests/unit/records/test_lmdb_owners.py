"""
POSIX record locks and their traps, between real processes.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lib.store.forked import forked

from pystore.errors import LockedError, StorageError
from pystore.records.lmdb_owners import LmdbOwners


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of the locks."""
    return tmp_path / "owners.lock"


def test_an_owner_of_this_process_is_alive(path: Path) -> None:
    """
    Though the system would give the process its own lock once more.
    """
    owners = LmdbOwners(path)
    owners.take(5)

    assert owners.is_alive(5)
    assert not owners.is_alive(4)
    assert not owners.is_alive(6)
    owners.give(5)
    owners.give(5)
    assert not owners.is_alive(5)
    owners.close()


def test_asking_about_an_owner_leaves_its_lock_alone(path: Path) -> None:
    """
    Another process sees it before and after.
    """
    owners = LmdbOwners(path)
    owners.take(5)
    owners.is_alive(5)
    owners.take(6)
    owners.give(6)

    with forked(lambda: LmdbOwners(path).is_alive(5)) as kill:
        assert "True" == kill()
    owners.close()
    with forked(lambda: LmdbOwners(path).is_alive(5)) as kill:
        assert "False" == kill()


def test_an_owner_dies_with_its_process_at_once(path: Path) -> None:
    """
    However it ended.
    """
    owners = LmdbOwners(path)
    with forked(lambda: LmdbOwners(path).take(5)) as kill:
        assert owners.is_alive(5)
        kill()

        assert not owners.is_alive(5)
    owners.close()


def test_a_child_that_lives_on_does_not_keep_the_lock(path: Path) -> None:
    """
    A lock by `flock` would pass to it.
    """
    owners = LmdbOwners(path)
    reader, writer = os.pipe()

    def take_and_fork() -> None:
        theirs = LmdbOwners(path)
        theirs.take(5)
        if os.fork() == 0:
            os.close(writer)
            os.read(reader, 1)  # until the test has ended
            os._exit(0)

    with forked(take_and_fork) as kill:
        assert owners.is_alive(5)
        kill()

        assert not owners.is_alive(5)
    os.close(writer)
    os.close(reader)
    owners.close()


def test_a_number_that_another_process_has_is_refused(path: Path) -> None:
    """
    Numbers are given out once; a copied store would give them out again.
    """
    owners = LmdbOwners(path)
    with (
        forked(lambda: LmdbOwners(path).take(5)),
        pytest.raises(LockedError, match="owner 5 is alive"),
    ):
        owners.take(5)
    owners.close()


def test_a_file_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """
    With the path.
    """
    with pytest.raises(StorageError, match=r"cannot open .*none/owners.lock"):
        LmdbOwners(tmp_path / "none" / "owners.lock")
