"""
A Spark session ends with the process that started it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from pystore.store.commit_log import CommitLog

SEGMENT = 1 << 16
PATIENCE_S = 180


def _await(what: str, is_there: bool, group: int) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while bool(_others(group)) != is_there:
        assert time.monotonic() < end_s, what
        time.sleep(0.01)


def _others(group: int) -> list[int]:
    """
    The processes of Spark in a process group, without its leader.
    """
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            words = (folder / "cmdline").read_bytes()
        except OSError:
            # It ended meanwhile.
            continue
        # Spark first runs Java to get its version.
        if int(fields[2]) == group != int(folder.name) and b"spark" in words:
            found.append(int(folder.name))
    return found


def test_an_interrupt_while_spark_starts_leaves_no_process_behind(
    tmp_path: Path,
) -> None:
    """
    Ctrl-C comes as soon as PySpark waits for its Java process.
    """
    CommitLog(tmp_path, segment_size=SEGMENT).close()
    with subprocess.Popen(
        [sys.executable, "-m", "pystore", "spark", "verify", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as command:
        try:
            _await("Spark never began", is_there=True, group=command.pid)
            os.kill(command.pid, signal.SIGINT)
            _, message = command.communicate(timeout=PATIENCE_S)
            assert 130 == command.returncode, message
            assert b"Traceback" not in message
            _await("Java was left behind", is_there=False, group=command.pid)
        finally:
            command.kill()
            for one in _others(command.pid):
                os.kill(one, signal.SIGKILL)
