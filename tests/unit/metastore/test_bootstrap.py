"""
The first start: ``meta/`` is complete or absent, whatever fails.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pystore.errors import InvalidError, StorageError
from pystore.fs.atomic import SYSTEM, Calls
from pystore.fs.boot import StorePlace, place_of
from pystore.metastore.bootstrap import create_meta
from pystore.metastore.database import MetaStore
from pystore.metastore.schema import FORMAT, IDENTITY, INCARNATION, PLACE
from pystore.metastore.transaction import WriteTransaction
from pystore.metastore.values import StoreFormat
from pystore.replicaset import Incarnation
from pystore.rocketmq.identity_file import BrokerIdentity


def fill(directory: Path) -> None:
    """The file of another module."""
    (directory / "live").write_bytes(b"page")


def test_a_new_meta_has_everything(tmp_path: Path) -> None:
    """Format, place, seals, drafts and what the caller put there."""
    meta = create_meta(tmp_path, fill)
    assert tmp_path / "meta" == meta
    assert ["live", "lmdb", "seals", "tmp"] == sorted(os.listdir(meta))
    assert ["meta"] == os.listdir(tmp_path)
    with MetaStore.open(meta) as checkpoint, checkpoint.view() as view:
        assert StoreFormat() == view.read(FORMAT)
        assert place_of(tmp_path) == view.read(PLACE)
        assert Incarnation() == view.read(INCARNATION)


def test_the_first_records_appear_with_it(tmp_path: Path) -> None:
    """What was imported is there when meta/ is."""
    identity = BrokerIdentity("c", "b", 7)

    def first(change: WriteTransaction) -> None:
        change.store_identity(identity)

    with MetaStore.open(create_meta(tmp_path, fill, first)) as checkpoint:
        assert identity == checkpoint.read(IDENTITY)


def test_an_existing_meta_is_never_replaced(tmp_path: Path) -> None:
    """Not even an empty one, which a rename would take."""
    (tmp_path / "meta").mkdir()
    with pytest.raises(InvalidError, match="meta exists: the store is not new"):
        create_meta(tmp_path, fill)
    assert [] == os.listdir(tmp_path / "meta")


def test_the_files_of_an_earlier_attempt_are_removed(tmp_path: Path) -> None:
    """A14: the next start removes the files of a killed first start."""
    (tmp_path / "meta.new" / "lmdb").mkdir(parents=True)
    (tmp_path / "meta.new" / "junk").write_bytes(b"x")
    meta = create_meta(tmp_path, fill)
    assert ["meta"] == os.listdir(tmp_path)
    assert not (meta / "junk").exists()


def test_everything_is_synced_before_it_appears_and_the_name_after(
    tmp_path: Path,
) -> None:
    """Each file, then each directory, then the rename, then the store."""
    steps = []

    def opened(path: Path, *rest: int) -> int:
        steps.append(str(path.relative_to(tmp_path)))
        return SYSTEM.open(path, *rest)

    def renamed(old: Path, new: Path) -> None:
        steps.append("rename")
        SYSTEM.rename(old, new)

    create_meta(tmp_path, fill, calls=Calls(open=opened, rename=renamed))
    assert ["meta.new", "rename", "."] == steps[-3:]
    inside = {f"meta.new/{name}" for name in ("seals", "tmp", "lmdb", "live")}
    inside |= {"meta.new/lmdb/data.mdb", "meta.new/lmdb/lock.mdb"}
    assert inside == set(steps[:-3])
    assert steps.index("meta.new/lmdb") > steps.index("meta.new/lmdb/data.mdb")


@pytest.mark.parametrize("failing", range(12))
def test_after_the_failure_of_any_call_there_is_no_incomplete_meta(
    tmp_path: Path, failing: int
) -> None:
    """Absent or whole; and the next attempt works if it is absent."""
    count = 0

    def counted() -> None:
        nonlocal count
        count += 1
        if count - 1 == failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def sync(descriptor: int) -> None:
        counted()
        SYSTEM.sync(descriptor)

    def rename(old: Path, new: Path) -> None:
        counted()
        SYSTEM.rename(old, new)

    text = ""
    try:
        create_meta(tmp_path, fill, calls=Calls(sync=sync, rename=rename))
    except StorageError as error:
        text = str(error)
    print(count, text)
    assert (count > failing) == ("Input/output error" in text)
    if not (tmp_path / "meta").exists():
        create_meta(tmp_path, fill)
    MetaStore.open(tmp_path / "meta").close()


STARTER = """
import sys
from pathlib import Path
from pystore.metastore.bootstrap import create_meta
print("begin", flush=True)
create_meta(Path(sys.argv[1]), lambda meta: (meta / "live").write_bytes(b"page"))
"""


@pytest.mark.parametrize("pause_ms", [0, 1, 2, 4, 7, 11, 16, 25])
def test_sigkill_at_any_moment_leaves_all_or_nothing(
    tmp_path: Path, pause_ms: int
) -> None:
    """After a kill the store is new or opens."""
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            child.wait(pause_ms / 1000)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
    if not (tmp_path / "meta").exists():
        create_meta(tmp_path, fill)
    MetaStore.open(tmp_path / "meta").close()
    assert b"page" == (tmp_path / "meta" / "live").read_bytes()


def test_a_copy_of_a_store_has_another_place(tmp_path: Path) -> None:
    """A15: another directory has another inode."""
    (tmp_path / "copy").mkdir()
    status = tmp_path.stat()
    assert StorePlace(status.st_dev, status.st_ino) == place_of(tmp_path)
    assert place_of(tmp_path) != place_of(tmp_path / "copy")
    with pytest.raises(StorageError, match=r"cannot read .*gone: No such file"):
        place_of(tmp_path / "gone")
