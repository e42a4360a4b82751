"""
The metastore under kills, full disks and failing writes.

Real processes, real signals, real file systems: no call is imitated.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pystore.metastore.bootstrap import create_meta
from pystore.metastore.database import MetaStore
from pystore.metastore.schema import BOUNDS, EPOCHS, INCARNATION, PROMISED

NEEDS_MOUNTS = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("unshare"),
    reason="mounting a small file system needs root and unshare",
)
NEEDS_STRACE = pytest.mark.skipif(
    not shutil.which("strace"), reason="injecting errors needs strace"
)


def nothing(_: object) -> None:
    """Adds nothing to a new directory."""


def promise(checkpoint: MetaStore, epoch: int) -> None:
    """One change."""
    with checkpoint.change() as change:
        change.promise(epoch)


@pytest.fixture
def meta(tmp_path: Path) -> Path:
    """The ``meta/`` of a new store."""
    return create_meta(tmp_path, nothing)


WRITER = """
import os, sys
from pathlib import Path
from pystore.metastore.database import MetaStore
from pystore.metastore.schema import PROMISED
from pystore.metastore.values import Bounds
with MetaStore.open(Path(sys.argv[1])) as checkpoint:
    with checkpoint.change() as change:
        change.begin_incarnation(os.urandom)
    for number in range(checkpoint.read(PROMISED) + 1, 1_000_000):
        with checkpoint.change() as change:
            change.begin_epoch(number, 10 * number)
            change.store_bounds(Bounds(10 * number, 10 * number, "x" * (number % 900)))
        print(number, flush=True)
"""


def test_sigkill_between_any_two_steps_loses_nothing_acknowledged(meta: Path) -> None:
    """Reported changes are there, each change is whole, and it opens each time."""
    for turn in range(12):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(meta)], stdout=subprocess.PIPE
        ) as child:
            assert child.stdout is not None
            reported = [int(child.stdout.readline()) for _ in range(1 + 3 * turn)]
            child.send_signal(signal.SIGKILL)
            reported += [int(line) for line in child.stdout.read().split()]
        with MetaStore.open(meta) as checkpoint, checkpoint.view() as view:
            promised = view.read(PROMISED)
            assert promised in (reported[-1], reported[-1] + 1)
            assert promised == view.read(EPOCHS).last_epoch
            assert 10 * promised == view.read(BOUNDS).synced_end
            assert turn + 1 == view.read(INCARNATION).counter


def test_a_reader_of_another_process_sees_only_whole_changes(meta: Path) -> None:
    """Opened, checked and read during commits."""
    seen: set[int] = set()
    reads = 0
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(meta)], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        # Until it has seen changes, too: on a busy disk one commit takes a while.
        while reads < 50 or (len(seen) < 2 and child.poll() is None):
            with MetaStore.open_read_only(meta) as reader, reader.view() as view:
                promised = view.read(PROMISED)
                assert 10 * promised == view.read(BOUNDS).synced_end
                seen.add(promised)
            reads += 1
        child.kill()
        child.stdout.read()
    assert len(seen) > 1


ON_A_FULL_DISK = """
import errno, os, sys
from pathlib import Path
from pystore.metastore.database import MetaStore
from pystore.errors import FullError
from pystore.metastore.bootstrap import create_meta
from pystore.metastore.schema import FINGERPRINT, PROMISED
from pystore.metastore.values import StoreFingerprint
store = Path(sys.argv[1])
meta = create_meta(store, lambda _: None)
filler = open(store / "filler", "wb", buffering=0)
try:
    while True:
        filler.write(bytes(4096))
except OSError as error:
    assert error.errno == errno.ENOSPC
assert os.statvfs(store).f_bavail == 0
with MetaStore.open(meta) as checkpoint:
    for epoch in range(300):
        with checkpoint.change() as change:
            change.promise(epoch)
    print("commits on a full disk:", checkpoint.read(PROMISED) + 1)
    try:
        with checkpoint.change() as change:
            change.promise(1000)
            segments = tuple((2 * at, 1) for at in range(200_000))
            change.store_fingerprint(StoreFingerprint(segments))
    except FullError as error:
        print(error)
    assert checkpoint.read(PROMISED) == 299
    with checkpoint.change() as change:
        change.promise(300)
    print("problem:", checkpoint.reserve_problem)
    os.truncate(store / "filler", 0)
    with checkpoint.change() as change:
        change.promise(1000)
        segments = tuple((2 * at, 1) for at in range(200_000))
        change.store_fingerprint(StoreFingerprint(segments))
    with checkpoint.change() as change:
        change.promise(1001)
    print("problem:", checkpoint.reserve_problem)
with MetaStore.open(meta) as checkpoint:
    assert len(checkpoint.read(FINGERPRINT).segments) == 200_000
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
from pystore.metastore.bootstrap import create_meta
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
from pystore.metastore.database import MetaStore
from pystore.errors import StorageError
try:
    with MetaStore.open(Path(sys.argv[1])) as checkpoint:
        for epoch in (1, 2, 3):
            try:
                with checkpoint.change() as change:
                    change.begin_epoch(epoch, epoch)
                print("reported", epoch)
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
def test_a_failed_write_loses_nothing_acknowledged(
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
        reported = [int(text) for kind, text in lines if kind == "reported"]
        errors = [kind for kind, _ in lines if kind != "reported"]
        with MetaStore.open(meta) as checkpoint:
            promised = checkpoint.read(PROMISED)
            assert promised == checkpoint.read(EPOCHS).last_epoch
            assert promised >= max(reported, default=-1)
            promise(checkpoint, 4)
        if not errors:
            assert [1, 2, 3] == reported
            break
        print(*lines, sep="\n")
        seen.update(errors)
        if errors == ["StorageError"]:
            assert 2 == len(reported)
            assert promised == reported[-1]
    assert kinds == seen


def create_meta_in(store: Path) -> Path:
    """A new store at a path that is not there."""
    store.mkdir()
    return create_meta(store, nothing)


READ_ONLY = """
import sys
from pathlib import Path
from pystore.metastore.database import MetaStore
from pystore.errors import StorageError
from pystore.metastore.schema import PROMISED
meta = Path(sys.argv[1]) / "meta"
with MetaStore.open_read_only(meta) as checkpoint:
    print("read", checkpoint.read(PROMISED))
try:
    MetaStore.open(meta)
except StorageError as error:
    print(error)
"""


@NEEDS_MOUNTS
def test_a_read_only_file_system_is_read_and_not_written(tmp_path: Path) -> None:
    """A reader needs no lock file there; a writer gets the reason of its error."""
    with MetaStore.open(create_meta(tmp_path, nothing)) as checkpoint:
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
