"""
The wheel check accepts correct wheels and stops all others.
"""

from __future__ import annotations

from pathlib import Path

import check_wheel
import pytest
from tools import WrongError, only, run

NAME = "pystore_commitlog-1.0-cp311-abi3-linux_x86_64.whl"


def test_a_wheel_for_every_python_passes() -> None:
    """
    The check accepts a correct wheel.
    """
    check_wheel.check_tag(Path(NAME))


@pytest.mark.parametrize(
    ("part", "other"), [("abi3", "cp311"), ("cp311", "cp312"), ("abi3", "cp314t")]
)
def test_a_wheel_for_some_pythons_only_is_stopped(part: str, other: str) -> None:
    """
    The tag must be abi3 with the oldest Python.
    """
    with pytest.raises(WrongError, match="not cp311-abi3"):
        check_wheel.check_tag(Path(NAME.replace(part, other)))


def test_two_wheels_in_a_folder_are_stopped(tmp_path: Path) -> None:
    """
    A wheel of an earlier build is not checked instead of the new one.
    """
    for name in (NAME, NAME.replace("1.0", "0.9")):
        (tmp_path / name).touch()

    with pytest.raises(WrongError, match=r"wanted one \*\.whl, found 2"):
        only(tmp_path, "*.whl")


def test_a_failing_tool_stops_the_check() -> None:
    """
    The error has the command and its output.
    """
    with pytest.raises(WrongError, match=r"-c import sys.*:\nbefore\n"):
        run("-c", "import sys; print('before'); sys.exit(1)")
