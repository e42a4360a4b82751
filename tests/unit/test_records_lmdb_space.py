"""
An LMDB directory: opened once per process, refused if it is damaged.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from forked import forked

from pystore.errors import FormatError, StorageError
from pystore.records.lmdb_space import MAP_BYTES, LmdbSpace
from pystore.records.lmdb_store import LmdbStore
from pystore.records.ops import Hold, Put


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A directory that was used and closed."""
    store = LmdbStore(tmp_path / "records")
    assert store.commit([Put("a", b"value of a"), Put("b", b"")])
    store.close()
    return tmp_path / "records"


def test_stores_of_one_process_share_what_is_open(path: Path) -> None:
    """
    By any name of the directory; the last one closes it.
    """
    first = LmdbSpace.enter(path, MAP_BYTES)
    second = LmdbSpace.enter(path / ".." / path.name, MAP_BYTES)
    assert first is second
    first.leave()
    with second.reading() as transaction:
        assert second.row(transaction, b"a") is not None
    second.leave()

    third = LmdbSpace.enter(path, MAP_BYTES)
    assert third is not first
    third.leave()


@pytest.mark.parametrize("content", [b"", b"garbage" * 1000, None])
def test_a_damaged_file_is_refused(path: Path, content: bytes | None) -> None:
    """
    An empty one would silently start anew, a missing one too.
    """
    data = path / "data.mdb"
    data.unlink() if content is None else data.write_bytes(content)

    with pytest.raises(FormatError, match="restore the record store from a backup"):
        LmdbStore(path).get("a")


def test_a_short_file_is_refused(path: Path) -> None:
    """
    LMDB would die of it.
    """
    data = path / "data.mdb"
    data.write_bytes(data.read_bytes()[:8192])

    with pytest.raises(FormatError):
        LmdbStore(path).get("a")


def test_a_damaged_record_is_told_by_its_key(path: Path) -> None:
    """
    Where the page is whole and the value is not.
    """
    data = path / "data.mdb"
    data.write_bytes(data.read_bytes().replace(b"value of a", b"value of b"))

    with pytest.raises(FormatError, match="the record 'a' is damaged"):
        LmdbStore(path).get("a")


def test_a_directory_without_a_parent_is_not_made(tmp_path: Path) -> None:
    """
    A wrong path is told, with the path.
    """
    with pytest.raises(StorageError, match=r"cannot create .*none/records"):
        LmdbStore(tmp_path / "none" / "records").get("a")


def test_what_the_dead_held_is_removed_when_somebody_opens(path: Path) -> None:
    """
    Nothing piles up.
    """
    with forked(lambda: LmdbStore(path).commit([Hold("held", b"")])) as kill:
        kill()
    space = LmdbSpace.enter(path, MAP_BYTES)
    with space.reading() as transaction:
        assert [b"a", b"b", b"held"] == [k for k, _ in space.rows(transaction, b"\1")]
        assert space.row(transaction, b"held") is None
    space.owners.give(space.begin_owner())

    with space.reading() as transaction:
        assert [b"a", b"b"] == [key for key, _ in space.rows(transaction, b"\1")]
    space.leave()
