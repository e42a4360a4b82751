"""
``data.mdb`` before LMDB sees it: damage of every kind, room, and the disk.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest

from pystore.errors import FormatError, StorageError
from pystore.fs.lmdb_file import RESERVE_BYTES, check_data_file, reserve, rewrite

ANY_SIZES = [3, 100, 1000, 9000, 100_000]


def fill(path: Path, rounds: int, seed: int, sizes: list[int] = ANY_SIZES) -> None:
    """Commit values of these sizes, each key once a transaction."""
    source = random.Random(seed)
    with lmdb.Environment(
        str(path), map_size=1 << 28, lib_version=0, sync=False
    ) as env:
        for _ in range(rounds):
            with env.begin(write=True) as transaction:
                for number in source.sample(range(30), 8):
                    key = b"key%d" % number
                    if source.random() < 0.3:
                        transaction.delete(key)
                    else:
                        size = source.choice(sizes)
                        transaction.put(key, source.randbytes(size))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A healthy database with several levels and free pages."""
    fill(tmp_path / "db", 20, seed=7)
    return tmp_path / "db" / "data.mdb"


def used(path: Path) -> int:
    """The end of the last page in use."""
    with lmdb.Environment(str(path.parent), lib_version=0) as env:
        return int((env.info()["last_pgno"] + 1) * env.stat()["psize"])


@pytest.mark.parametrize("seed", range(4))
def test_a_healthy_file_passes_after_every_commit(tmp_path: Path, seed: int) -> None:
    """Also when pages were freed, and the last ones were never written."""
    for turn in range(40):
        fill(tmp_path, 3, seed=1000 * seed + turn)
        check_data_file(tmp_path / "data.mdb")


def test_a_fresh_file_passes(tmp_path: Path) -> None:
    """Two roots of transaction 0."""
    lmdb.Environment(str(tmp_path), lib_version=0).close()
    check_data_file(tmp_path / "data.mdb")


def refusal(path: Path) -> str:
    """The message of the refusal, which is one line and names the file."""
    with pytest.raises(FormatError) as caught:
        check_data_file(path)
    text = str(caught.value)
    print(text)
    assert text.startswith(f"{path}: ")
    assert str(path) == caught.value.path
    assert "move meta/ away and open again" in text
    assert "\n" not in text
    return text


def test_a_missing_file_is_damage(tmp_path: Path) -> None:
    """A14: only an absent meta/ means a new store."""
    assert "the file is missing" in refusal(tmp_path / "data.mdb")


def test_an_empty_file_is_damage(data: Path) -> None:
    """A14: LMDB would silently start anew."""
    os.truncate(data, 0)
    assert "the file is empty" in refusal(data)


def test_a_short_file_is_damage_wherever_it_ends(data: Path) -> None:
    """LMDB would die of SIGBUS, or read zeros for the end of a large value."""
    for size in (*range(1, 200), *range(4000, used(data), 1733), used(data) - 1):
        shutil.copy(data, data.with_name("short"))
        os.truncate(data.with_name("short"), size)
        refusal(data.with_name("short"))


@pytest.mark.parametrize("content", [b"\0" * 8192, b"\xff" * 8192, b"garbage\n" * 999])
def test_garbage_is_damage(data: Path, content: bytes) -> None:
    """A file that is not LMDB's is not opened."""
    data.write_bytes(content)
    assert "it does not begin as a file of LMDB 0.9" in refusal(data)


def test_a_file_of_a_newer_engine_is_refused_by_name(tmp_path: Path) -> None:
    """LMDB 1.0 has another layout."""
    lmdb.Environment(str(tmp_path), lib_version=1).close()
    assert "LMDB 1.0 wrote it" in refusal(tmp_path / "data.mdb")


