"""
The database of small truth: kills, forks, full disks, failing writes, damage.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import lmdb
import pytest

from pystore.checkpoint import Checkpoint
from pystore.epochs import EpochTable
from pystore.errors import (
    BusyError,
    ClosedError,
    ForkedError,
    FormatError,
    FullError,
    InvalidError,
    StorageError,
)
from pystore.first_start import create_meta
from pystore.meta_file import RESERVE_BYTES
from pystore.stored_truth import (
    BOUNDS,
    CUT,
    EPOCHS,
    FORMAT,
    INCARNATION,
    LEFT,
    PROMISED,
)
from pystore.truth import Bounds, CutState, Left, StoreFormat

NEEDS_MOUNTS = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("unshare"),
    reason="mounting a small file system needs root and unshare",
)
NEEDS_STRACE = pytest.mark.skipif(
    not shutil.which("strace"), reason="injecting errors needs strace"
)


def nothing(_: object) -> None:
    """Adds nothing to a new directory."""


@pytest.fixture
def meta(tmp_path: Path) -> Path:
    """The ``meta/`` of a new store."""
    return create_meta(tmp_path, nothing)


@pytest.fixture
def checkpoint(meta: Path) -> Iterator[Checkpoint]:
    """An open database."""
    with Checkpoint.open(meta) as opened:
        yield opened


def test_a_change_is_there_after_opening_again(meta: Path) -> None:
    """Several records of one change, read back by another handle."""
    with Checkpoint.open(meta) as checkpoint, checkpoint.change() as change:
        change.begin_incarnation(os.urandom)
        change.begin_epoch(3, 0)
        change.store_bounds(Bounds(10, 9, "boot", "mount"))
    with Checkpoint.open_read_only(meta) as checkpoint, checkpoint.view() as view:
        assert 1 == view.read(INCARNATION).counter
        assert EpochTable.of([(3, 0)]) == view.read(EPOCHS)
        assert Bounds(10, 9, "boot", "mount") == view.read(BOUNDS)


def test_a_change_that_raises_leaves_nothing(checkpoint: Checkpoint) -> None:
    """All of it or none of it."""

    def halfway() -> None:
        with checkpoint.change() as change:
            change.intend_cut(5)
            change.store_bounds(Bounds(6))

    with pytest.raises(InvalidError, match="is above the unfinished cut"):
        halfway()
    assert CutState() == checkpoint.read(CUT)


def test_a_view_is_of_one_moment(checkpoint: Checkpoint) -> None:
    """A commit of another thread does not show inside the block."""
    with ThreadPoolExecutor(1) as other, checkpoint.view() as view:
        assert -1 == view.read(PROMISED)
        other.submit(promise, checkpoint, 5).result()
        assert -1 == view.read(PROMISED)
    assert 5 == checkpoint.read(PROMISED)


def promise(checkpoint: Checkpoint, epoch: int) -> None:
    """One change."""
    with checkpoint.change() as change:
        change.promise(epoch)


def test_threads_lose_no_change(checkpoint: Checkpoint) -> None:
    """Each reads what the one before it wrote."""

    def count(_: int) -> None:
        with checkpoint.change() as change:
            change.promise(change.read(PROMISED) + 1)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(count, range(200)))
    assert 199 == checkpoint.read(PROMISED)


def test_a_closed_handle_says_so_and_closes_again(checkpoint: Checkpoint) -> None:
    """Use after close is an error, a second close is not."""
    checkpoint.close()
    checkpoint.close()
    for work in (checkpoint.view, checkpoint.change):
        with pytest.raises(ClosedError, match="meta/lmdb is closed"), work():
            pass


def test_the_same_database_is_open_once_in_a_process(
    meta: Path, checkpoint: Checkpoint
) -> None:
    """LMDB's locks belong to the process; a second handle would break them."""
    for again in (Checkpoint.open, Checkpoint.open_read_only):
        with pytest.raises(BusyError, match="is open in this process: close"):
            again(meta)
    promise(checkpoint, 1)


def test_a_reader_cannot_write(meta: Path) -> None:
    """A mistake of the caller, said as such."""
    with Checkpoint.open_read_only(meta) as reader:
        with pytest.raises(InvalidError, match="is open for reading only"):
            promise(reader, 1)
        assert -1 == reader.read(PROMISED)


