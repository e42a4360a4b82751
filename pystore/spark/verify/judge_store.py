"""
What the checks of its segments mean for a store. On the driver, when all are in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from pystore.consumequeue.queues import ConsumeQueues
from pystore.core.log_reader import LogReader
from pystore.errors import NotAStoreError, PystoreError
from pystore.recovery.rocketmq import find_above
from pystore.recovery.segments import Segments
from pystore.recovery.torn_tail import Bound, Evidence
from pystore.spark.verify.plan import StorePlan, open_parts
from pystore.spark.verify.queue_continuity import (
    check_entries,
    check_offsets,
    join_runs,
)
from pystore.spark.verify.segment_list import list_segments
from pystore.spark.verify.task import SegmentCheck
from pystore.spark.verify.verdicts import Finding
from pystore.verify.report import SegmentReport
from pystore.verify.tail import EndDecision, decide_end

__all__ = ["StoreFindings", "judge_store"]


@dataclass(slots=True)
class StoreFindings:
    """
    A store as its segments show it.

    Attributes:
        plan: of the store.
        checks: of its segments, by base offset.
        end: of the log.
        expected_end: up to where the store itself says that there is a log.
        by_segment: what is wrong with each segment.
        of_store: what is wrong with queues, epochs and small files.
        torn_reason: why the bytes behind the end are no records, if there are any.
    """

    plan: StorePlan
    checks: dict[int, SegmentCheck]
    end: int = 0
    expected_end: int = 0
    by_segment: dict[int, list[Finding]] = field(default_factory=dict)
    of_store: list[Finding] = field(default_factory=list)
    torn_reason: str = ""

    def add(self, finding: Finding) -> None:
        """
        Puts a finding where it belongs.
        """
        size, offset = self.plan.listing.segment_size, finding.offset
        base = None if offset is None or not size else offset // size * size
        if base is None or finding.kind in ("consumeQueue", "epoch"):
            self.of_store.append(finding)
        else:
            self.by_segment.setdefault(base, []).append(finding)


def judge_store(
    plan: StorePlan, checks: Mapping[int, SegmentCheck], *, is_whole: bool = True
) -> StoreFindings:
    """
    Tells damage from a torn tail, and joins what only all segments together show.

    Args:
        plan: of the store.
        checks: of its segments, by base offset.
        is_whole: whether every record was checked, and not blocks only.
    """
    found = StoreFindings(plan, dict(checks), end=plan.readable_end)
    found.expected_end = max(found.end, _promised_end(plan))
    found.of_store += plan.findings
    if not plan.listing.runs:
        if found.expected_end:
            text = f"no segment is here, but the log went up to {found.expected_end}"
            found.add(Finding("store", None, text))
        return found
    if is_whole:
        try:
            _judge_whole(found)
        except PystoreError as error:
            # The store is gone, or changes below our hands; others are judged.
            for check in found.checks.values():
                check.error = check.error or str(error)
    else:
        _note_faults(found)
    for base, check in found.checks.items():
        _note_seal(found, base, check, is_whole=is_whole)
        for offset in check.stray_epochs:
            if offset < found.end:  # at the end, no record is there yet
                text = f"an epoch begins at offset {offset}, and no record does"
                found.add(Finding("epoch", offset, text))
    return found


def _judge_whole(found: StoreFindings) -> None:
    plan = found.plan
    now = list_segments(plan.root)
    if not now.runs:
        raise NotAStoreError(f"{plan.root}: its segments are gone")
    with open_parts(plan.root, now, plan.share.lengths) as parts:
        log, queues, problem = parts
        _judge_runs(found, log, queues)
        _judge_queues(found, None if problem else queues)


def _note_faults(found: StoreFindings) -> None:
    """
    Bad records in the blocks that were read; above what was promised, in the last
    segment, one is a torn tail.
    """
    last = max(found.plan.bases, default=0)
    promised = _promised_end(found.plan)
    for base, check in found.checks.items():
        for fault in check.report.faults if check.report else ():
            if base < last or fault.offset < promised:
                size = fault.skipped_bytes
                found.add(Finding("record", fault.offset, fault.text, size))


def _judge_runs(found: StoreFindings, log: LogReader, queues: ConsumeQueues) -> None:
    """
    Segments without a hole between them, run by run; only the last one has an end.
    """
    plan = found.plan
    size, last = plan.listing.segment_size, plan.listing.runs[-1][-1]
    segments = Segments(log)
    for reports in _report_runs(found, size):
        begins, ends = reports[0].base_offset, reports[-1].base_offset + size
        is_last = reports[-1].base_offset == last or ends >= plan.end
        bound = plan.bound if is_last else Bound(ends, "next segment's start")
        judged = decide_end(
            plan.root,
            reports,
            min_offset=begins,
            segment_size=size,
            bound=bound,
            behind=lambda offset: find_above(
                segments, queues, offset, _checkpoint_ms(plan.bound)
            ),
        )
        _take(found, judged, is_last=is_last, log_end=ends)
        if is_last:
            found.expected_end = max(judged.end_offset, _promised_end(plan))


def _report_runs(found: StoreFindings, size: int) -> list[list[SegmentReport]]:
    runs: list[list[SegmentReport]] = []
    for base in sorted(found.checks):
        report = found.checks[base].report
        if report is None:
            continue
        if runs and runs[-1][-1].base_offset + size == base:
            runs[-1].append(report)
        else:
            runs.append([report])
    return runs


def _take(
    found: StoreFindings, judged: EndDecision, *, is_last: bool, log_end: int
) -> None:
    for damage in judged.damages:
        if damage.offset is not None and damage.offset >= log_end:
            continue  # whole segments are missing: ABSENT says it
        found.add(Finding("record", damage.offset, damage.reason, damage.skipped_bytes))
    if is_last:
        found.end = judged.end_offset
        found.torn_reason = judged.torn_reason


def _judge_queues(found: StoreFindings, queues: ConsumeQueues | None) -> None:
    plan = found.plan
    unseen = _unseen(found)
    in_order = [found.checks[base].queues for base in sorted(found.checks)]
    runs = join_runs(in_order)
    cut = {(s.topic, s.queue_id) for s in chain.from_iterable(in_order) if s.is_cut}
    for finding in check_offsets(runs, unseen):
        found.add(finding)
    if queues is None or not plan.listing.bases:
        return
    wrong: dict[tuple[str, int], list[int]] = {}
    for summary in chain.from_iterable(in_order):
        wrong.setdefault((summary.topic, summary.queue_id), []).extend(summary.wrong)
    for finding in check_entries(
        queues,
        runs,
        wrong,
        passed_over=cut,
        start=plan.listing.bases[0],
        end=found.end,
        unseen=unseen,
    ):
        found.add(finding)


def _unseen(found: StoreFindings) -> Sequence[tuple[int, int]]:
    """
    What of the log could not be read: damage, and segments that are not here.
    """
    size = found.plan.listing.segment_size
    ranges = [
        (finding.offset, finding.offset + max(1, finding.size))
        for findings in found.by_segment.values()
        for finding in findings
        if finding.kind == "record" and finding.offset is not None
    ]
    bases = found.plan.listing.bases
    if bases:
        readable = {base for base, check in found.checks.items() if check.report}
        top = min(found.end, bases[-1] + size)
        missing = (b for b in range(bases[0], top, size) if b not in readable)
        ranges += [(base, base + size) for base in missing]
    return ranges


def _note_seal(
    found: StoreFindings, base: int, check: SegmentCheck, *, is_whole: bool
) -> None:
    """
    What differs from the seal, one finding for each block.
    """
    if check.seal_problem:
        found.of_store.append(Finding("seal", base, check.seal_problem))
    seal = check.seal
    if seal is None or check.is_sealed_whole or check.report is None:
        return
    if found.plan.end < seal.end_offset:
        return  # a cut that is not finished leaves the seal of what it shortens
    sealed = dict(enumerate(seal.block_digests))
    bad = [index for index, one in check.digests.items() if sealed.get(index) != one]
    if is_whole and not bad:
        bad = list(check.digests)  # all agree, and yet the whole does not
    for index in sorted(bad):
        start, end = seal.block_range(index)
        text = f"bytes {start} to {end} are not what was sealed"
        found.by_segment.setdefault(base, []).append(
            Finding("seal", start, text, end - start)
        )


def _promised_end(plan: StorePlan) -> int:
    """
    Up to where the store itself says that there is a log.
    """
    bound = plan.bound
    if isinstance(bound, Bound):
        promised = bound.offset
    else:
        promised = 0 if bound.is_abort else bound.named_end or 0
    return promised if plan.generation is None else max(promised, plan.end)


def _checkpoint_ms(bound: Bound | Evidence) -> int:
    return 0 if isinstance(bound, Bound) else bound.checkpoint_ms
