"""
The demo: a writer is killed several times, and no acknowledged record is lost.

Each round starts a writer process and reads its acknowledgements from a pipe. In all
rounds but the last, SIGKILL kills the writer while it appends. Then this process opens
the store, which recovers it. It reads all acknowledged records back, closes the store
and verifies every record.
"""

from __future__ import annotations

import contextlib
import fcntl
import signal
import subprocess
import sysconfig
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pystore.demo.ack_channel import ACK_DTYPE, Acks, read_acks
from pystore.demo.compare import compare
from pystore.demo.corpus import Corpus, read_corpus
from pystore.demo.replicas import ReplicaReport, StepCallback
from pystore.demo.workload import AppendJobs
from pystore.demo.writer_process import Task
from pystore.errors import PystoreError
from pystore.store.commit_log import CommitLog
from pystore.verify import verify_store

__all__ = ["DemoReport", "DemoRound", "DemoSettings", "run_demo"]


_PIPE_BYTES = 4096


class WriterFailed(PystoreError):
    """
    The writer process ended with an error.
    """


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """
    The settings of the demo.

    Attributes:
        store: an empty or missing directory.
        repeat: how many times the files are appended.
        kills: number of writers that are killed.
        threads: number of threads of a writer.
        segment_size: in bytes.
        library: folder of the files; ``None``: the running Python's standard library.
    """

    store: Path
    repeat: int
    kills: int = 5
    threads: int = 4
    segment_size: int = 256 << 20
    library: Path | None = None


@dataclass(slots=True)
class DemoRound:
    """
    One writer process, and the state of the store after it.

    Attributes:
        number: of the round, from 1.
        is_killed: whether SIGKILL ended the writer; else the writer completed its work,
            perhaps before the signal arrived.
        records: number of records that the writer acknowledged.
        log_bytes: size of these records.
        append_seconds: from the first acknowledgement to the last.
        recovery_seconds: that opening the store took.
        cut_bytes, cut_reason: bytes that the recovery cut, and why.
        scanned_bytes: bytes that the recovery checked.
        compared: number of acknowledged records read back, of all rounds.
        compare_seconds: that reading them took.
        missing: number of acknowledged records that are missing.
        problem: text about the first missing one.
        verified: number of records in the log.
        verified_bytes: size of the log.
        verify_seconds: that the verification took.
        verdict: of the verification.
        extra: number of records in the log without an acknowledgement.
    """

    number: int
    is_killed: bool = False
    records: int = 0
    log_bytes: int = 0
    append_seconds: float = 0.0
    recovery_seconds: float = 0.0
    cut_bytes: int = 0
    cut_reason: str = ""
    scanned_bytes: int = 0
    compared: int = 0
    compare_seconds: float = 0.0
    missing: int = 0
    problem: str = ""
    verified: int = 0
    verified_bytes: int = 0
    verify_seconds: float = 0.0
    verdict: str = ""
    extra: int = 0


@dataclass(slots=True)
class DemoReport:
    """
    The result of the demo.

    Attributes:
        store: root of the store.
        corpus: the appended files.
        repeat: how many times they were appended.
        rounds: one for each writer.
        body_bytes: size of the bodies of all acknowledged records.
        seconds: that the demo took.
        replicas: result of the verification on Spark; ``None``: it was not requested.
    """

    store: Path
    corpus: Corpus
    repeat: int
    rounds: list[DemoRound] = field(default_factory=list)
    body_bytes: int = 0
    seconds: float = 0.0
    replicas: ReplicaReport | None = None

    @property
    def is_good(self) -> bool:
        """
        Whether no record was missing, and only the planted damage was found.
        """
        if self.replicas is not None and not self.replicas.is_good:
            return False
        return all(one.missing == 0 and one.verdict == "whole" for one in self.rounds)


def run_demo(settings: DemoSettings, note: StepCallback) -> DemoReport:
    """
    Runs the demo.

    Raises:
        WriterFailed: a writer ended with an error.
        PystoreError: the store cannot be opened.
    """
    began = time.monotonic()
    library = settings.library or Path(sysconfig.get_path("stdlib"))
    note("reading the files", 0, 0)
    corpus = read_corpus(library)
    demo = _Demo(settings, library, AppendJobs(corpus, settings.repeat), note)
    report = DemoReport(settings.store, corpus, settings.repeat)
    while demo.has_pending:
        report.rounds.append(demo.round(len(report.rounds) + 1))
    report.body_bytes = demo.body_bytes
    report.seconds = time.monotonic() - began
    return report


