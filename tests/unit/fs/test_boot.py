"""
Which boot and which mount.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest
from cluster.small_disks import NEEDS_MOUNTS

from pystore.errors import StorageError
from pystore.fs.boot import boot_of, mount_of


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


def test_the_id_of_a_mount_is_none_that_the_system_gives_again(tmp_path: Path) -> None:
    """
    From Linux 6.8 on; the id of ``fdinfo`` goes to the next mount after an unmount.
    """
    release = tuple(map(int, platform.release().split(".")[:2]))
    if sys.platform != "linux" or release < (6, 8):
        pytest.skip("the system has no such ids")

    # The system begins to count them above every id of the other kind.
    assert mount_of(tmp_path) >= 1 << 31


@NEEDS_MOUNTS
def test_a_file_system_that_is_mounted_again_is_another_mount(tmp_path: Path) -> None:
    """
    Its page cache is gone, so the ends that were only there are gone, too.
    """
    script = f"""
import subprocess, sys
from pathlib import Path
from pystore.fs.boot import mount_of
place = Path({str(tmp_path)!r})
seen = set()
for _ in range(5):
    subprocess.check_call(["mount", "-t", "tmpfs", "none", place])
    seen.add(mount_of(place))
    subprocess.check_call(["umount", place])
print(len(seen))
"""
    command = ["unshare", "-m", sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert "" == done.stderr
    assert "5\n" == done.stdout
