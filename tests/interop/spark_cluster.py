"""
A standalone cluster of Spark: a master and workers, all separate processes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

__all__ = ["Cluster", "start_cluster"]

_BIN = Path(pyspark.__file__).parent / "bin"
_ADDRESS = re.compile(r"spark://127\.0\.0\.1:[0-9]+")
_START_SECONDS = 60


@dataclass(frozen=True)
class Cluster:
    """
    A running cluster.

    Attributes:
        master: the address of the master.
        workers: the process ids of the workers.
    """

    master: str
    workers: tuple[int, ...]

    def submit(
        self, script: Path, *arguments: str | Path, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """
        Runs a script with spark-submit to its end.
        """
        command: list[str | Path] = [_BIN / "spark-submit", "--master", self.master]
        command += ["--conf", "spark.driver.host=127.0.0.1", script, *arguments]
        return subprocess.run(
            command,
            env=_environment() | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )


def _environment() -> dict[str, str]:
    return os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


@contextmanager
def start_cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """
    Starts a master and workers of one core each, and kills them at the end.

    Args:
        folder: for logs and working directories.
        workers: the number of workers.
    """
    with ExitStack() as stack:
        log = folder / "master.log"
        options = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        _start(stack, log, "Master", options)
        master = _wait(log, _ADDRESS)
        pids = []
        for number in range(workers):
            work = folder / f"work{number}"
            log = folder / f"worker{number}.log"
            options = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g"]
            options += ["--webui-port", "0", "--work-dir", str(work), master]
            pids.append(_start(stack, log, "Worker", options))
            _wait(log, re.compile("Successfully registered with master"))
        yield Cluster(master, tuple(pids))


def _start(stack: ExitStack, log: Path, role: str, options: list[str]) -> int:
    kind = f"org.apache.spark.deploy.{role.lower()}.{role}"
    output = stack.enter_context(log.open("w"))
    process = subprocess.Popen(
        [_BIN / "spark-class", kind, *options],
        env=_environment(),
        stdout=output,
        stderr=output,
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process.pid


def _wait(log: Path, pattern: re.Pattern[str]) -> str:
    """
    Returns the match in the log when the process is ready.
    """
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        found = pattern.search(log.read_text())
        if found:
            return found[0]
        time.sleep(0.05)
    raise TimeoutError(f"{log}:\n{log.read_text()}")
