"""
Verifies a whole store: records, seals, consume queues, small files.

Several threads first scan the segments. Afterwards the bounds that an opening would use
(`pystore.recovery.dry_run`) decide whether a bad record is damage. So the log is read
once.

Nothing is written and no lock is taken. Another process may append to the store
meanwhile: the log is checked up to its end at the beginning.
"""

from __future__ import annotations

import time
from pathlib import Path

from pystore.core.lock import running_writer
from pystore.core.log_reader import LogReader
from pystore.errors import NotAStoreError
from pystore.fs.layout import ABORT, require_store
from pystore.recovery.rocketmq import find_above
from pystore.recovery.segments import Segments, nonzero_end
from pystore.recovery.torn_tail import Bound, Evidence
from pystore.store.open_reader import binding_page
from pystore.verify.bound import find_bound
from pystore.verify.queues import QueueCheck
from pystore.verify.report import Damage, SegmentReport, StoreReport
from pystore.verify.scan_pool import ProgressCallback, SegmentWork
from pystore.verify.seals import SealCheck
from pystore.verify.tail import EndDecision, decide_end

__all__ = ["verify_store"]


def verify_store(
    root: Path,
    jobs: int = 2,
    progress: ProgressCallback | None = None,
) -> StoreReport:
    """
    Checks every record, seal and consume queue of a store.

    Args:
        root: the directory of the store.
        jobs: the number of threads; each scans one segment at a time.
        progress: called about ten times a second.

    Raises:
        NotAStoreError: missing, or not a store.
        CutError: the log was cut meanwhile; try again.
        StorageError: the system refused.
    """
    require_store(root)
    began = time.monotonic()
    report = StoreReport(str(root))
    try:
        _verify(root, jobs, progress, report)
    except NotAStoreError as error:
        # A store whose segments do not fit together is a damaged store.
        path = error.path or str(root)
        report.damages.append(Damage(path, error.offset, str(error)))
    report.seconds = time.monotonic() - began
    return report


def _verify(
    root: Path, jobs: int, progress: ProgressCallback | None, report: StoreReport
) -> None:
    page = binding_page(root)
    seals = SealCheck(root)
    with LogReader(root, None, page) as log, QueueCheck(root, log) as queues:
        ends, segments = log.ends(), Segments(log)
        bound = find_bound(root, segments, queues.queues, page, report.damages)
        # Only without valid bounds does the store time mark bytes as stale (A8).
        stale_above = None if isinstance(bound, Bound) else bound.stale_above
        work = SegmentWork(log, queues, seals, stale_above)
        reports = work.run(jobs, progress)
        decision = decide_end(
            root,
            reports,
            min_offset=ends.min_offset,
            segment_size=ends.segment_size,
            bound=bound,
            behind=lambda offset: find_above(
                segments, queues.queues, offset, _times(bound)
            ),
        )
        end = decision.end_offset
        report.queues = queues.finish(end, _unscanned(decision))
        may_be_torn = (
            (page is not None and (root / ABORT).exists())
            or decision.torn_reason
            or any(one.base_offset >= end and not one.is_empty for one in reports)
        )
        if may_be_torn and not decision.damages and running_writer(root) is None:
            with LogReader(root) as whole:
                behind_end = nonzero_end(root, Segments(whole), end)
            report.torn_bytes = behind_end - end
    _sum_up(report, reports)
    report.records = decision.records
    report.min_offset, report.end_offset = ends.min_offset, end
    report.torn_reason = decision.torn_reason
    if report.torn_bytes and not report.torn_reason:
        report.torn_reason = "there are bytes after the end"
    report.seals = work.seals_checked
    report.damages += decision.damages + report.queues.damages
    report.damages += seals.damages + work.seal_damages
    report.damages.sort(key=lambda damage: damage.offset or 0)


def _times(bound: Bound | Evidence) -> int:
    return 0 if isinstance(bound, Bound) else bound.checkpoint_ms


def _unscanned(decision: EndDecision) -> list[tuple[int, int]]:
    return [
        (damage.offset, damage.offset + damage.skipped_bytes)
        for damage in decision.damages
        if damage.offset is not None
    ]


def _sum_up(report: StoreReport, reports: list[SegmentReport]) -> None:
    report.segments = len(reports)
    for one in reports:
        report.scanned_bytes += one.scanned_bytes
        report.unproved += one.unproved
        report.uncovered_bytes += one.uncovered_bytes