@pytest.mark.parametrize("page", [0, 1])
def test_a_root_of_another_transaction_is_damage(data: Path, page: int) -> None:
    """Any flip in its number would bring back the state before."""
    healthy = data.read_bytes()
    for bit in range(64):
        damaged = bytearray(healthy)
        damaged[page * 4096 + 144 + bit // 8] ^= 1 << bit % 8
        data.write_bytes(damaged)
        refusal(data)


@pytest.mark.parametrize("page", [0, 1])
@pytest.mark.parametrize("at", [44, 92], ids=["free pages", "records"])
def test_another_order_of_keys_is_damage(data: Path, page: int, at: int) -> None:
    """
    The flags of a tree. With repeated keys LMDB ends the process at the next commit.
    """
    healthy = data.read_bytes()
    for bit in range(1, 7):
        damaged = bytearray(healthy)
        damaged[page * 4096 + at] ^= 1 << bit
        data.write_bytes(damaged)
        refusal(data)


READER = """
import shutil
import sys
from pathlib import Path
import lmdb
from pystore.errors import FormatError
from pystore.fs.lmdb_file import check_data_file
data = Path(sys.argv[1])
refused = 0
for line in sys.stdin:
    at, bits = map(int, line.split())
    with data.open("r+b") as file:
        file.seek(at)
        good = file.read(1)
        file.seek(at)
        file.write(bytes([good[0] ^ bits]))
    try:
        check_data_file(data)
    except FormatError:
        refused += 1
    else:
        with lmdb.Environment(str(data.parent), lib_version=0) as env:
            with env.begin() as transaction:
                for key, value in transaction.cursor():
                    assert len(key) + len(value) > 0
        other = data.parent / "other"
        other.mkdir(exist_ok=True)
        shutil.copy(data, other)
        with lmdb.Environment(str(other), lib_version=0) as env:
            with env.begin(write=True) as transaction:
                first = next(iter(transaction.cursor()))[0]
                transaction.delete(first)
                transaction.put(b"new", bytes(300))
    with data.open("r+b") as file:
        file.seek(at)
        file.write(good)
print(refused)
"""


def test_no_flipped_bit_kills_the_process(tmp_path: Path) -> None:
    """
    A file that passes the check is read to its last byte without a signal, and takes a
    commit.
    """
    fill(tmp_path, 40, seed=5, sizes=[3, 100, 300, 1000])
    data = tmp_path / "data.mdb"
    seed = random.randrange(2**32)
    print("seed", seed)
    source = random.Random(seed)
    content = data.read_bytes()
    heads = [at for at in range(0, used(data), 4096) if content[at + 10] in (1, 2, 8)]
    places = [source.choice(heads) + source.randrange(160) for _ in range(800)]
    places += [source.randrange(used(data)) for _ in range(200)]
    lines = "".join(f"{at} {1 << source.randrange(8)}\n" for at in places)
    done = subprocess.run(
        [sys.executable, "-c", READER, str(data)],
        input=lines,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "" == done.stderr
    assert 0 == done.returncode
    assert int(done.stdout) > 25


def test_rewriting_keeps_every_byte_and_writes_the_pages_in_use(data: Path) -> None:
    """A12: the pages go to the disk once more, as they are."""
    before, size = data.read_bytes(), used(data)
    reserve(data, size)
    os.utime(data, (0, 0))
    assert size == rewrite(data)
    assert before == data.read_bytes()[: len(before)]
    assert data.stat().st_mtime > 0


def test_the_room_is_really_there(data: Path) -> None:
    """A13: blocks, not a hole, so that a full disk cannot refuse a commit."""
    size = used(data)
    assert reserve(data, size)
    status = data.stat()
    assert status.st_size >= size + RESERVE_BYTES
    assert status.st_blocks * 512 >= size + RESERVE_BYTES
    assert not reserve(data, size)
    check_data_file(data)
    fill(data.parent, 20, seed=8)
    check_data_file(data)


def test_the_room_is_renewed_when_commits_used_it(data: Path) -> None:
    """It grows by more than the missing bytes, so that not every commit grows it."""
    size = used(data)
    assert reserve(data, size)
    assert not reserve(data, size + RESERVE_BYTES)
    assert reserve(data, size + RESERVE_BYTES + 1)
    assert size + 3 * RESERVE_BYTES + 1 == data.stat().st_size


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """The system's reason, with the path."""
    folder = tmp_path / "data.mdb"
    folder.mkdir()
    for work in (check_data_file, rewrite):
        with pytest.raises(StorageError, match=f"{folder}: Is a directory"):
            work(folder)
    shutil.rmtree(folder)
    with pytest.raises(StorageError, match=f"{folder}: No such file"):
        reserve(folder, 0)