class _Demo:
    """
    The state between rounds: the acknowledgements.
    """

    def __init__(
        self,
        settings: DemoSettings,
        library: Path,
        jobs: AppendJobs,
        note: StepCallback,
    ) -> None:
        self._settings = settings
        self._task = Task(
            settings.store, library, settings.segment_size, settings.threads
        )
        self._jobs = jobs
        self._note = note
        self._acks: list[Acks] = []
        self.body_bytes = 0

    @property
    def has_pending(self) -> bool:
        """
        Whether there are jobs without an acknowledgement.
        """
        return len(self._acknowledged()) < self._jobs.count

    def round(self, number: int) -> DemoRound:
        """
        Starts a writer, kills it unless it is the last one, and checks the store.
        """
        kills = self._settings.kills
        # The kills are spread evenly, so that each finds a longer log.
        limit = self._jobs.count * number // (kills + 1) if number <= kills else None
        found = DemoRound(number)
        acks = self._write(found, limit)
        self._acks.append(acks)
        found.records = int(acks["count"].sum())
        found.log_bytes = int((acks["end"] - acks["offset"]).sum())
        self._read_back(found)
        self._verify(found)
        return found

    def _acknowledged(self) -> Acks:
        return np.concatenate([np.zeros(0, ACK_DTYPE), *self._acks])

    def _pending(self) -> NDArray[np.int64]:
        done = self._acknowledged()["job"]
        return np.setdiff1d(np.arange(self._jobs.count), done)

    def _write(self, found: DemoRound, limit: int | None) -> Acks:
        """
        Runs a writer until *limit* of all jobs are acknowledged; ``None``: all jobs.
        """
        pending = self._pending()
        done = self._jobs.count - len(pending)
        read: list[Acks] = [np.zeros(0, ACK_DTYPE)]
        first = last = 0.0
        with self._start(pending) as process:
            assert process.stdout is not None
            try:
                for acks in read_acks(process.stdout.fileno()):
                    last = time.monotonic()
                    first = first or last
                    read.append(acks)
                    done += len(acks)
                    self._note(f"writer {found.number}: append", done, self._jobs.count)
                    if limit is not None and done >= limit:
                        process.send_signal(signal.SIGKILL)
            except BaseException:
                # After any error the writer must not stay.
                process.kill()
                raise
        code = process.returncode
        found.is_killed = code == -signal.SIGKILL
        if code and (limit is None or not found.is_killed):
            raise WriterFailed(
                f"writer {found.number} ended with code {code}: see the error above",
                path=str(self._settings.store),
            )
        found.append_seconds = last - first
        return np.concatenate(read)

    def _start(self, pending: NDArray[np.int64]) -> subprocess.Popen[bytes]:
        # In its own session the writer gets no Ctrl-C; this process kills it then.
        process = subprocess.Popen(
            self._task.arguments(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            # A short pipe, so that few acknowledgements are in it at a kill.
            fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
            # The exit code reports a writer that failed at its start.
            stdin.write(pending.tobytes())
        return process

    def _read_back(self, found: DemoRound) -> None:
        began = time.monotonic()
        self._note(f"writer {found.number}: recover", 0, 0)
        with CommitLog(self._settings.store, create=False) as log:
            found.recovery_seconds = time.monotonic() - began
            found.cut_bytes = log.recovery.cut_bytes
            found.cut_reason = log.recovery.cut_reason
            found.scanned_bytes = log.recovery.scanned_bytes
            began = time.monotonic()
            label = f"writer {found.number}: compare"
            acks = self._acknowledged()
            result = compare(
                log.reader,
                acks,
                self._jobs,
                lambda done: self._note(label, done, len(acks)),
            )
            found.compare_seconds = time.monotonic() - began
        found.compared, found.missing = result.records, result.missing
        found.problem = result.problem
        self.body_bytes = result.body_bytes

    def _verify(self, found: DemoRound) -> None:
        label = f"writer {found.number}: verify"
        report = verify_store(
            self._settings.store,
            progress=lambda done, total: self._note(label, done, total),
        )
        found.verified, found.verified_bytes = report.records, report.scanned_bytes
        found.verify_seconds, found.verdict = report.seconds, report.verdict
        found.extra = report.records - (found.compared - found.missing)
        if report.damages and not found.problem:
            found.problem = report.damages[0].reason
