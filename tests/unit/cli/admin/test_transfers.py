"""
Exports and imports of sets, as an operator mistypes them. The drills are in
tests/cluster/test_lost_controllers.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.command_line import run
from lib.controller.controller_process import ControllerProcess


def test_an_export_that_cannot_be_written_names_the_file(tmp_path: Path) -> None:
    """
    And not a temporary one, of which an operator knows nothing.
    """
    with ControllerProcess("--store", tmp_path / "records") as controller:
        controller.await_lead()
        at = ("-a", controller.address)
        away = run("admin", "exportSets", *at, tmp_path / "away" / "sets.txt")
        refused = run("admin", "exportSets", *at, "/proc/sets.txt")

    assert 2 == away.exit_code
    assert f"{tmp_path / 'away'} is no directory: make it first" in away.output
    assert 3 == refused.exit_code
    assert refused.stderr.startswith("pystore: /proc/sets.txt: not written: ")


def test_an_export_without_sets_says_so_when_it_is_imported(tmp_path: Path) -> None:
    """
    A command that prints nothing looks as if it had done its work.
    """
    file = tmp_path / "sets.txt"
    with ControllerProcess("--store", tmp_path / "records") as controller:
        controller.await_lead()
        at = ("-a", controller.address)
        assert 0 == run("admin", "exportSets", *at, file).exit_code
        found = run("admin", "importSets", *at, file)

    assert (0, "there are no sets in it: nothing was imported\n") == (
        found.exit_code,
        found.stdout,
    )


@pytest.mark.parametrize("content", [b"", b"garbage", b"\xff" * 999])
def test_a_file_that_is_no_export_is_refused(tmp_path: Path, content: bytes) -> None:
    """
    Before any controller is asked.
    """
    file = tmp_path / "sets.txt"
    file.write_bytes(content)
    found = run("admin", "importSets", "-a", "127.0.0.1:1", file)

    assert 3 == found.exit_code
    assert f"{file}: it is no export of broker sets" in found.stderr
