"""
The metastore: kills, forks, full disks, failing writes, damage.
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import lmdb
import pytest
from lib.store.proc_locks import locks_of

from pystore.epochs.table import EpochTable
from pystore.errors import (
    BusyError,
    ClosedError,
    ForkedError,
    FormatError,
    FullError,
    InvalidError,
    StorageError,
)
from pystore.fs.lmdb_file import RESERVE_BYTES
from pystore.metastore.bootstrap import create_meta
from pystore.metastore.database import MetaStore
from pystore.metastore.schema import (
    BOUNDS,
    CUT,
    EPOCHS,
    FINGERPRINT,
    FORMAT,
    INCARNATION,
    PROMISED,
)
from pystore.metastore.values import Bounds, CutState, StoreFingerprint, StoreFormat


def nothing(_: object) -> None:
    """Adds nothing to a new directory."""


@pytest.fixture
def meta(tmp_path: Path) -> Path:
    """The ``meta/`` of a new store."""
    return create_meta(tmp_path, nothing)


@pytest.fixture
def checkpoint(meta: Path) -> Iterator[MetaStore]:
    """An open database."""
    with MetaStore.open(meta) as opened:
        yield opened


def test_a_change_is_there_after_opening_again(meta: Path) -> None:
    """Several records of one change, read back by another handle."""
    with MetaStore.open(meta) as checkpoint, checkpoint.change() as change:
        change.begin_incarnation(os.urandom)
        change.begin_epoch(3, 0)
        change.store_bounds(Bounds(10, 9, "boot", "mount"))
    with MetaStore.open_read_only(meta) as checkpoint, checkpoint.view() as view:
        assert 1 == view.read(INCARNATION).counter
        assert EpochTable.of([(3, 0)]) == view.read(EPOCHS)
        assert Bounds(10, 9, "boot", "mount") == view.read(BOUNDS)


def test_an_opening_writes_the_pages_in_use_again(meta: Path) -> None:
    """
    A12: after a failed sync of an earlier process they may be in memory only. A reader
    writes nothing.
    """
    data = meta / "lmdb" / "data.mdb"
    with MetaStore.open(meta) as checkpoint:
        promise(checkpoint, 1)
    before = data.read_bytes()

    os.utime(data, (0, 0))
    with MetaStore.open_read_only(meta):
        assert 0 == data.stat().st_mtime
    with MetaStore.open(meta):
        assert data.stat().st_mtime > 0
    assert before == data.read_bytes()


def test_a_change_that_raises_leaves_nothing(checkpoint: MetaStore) -> None:
    """All of it or none of it."""

    def halfway() -> None:
        with checkpoint.change() as change:
            change.intend_cut(5)
            change.store_bounds(Bounds(6))

    with pytest.raises(InvalidError, match="is above the unfinished cut"):
        halfway()
    assert CutState() == checkpoint.read(CUT)


def test_a_view_is_of_one_moment(checkpoint: MetaStore) -> None:
    """A commit of another thread does not show inside the block."""
    with ThreadPoolExecutor(1) as other, checkpoint.view() as view:
        assert -1 == view.read(PROMISED)
        other.submit(promise, checkpoint, 5).result()
        assert -1 == view.read(PROMISED)
    assert 5 == checkpoint.read(PROMISED)


def promise(checkpoint: MetaStore, epoch: int) -> None:
    """One change."""
    with checkpoint.change() as change:
        change.promise(epoch)


def test_threads_lose_no_change(checkpoint: MetaStore) -> None:
    """Each reads what the one before it wrote."""

    def count(_: int) -> None:
        with checkpoint.change() as change:
            change.promise(change.read(PROMISED) + 1)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(count, range(200)))
    assert 199 == checkpoint.read(PROMISED)


def test_a_closed_handle_raises_and_can_be_closed_again(checkpoint: MetaStore) -> None:
    """Use after close is an error, a second close is not."""
    checkpoint.close()
    checkpoint.close()
    for work in (checkpoint.view, checkpoint.change):
        with pytest.raises(ClosedError, match="meta/lmdb is closed"), work():
            pass


def test_the_same_database_is_open_once_in_a_process(
    meta: Path, checkpoint: MetaStore
) -> None:
    """
    LMDB's locks belong to the process; a second handle would break them. By another
    path, too, which LMDB would not notice.
    """
    (meta.parent / "other").symlink_to(meta)
    for path in (meta, meta.parent / "other"):
        with pytest.raises(BusyError, match="is open in this process: close"):
            MetaStore.open(path)
    promise(checkpoint, 1)


def test_a_reader_in_the_process_of_the_writer_takes_no_lock_from_it(
    meta: Path, checkpoint: MetaStore
) -> None:
    """It reads one state, which later changes leave as it is."""
    before = locks_of(meta / "lmdb" / "lock.mdb")
    with MetaStore.open_read_only(meta) as reader:
        promise(checkpoint, 1)
        assert -1 == reader.read(PROMISED)
    assert before == locks_of(meta / "lmdb" / "lock.mdb") != []
    with MetaStore.open_read_only(meta) as reader:
        assert 1 == reader.read(PROMISED)


def test_a_reader_beside_a_writer_that_never_pauses_sees_whole_states(
    meta: Path, checkpoint: MetaStore
) -> None:
    """Never a page of a later state, which would look like damage."""
    stop = threading.Event()

    def commit() -> int:
        count = 0
        while not stop.is_set():
            leave(checkpoint, 300 + count % 7)
            count += 1
        return count

    sizes = set()
    with ThreadPoolExecutor(1) as other:
        commits = other.submit(commit)
        for _ in range(60):
            with MetaStore.open_read_only(meta) as reader:
                sizes.add(len(reader.read(FINGERPRINT).segments))
        stop.set()
        assert commits.result() > 0
    assert sizes <= {0, *range(300, 307)}


def test_a_reader_cannot_write(meta: Path) -> None:
    """It is an error of the caller."""
    with MetaStore.open_read_only(meta) as reader:
        with pytest.raises(InvalidError, match="is open for reading only"):
            promise(reader, 1)
        assert -1 == reader.read(PROMISED)


def test_a_forked_child_gets_an_error_and_the_parent_continues(
    checkpoint: MetaStore,
) -> None:
    """LMDB forbids use across a fork; closing in the child does nothing."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with checkpoint.change():
                pass
        except ForkedError as error:
            expected = f"{checkpoint.path} was opened by the parent process: "
            status = 0 if str(error).startswith(expected) else 2
        checkpoint.close()
        gc.collect()
        os._exit(status)
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    promise(checkpoint, 7)
    assert 7 == checkpoint.read(PROMISED)


