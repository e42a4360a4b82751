"""
The writer process of the demo: it appends until all jobs are done, or it is killed.

It reads its jobs from standard input, and writes an acknowledgement of each to standard
output.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pystore.demo.ack_channel import send_ack
from pystore.demo.corpus import read_corpus
from pystore.demo.workload import AppendJobs
from pystore.store.commit_log import CommitLog
from pystore.store.maintenance import open_log

__all__ = ["Task", "write"]


@dataclass(frozen=True, slots=True)
class Task:
    """
    The arguments of a writer process.

    Attributes:
        store: root of the store.
        library: folder of the files.
        segment_size: of a new store, in bytes.
        threads: number of appending threads.
    """

    store: Path
    library: Path
    segment_size: int
    threads: int

    def arguments(self) -> list[str]:
        """
        Returns the command line of the process.
        """
        numbers = [str(self.segment_size), str(self.threads)]
        module = ["-m", "pystore.demo.writer_process"]
        return [sys.executable, *module, str(self.store), str(self.library), *numbers]

    @classmethod
    def parse(cls, arguments: list[str]) -> Task:
        """
        Parses the result of ``arguments``, in the writer process.
        """
        store, library, segment_size, threads = arguments
        return cls(Path(store), Path(library), int(segment_size), int(threads))


def write(task: Task, pending: NDArray[np.int64], pipe: int) -> None:
    """
    Appends the pending jobs with several threads.

    Args:
        task: the arguments.
        pending: numbers of the jobs.
        pipe: descriptor for the acknowledgements.

    Raises:
        PystoreError: an append failed.
    """
    jobs = AppendJobs(read_corpus(task.library), repeat=1)
    waiting = deque(pending.tolist())
    with (
        open_log(task.store, segment_size=task.segment_size) as log,
        ThreadPoolExecutor(task.threads, "append") as pool,
    ):
        threads = [
            pool.submit(_append, log, jobs, waiting, pipe) for _ in range(task.threads)
        ]
        for thread in threads:
            thread.result()


def _append(log: CommitLog, jobs: AppendJobs, waiting: deque[int], pipe: int) -> None:
    while waiting:
        try:
            number = waiting.popleft()
        except IndexError:
            # Another thread took the last one.
            return
        send_ack(pipe, number, log.append_columns(jobs.piece(number).columns()))


if __name__ == "__main__":
    write(
        Task.parse(sys.argv[1:]),
        np.frombuffer(sys.stdin.buffer.read(), np.int64),
        os.dup(sys.stdout.fileno()),
    )
