"""
Runs `pystore` for tests: in this process, or as a separate process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import IO, Any, NamedTuple

from click.testing import CliRunner, Result

from pystore.cli import main
from pystore.message.columns import gather_columns
from pystore.store.commit_log import CommitLog

SEGMENT = 65536

PYSTORE = (sys.executable, "-m", "pystore")
"""The command of a separate process."""


def run(*arguments: str | Path) -> Result:
    """
    Runs a command in this process.
    """
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def run_json(*arguments: str | Path, exit_code: int = 0) -> dict[str, Any]:
    """
    Runs a command with ``--json`` and returns the printed object.
    """
    result = run(*arguments, "--json")
    assert exit_code == result.exit_code, result.output
    (line,) = result.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    assert 1 == found["schemaVersion"]
    assert "schemaVersion" == next(iter(found))
    return found


def run_process(
    *arguments: str | Path, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """
    Runs a command as a separate process.
    """
    command = [*PYSTORE, *(str(argument) for argument in arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, check=False)


class Ended(NamedTuple):
    """
    The exit code of a command, negative after a signal, and what it wrote.
    """

    code: int
    stdout: str
    stderr: str


def run_forked(*arguments: str | Path) -> Ended:
    """
    Runs a command in a copy of this process, which has imported it.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with warnings.catch_warnings():
            # Threads of other tests may live; the child uses none of theirs.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            _run_and_end([str(argument) for argument in arguments], out, err)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return Ended(code, _text(out), _text(err))


def _run_and_end(arguments: list[str], out: IO[bytes], err: IO[bytes]) -> None:
    code = 70
    try:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
        sys.stderr = os.fdopen(2, "w", encoding="utf-8")
        main(arguments)
    except SystemExit as ended:
        # The way in which a command ends.
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        # Nothing of the parent may run here.
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def make_store(root: Path, records: int = 1500, **options: Any) -> Path:
    """
    Writes a store of several segments and closes it.
    """
    with CommitLog(root, segment_size=SEGMENT, **options) as log:
        bodies = [b"body %d" % number for number in range(records)]
        log.append_columns(gather_columns("topic", bodies))
    return root


def segment_file(root: Path, base: int = 0) -> Path:
    """
    Returns the file of a segment.
    """
    return root / "commitlog" / f"{base:020d}"


def overwrite(path: Path, at: int, data: bytes) -> None:
    """
    Changes bytes of a file.
    """
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)
