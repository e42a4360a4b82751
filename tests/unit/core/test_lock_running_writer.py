"""
Whether somebody writes a store can be seen without taking its lock.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pystore.core.lock import running_writer
from pystore.fs.layout import ABORT
from pystore.rocketmq.abort_file import abort_text
from pystore.store.commit_log import CommitLog

BITS = "1-" + "0" * 32
ASK = """
import sys
from pathlib import Path
from pystore.core.lock import running_writer
print(running_writer(Path(sys.argv[1])))
"""


def test_the_process_that_has_a_store_open_is_named(tmp_path: Path) -> None:
    """
    And nobody is, once it is closed; to look takes nothing from who writes.
    """
    with CommitLog(tmp_path / "s"):
        assert os.getpid() == running_writer(tmp_path / "s")
        asked = [sys.executable, "-c", ASK, str(tmp_path / "s")]
        seen = subprocess.run(asked, check=True, capture_output=True, text=True)
        assert str(os.getpid()) == seen.stdout.strip()

    assert running_writer(tmp_path / "s") is None


def test_a_process_that_died_writes_no_more(tmp_path: Path) -> None:
    """
    Its ``abort`` stays behind.
    """
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    (tmp_path / ABORT).write_bytes(abort_text(process.pid, BITS))

    assert running_writer(tmp_path) is None


def test_a_process_that_has_the_number_of_a_dead_one_is_no_writer(
    tmp_path: Path,
) -> None:
    """
    Numbers come back: soon in a container, where the same few are given each time.
    """
    CommitLog(tmp_path / "s").close()
    for text in (abort_text(os.getpid(), BITS), b"%d" % os.getpid()):
        (tmp_path / "s" / ABORT).write_bytes(text)

        assert running_writer(tmp_path / "s") is None


def test_a_store_whose_lock_may_not_be_read_is_judged_as_it_lies(
    tmp_path: Path,
) -> None:
    """
    A lock that cannot be opened, here a loop of links, tells nothing.
    """
    (tmp_path / ABORT).write_bytes(b"4321")
    (tmp_path / "lock").symlink_to(tmp_path / "lock")

    assert running_writer(tmp_path) is None
