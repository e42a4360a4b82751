"""
``python -m pystore`` is the command line.
"""

from __future__ import annotations

from lib.command_line import run_process


def test_the_module_runs_and_lists_its_commands() -> None:
    """
    Without installing anything, from a source tree.
    """
    found = run_process("--help")

    assert (0, b"") == (found.returncode, found.stderr)
    for name in (
        b"append",
        b"dump",
        b"info",
        b"verify",
        b"recover",
        b"epochs",
        b"demo",
    ):
        assert b"\n  " + name in found.stdout
