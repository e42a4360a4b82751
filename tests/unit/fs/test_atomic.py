"""
Replacing a file: whole or not at all, whatever fails and whenever it dies.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pystore.errors import FullError, StorageError
from pystore.fs.atomic import (
    SYSTEM,
    Calls,
    remove_file,
    replace_file,
    sweep,
    sync_directory,
    sync_tree,
)

NEEDS_MOUNTS = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("unshare"),
    reason="mounting a small file system needs root and unshare",
)


class Recorder:
    """The system's calls, with their order, one of them failing if asked."""

    def __init__(self, failing: int | None = None, number: int = errno.EIO) -> None:
        self.failing = failing
        self.number = number
        self.steps: list[str] = []

    def __call__(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        """The call, recorded."""

        def step(*arguments: object) -> object:
            self.steps.append(name)
            if len(self.steps) - 1 == self.failing:
                raise OSError(self.number, os.strerror(self.number))
            return call(*arguments)

        return step

    def calls(self) -> Calls:
        """All of the calls, recorded."""
        return Calls(
            open=self("open", SYSTEM.open),  # type: ignore[arg-type]
            write=self("write", lambda fd, data: SYSTEM.write(fd, data[:7])),  # type: ignore[arg-type]
            sync=self("sync", SYSTEM.sync),  # type: ignore[arg-type]
            rename=self("rename", SYSTEM.rename),  # type: ignore[arg-type]
            unlink=self("unlink", SYSTEM.unlink),  # type: ignore[arg-type]
        )


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, Path]:
    """A file with old content, and a directory for drafts."""
    file, temporary = tmp_path / "file", tmp_path / "tmp"
    file.write_bytes(b"old content")
    temporary.mkdir()
    return file, temporary


ORDER = ["open", "write", "write", "sync", "rename", "open", "sync"]


def test_the_bytes_are_synced_before_the_name_and_the_name_last(
    place: tuple[Path, Path],
) -> None:
    """Write (also in short pieces), sync, rename, sync the directory."""
    recorder = Recorder()
    replace_file(place[0], b"new content", place[1], recorder.calls())
    assert ORDER == recorder.steps
    assert b"new content" == place[0].read_bytes()
    assert [] == os.listdir(place[1])


@pytest.mark.parametrize("failing", range(len(ORDER)))
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_after_the_failure_of_any_call_the_file_is_whole(
    place: tuple[Path, Path], failing: int, number: int
) -> None:
    """Up to the rename the old content stays, from then on the new is there."""
    kind = FullError if number == errno.ENOSPC else StorageError
    with pytest.raises(kind) as caught:
        replace_file(
            place[0], b"new content", place[1], Recorder(failing, number).calls()
        )
    renamed = failing > ORDER.index("rename")
    content = b"new content" if renamed else b"old content"
    assert content == place[0].read_bytes()
    assert [] == os.listdir(place[1])
    assert number == caught.value.errno
    print(caught.value)
    doing = "sync directory" if renamed else "replace"
    assert f"cannot {doing} " in str(caught.value)
    assert str(place[0].parent if renamed else place[0]) == caught.value.path


def test_a_draft_that_cannot_be_removed_does_not_hide_the_first_error(
    place: tuple[Path, Path],
) -> None:
    """The caller gets the error of the write; a sweep removes the draft."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "refused")

    with pytest.raises(StorageError, match="cannot replace"):
        replace_file(place[0], b"new", place[1], Calls(sync=refuse, unlink=refuse))
    assert ["file"] == sweep(place[1])
    assert [] == sweep(place[1])


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    """The message has the path and the system's reason."""
    gone = tmp_path / "gone"
    for work in (sync_directory, sweep):
        with pytest.raises(StorageError, match=f"{gone}: No such file") as caught:
            work(gone)
        assert errno.ENOENT == caught.value.errno