def test_a_forked_child_is_told_and_the_parent_goes_on(checkpoint: Checkpoint) -> None:
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


def test_too_many_views_at_once_are_refused(checkpoint: Checkpoint) -> None:
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
        Checkpoint.create(meta, nothing)

    def refuse(_: object) -> None:
        raise InvalidError("refused by the test")

    (meta / "other").mkdir()
    with pytest.raises(InvalidError, match="refused by the test"):
        Checkpoint.create(meta / "other", refuse)
    with pytest.raises(FormatError, match="no format record"):
        Checkpoint.open(meta / "other")


READ_ONLY = """
import sys
from pathlib import Path
from pystore.checkpoint import Checkpoint
from pystore.errors import StorageError
from pystore.stored_truth import PROMISED
meta = Path(sys.argv[1]) / "meta"
with Checkpoint.open_read_only(meta) as checkpoint:
    print("read", checkpoint.read(PROMISED))
try:
    Checkpoint.open(meta)
except StorageError as error:
    print(error)
"""


@NEEDS_MOUNTS
def test_a_read_only_file_system_is_read_and_not_written(tmp_path: Path) -> None:
    """A reader needs no lock file there; a writer is told why it cannot."""
    with Checkpoint.open(create_meta(tmp_path, nothing)) as checkpoint:
        promise(checkpoint, 8)
    command = (
        f"mount --bind {tmp_path} {tmp_path} && "
        f"mount -o remount,ro,bind {tmp_path} && "
        f'exec {sys.executable} -c "$0" {tmp_path}'
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command, READ_ONLY],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "" == done.stderr
    read, refused = done.stdout.splitlines()
    assert "read 8" == read
    assert refused.startswith(
        f"cannot rewrite {tmp_path}/meta/lmdb/data.mdb: Read-only"
    )


FORKING = """
import os, sys
from pathlib import Path
from pystore.checkpoint import Checkpoint
from pystore.stored_truth import PROMISED
checkpoint = Checkpoint.open(Path(sys.argv[1]))
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
    with Checkpoint.open(meta) as checkpoint:
        assert 9 == checkpoint.read(PROMISED)


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A child that runs a script."""
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


WRITER = """
import os, sys
from pathlib import Path
from pystore.checkpoint import Checkpoint
from pystore.stored_truth import PROMISED
from pystore.truth import Bounds
with Checkpoint.open(Path(sys.argv[1])) as checkpoint:
    with checkpoint.change() as change:
        change.begin_incarnation(os.urandom)
    for number in range(checkpoint.read(PROMISED) + 1, 1_000_000):
        with checkpoint.change() as change:
            change.begin_epoch(number, 10 * number)
            change.store_bounds(Bounds(10 * number, 10 * number, "x" * (number % 900)))
        print(number, flush=True)
"""


def test_sigkill_between_any_two_steps_loses_nothing_told(meta: Path) -> None:
    """What was told is there, what is there is whole, and it opens each time."""
    for turn in range(12):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(meta)], stdout=subprocess.PIPE
        ) as child:
            assert child.stdout is not None
            told = [int(child.stdout.readline()) for _ in range(1 + 3 * turn)]
            child.send_signal(signal.SIGKILL)
            told += [int(line) for line in child.stdout.read().split()]
        with Checkpoint.open(meta) as checkpoint, checkpoint.view() as view:
            promised = view.read(PROMISED)
            assert promised in (told[-1], told[-1] + 1)
            assert promised == view.read(EPOCHS).last_epoch
            assert 10 * promised == view.read(BOUNDS).synced_end
            assert turn + 1 == view.read(INCARNATION).counter


