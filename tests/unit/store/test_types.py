"""
A type checker finds a misspelled ack or mode.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

GOOD = """
from pathlib import Path
import pystore

with pystore.open_store("s", mode="w", flush_interval_ms=10) as store:
    store.log.append(pystore.Message("t", b""), ack="leader-synced")
    store.log.append_batch([], ack="leader")
with pystore.CommitLog(Path("s"), mode="r") as log:
    print(log.end_offset, pystore.__version__, pystore.inspect("s"))
"""

BAD = {
    'ack="leader-synced"': 'ack="leader-sync"',
    'ack="leader"': 'ack="all"',
    'mode="r"': 'mode="rw"',
    'mode="w"': 'mode="a"',
    "flush_interval_ms=10": "flush_intervall_ms=10",
}


def _check(folder: Path, text: str) -> str:
    file = folder / "program.py"
    file.write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary"]
    command += ["--follow-imports=silent", "--config-file=", str(file)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "" == run.stderr
    return run.stdout


@pytest.mark.slow
def test_a_type_checker_accepts_a_program_and_finds_each_misspelling(
    tmp_path: Path,
) -> None:
    """
    At the line of the mistake, before the program runs.
    """
    assert "" == _check(tmp_path, GOOD)
    text = GOOD
    for right, wrong in BAD.items():
        assert right in text
        text = text.replace(right, wrong, 1)
    found = _check(tmp_path, text)

    for number, line in enumerate(text.splitlines(), 1):
        if any(wrong in line for wrong in BAD.values()):
            assert f"program.py:{number}: error:" in found, found