def test_removing_a_file_syncs_its_name(place: tuple[Path, Path]) -> None:
    """The second removal returns that there was no file."""
    recorder = Recorder()
    assert remove_file(place[0], recorder.calls())
    assert not place[0].exists()
    assert not remove_file(place[0], recorder.calls())
    assert ["unlink", "open", "sync"] * 2 == recorder.steps


def test_a_removal_that_the_system_refuses_is_an_error(
    place: tuple[Path, Path],
) -> None:
    """The file is still there, and the message names it."""
    with pytest.raises(StorageError, match=f"cannot remove {place[0]}: Input/output"):
        remove_file(place[0], Recorder(0).calls())
    assert place[0].exists()


WRITER = """
import sys
from pathlib import Path
from pystore.fs.atomic import replace_file
root = Path(sys.argv[1])
for number in range(100_000):
    replace_file(root / "file", b"%d," % number * 4000, root / "tmp")
    print(number, flush=True)
"""


@pytest.mark.parametrize("lines", [1, 7, 30])
def test_a_killed_writer_leaves_a_whole_file(tmp_path: Path, lines: int) -> None:
    """After SIGKILL the file has the last reported content, or the one after it."""
    (tmp_path / "tmp").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        reported = [int(child.stdout.readline()) for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        reported += [int(line) for line in child.stdout.read().split()]
    numbers = set((tmp_path / "file").read_text().split(",")[:-1])
    assert 1 == len(numbers)
    assert int(numbers.pop()) in (reported[-1], reported[-1] + 1)


ON_A_FULL_DISK = """
import errno, os, sys
from pathlib import Path
from pystore.errors import FullError
from pystore.fs.atomic import replace_file
root = Path(sys.argv[1])
(root / "tmp").mkdir()
replace_file(root / "file", b"old", root / "tmp")
filler = open(root / "filler", "wb", buffering=0)
try:
    while True:
        filler.write(bytes(4096))
except OSError as error:
    assert error.errno == errno.ENOSPC
try:
    replace_file(root / "file", b"new" * 9999, root / "tmp")
except FullError as error:
    print(error)
assert (root / "file").read_bytes() == b"old"
assert os.listdir(root / "tmp") == []
os.truncate(root / "filler", 0)
replace_file(root / "file", b"new" * 9999, root / "tmp")
print("written when space was back")
"""


@NEEDS_MOUNTS
def test_on_a_full_disk_the_old_content_stays(tmp_path: Path) -> None:
    """Without space it is a full error; with space it works again."""
    script = (
        f"mount -t tmpfs -o size=1m tmpfs {tmp_path} && "
        f'exec {sys.executable} -c "$0" {tmp_path}'
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, ON_A_FULL_DISK],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "" == done.stderr
    full, after = done.stdout.splitlines()
    assert (
        f"cannot replace {tmp_path}/file: No space left on device: "
        "make space, then try again"
    ) == full
    assert "written when space was back" == after


@NEEDS_MOUNTS
def test_a_read_only_directory_is_named(tmp_path: Path) -> None:
    """The message names the file and says that the file system is read-only."""
    (tmp_path / "tmp").mkdir()
    script = (
        f"mount --bind {tmp_path} {tmp_path} && "
        f"mount -o remount,ro,bind {tmp_path} && "
        f'exec {sys.executable} -c "$0" {tmp_path}'
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, WRITER],
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"cannot replace {tmp_path}/file: Read-only file system" in done.stderr


def test_a_tree_is_synced_without_its_links(tmp_path: Path) -> None:
    """
    Files come first, the directories that name them after; a link may lead nowhere.
    """
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "file").write_bytes(b"x")
    (tmp_path / "a" / "b" / "link").symlink_to("nowhere")
    opened: list[Path] = []

    def note(path: Path, flags: int) -> int:
        opened.append(path.relative_to(tmp_path))
        return os.open(path, flags)

    sync_tree(tmp_path / "a", Calls(open=note))

    assert [Path("a/b"), Path("a/file"), Path("a")] == opened
