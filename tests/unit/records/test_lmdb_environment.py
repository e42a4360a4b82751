"""
An LMDB directory: opened once per process, refused if it is damaged.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from cluster.small_disks import NEEDS_MOUNTS, SmallDisk
from lib.store.forked import forked

from pystore.errors import FormatError, FullError, NotAStoreError, StorageError
from pystore.fs.atomic import Calls
from pystore.records.lmdb_environment import MAP_BYTES, LmdbEnvironment
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
    first = LmdbEnvironment.enter(path, MAP_BYTES)
    second = LmdbEnvironment.enter(path / ".." / path.name, MAP_BYTES)
    assert first is second
    first.leave()
    with second.reading() as view:
        assert view.row(b"a") is not None
    second.leave()

    third = LmdbEnvironment.enter(path, MAP_BYTES)
    assert third is not first
    third.leave()


@pytest.mark.parametrize("comes_back", [False, True])
def test_records_that_were_removed_take_no_commit(
    path: Path, *, comes_back: bool
) -> None:
    """
    Nobody would read them again; others in their place may have another leader.
    """
    store = LmdbStore(path)
    assert store.get("a") is not None
    shutil.copytree(path, path.with_name("older"))
    path.rename(path.with_name("away"))
    if comes_back:
        path.with_name("older").rename(path)
    for call in (
        lambda: store.commit([Put("a", b"new")]),
        lambda: store.get("a"),
        store.scan,
    ):
        with pytest.raises(NotAStoreError, match="was removed or replaced"):
            call()
    store.close()
    if comes_back:
        with closing(LmdbStore(path)) as other:
            found = other.get("a")
            assert found is not None
            assert b"value of a" == found.value


@pytest.mark.parametrize("content", [b"", b"garbage" * 1000, None])
def test_a_damaged_file_is_refused(path: Path, content: bytes | None) -> None:
    """
    An empty or a missing one would silently be initialised.
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


def test_a_damaged_record_is_reported_by_its_key(path: Path) -> None:
    """
    Where the page is whole and the value is not.
    """
    data = path / "data.mdb"
    data.write_bytes(data.read_bytes().replace(b"value of a", b"value of b"))

    with pytest.raises(FormatError, match="the record 'a' is damaged"):
        LmdbStore(path).get("a")


def test_a_directory_without_a_parent_is_not_made(tmp_path: Path) -> None:
    """
    The error names the path.
    """
    with pytest.raises(StorageError, match=r"cannot create .*none/records"):
        LmdbStore(tmp_path / "none" / "records").get("a")


def test_the_next_open_removes_the_holds_of_dead_owners(path: Path) -> None:
    """
    Nothing piles up.
    """
    with forked(lambda: LmdbStore(path).commit([Hold("held", b"")])) as kill:
        kill()
    space = LmdbEnvironment.enter(path, MAP_BYTES)
    with space.reading() as view:
        assert [b"a", b"b", b"held"] == [k for k, _, _ in view.rows(b"\1")]
        assert view.row(b"held") is None
    space.owners.give(space.begin_owner())

    with space.reading() as view:
        assert [b"a", b"b"] == [key for key, _, _ in view.rows(b"\1")]
    space.leave()


def test_an_owner_without_a_record_is_not_alive(path: Path) -> None:
    """
    Otherwise the next owner with the same number would be refused until this process
    ends. Where the space ends decides which step of it fails.
    """
    size = (path / "data.mdb").stat().st_size
    failed = 0
    for pages in range(4):
        space = LmdbEnvironment.enter(path, size + pages * 4096)
        try:
            space.owners.give(space.begin_owner())
        except FullError:
            failed += 1
        assert [] == [number for number in range(9) if space.owners.is_alive(number)]
        space.leave()

    assert 3 <= failed


def test_names_are_durable_before_a_first_commit_is(tmp_path: Path) -> None:
    """
    LMDB syncs what is in its file, and not that there is one: after a power cut the
    directory would be empty, or hold the locks alone and be taken for damaged.
    """
    path = tmp_path / "records"
    synced: list[tuple[str, list[str]]] = []

    def sync(descriptor: int) -> None:
        folder = path if path.stat().st_ino == os.fstat(descriptor).st_ino else tmp_path
        synced.append((folder.name, sorted(one.name for one in folder.iterdir())))

    for _ in range(2):
        LmdbEnvironment.enter(path, MAP_BYTES, Calls(sync=sync)).leave()

    assert [
        ("records", ["data.mdb", "lock.mdb"]),
        (tmp_path.name, ["records"]),
    ] == synced


