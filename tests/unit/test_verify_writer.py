"""
Whether somebody writes a store can be seen without touching its lock.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pystore.exports import ABORT, abort_text
from pystore.log import CommitLog
from pystore.verify.writer import running_writer

BITS = "1-" + "0" * 32


def test_the_process_that_has_a_store_open_is_named(tmp_path: Path) -> None:
    """
    And nobody is, once it is closed.
    """
    with CommitLog(tmp_path / "s"):
        assert os.getpid() == running_writer(tmp_path / "s")

    assert running_writer(tmp_path / "s") is None


def test_a_process_that_died_writes_no_more(tmp_path: Path) -> None:
    """
    Its ``abort`` stays behind.
    """
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    (tmp_path / ABORT).write_bytes(abort_text(process.pid, BITS))

    assert running_writer(tmp_path) is None


def test_a_text_without_a_process_names_nobody(tmp_path: Path) -> None:
    """
    Garbage, and a number that no process can have.
    """
    for text in (b"garbage", b"9999999999999999999"):
        (tmp_path / ABORT).write_bytes(text)
        assert running_writer(tmp_path) is None
