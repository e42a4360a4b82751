"""
A compaction on Spark in a process of its own, in which one process may be killed.

Arguments of the program: store, directory of the result, master. The environment names
the process to kill, and when. Workers inherit the environment, and load this file as
their ``sitecustomize``.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from pathlib import Path
from typing import Any

__all__ = ["KILL", "arm"]

KILL = "COMPACTION_KILL"
"""
The kill as ``victim event path number``: the driver, or the executor of the task, is
killed before the event of this number on a path that contains these words. A file in
the result's directory counts the events of all processes, so that there is one kill.
"""


def arm() -> None:
    """
    Watches for the event, if the environment names one.
    """
    output = os.environ.get(KILL)
    if not output:
        return
    victim, wanted, words, number, ledger, driver = output.split()

    def count_event(event: str, arguments: tuple[Any, ...]) -> None:
        if event != wanted or not any(words in str(one) for one in arguments[:2]):
            return
        with open(ledger, "ab", buffering=0) as file:
            # Two workers at once are two events, not one.
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(b"x")
            count = os.fstat(file.fileno()).st_size
        if count == int(number):
            os.kill(int(driver) if victim == "driver" else _executor(), signal.SIGKILL)

    sys.addaudithook(count_event)


def _executor() -> int:
    """
    The JVM above this worker's daemon.
    """
    daemon = Path(f"/proc/{os.getppid()}/status").read_text()
    (above,) = (line.split()[1] for line in daemon.splitlines() if "PPid" in line)
    return int(above)


def _main(store: str, into: str, master: str) -> None:
    from lib.spark.compaction import CHOICE  # noqa: PLC0415
    from pystore.spark.compact.jobs import SparkJobs  # noqa: PLC0415
    from pystore.spark.compact.run import compact  # noqa: PLC0415
    from pystore.spark.session import open_session  # noqa: PLC0415

    if KILL in os.environ:
        os.environ[KILL] += f" {os.getpid()}"
    arm()
    settings = {"spark.speculation": "true", "spark.sql.shuffle.partitions": "2"}
    with open_session("killed", master, settings) as session:
        found = compact(SparkJobs(session), Path(store), Path(into), CHOICE)
    print("resumed" if found.is_resumed else "done")


if __name__ == "__main__":
    _main(*sys.argv[1:])