def test_too_many_views_at_once_are_refused(checkpoint: MetaStore) -> None:
    """LMDB has room for 126 readers; the next one gets our error, not LMDB's."""
    with ExitStack() as views:
        for _ in range(126):
            views.enter_context(checkpoint.view())
        with pytest.raises(StorageError, match=r"cannot read .*MDB_READERS_FULL"):
            checkpoint.read(PROMISED)
    assert -1 == checkpoint.read(PROMISED)


def test_a_database_is_not_created_twice(meta: Path) -> None:
    """The directory must not be there, and a failed creation is closed."""
    with pytest.raises(StorageError, match=r"cannot create .*: File exists"):
        MetaStore.create(meta, nothing)

    def refuse(_: object) -> None:
        raise InvalidError("refused by the test")

    (meta / "other").mkdir()
    with pytest.raises(InvalidError, match="refused by the test"):
        MetaStore.create(meta / "other", refuse)
    with pytest.raises(FormatError, match="no format record"):
        MetaStore.open(meta / "other")


FORKING = """
import os, sys
from pathlib import Path
from pystore.metastore.database import MetaStore
from pystore.metastore.schema import PROMISED
checkpoint = MetaStore.open(Path(sys.argv[1]))
if os.fork() == 0:
    del checkpoint
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
with checkpoint.change() as change:
    change.promise(9)
assert checkpoint.read(PROMISED) == 9
checkpoint.close()
"""


