"""
Two real processes, and every way in which the first one can lose the store.

One process appends without a pause. Files are copied, renamed, removed or replaced
under it, and another process opens the path and appends. What either acknowledged must
be in one of the stores afterwards, and none of them may be damaged.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pystore import CommitLog, Message, open_store
from pystore.core.options import AckName
from pystore.errors import LockedError, PoisonedError, PystoreError
from pystore.store.store import Store

SEED = int(os.environ.get("PS_SEED", "1"))
ROUNDS = int(os.environ.get("LOST_LOCK_ROUNDS", "12"))
SEGMENT = 1 << 16

# Opens, appends, closes, and prints what it acknowledged, or its error.
OTHER = """
import sys
from pystore import Message, open_store
from pystore.errors import PystoreError
try:
    store = open_store(sys.argv[1], segment_size=1 << 16)
except PystoreError as error:
    print(type(error).__name__)
    raise SystemExit
for number in range(8):
    body = b"%s %d " % (sys.argv[2].encode(), number) + bytes(3000)
    store.log.append(Message("T", body), ack="leader-synced")
    print(body.split(b"\\0")[0].decode(), flush=True)
store.close()
"""


def other(root: Path, name: str) -> list[str]:
    """
    Runs the other process; returns the bodies it acknowledged, or its error's name.
    """
    done = subprocess.run(
        [sys.executable, "-c", OTHER, root, name],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "" == done.stderr
    return done.stdout.splitlines()


class Writer:
    """
    A store that a thread appends to until it is told to stop, or an append raises.
    """

    def __init__(self, root: Path, ack: AckName) -> None:
        self.store: Store = open_store(root, segment_size=SEGMENT)
        self.acked: list[str] = []
        self.error: PystoreError | None = None
        self._ack = ack
        self._is_stopping = threading.Event()
        self._more = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            text = f"A {len(self.acked)} "
            try:
                self.store.log.append(
                    Message("T", text.encode() + bytes(3000)), ack=self._ack
                )
            except PystoreError as error:
                # The test asks which one it was.
                self.error = error
            with self._more:
                if self.error is None:
                    self.acked.append(text)
                self._more.notify_all()
            if self.error is not None:
                return

    def wait_for(self, count: int) -> None:
        """
        Waits until so many more appends were acknowledged, or one raised.
        """
        with self._more:
            wanted = len(self.acked) + count
            assert self._more.wait_for(
                lambda: len(self.acked) >= wanted or self.error is not None, 60
            )

    def wait_for_error(self) -> PystoreError:
        """
        Waits until an append raises.
        """
        with self._more:
            assert self._more.wait_for(lambda: self.error is not None, 60)
            assert self.error is not None
            return self.error

    def stop(self) -> None:
        """
        Ends the thread.
        """
        self._is_stopping.set()
        self._thread.join()


def copy(root: Path, to: Path) -> None:
    """
    Copies a store that is written: a temporary file may vanish meanwhile.
    """
    with contextlib.suppress(shutil.Error):
        shutil.copytree(root, to)


def copy_tree(root: Path) -> None:
    """A backup by the writer's own process."""
    copy(root, root.with_name(f"copy{os.urandom(4).hex()}"))


def archive(root: Path) -> None:
    """The same as one file."""
    with tarfile.open(root.with_name("backup.tar"), "w") as file:
        for path in root.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                file.add(path, recursive=False)


def read_every_file(root: Path) -> None:
    """Opens and closes each file, as a walk that computes checksums does."""
    for path in root.rglob("*"):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            path.read_bytes()


def remove_lock(root: Path) -> None:
    """As a cleaner of old files does."""
    (root / "lock").unlink()


def rename_lock(root: Path) -> None:
    """The file lives on by another name."""
    (root / "lock").rename(root.with_name("lock-away"))


def replace_lock(root: Path) -> None:
    """By another file of the same content."""
    (root.with_name("other-lock")).write_bytes(b"lock")
    root.with_name("other-lock").rename(root / "lock")


def rename_root(root: Path) -> None:
    """The path is free."""
    root.rename(root.with_name("moved"))


def replace_root(root: Path) -> None:
    """Another store has the path."""
    root.rename(root.with_name("moved"))
    CommitLog(root, segment_size=SEGMENT).close()


def replace_root_by_a_copy(root: Path) -> None:
    """A restored backup has the path."""
    root.rename(root.with_name("moved"))
    copy(root.with_name("moved"), root)


def replace_root_by_hard_links(root: Path) -> None:
    """The names are others, the files are the same."""
    root.rename(root.with_name("moved"))
    with contextlib.suppress(shutil.Error):
        shutil.copytree(root.with_name("moved"), root, copy_function=os.link)


Way = Callable[[Path], None]
KEEP: list[Way] = [copy_tree, archive, read_every_file]
LOSE: list[Way] = [
    remove_lock,
    rename_lock,
    replace_lock,
    rename_root,
    replace_root,
    replace_root_by_a_copy,
    replace_root_by_hard_links,
]


