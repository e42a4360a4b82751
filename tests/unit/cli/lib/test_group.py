"""
Every command ends with an exit code and prints at most one line on stderr.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from lib.command_line import PYSTORE, make_store, run, run_process

from pystore.cli.lib.group import CommandGroup
from pystore.errors import NotAStoreError

COMMANDS = ("append", "dump", "info", "verify", "recover", "epochs", "demo")


@click.group(cls=CommandGroup)
def group() -> None:
    """
    The group of the tests.
    """


@group.command()
@click.argument("what")
def fail(what: str) -> int:
    """
    Ends with an error or an exit code.
    """
    if what == "error":
        raise NotAStoreError("no store", path="/s")
    if what == "system":
        raise FileNotFoundError(2, "", "/file")
    if what == "interrupt":
        raise KeyboardInterrupt
    return int(what)


@pytest.mark.parametrize(
    ("what", "code", "line"),
    [
        ("0", 0, ""),
        ("1", 1, ""),
        ("error", 3, "pystore: /s: no store\n"),
        ("system", 3, "pystore: /file: No such file or directory\n"),
        ("interrupt", 130, "pystore: interrupted\n"),
    ],
)
def test_each_end_of_a_command_has_its_exit_code(
    what: str, code: int, line: str
) -> None:
    """
    Errors are one line on stderr, with nothing on stdout.
    """
    result = CliRunner().invoke(group, ["fail", what])

    assert (code, "", line) == (
        result.exit_code,
        result.stdout,
        result.stderr.lstrip("\n"),
    )


def test_wrong_usage_is_code_2() -> None:
    """
    The usage of a command, an option or an argument may be wrong.
    """
    for arguments in (["no"], ["verify"], ["dump", "x", "--from", "-1"]):
        result = run(*arguments)

        assert 2 == result.exit_code
        assert "Usage:" in result.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_and_json(name: str) -> None:
    """
    The help shows both.
    """
    result = run(name, "--help")

    assert 0 == result.exit_code
    assert f"  pystore {name}" in result.output
    assert "--json" in result.output


def test_a_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    """
    ``pystore dump | head`` prints no error and ends with a shell's code for SIGPIPE.
    """
    root = make_store(tmp_path / "s", 3000)
    command = [*PYSTORE, "dump", str(root)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        error = process.stderr.read()

    assert (141, b"") == (process.returncode, error)


def test_a_full_disk_under_the_output_is_an_error(tmp_path: Path) -> None:
    """
    Lost output is not success.
    """
    root = make_store(tmp_path / "s", 3000)
    with Path("/dev/full").open("wb") as full:
        found = subprocess.run(
            [*PYSTORE, "dump", str(root)],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )

    assert (3, b"pystore: No space left on device\n") == (
        found.returncode,
        found.stderr,
    )


@pytest.mark.parametrize("name", ["dump", "info", "recover", "epochs", "verify"])
def test_a_missing_directory_is_one_line(name: str, tmp_path: Path) -> None:
    """
    The line has the path; there is no traceback.
    """
    found = run_process(name, tmp_path / "missing")

    (line,) = found.stderr.splitlines()
    assert 3 == found.returncode
    assert line.startswith(b"pystore: ")
    assert str(tmp_path / "missing").encode() in line


@pytest.mark.parametrize("name", ["dump", "info", "recover", "epochs", "verify"])
def test_a_directory_that_is_not_a_store_is_one_line(name: str, tmp_path: Path) -> None:
    """
    Other files in it do not matter.
    """
    (tmp_path / "file").write_text("x")
    found = run_process(name, tmp_path)

    (line,) = found.stderr.splitlines()
    assert 3 == found.returncode
    assert b"not a store" in line
    assert ["file"] == [path.name for path in tmp_path.iterdir()]


def test_a_command_imports_only_its_own_modules(tmp_path: Path) -> None:
    """A command that reads a store imports neither controllers nor Spark."""
    script = (
        "import sys\n"
        "from pystore.cli import main\n"
        "try:\n    main(['info', sys.argv[1]])\n"
        "except SystemExit:\n    pass\n"
        "print([n for n in sys.modules if n.startswith(('pystore.controller', "
        "'pystore.remoting', 'pystore.ha.', 'pystore.spark', 'asyncio'))])\n"
    )
    make_store(tmp_path / "store")

    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "store")],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "[]" == done.stdout.splitlines()[-1]


def test_ctrl_c_while_modules_are_read_is_one_line() -> None:
    """
    There is no command yet that could handle it.
    """
    script = """
import runpy, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
sys.argv = ["pystore", "--help"]
runpy.run_module("pystore", run_name="__main__")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (130, "", "pystore: interrupted\n") == (
        done.returncode,
        done.stdout,
        done.stderr,
    )