def test_a_reader_of_another_process_sees_only_whole_changes(meta: Path) -> None:
    """Opened, checked and read while commits go on."""
    seen = set()
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(meta)], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        for _ in range(50):
            with Checkpoint.open_read_only(meta) as reader, reader.view() as view:
                promised = view.read(PROMISED)
                assert 10 * promised == view.read(BOUNDS).synced_end
                seen.add(promised)
        child.kill()
        child.stdout.read()
    assert len(seen) > 1


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data.unlink(), "the file is missing"),
        (lambda data: os.truncate(data, 0), "the file is empty"),
        (lambda data: os.truncate(data, 9000), r"the file has 9000 bytes|beyond"),
        (lambda data: data.write_bytes(b"garbage" * 9999), "does not begin as LMDB"),
    ],
)
@pytest.mark.parametrize("how", [Checkpoint.open, Checkpoint.open_read_only])
def test_a_damaged_database_is_never_opened(
    meta: Path,
    damage: Callable[[Path], object],
    message: str,
    how: Callable[[Path], Checkpoint],
) -> None:
    """A14: an existing meta/ is never taken for a new one, and nothing dies."""
    with Checkpoint.open(meta) as checkpoint:
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
        Checkpoint.open(meta)


def test_a_newer_format_is_refused_and_the_handle_is_given_back(meta: Path) -> None:
    """An unknown incompatible feature is named; nothing stays open."""
    with Checkpoint.open(meta) as checkpoint, checkpoint.change() as change:
        change.write(FORMAT, StoreFormat(1, 4))
    for _ in range(2):
        with pytest.raises(FormatError, match="unknown features 0x4") as caught:
            Checkpoint.open(meta)
        print(caught.value)


def test_a_database_that_pystore_did_not_write_is_refused(tmp_path: Path) -> None:
    """LMDB files of another program have no format record."""
    lmdb.Environment(str(tmp_path / "lmdb"), lib_version=0).close()
    with pytest.raises(FormatError, match="no format record, so pystore did not"):
        Checkpoint.open(tmp_path)


def test_garbage_in_the_lock_file_does_no_harm(meta: Path) -> None:
    """It holds nothing that outlives the processes."""
    lock = meta / "lmdb" / "lock.mdb"
    for content in (b"garbage" * 4000, b""):
        lock.write_bytes(content)
        with Checkpoint.open(meta) as checkpoint:
            promise(checkpoint, 1)
    lock.unlink()
    Checkpoint.open(meta).close()


def test_the_files_have_their_blocks(meta: Path) -> None:
    """A13: room for commits, and no hole in what LMDB maps for writing."""
    for name, least in (("data.mdb", RESERVE_BYTES), ("lock.mdb", 8192)):
        status = (meta / "lmdb" / name).stat()
        assert status.st_blocks * 512 >= status.st_size >= least


ON_A_FULL_DISK = """
import errno, os, sys
from pathlib import Path
from pystore.checkpoint import Checkpoint
from pystore.errors import FullError
from pystore.first_start import create_meta
from pystore.stored_truth import LEFT, PROMISED
from pystore.truth import Left
store = Path(sys.argv[1])
meta = create_meta(store, lambda _: None)
filler = open(store / "filler", "wb", buffering=0)
try:
    while True:
        filler.write(bytes(4096))
except OSError as error:
    assert error.errno == errno.ENOSPC
assert os.statvfs(store).f_bavail == 0
with Checkpoint.open(meta) as checkpoint:
    for epoch in range(300):
        with checkpoint.change() as change:
            change.promise(epoch)
    print("commits on a full disk:", checkpoint.read(PROMISED) + 1)
    try:
        with checkpoint.change() as change:
            change.promise(1000)
            change.leave(Left(abort=bytes(2_000_000)))
    except FullError as error:
        print(error)
    assert checkpoint.read(PROMISED) == 299
    with checkpoint.change() as change:
        change.promise(300)
    print("problem:", checkpoint.reserve_problem)
    os.truncate(store / "filler", 0)
    with checkpoint.change() as change:
        change.promise(1000)
        change.leave(Left(abort=bytes(2_000_000)))
    with checkpoint.change() as change:
        change.promise(1001)
    print("problem:", checkpoint.reserve_problem)
with Checkpoint.open(meta) as checkpoint:
    assert len(checkpoint.read(LEFT).abort) == 2_000_000
    assert checkpoint.read(PROMISED) == 1001
"""


def on_a_small_disk(
    script: str, path: Path, size: str
) -> subprocess.CompletedProcess[str]:
    """A child that runs a script on a file system of its own."""
    command = (
        f"mount -t tmpfs -o size={size} tmpfs {path} && "
        f'exec {sys.executable} -c "$0" {path}'
    )
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", command, script],
        capture_output=True,
        text=True,
        check=False,
    )


