"""
The first thing a user does with an installed wheel: append, read back, reopen.

Runs with no more than the wheel and its dependencies; prints one line.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pystore


def main() -> None:
    """
    Asks the command, appends to a new log, reads back, and again after reopening.
    """
    assert sys.prefix in pystore.__file__, f"not the installed one: {pystore.__file__}"
    command = Path(sys.executable).parent / "pystore"
    said = subprocess.check_output([command, "--version"], text=True)
    assert said.split()[-1] == pystore.__version__, said
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "store"
        message = pystore.Message("smoke", b"body of the first record")
        with pystore.CommitLog(root) as log:
            offset = log.append(message).offset
            assert log.read(offset).body == message.body
        with pystore.CommitLog(root) as log:
            assert log.read(offset).body == message.body
    print(f"smoke: one record appended, read and read again from {pystore.__file__}")


if __name__ == "__main__":
    main()
