"""
Runs `pystore` for tests: in this process, or as a separate process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

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
