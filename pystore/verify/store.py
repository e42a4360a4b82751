"""
One store, all of it: records, seals, consume queues, small files.

The segments are scanned first, by several threads, since that is what takes
time. What a bad record means is decided afterwards, by the bounds that opening
the store would use (`pystore.recovery.dry_run`). So the log is read once.

Nothing is written and no lock is taken. A store may be verified while another
process appends to it: the log is checked as it was at the beginning.
"""

from __future__ import annotations

import time
from pathlib import Path

from pystore.core.lock import running_writer
from pystore.core.log_reader import LogReader
from pystore.errors import NotAStoreError
from pystore.fs.layout import ABORT, require_store
from pystore.recovery.rocketmq import behind
from pystore.recovery.segments import Segments, nonzero_end
from pystore.recovery.torn_tail import Bound, Evidence
from pystore.store.open_reader import binding_page
from pystore.verify.bound import find_bound
from pystore.verify.queues import QueueCheck
from pystore.verify.report import Damage, SegmentReport, StoreReport
from pystore.verify.scan_pool import ProgressCallback, SegmentWork
from pystore.verify.seals import SealCheck
from pystore.verify.tail import Judgement, judge

__all__ = ["verify_store"]


def verify_store(
    root: Path,
    jobs: int = 2,
    progress: ProgressCallback | None = None,
) -> StoreReport:
    """
    Checks every record, seal and consume queue of a store.

    Args:
        root: the store.
        jobs: threads; each scans a segment at a time.
        progress: told how far it is, about ten times a second.

    Raises:
        NotAStoreError: missing, or no store.
        CutError: the log was cut meanwhile; try again.
        StorageError: the system refused.
    """
    require_store(root)
    began = time.monotonic()
    report = StoreReport(str(root))
    try:
        _verify(root, jobs, progress, report)
    except NotAStoreError as error:
        # A store whose segments do not fit together is one, and a bad one.
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
        # Stale bytes are told by time only where no bounds of ours hold (A8).
        stale_above = None if isinstance(bound, Bound) else bound.stale_above
        work = SegmentWork(log, queues, seals, stale_above)
        reports = work.run(jobs, progress)
        judged = judge(
            root,
            reports,
            min_offset=ends.min_offset,
            segment_size=ends.segment_size,
            bound=bound,
            behind=lambda offset: behind(
                segments, queues.queues, offset, _times(bound)
            ),
        )
        end = judged.end_offset
        report.queues = queues.finish(end, _unseen(judged))
        may_be_torn = (
            (page is not None and (root / ABORT).exists())
            or judged.torn_reason
            or any(one.base_offset >= end and not one.is_empty for one in reports)
        )
        if may_be_torn and not judged.damages and running_writer(root) is None:
            with LogReader(root) as whole:
                behind_end = nonzero_end(root, Segments(whole), end)
            report.torn_bytes = behind_end - end
    _sum_up(report, reports)
    report.records = judged.records
    report.min_offset, report.end_offset = ends.min_offset, end
    report.torn_reason = judged.torn_reason
    if report.torn_bytes and not report.torn_reason:
        report.torn_reason = "bytes stand behind the end"
    report.seals = work.seals_checked
    report.damages += judged.damages + report.queues.damages
    report.damages += seals.damages + work.seal_damages
    report.damages.sort(key=lambda damage: damage.offset or 0)


def _times(bound: Bound | Evidence) -> int:
    return 0 if isinstance(bound, Bound) else bound.checkpoint_ms


def _unseen(judged: Judgement) -> list[tuple[int, int]]:
    return [
        (damage.offset, damage.offset + damage.skipped_bytes)
        for damage in judged.damages
        if damage.offset is not None
    ]


def _sum_up(report: StoreReport, reports: list[SegmentReport]) -> None:
    report.segments = len(reports)
    for one in reports:
        report.scanned_bytes += one.scanned_bytes
        report.unproved += one.unproved
        report.uncovered_bytes += one.uncovered_bytes
