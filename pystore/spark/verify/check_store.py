"""
The findings of one store, from the checks of its segments. Runs on the driver.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pystore.consumequeue.queues import ConsumeQueues
from pystore.core.log_reader import LogReader
from pystore.damage.segment_walk import SegmentReport
from pystore.errors import NotAStoreError, PystoreError
from pystore.recovery.segments import Segments
from pystore.recovery.torn_tail import Bound
from pystore.spark.verify.check_queues import QueueFacts, check_entries
from pystore.spark.verify.plan import StorePlan, finding_of, open_parts
from pystore.spark.verify.queue_columns import StoreQueues
from pystore.spark.verify.queue_continuity import check_offsets
from pystore.spark.verify.segment_list import list_segments
from pystore.spark.verify.task import SegmentCheck
from pystore.spark.verify.verdicts import Finding
from pystore.verify.end_facts import StoreFacts
from pystore.verify.entries import EntryJudge
from pystore.verify.tail import EndDecision, decide_end

__all__ = ["StoreFindings", "check_store"]

_ATTEMPTS = 4
_NO_END = 2**63 - 1


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
        notes: on each segment, by base offset: no damage by themselves. The range of
            a note may reach over several segments.
        of_store: findings about queues, epochs and small files.
        torn_reason: why the bytes above the end are no records; empty: there are none.
    """

    plan: StorePlan
    checks: dict[int, SegmentCheck]
    end: int = 0
    expected_end: int = 0
    by_segment: dict[int, list[Finding]] = field(default_factory=dict)
    of_store: list[Finding] = field(default_factory=list)
    notes: dict[int, list[Finding]] = field(default_factory=dict)
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

    def add_note(self, note: Finding) -> None:
        """
        Adds a note to each segment that its range touches.
        """
        size = self.plan.listing.segment_size
        if note.offset is None or not size:
            return
        bases = self.plan.listing.bases
        first = bisect_right(bases, note.offset - size)
        above = bisect_left(bases, note.offset + max(1, note.size))
        for base in bases[first:above]:
            self.notes.setdefault(base, []).append(note)


def check_store(
    plan: StorePlan,
    checks: Mapping[int, SegmentCheck],
    queues: StoreQueues | None = None,
    *,
    is_whole: bool = True,
) -> StoreFindings:
    """
    Returns the findings of a store. A torn tail is no finding.

    Args:
        plan: of the store.
        checks: of the segments, by base offset.
        queues: of all these segments; by default those in the checks.
        is_whole: whether every record was checked; else only a sample of blocks was.
    """
    found = StoreFindings(plan, dict(checks), end=plan.readable_end)
    queues = queues or _join_queues(checks)
    for attempt in range(_ATTEMPTS):
        found = StoreFindings(plan, dict(checks), end=plan.readable_end)
        found.expected_end = max(found.end, plan.promised_end)
        for finding in plan.findings:
            found.add(finding)
        if not plan.listing.runs:
            if found.expected_end:
                text = f"there is no segment, but the log went to {found.expected_end}"
                found.add(Finding("store", None, text))
            return found
        if not is_whole:
            _add_bad_records(found)
            break
        try:
            _check_whole(found, queues)
            break
        except (PystoreError, OSError) as error:
            # Retention deletes files meanwhile: look again. If the store was removed,
            # the others are still checked.
            if attempt == _ATTEMPTS - 1:
                found.by_segment.clear()
                for check in found.checks.values():
                    check.error = check.error or str(error)
    for base, check in found.checks.items():
        _add_seal_findings(found, base, check, is_whole=is_whole)
        for offset in check.stray_epochs:
            if offset < found.end:  # an epoch at the end has no record yet
                text = f"an epoch begins at offset {offset}, but no record begins there"
                found.add(Finding("epoch", offset, text))
    return found


def _join_queues(checks: Mapping[int, SegmentCheck]) -> StoreQueues:
    queues = StoreQueues()
    for base in sorted(checks):
        queues.add(checks[base].queues)
    return queues


def _check_whole(found: StoreFindings, joined: StoreQueues) -> None:
    plan = found.plan
    now = list_segments(plan.root)
    if not now.runs:
        raise NotAStoreError(f"{plan.root}: its segments were deleted")
    with open_parts(plan.root, now, plan.lengths) as parts:
        log, queues, problem = parts
        _check_runs(found, log, queues)
        _check_queues(found, joined, None if problem else queues)


def _add_bad_records(found: StoreFindings) -> None:
    """
    Adds the bad records of the blocks that were read. In the last segment, a bad
    record above the promised end is a torn tail.
    """
    last = max(found.plan.bases, default=0)
    promised = found.plan.promised_end
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
            facts=StoreFacts(segments, queues, bound),
        )
        _add_decision(found, decision, is_last=is_last, log_end=ends)
        if is_last:
            found.expected_end = max(decision.end_offset, plan.promised_end)


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


def _check_queues(
    found: StoreFindings, joined: StoreQueues, queues: ConsumeQueues | None
) -> None:
    plan = found.plan
    unseen = _unseen(found)
    facts = QueueFacts([joined.summaries()])
    for note in check_offsets(facts.runs, unseen):
        found.add_note(note)
    if queues is None or not plan.listing.bases:
        return
    for damage in check_entries(
        plan.root,
        queues,
        facts,
        plan.lengths,
        segment_size=plan.listing.segment_size,
        log=(plan.listing.bases[0], found.end),
        unseen=unseen,
        is_at_rest=plan.is_at_rest and not found.torn_reason,
    ):
        found.add(finding_of(damage))
    if not plan.lengths and plan.share.dispatched_end:
        records = sum(one.report.records for one in found.checks.values() if one.report)
        if records:
            judge = EntryJudge(plan.root, 0, lambda _: None)
            judge.check_none(records)
            for damage in judge.damages:
                found.add(finding_of(damage))


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
        readable = sorted(base for base, check in found.checks.items() if check.report)
        top = max(bases[0], min(found.end, bases[-1] + size))
        places = [bases[0] - size, *readable, max(top, *readable[-1:])]
        ranges += [
            (low + size, high) for low, high in pairwise(places) if low + size < high
        ]
        if found.end < found.expected_end:
            # The queues may know more of what is missing.
            ranges.append((found.end, _NO_END))
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
