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
from dataclasses import replace
from pathlib import Path

from pystore.core.lock import running_writer
from pystore.core.log_reader import LogReader
from pystore.core.options import LogOptions
from pystore.core.results import IllRange
from pystore.damage.segment_walk import SegmentReport
from pystore.errors import NotAStoreError
from pystore.fs.layout import require_store
from pystore.recovery.foreign_writer import is_closed
from pystore.recovery.segments import Segments, nonzero_end
from pystore.recovery.torn_tail import Bound
from pystore.store.open_reader import binding_page
from pystore.verify.answers import require_answers
from pystore.verify.bound import find_bound, find_dispatched
from pystore.verify.end_facts import StoreFacts
from pystore.verify.queues import QueueCheck
from pystore.verify.report import Damage, StoreReport
from pystore.verify.scan_pool import ProgressCallback, SegmentWork
from pystore.verify.seals import SealCheck
from pystore.verify.tail import decide_end

__all__ = ["verify_store"]


def verify_store(
    root: Path,
    jobs: int = 2,
    progress: ProgressCallback | None = None,
    *,
    is_locked: bool = False,
) -> StoreReport:
    """
    Checks every record, seal and consume queue of a store.

    Args:
        root: the directory of the store.
        jobs: the number of threads; each scans one segment at a time.
        progress: called about ten times a second.
        is_locked: whether the caller holds the lock of the store, so that no other
            process writes.

    Raises:
        NotAStoreError: missing, or not a store.
        CutError: the log was cut meanwhile; try again.
        StorageError: the system refused.
    """
    require_answers(root)
    require_store(root)
    began = time.monotonic()
    report = StoreReport(str(root))
    try:
        has_writer = not is_locked and running_writer(root) is not None
        _verify(root, jobs, progress, report, has_writer=has_writer)
    except NotAStoreError as error:
        # A store whose segments do not fit together is a damaged store.
        path = error.path or str(root)
        report.damages.append(
            Damage(path, error.offset, str(error), part="log", basis=("system",))
        )
    report.seconds = time.monotonic() - began
    return report


def _verify(
    root: Path,
    jobs: int,
    progress: ProgressCallback | None,
    report: StoreReport,
    *,
    has_writer: bool,
) -> None:
    page = binding_page(root)
    seals = SealCheck(root)
    shared = page if has_writer else None
    options = LogOptions(serves_ill=True)
    # Before the queues are loaded: a writer dispatches meanwhile.
    dispatched_end = find_dispatched(root)
    with LogReader(root, options, shared) as log, QueueCheck(root, log) as queues:
        ends, segments = log.ends(), Segments(log)
        published_end = shared.read().published_end if shared is not None else None
        bound = find_bound(root, segments, queues.queues, published_end, report.damages)
        torn_from = bound.offset if isinstance(bound, Bound) else bound.bound
        if page is not None and shared is None:
            # Without a writer a stored end counts beside the page's: one may be wrong.
            published = max(page.read().published_end, torn_from)
            log.limit(min(max(published, ends.min_offset), segments.end))
        queues.dispatched_end = dispatched_end
        work = SegmentWork(log, root, queues, seals, torn_from)
        reports = work.run(jobs, progress)
        decision = decide_end(
            root,
            reports,
            min_offset=ends.min_offset,
            segment_size=ends.segment_size,
            bound=bound,
            facts=StoreFacts(segments, queues.queues, bound),
        )
        end = decision.end_offset
        is_left_closed = is_closed(root)
        is_at_rest = not has_writer and is_left_closed and not decision.torn_reason
        ill = log.ill()
        damages = _with_ill(decision.damages, ill, reports)
        unscanned = _unscanned(damages)
        report.queues = queues.finish(end, unscanned, is_at_rest=is_at_rest)
        may_be_torn = (
            (page is not None and not is_left_closed)
            or decision.torn_reason
            or any(one.base_offset >= end and not one.is_empty for one in reports)
        )
        if may_be_torn and not decision.damages and not has_writer:
            with LogReader(root, options) as whole:
                behind_end = nonzero_end(root, Segments(whole), end)
            report.torn_bytes = behind_end - end
    _sum_up(report, reports)
    report.records = decision.records
    report.min_offset, report.end_offset = ends.min_offset, end
    report.torn_reason = decision.torn_reason
    if report.torn_bytes and not report.torn_reason:
        report.torn_reason = "there are bytes after the end"
    report.seals = work.seals_checked
    closed = {one.path for one in ill if one.errno is not None}
    report.unknown = [one for one in damages if one.path in closed]
    report.damages += [one for one in damages if one.path not in closed]
    report.damages += report.queues.damages
    report.damages += seals.damages + work.seal_damages
    # A small file or a queue may be read for several reasons.
    report.damages = list(dict.fromkeys(report.damages))
    report.damages.sort(key=lambda damage: damage.offset or 0)


def _with_ill(
    damages: list[Damage], ill: tuple[IllRange, ...], reports: list[SegmentReport]
) -> list[Damage]:
    """
    One damage for each ill range: that of the fault where its bytes begin, or a new one
    if no record was there. An opening for writing refuses it in any case.
    """
    found = list(damages)
    ends = {one.base_offset: one.record_end for one in reports}
    for one in ill:
        is_known = False
        for number, damage in enumerate(found):
            if damage.covers(one.offset):
                is_known = True
                if damage.path == one.path:
                    found[number] = replace(damage, basis=("file form",))
        if not is_known:
            start = ends.get(int(Path(one.path).name)) or one.offset
            size = one.end - start
            found.append(
                Damage(
                    one.path, start, one.reason, size, "log", ("file form",), one.end
                )
            )
    return found


def _unscanned(damages: list[Damage]) -> list[tuple[int, int]]:
    return [
        (damage.offset, damage.offset + damage.skipped_bytes)
        for damage in damages
        if damage.offset is not None
    ]


def _sum_up(report: StoreReport, reports: list[SegmentReport]) -> None:
    report.segments = len(reports)
    for one in reports:
        report.scanned_bytes += one.scanned_bytes
        report.unproved += one.unproved
        report.uncovered_bytes += one.uncovered_bytes
