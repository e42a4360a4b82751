"""
A running writer is found without taking the lock of the store.
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
    There is none after the close; the check does not disturb the writer.
    """
    with CommitLog(tmp_path / "s"):
        assert os.getpid() == running_writer(tmp_path / "s")
        asked = [sys.executable, "-c", ASK, str(tmp_path / "s")]
        seen = subprocess.run(asked, check=True, capture_output=True, text=True)
        assert str(os.getpid()) == seen.stdout.strip()

    assert running_writer(tmp_path / "s") is None


def test_a_process_that_died_writes_no_more(tmp_path: Path) -> None:
    """
    Its ``abort`` is still there.
    """
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    (tmp_path / ABORT).write_bytes(abort_text(process.pid, BITS))

    assert running_writer(tmp_path) is None


def test_a_process_that_has_the_number_of_a_dead_one_is_no_writer(
    tmp_path: Path,
) -> None:
    """
    Process ids repeat: soon in a container, which reuses a few of them.
    """
    CommitLog(tmp_path / "s").close()
    for text in (abort_text(os.getpid(), BITS), b"%d" % os.getpid()):
        (tmp_path / "s" / ABORT).write_bytes(text)

        assert running_writer(tmp_path / "s") is None


def test_a_store_with_an_unreadable_lock_counts_as_closed(
    tmp_path: Path,
) -> None:
    """
    A lock that cannot be opened, here a loop of links, gives no writer.
    """
    (tmp_path / ABORT).write_bytes(b"4321")
    (tmp_path / "lock").symlink_to(tmp_path / "lock")

    assert running_writer(tmp_path) is None
