"""
Several threads scan several segments, and the first failure stops all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

from pystore.core.log_reader import LogReader
from pystore.errors import CutError
from pystore.message.columns import gather_columns
from pystore.store.commit_log import CommitLog
from pystore.verify.queues import QueueCheck
from pystore.verify.scan_pool import SegmentWork
from pystore.verify.seals import SealCheck

SEGMENT = 16384


def make_store(root: Path) -> None:
    """
    Writes a dozen segments.
    """
    with CommitLog(root, segment_size=SEGMENT) as log:
        log.append_columns(gather_columns("topic", [b"body"] * 1500))


@pytest.mark.parametrize("jobs", [1, 3])
def test_any_number_of_threads_has_the_same_result(jobs: int, tmp_path: Path) -> None:
    """
    The reports come in the order of the log.
    """
    root = tmp_path / "s"
    make_store(root)
    with LogReader(root) as log, QueueCheck(root, log) as queues:
        bases = log.segments()
        reports = SegmentWork(log, root, queues, SealCheck(root)).run(jobs)

    assert bases == [report.base_offset for report in reports]
    assert 1500 == sum(report.records for report in reports)


class FailingCheck(QueueCheck):
    """
    Fails in the middle, as a cut by another process would.
    """

    calls = 0

    def note(self, rows: NDArray[Any]) -> None:
        """
        Counts the calls and fails at the third.
        """
        FailingCheck.calls += 1
        if FailingCheck.calls == 3:
            raise CutError("cut meanwhile")
        super().note(rows)


def test_the_first_failure_is_raised_and_stops_the_others(tmp_path: Path) -> None:
    """
    Segments that were not yet begun are not scanned.
    """
    root = tmp_path / "s"
    make_store(root)
    FailingCheck.calls = 0
    with (
        LogReader(root) as log,
        FailingCheck(root, log) as queues,
        pytest.raises(CutError, match="cut meanwhile"),
    ):
        SegmentWork(log, root, queues, SealCheck(root)).run(1)

    assert FailingCheck.calls < len(list((root / "commitlog").iterdir()))
