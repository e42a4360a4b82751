"""
One state of a data file, copied without a lock.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import lmdb
import pytest
from lib.store.proc_locks import locks_of

from pystore.errors import FormatError
from pystore.fs.lmdb_snapshot import snapshot


def _environment(path: Path) -> lmdb.Environment:
    return lmdb.Environment(str(path), map_size=1 << 24, lib_version=0)


def _read(copy: Path) -> dict[bytes, bytes]:
    with (
        lmdb.Environment(
            str(copy), subdir=False, readonly=True, lock=False, lib_version=0
        ) as environment,
        environment.begin() as view,
    ):
        return {bytes(key): bytes(value) for key, value in view.cursor()}


def test_a_copy_has_every_record_and_takes_no_lock(tmp_path: Path) -> None:
    """
    Also of large values, and while this process has the file open.
    """
    expected = {b"%d" % at: bytes([at]) * (at * 331) for at in range(60)}
    with _environment(tmp_path) as environment:
        with environment.begin(write=True) as change:
            for key, value in expected.items():
                change.put(key, value)
        before = locks_of(tmp_path / "lock.mdb")
        with snapshot(tmp_path / "data.mdb") as copy:
            assert expected == _read(copy)
        assert before == locks_of(tmp_path / "lock.mdb") != []


def test_nothing_of_a_copy_is_left(tmp_path: Path) -> None:
    """
    No descriptor, and no file.
    """
    _environment(tmp_path).close()
    gc.collect()  # handles of earlier tests
    before = len(os.listdir("/proc/self/fd"))
    with snapshot(tmp_path / "data.mdb") as copy:
        assert copy.exists()

    assert not copy.exists()
    assert before == len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("kept", [0, 100, 4096, 9000])
def test_a_short_file_is_damage_that_names_the_file(tmp_path: Path, kept: int) -> None:
    """
    And not its copy.
    """
    with _environment(tmp_path) as environment, environment.begin(write=True) as change:
        change.put(b"key", bytes(30_000))
    os.truncate(tmp_path / "data.mdb", kept)

    with (
        pytest.raises(FormatError, match=rf"{tmp_path}/data\.mdb: ") as raised,
        snapshot(tmp_path / "data.mdb"),
    ):
        pass
    assert str(tmp_path / "data.mdb") == raised.value.path


def test_a_pipe_is_damage_and_not_waited_for(tmp_path: Path) -> None:
    """
    No other end of it is opened here.
    """
    os.mkfifo(tmp_path / "data.mdb")

    with pytest.raises(FormatError), snapshot(tmp_path / "data.mdb"):
        pass