@NEEDS_MOUNTS
def test_on_a_full_disk_it_opens_and_commits(tmp_path: Path) -> None:
    """A13: hundreds of changes; a huge one is refused; with space it works."""
    done = on_a_small_disk(ON_A_FULL_DISK, tmp_path, "6m")
    assert "" == done.stderr
    commits, refused, during, after = done.stdout.splitlines()
    assert "commits on a full disk: 300" == commits
    assert f"cannot commit to {tmp_path}/meta/lmdb: " in refused
    assert "(0 bytes free): nothing was changed: make space, then try" in refused
    assert during.startswith("problem: None") or "No space left" in during
    assert "problem: None" == after


ON_A_TINY_DISK = """
import os, sys
from pathlib import Path
from pystore.errors import FullError
from pystore.first_start import create_meta
store = Path(sys.argv[1])
try:
    create_meta(store, lambda _: None)
except FullError as error:
    print(error)
assert not (store / "meta").exists()
assert os.system(f"mount -o remount,size=6m {store}") == 0
create_meta(store, lambda _: None)
"""


@NEEDS_MOUNTS
def test_a_disk_without_room_gets_no_meta(tmp_path: Path) -> None:
    """A first start that cannot reserve its room fails, and works later."""
    done = on_a_small_disk(ON_A_TINY_DISK, tmp_path, "512k")
    assert "" == done.stderr
    assert "No space left on device" in done.stdout


FAILING = """
import sys
from pathlib import Path
from pystore.checkpoint import Checkpoint
from pystore.errors import StorageError
try:
    with Checkpoint.open(Path(sys.argv[1])) as checkpoint:
        for epoch in (1, 2, 3):
            try:
                with checkpoint.change() as change:
                    change.begin_epoch(epoch, epoch)
                print("told", epoch)
            except StorageError as error:
                print(type(error).__name__, error)
except StorageError as error:
    print("unopened", error)
"""


@NEEDS_STRACE
@pytest.mark.parametrize(
    ("call", "kinds"),
    [
        ("pwrite64", {"unopened", "StorageError", "PoisonedError"}),
        ("fdatasync", {"StorageError"}),
        ("fsync", {"unopened"}),
    ],
)
def test_whatever_write_fails_nothing_told_is_lost(
    tmp_path: Path, call: str, kinds: set[str]
) -> None:
    """EIO from any write or sync: not made and the next works, or poisoned."""
    seen = set()
    for number in range(1, 40):
        meta = create_meta_in(tmp_path / f"{number}")
        done = subprocess.run(
            [
                *("strace", "-qq", "-o", os.devnull, "-e", f"trace={call}"),
                *("-e", f"inject={call}:error=EIO:when={number}"),
                *(sys.executable, "-c", FAILING, str(meta)),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "" == done.stderr
        lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
        told = [int(text) for kind, text in lines if kind == "told"]
        errors = [kind for kind, _ in lines if kind != "told"]
        with Checkpoint.open(meta) as checkpoint:
            promised = checkpoint.read(PROMISED)
            assert promised == checkpoint.read(EPOCHS).last_epoch
            assert promised >= max(told, default=-1)
            promise(checkpoint, 4)
        if not errors:
            assert [1, 2, 3] == told
            break
        print(*lines, sep="\n")
        seen.update(errors)
        if errors == ["StorageError"]:
            assert 2 == len(told)
            assert promised == told[-1]
    assert kinds == seen


def create_meta_in(store: Path) -> Path:
    """A new store at a path that is not there."""
    store.mkdir()
    return create_meta(store, nothing)


def test_a_full_map_is_said_in_our_own_words(
    meta: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Larger than the map: refused, and the next change works."""
    monkeypatch.setattr("pystore.checkpoint._MAP_BYTES", 8 << 20)
    with Checkpoint.open(meta) as checkpoint:
        with pytest.raises(FullError, match="MDB_MAP_FULL") as caught:
            leave(checkpoint, 5_000_000)
        print(caught.value)
        leave(checkpoint, 5)
        assert 5 == len(checkpoint.read(LEFT).abort or b"")


def leave(checkpoint: Checkpoint, size: int) -> None:
    """One change of many bytes."""
    with checkpoint.change() as change:
        change.leave(Left(abort=bytes(size)))