def test_an_opening_that_fails_leaves_nothing_open(tmp_path: Path) -> None:
    """
    LMDB must not be opened twice by a process, so the next try would be refused.
    """
    path = tmp_path / "records"
    (path / "owners.lock").mkdir(parents=True)
    (path / "data.mdb").touch()
    (path / "owners.lock").rmdir()
    (path / "owners.lock").symlink_to(path / "none" / "owners.lock")
    with pytest.raises(StorageError, match=r"open .*owners\.lock") as kept:
        LmdbStore(path).get("a")
    (path / "owners.lock").unlink()

    assert LmdbStore(path).get("a") is None
    assert kept.value.path == str(path / "owners.lock")


def test_a_holder_is_alive_or_dead_for_a_whole_transaction(path: Path) -> None:
    """
    What one process held is there as a whole, or gone as a whole.
    """
    held = [Hold("c", b""), Hold("d", b"")]
    with forked(lambda: LmdbStore(path).commit(held)) as kill:
        space = LmdbEnvironment.enter(path, MAP_BYTES)
        with space.reading() as view:
            assert view.row(b"c") is not None
            kill()
            assert view.row(b"d") is not None
        with space.reading() as view:
            assert view.row(b"c") is None
        space.leave()


FULL_DISK = """
import sys
from pathlib import Path

from pystore.errors import FullError
from pystore.records.lmdb_store import LmdbStore
from pystore.records.ops import Put

FOLDER = Path(sys.argv[1])
FILLER = FOLDER / "filler"

def fill(but=0):
    with FILLER.open("ab", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
        file.truncate(file.tell() - but)

def put(store, value):
    try:
        store.commit([Put("key", value)])
        return "done"
    except FullError as error:
        return str(error)
"""

WHILE_OPEN = """
store = LmdbStore(FOLDER / "records")
print(put(store, b"old"))
fill()
print(put(store, bytes(90_000)))
# More readers at once than one page of LMDB's lock file has room for.
from pystore.records.lmdb_environment import MAP_BYTES, LmdbEnvironment
space = LmdbEnvironment.enter(FOLDER / "records", MAP_BYTES)
readers = [space.environment.begin() for _ in range(100)]
print(len(readers), store.get("key").value)
FILLER.unlink()
print(put(store, b"new"), store.get("key").value)
"""

AT_FIRST = """
for pages in range(10):
    fill(but=pages * 4096)
    path = FOLDER / f"records-{pages}"
    for _ in range(2):
        store = LmdbStore(path)
        print(put(store, bytes(90_000)).replace(str(path), "records"))
        store.close()
    FILLER.unlink()
    store = LmdbStore(path)
    print(put(store, b"new"), store.get("key").value)
    store.close()
"""


def on_a_small_disk(folder: Path, script: str) -> list[str]:
    """
    Returns the lines of a script that has a disk of its own.
    """
    with SmallDisk(folder / "small") as disk:
        done = subprocess.run(
            [*disk.inside, sys.executable, "-c", FULL_DISK + script, str(disk.path)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout.splitlines()


@NEEDS_MOUNTS
def test_a_full_disk_changes_nothing_and_kills_no_reader(tmp_path: Path) -> None:
    """
    A commit is refused with the path, the records can be read by as many as ever, and
    with space the same store goes on.
    """
    assert [
        "done",
        f"cannot commit to {tmp_path}/small/records: the disk is full, nothing was "
        "changed: make space, then try again",
        "100 b'old'",
        "done b'new'",
    ] == on_a_small_disk(tmp_path, WHILE_OPEN)


@NEEDS_MOUNTS
def test_a_first_opening_that_a_full_disk_ends_is_tried_again(tmp_path: Path) -> None:
    """
    Wherever it ended: before LMDB's locks, in the middle of its file, or later.
    """
    lines = on_a_small_disk(tmp_path, AT_FIRST)

    assert ["done b'new'"] * 10 == lines[2::3]
    refused = [*lines[0::3], *lines[1::3]]
    assert {line.partition(":")[0] for line in refused} == {
        "cannot reserve room in records/lock.mdb",
        "cannot open records",
        "cannot commit to records",
    }
    assert all(line.endswith("make space, then try again") for line in refused)


def test_the_lock_file_has_its_blocks(path: Path) -> None:
    """
    LMDB maps it, and a hole in it is a SIGBUS on a full disk.
    """
    status = (path / "lock.mdb").stat()

    assert status.st_blocks * 512 >= status.st_size >= 8192
