"""
Scans the segments of one log with several threads.

The threads spend their time in the C core, without the interpreter lock. They take the
segments in order, so that two threads read neighbouring files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pystore.bindings.ffi import NO_OFFSET
from pystore.core.log_reader import LogReader
from pystore.damage.segment_walk import SegmentReport, walk_segment
from pystore.fs.layout import segment_path
from pystore.verify.answers import require_readable
from pystore.verify.coverage import uncovered_bytes
from pystore.verify.queues import QueueCheck
from pystore.verify.report import Damage
from pystore.verify.seals import SealCheck

__all__ = ["ProgressCallback", "SegmentWork"]

_POLL_SECONDS = 0.1

ProgressCallback = Callable[[int, int], None]
"""Called with the checked and the total bytes, by the thread that called `run`."""


class _Stopped(Exception):
    """
    Another thread failed, or the user stopped the scan.
    """


class SegmentWork:
    """
    The work on each segment, and its results.

    Args:
        log: the log to scan.
        root: of the store.
        queues: compares the records with the queue entries.
        seals: compares the segments with their seals.
        torn_from: as in `walk_segment`.

    Attributes:
        seals_checked: the number of segments compared with their seals.
        seal_damages: the differences.
    """

    def __init__(
        self,
        log: LogReader,
        root: Path,
        queues: QueueCheck,
        seals: SealCheck,
        torn_from: int = NO_OFFSET,
    ) -> None:
        self._log = log
        self._root = root
        self._torn_from = torn_from
        self._queues = queues
        self._seals = seals
        ends = log.ends()
        self._size = ends.segment_size
        self._end = ends.published_end
        self._bases = [base for base in log.segments() if base < self._end]
        self._ill = {one.offset - one.offset % self._size for one in log.ill()}
        self._lock = threading.Lock()
        self._done_bytes = 0
        self._error: Exception | None = None
        self._is_stopping = False
        self.seals_checked = 0
        self.seal_damages: list[Damage] = []

    def run(
        self, jobs: int, progress: ProgressCallback | None = None
    ) -> list[SegmentReport]:
        """
        Scans every segment and returns the reports, by ascending offset.

        Args:
            jobs: the number of threads.
            progress: called about ten times a second.

        Raises:
            PystoreError: the error of the first thread that failed.
        """
        total = sum(min(self._size, self._end - base) for base in self._bases)
        with ThreadPoolExecutor(jobs, "verify") as pool:
            tasks = [pool.submit(self._run, base) for base in self._bases]
            try:
                pending = set(tasks)
                while pending:
                    _, pending = wait(pending, _POLL_SECONDS)
                    if progress is not None:
                        progress(self._done_bytes, total)
            finally:
                # After Ctrl-C the pool waits for its threads, which soon read this.
                self._is_stopping = True
        if self._error is not None:
            raise self._error
        return [task.result() for task in tasks]

    def _run(self, base: int) -> SegmentReport:
        try:
            return self._check(base)
        except _Stopped:
            # Another thread has the reason.
            raise
        except Exception as error:
            # `run` raises it; the other threads can stop.
            self._error = self._error or error
            self._is_stopping = True
            raise

    def _check(self, base: int) -> SegmentReport:
        if self._is_stopping:
            raise _Stopped
        if base not in self._ill:
            require_readable(segment_path(self._root, base))
        end = min(base + self._size, self._end)
        report = walk_segment(
            self._log,
            base,
            end,
            self._note,
            uncovered=uncovered_bytes,
            columns=self._queues.columns,
            torn_from=self._torn_from,
        )
        # A cut that is not finished leaves the seal of a segment that it shortens.
        is_whole = report.is_full and end == base + self._size
        if is_whole and base in self._seals.bases and base not in self._ill:
            damages = self._seals.check(self._log, base)
            with self._lock:
                self.seals_checked += 1
                self.seal_damages += damages
        # Bytes that were not scanned count as done, too.
        self._advance(end - base - report.row_bytes)
        return report

    def _note(self, rows: NDArray[Any]) -> None:
        if self._is_stopping:
            raise _Stopped
        self._queues.note(rows)
        self._advance(int(rows["size"].sum()))

    def _advance(self, size_bytes: int) -> None:
        with self._lock:
            self._done_bytes += size_bytes
