"""
The findings of one store, from the checks of its segments. Runs on the driver.
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

__all__ = ["StoreFindings", "check_store"]


@dataclass(slots=True)
class StoreFindings:
    """
    What is wrong with a store.

    Attributes:
        plan: of the store.
        checks: of the segments, by base offset.
        end: of the log.
        expected_end: the end of the log that the store's own files name.
        by_segment: findings about each segment, by base offset.
        of_store: findings about queues, epochs and small files.
        torn_reason: why the bytes above the end are no records; empty: there are none.
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
        Adds a finding to its segment, or to the store.
        """
        size, offset = self.plan.listing.segment_size, finding.offset
        base = None if offset is None or not size else offset // size * size
        if base is None or finding.kind in ("consumeQueue", "epoch"):
            self.of_store.append(finding)
        else:
            self.by_segment.setdefault(base, []).append(finding)


def check_store(
    plan: StorePlan, checks: Mapping[int, SegmentCheck], *, is_whole: bool = True
) -> StoreFindings:
    """
    Returns the findings of a store. A torn tail is no finding.

    Args:
        plan: of the store.
        checks: of the segments, by base offset.
        is_whole: whether every record was checked; else only a sample of blocks was.
    """
    found = StoreFindings(plan, dict(checks), end=plan.readable_end)
    found.expected_end = max(found.end, _promised_end(plan))
    found.of_store += plan.findings
    if not plan.listing.runs:
        if found.expected_end:
            text = f"there is no segment, but the log went up to {found.expected_end}"
            found.add(Finding("store", None, text))
        return found
    if is_whole:
        try:
            _check_whole(found)
        except PystoreError as error:
            # The store was removed or changed meanwhile; other stores are checked.
            for check in found.checks.values():
                check.error = check.error or str(error)
    else:
        _add_bad_records(found)
    for base, check in found.checks.items():
        _add_seal_findings(found, base, check, is_whole=is_whole)
        for offset in check.stray_epochs:
            if offset < found.end:  # an epoch at the end has no record yet
                text = f"an epoch begins at offset {offset}, but no record begins there"
                found.add(Finding("epoch", offset, text))
    return found


def _check_whole(found: StoreFindings) -> None:
    plan = found.plan
    now = list_segments(plan.root)
    if not now.runs:
        raise NotAStoreError(f"{plan.root}: its segments were deleted")
    with open_parts(plan.root, now, plan.share.lengths) as parts:
        log, queues, problem = parts
        _check_runs(found, log, queues)
        _check_queues(found, None if problem else queues)


def _add_bad_records(found: StoreFindings) -> None:
    """
    Adds the bad records of the blocks that were read. In the last segment, a bad
    record above the promised end is a torn tail.
    """
    last = max(found.plan.bases, default=0)
    promised = _promised_end(found.plan)
    for base, check in found.checks.items():
        for fault in check.report.faults if check.report else ():
            if base < last or fault.offset < promised:
                size = fault.skipped_bytes
                found.add(Finding("record", fault.offset, fault.text, size))


def _check_runs(found: StoreFindings, log: LogReader, queues: ConsumeQueues) -> None:
    """
    Checks each run of segments without a hole. Only the last run has a log's end.
    """
    plan = found.plan
    size, last = plan.listing.segment_size, plan.listing.runs[-1][-1]
    segments = Segments(log)
    for reports in _report_runs(found, size):
        begins, ends = reports[0].base_offset, reports[-1].base_offset + size
        is_last = reports[-1].base_offset == last or ends >= plan.end
        bound = plan.bound if is_last else Bound(ends, "next segment's start")
        decision = decide_end(
            plan.root,
            reports,
            min_offset=begins,
            segment_size=size,
            bound=bound,
            behind=lambda offset: find_above(
                segments, queues, offset, _checkpoint_ms(plan.bound)
            ),
        )
        _add_decision(found, decision, is_last=is_last, log_end=ends)
        if is_last:
            found.expected_end = max(decision.end_offset, _promised_end(plan))


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


def _add_decision(
    found: StoreFindings, decision: EndDecision, *, is_last: bool, log_end: int
) -> None:
    for damage in decision.damages:
        if damage.offset is not None and damage.offset >= log_end:
            continue  # whole segments are missing: they get the verdict ABSENT
        found.add(Finding("record", damage.offset, damage.reason, damage.skipped_bytes))
    if is_last:
        found.end = decision.end_offset
        found.torn_reason = decision.torn_reason


def _check_queues(found: StoreFindings, queues: ConsumeQueues | None) -> None:
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
    The ranges of the log that could not be read: damage, and missing segments.
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


def _add_seal_findings(
    found: StoreFindings, base: int, check: SegmentCheck, *, is_whole: bool
) -> None:
    """
    Adds a finding for each block that differs from the seal.
    """
    if check.seal_problem:
        found.of_store.append(Finding("seal", base, check.seal_problem))
    seal = check.seal
    if seal is None or check.is_sealed_whole or check.report is None:
        return
    if found.plan.end < seal.end_offset:
        return  # an unfinished cut leaves the seal of the segment that it shortens
    sealed = dict(enumerate(seal.block_digests))
    bad = [index for index, one in check.digests.items() if sealed.get(index) != one]
    if is_whole and not bad:
        bad = list(
            check.digests
        )  # every block agrees, but the digest of all bytes does not
    for index in sorted(bad):
        start, end = seal.block_range(index)
        text = f"bytes {start} to {end} are not what was sealed"
        found.by_segment.setdefault(base, []).append(
            Finding("seal", start, text, end - start)
        )


def _promised_end(plan: StorePlan) -> int:
    """
    The end of the log that the store's own files name.
    """
    bound = plan.bound
    if isinstance(bound, Bound):
        promised = bound.offset
    else:
        promised = 0 if bound.is_abort else bound.named_end or 0
    return promised if plan.generation is None else max(promised, plan.end)


def _checkpoint_ms(bound: Bound | Evidence) -> int:
    return 0 if isinstance(bound, Bound) else bound.checkpoint_ms
