"""
The bound decides whether a fault is damage or a torn tail.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystore.bindings.ffi import Stop
from pystore.damage.segment_walk import BadRecord, SegmentReport
from pystore.recovery.behind import Behind
from pystore.recovery.torn_tail import Bound, Evidence
from pystore.verify.tail import EndDecision, decide_end

SIZE = 1000
ROOT = Path("/store")
NOTHING_BEHIND = (None, None)
LOST = Behind(has_lost_sector=True)


def scanned(
    base: int, end: int, records: int, faults: tuple[BadRecord, ...] = ()
) -> SegmentReport:
    """
    Returns the scan of a segment up to *end*.
    """
    return SegmentReport(
        base_offset=base,
        end_offset=end,
        is_full=end == base + SIZE,
        record_end=end if records else None,
        scanned_bytes=end - base,
        row_bytes=end - base,
        records=records,
        unproved=0,
        uncovered_bytes=0,
        faults=faults,
    )


def fault(offset: int, before: int, skipped: int = 100) -> BadRecord:
    """
    Returns a record with a bad body.
    """
    return BadRecord(offset, Stop.BODY, f"bad at {offset}", skipped, before, offset)


def decision_of(
    reports: list[SegmentReport],
    bound: Bound | Evidence,
    behind: tuple[int | None, int | None] = NOTHING_BEHIND,
) -> EndDecision:
    """
    Returns the decision, with the same evidence after every fault.
    """
    return decide_end(
        ROOT,
        reports,
        min_offset=0,
        segment_size=SIZE,
        bound=bound,
        facts=_Facts(behind),
    )


class _Facts:
    """
    The same facts behind every fault: a lost sector, as a crash leaves it.
    """

    def __init__(self, behind: tuple[int | None, int | None]) -> None:
        self._behind = behind

    def behind(self, _: int, stop: Stop) -> tuple[int | None, int | None, Behind]:
        """
        A stop at zeros has nothing behind it.
        """
        return *self._behind, LOST if stop.is_bad else Behind()

    def first_stale(self, _: int) -> int | None:
        """
        There is no stale record.
        """
        return None


def test_a_log_ends_where_its_records_end() -> None:
    """
    Full segments, a partial one and an empty one are without damage.
    """
    reports = [scanned(0, 1000, 10), scanned(1000, 1300, 3), scanned(2000, 2000, 0)]

    assert EndDecision(1300, 13, []) == decision_of(reports, Bound(1300))


@pytest.mark.parametrize("bound", [1100, 1299, 1300, 2000])
def test_below_the_bound_a_fault_is_damage_and_above_it_a_torn_tail(
    bound: int,
) -> None:
    """
    The bound is exclusive: a fault at the bound itself is torn.
    """
    at = 1299
    reports = [scanned(0, 1000, 10), scanned(1000, at, 3, (fault(at, 3, 701),))]
    found = decision_of(reports, Bound(bound))

    assert 13 == found.records
    assert ([at] if bound > at else []) == [d.offset for d in found.damages]
    assert bool(found.torn_reason) is not bool(found.damages)


def test_records_after_a_torn_record_do_not_count() -> None:
    """
    Opening cuts at the first fault, so the log ends there.
    """
    reports = [scanned(0, 900, 8, (fault(300, 3), fault(500, 5)))]
    found = decision_of(reports, Bound(300))

    assert (300, 3, []) == (found.end_offset, found.records, found.damages)


def test_every_fault_below_the_bound_is_named() -> None:
    """
    The first damage does not hide the next.
    """
    reports = [
        scanned(0, 1000, 8, (fault(300, 3), fault(500, 5))),
        scanned(1000, 1100, 1),
    ]
    found = decision_of(reports, Bound(1100))

    assert [300, 500] == [damage.offset for damage in found.damages]
    assert [str(ROOT / "commitlog" / f"{0:020d}")] * 2 == [
        d.path for d in found.damages
    ]
    assert (1100, 9) == (found.end_offset, found.records)


def test_a_segment_that_ends_before_later_records_is_damage() -> None:
    """
    The bound shows it, or the evidence of a whole record in a later segment.
    """
    reports = [scanned(0, 400, 4), scanned(1000, 1100, 1)]
    evidence = Evidence(is_abort=True, start_offset=0)

    assert [400] == [d.offset for d in decision_of(reports, Bound(1100)).damages]
    assert [400] == [
        d.offset for d in decision_of(reports, evidence, (None, 1000)).damages
    ][:1]


def test_a_missing_last_segment_below_the_bound_is_damage() -> None:
    """
    Every segment is full, and the bound is above the last one.
    """
    reports = [scanned(0, 1000, 10)]

    assert [1000] == [d.offset for d in decision_of(reports, Bound(1200)).damages]
    assert [] == decision_of(reports, Bound(1000)).damages
    assert [0] == [d.offset for d in decision_of([], Bound(1200)).damages]
    assert EndDecision(0, 0, []) == decision_of([], Bound(0))


def test_a_short_last_segment_hides_no_missing_one_behind_it() -> None:
    """
    The bound is above the segment that has the fault: that are two damages.
    """
    reports = [scanned(0, 400, 4)]
    found = decision_of(reports, Bound(1200))

    assert [(400, 1000), (1000, 1200)] == [(d.offset, d.end) for d in found.damages]
    # A bound may be wrong itself: the operator must know which it is.
    page = decision_of(reports, Bound(1200, "published end"))
    assert "the published end is 1200" in page.damages[1].reason
    assert [(400, 1000)] == [
        (d.offset, d.end) for d in decision_of(reports, Bound(1000)).damages
    ]


def test_a_queue_entry_after_a_fault_makes_the_fault_damage() -> None:
    """
    It is RocketMQ's evidence in stores without bounds of pystore.
    """
    reports = [scanned(0, 900, 8, (fault(300, 3),))]
    evidence = Evidence(is_abort=True, start_offset=0)

    assert [300] == [
        d.offset for d in decision_of(reports, evidence, (500, None)).damages
    ][:1]
    assert [] == decision_of(reports, evidence).damages