def test_a_child_that_drops_the_handle_and_exits_does_no_harm(meta: Path) -> None:
    """The interpreter's end in the child leaves the parent's locks alone."""
    done = run(FORKING, meta)
    assert "" == done.stderr
    assert 0 == done.returncode
    with MetaStore.open(meta) as checkpoint:
        assert 9 == checkpoint.read(PROMISED)


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A child that runs a script."""
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data.unlink(), "the file is missing"),
        (lambda data: os.truncate(data, 0), "the file is empty"),
        (lambda data: os.truncate(data, 9000), r"the file has 9000 bytes|beyond"),
        (
            lambda data: data.write_bytes(b"garbage" * 9999),
            "does not begin as a file of LMDB",
        ),
    ],
)
@pytest.mark.parametrize("how", [MetaStore.open, MetaStore.open_read_only])
def test_a_damaged_database_is_never_opened(
    meta: Path,
    damage: Callable[[Path], object],
    message: str,
    how: Callable[[Path], MetaStore],
) -> None:
    """A14: an existing meta/ never counts as new, and no signal occurs."""
    with MetaStore.open(meta) as checkpoint:
        promise(checkpoint, 1)
    damage(meta / "lmdb" / "data.mdb")
    with pytest.raises(FormatError, match=message) as caught:
        how(meta)
    print(caught.value)
    assert "move meta/ away and open again" in str(caught.value)


def test_a_missing_database_directory_is_damage(meta: Path) -> None:
    """A14: ``meta/`` without ``lmdb/`` was complete once."""
    shutil.rmtree(meta / "lmdb")
    with pytest.raises(FormatError, match=r"data\.mdb: the file is missing"):
        MetaStore.open(meta)


def test_a_newer_format_is_refused_and_the_handle_is_given_back(meta: Path) -> None:
    """An unknown incompatible feature is named; nothing stays open."""
    with MetaStore.open(meta) as checkpoint, checkpoint.change() as change:
        change.write(FORMAT, StoreFormat(1, 4))
    for _ in range(2):
        with pytest.raises(FormatError, match="unknown features 0x4") as caught:
            MetaStore.open(meta)
        print(caught.value)


def test_a_database_that_pystore_did_not_write_is_refused(tmp_path: Path) -> None:
    """LMDB files of another program have no format record."""
    lmdb.Environment(str(tmp_path / "lmdb"), lib_version=0).close()
    with pytest.raises(FormatError, match="no format record, so pystore did not"):
        MetaStore.open(tmp_path)


def test_garbage_in_the_lock_file_does_no_harm(meta: Path) -> None:
    """It holds nothing that outlives the processes."""
    lock = meta / "lmdb" / "lock.mdb"
    for content in (b"garbage" * 4000, b""):
        lock.write_bytes(content)
        with MetaStore.open(meta) as checkpoint:
            promise(checkpoint, 1)
    lock.unlink()
    MetaStore.open(meta).close()


def test_the_files_have_their_blocks(meta: Path) -> None:
    """A13: room for commits, and no hole in what LMDB maps for writing."""
    for name, least in (("data.mdb", RESERVE_BYTES), ("lock.mdb", 8192)):
        status = (meta / "lmdb" / name).stat()
        assert status.st_blocks * 512 >= status.st_size >= least


def test_a_full_map_is_a_full_error(
    meta: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Larger than the map: refused, and the next change works."""
    monkeypatch.setattr("pystore.metastore.database._MAP_BYTES", 8 << 20)
    with MetaStore.open(meta) as checkpoint:
        with pytest.raises(FullError, match="MDB_MAP_FULL") as caught:
            leave(checkpoint, 900_000)
        print(caught.value)
        leave(checkpoint, 5)
        assert 5 == len(checkpoint.read(FINGERPRINT).segments)


def leave(checkpoint: MetaStore, size: int) -> None:
    """One change of many bytes."""
    with checkpoint.change() as change:
        change.store_fingerprint(
            StoreFingerprint(tuple((2 * at, 1) for at in range(size)))
        )
