"""
What the wheel check lets through and what it stops.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import check_wheel
import pytest

NAME = "pystore_commitlog-1.0-cp311-abi3-linux_x86_64.whl"
INFO = "pystore_commitlog-1.0.dist-info"

pytestmark = pytest.mark.skipif(
    check_wheel.FREE_THREADED, reason="the made-up wheel is an abi3 one"
)


def _wheel(folder: Path, *, without: str = "", stray: str = "", top: str = "") -> Path:
    files = dict.fromkeys(check_wheel.WANTED | {f"{INFO}/licenses/LICENSE"}, "")
    files[f"{INFO}/top_level.txt"] = f"pystore\n{top}"
    files[f"{INFO}/entry_points.txt"] = (
        "[console_scripts]\npystore = pystore.cli:main\n"
    )
    if stray:
        files[stray] = ""
    files.pop(without, None)
    path = folder / NAME
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_a_wheel_with_the_package_and_nothing_else_passes(tmp_path: Path) -> None:
    """
    The check does not stop what is right.
    """
    wheel = _wheel(tmp_path)

    check_wheel.check_tag(wheel)
    check_wheel.check_contents(wheel)


@pytest.mark.parametrize("name", sorted(check_wheel.WANTED))
def test_a_wheel_that_lacks_a_file_is_stopped(tmp_path: Path, name: str) -> None:
    """
    The core, the marker and the mapped folders must be in it.
    """
    with pytest.raises(check_wheel.Wrong, match=rf"lacks \['{name}'\]"):
        check_wheel.check_contents(_wheel(tmp_path, without=name))


@pytest.mark.parametrize(
    "name",
    ["ha/__init__.py", "tests/conftest.py", "pystore/tests/x.py", "pystore/core.c"],
)
def test_a_wheel_with_a_stray_file_is_stopped(tmp_path: Path, name: str) -> None:
    """
    Nothing lands in site-packages that is not ours to put there.
    """
    with pytest.raises(check_wheel.Wrong, match=f"does not belong there.*{name}"):
        check_wheel.check_contents(_wheel(tmp_path, stray=name))


def test_a_second_top_level_name_is_stopped(tmp_path: Path) -> None:
    """
    The folders beside the package must not become packages of their own.
    """
    with pytest.raises(check_wheel.Wrong, match="top level is"):
        check_wheel.check_contents(_wheel(tmp_path, top="controller\n"))


def test_a_wheel_for_one_python_only_is_stopped() -> None:
    """
    The tag must say abi3 from the oldest Python on.
    """
    with pytest.raises(check_wheel.Wrong, match="not cp311-abi3"):
        check_wheel.check_tag(Path(NAME.replace("abi3", "cp311")))