def bodies_of(root: Path) -> list[str]:
    """
    The bodies of a store, which must open for writing without an error.
    """
    with CommitLog(root) as log:
        offsets = [int(at) for rows in log for at in rows["offset"]]
        return [log.read(at).body.split(b"\0")[0].decode() for at in offsets]


def stores_below(folder: Path) -> list[Path]:
    """
    The store, and where it was moved; not the copies.
    """
    return [path for path in (folder / "store", folder / "moved") if path.exists()]


def separate(root: Path) -> None:
    """
    Gives a copy by hard links files of its own, as the errors say.
    """
    shutil.copytree(root, root.with_name("separate"))
    shutil.rmtree(root)
    root.with_name("separate").rename(root)


@pytest.mark.parametrize("way", KEEP, ids=lambda way: way.__name__)
def test_reading_its_own_files_costs_a_writer_nothing(tmp_path: Path, way: Way) -> None:
    """
    POSIX gives a process's record locks up with any descriptor of the file.
    """
    root = tmp_path / "store"
    writer = Writer(root, "leader-synced")
    writer.wait_for(5)
    way(root)
    assert ["LockedError"] == other(root, "B")
    writer.wait_for(5)
    writer.stop()
    writer.store.close()

    assert writer.error is None
    assert writer.acked == bodies_of(root)


@pytest.mark.parametrize("ack", ["leader", "leader-synced"])
@pytest.mark.parametrize("copies_first", [False, True])
@pytest.mark.parametrize("way", LOSE, ids=lambda way: way.__name__)
def test_a_writer_that_lost_its_store_is_poisoned_and_loses_nothing(
    tmp_path: Path, way: Way, copies_first: bool, ack: AckName
) -> None:
    """
    Whatever took its lock away, and with a copy before, which drops the locks of LMDB.
    """
    root = tmp_path / "store"
    writer = Writer(root, ack)
    writer.wait_for(5)
    if copies_first:
        read_every_file(root)
    way(root)
    made = other(root, "B")
    error = writer.wait_for_error()
    writer.stop()
    with pytest.raises(PoisonedError):
        writer.store.close()

    assert isinstance(error, PoisonedError)
    assert "close" in str(error)
    _judge(tmp_path, writer, [made])


def _judge(folder: Path, writer: Writer, made: list[list[str]]) -> None:
    stores = stores_below(folder)
    if any((root / "lock").stat().st_nlink > 1 for root in stores):
        for root in stores:
            separate(root)
    kept = [bodies_of(root) for root in stores]
    acked = set(writer.acked)
    acked |= {text for texts in made for text in texts if not text.endswith("Error")}
    assert set() == acked - {text for bodies in kept for text in bodies}
    for bodies in kept:
        # A record twice would be one writer's bytes over the other's.
        assert len(bodies) == len(set(bodies))


@pytest.mark.parametrize("number", range(ROUNDS))
def test_no_history_of_two_writers_loses_an_acknowledged_record(
    tmp_path: Path, number: int
) -> None:
    """
    Any ways one after the other, at any moments, and the other process after each.
    """
    chance = random.Random(SEED * 1000 + number)
    print(f"PS_SEED={SEED}, round {number}")
    root = tmp_path / "store"
    writer = Writer(root, chance.choice(["leader", "leader-synced"]))
    ways = [*chance.sample(KEEP, chance.randint(0, 2)), chance.choice(LOSE)]
    made = []
    for at, way in enumerate(ways):
        writer.wait_for(chance.randint(0, 40))
        way(root)
        made.append(other(root, f"B{at}"))
        if chance.random() < 0.3:
            made.append(other(root, f"C{at}"))
    writer.wait_for_error()
    writer.stop()
    with pytest.raises(PoisonedError):
        writer.store.close()

    _judge(tmp_path, writer, made)


def test_the_other_process_opens_when_the_one_without_a_lock_is_gone(
    tmp_path: Path,
) -> None:
    """
    A removed lock leaves a store that is opened as after a kill.
    """
    root = tmp_path / "store"
    writer = Writer(root, "leader-synced")
    writer.wait_for(5)
    remove_lock(root)
    with pytest.raises(PoisonedError, match="removed or renamed"):
        raise writer.wait_for_error()
    assert ["LockedError"] == other(root, "B")
    writer.stop()
    with pytest.raises(PoisonedError):
        writer.store.close()

    made = other(root, "B")
    assert 8 == len(made)
    assert set(writer.acked) | set(made) <= set(bodies_of(root))


def test_a_process_without_its_lock_opens_no_second_handle(tmp_path: Path) -> None:
    """
    The registry of the process knows the directory, not only the removed file.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        log.append(Message("T", b"body"))
        (root / "lock").rename(root / "lock2")
        with pytest.raises(LockedError, match="this process"):
            CommitLog(root)
        (root / "lock2").rename(root / "lock")
        log.sync()
