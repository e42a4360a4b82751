"""
Which boot and which mount.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystore.errors import StorageError
from pystore.fs.boot import boot_of


def test_a_boot_is_the_same_twice_and_has_sixteen_bytes(tmp_path: Path) -> None:
    """
    Two calls for one store in one boot return equal values.
    """
    boot = boot_of(tmp_path)

    assert boot == boot_of(tmp_path)
    assert 16 == len(boot.boot_id)
    assert (boot.boot_id.hex(), str(boot.mount_id)) == boot.text


def test_another_mount_has_another_id(tmp_path: Path) -> None:
    """
    A store on another file system has another mount id.
    """
    assert boot_of(tmp_path).mount_id != boot_of(Path("/proc")).mount_id


def test_a_missing_store_has_no_mount(tmp_path: Path) -> None:
    """
    The path is named.
    """
    with pytest.raises(StorageError, match="none"):
        boot_of(tmp_path / "none")
