"""
The writer process does its jobs and acknowledges each.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
from lib.demo_library import make_library

from pystore.demo.ack_channel import ACK_DTYPE
from pystore.demo.compare import compare
from pystore.demo.corpus import read_corpus
from pystore.demo.workload import AppendJobs
from pystore.demo.writer_process import Task
from pystore.store.commit_log import CommitLog


def test_a_task_survives_its_command_line() -> None:
    """
    Parsing the arguments gives the same task.
    """
    task = Task(Path("/s"), Path("/l"), 65536, 3)

    assert task == Task.parse(task.arguments()[-4:])


def test_every_pending_job_is_done_and_acknowledged_once(tmp_path: Path) -> None:
    """
    Only pending jobs are done, and the store is closed afterwards.
    """
    library = make_library(tmp_path / "library")
    jobs = AppendJobs(read_corpus(library), repeat=3)
    pending = np.arange(5, jobs.count)
    task = Task(tmp_path / "s", library, 65536, 3)
    done = subprocess.run(
        task.arguments(), input=pending.tobytes(), capture_output=True, check=True
    )
    acks = np.frombuffer(done.stdout, ACK_DTYPE)

    assert pending.tolist() == sorted(acks["job"].tolist())
    with CommitLog(tmp_path / "s") as log:
        assert log.recovery.is_clean
        assert 0 == compare(log.reader, acks, jobs).missing
        assert log.end_offset == max(acks["end"])


def test_a_writer_that_cannot_continue_ends_with_an_error(tmp_path: Path) -> None:
    """
    By its exit code; all acknowledged jobs are done.
    """
    library = make_library(tmp_path / "library")
    (tmp_path / "s").write_text("no directory")
    task = Task(tmp_path / "s", library, 65536, 3)
    done = subprocess.run(
        task.arguments(), input=bytes(8), capture_output=True, check=False
    )

    assert (1, b"") == (done.returncode, done.stdout)
    assert b"NotAStoreError" in done.stderr
