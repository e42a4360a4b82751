"""
The summary of a round as one JSON object.
"""

from __future__ import annotations

import json

from pystore.spark.verify.run import VerifyRun
from pystore.spark.verify.summary import is_bad, is_unfinished, summary_of
from pystore.spark.verify.verdicts import SegmentVerdict, Verdict


def _round(*verdicts: SegmentVerdict) -> VerifyRun:
    return VerifyRun(3, list(verdicts), ["/a", "/b"], 2.0, 0.0)


FINE = SegmentVerdict("g", "/a", 0, Verdict.OK, records=7, checked_bytes=100)
OPEN = SegmentVerdict("g", "/a", 100, Verdict.UNSEALED, records=1, checked_bytes=9)
GONE = SegmentVerdict("g", "/b", 0, Verdict.ABSENT, evidence=["by retention"])
LOST = SegmentVerdict("g", "/b", 100, Verdict.ABSENT, is_bad=True, evidence=["gone"])
DARK = SegmentVerdict("g", "/b", 200, Verdict.UNKNOWN, evidence=["no disk"])


def test_a_summary_counts_verdicts_and_names_findings() -> None:
    """
    The keys are stable, and the values are JSON.
    """
    summary = json.loads(json.dumps(summary_of(_round(FINE, OPEN, GONE, LOST))))

    assert {"OK": 1, "UNSEALED": 1, "ABSENT": 2} == summary["verdicts"]
    assert (3, 1, 4, 8, 109) == tuple(
        summary[key] for key in ("round", "bad", "segments", "records", "checkedBytes")
    )
    assert "1970-01-01T00:00:00+00:00" == summary["verifiedAt"]
    assert [["by retention"], ["gone"]] == [f["evidence"] for f in summary["findings"]]
    assert [("/a", 0), ("/b", 1)] == [(s["store"], s["bad"]) for s in summary["stores"]]


def test_bad_and_unfinished_rounds_differ() -> None:
    """
    They have the exit codes 1 and 3.
    """
    assert (False, False) == (is_bad(_round(FINE, OPEN, GONE)), is_unfinished(_round()))
    assert is_bad(_round(FINE, LOST))
    assert is_unfinished(_round(FINE, DARK))
    assert not is_bad(_round(DARK))


def test_a_store_without_segments_is_in_the_summary() -> None:
    """
    All its counts are 0.
    """
    (first, _) = summary_of(_round())["stores"]

    assert {} == first["verdicts"]
