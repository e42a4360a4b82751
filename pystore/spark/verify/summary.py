"""
The summary of a round, as one JSON object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pystore.spark.verify.frame import row_of
from pystore.spark.verify.run import VerifyRun
from pystore.spark.verify.verdicts import GOOD, NOTE, SegmentVerdict, Verdict

__all__ = ["is_bad", "is_unfinished", "summary_of"]


def is_bad(found: VerifyRun) -> bool:
    """
    Whether an operator has to act.
    """
    return any(one.is_bad for one in found.verdicts)


def is_unfinished(found: VerifyRun) -> bool:
    """
    Whether a segment could not be checked.
    """
    return any(one.verdict is Verdict.UNKNOWN for one in found.verdicts)


def summary_of(found: VerifyRun) -> dict[str, Any]:
    """
    Returns verdicts as JSON values: counts, and each finding. The records and bytes are
    those of the last round.
    """
    mine = [one for one in found.verdicts if one.round in (None, found.number)]
    findings = [one for one in found.verdicts if one.is_bad or one.verdict not in GOOD]
    return {
        "round": found.number,
        "verifiedAt": _time(found),
        "verdicts": _counts(found.verdicts),
        "bad": sum(one.is_bad for one in found.verdicts),
        "segments": sum(
            one.segment is not None and not one.name for one in found.verdicts
        ),
        "records": sum(one.records for one in mine),
        "checkedBytes": sum(one.checked_bytes for one in mine),
        "uncoveredBytes": sum(one.uncovered_bytes for one in found.verdicts),
        "notes": sum(
            text.startswith(NOTE) for one in found.verdicts for text in one.evidence
        ),
        "seconds": round(found.seconds, 6),
        "stores": [_store(found, root) for root in found.stores],
        "findings": [_finding(one, found) for one in findings],
    }


def _time(found: VerifyRun) -> str:
    moment = datetime.fromtimestamp(found.began, UTC)
    return moment.isoformat(timespec="seconds")


def _counts(verdicts: Sequence[SegmentVerdict]) -> dict[str, int]:
    counts = Counter(str(one.verdict) for one in verdicts)
    return {str(word): counts[word] for word in Verdict if counts[word]}


def _store(found: VerifyRun, root: str) -> dict[str, Any]:
    mine = [one for one in found.verdicts if one.store == root]
    return {
        "store": root,
        "group": mine[0].group if mine else "",
        "verdicts": _counts(mine),
        "bad": sum(one.is_bad for one in mine),
        "records": sum(one.records for one in mine),
        "checkedBytes": sum(one.checked_bytes for one in mine),
        "uncoveredBytes": sum(one.uncovered_bytes for one in mine),
    }


def _finding(one: SegmentVerdict, found: VerifyRun) -> dict[str, Any]:
    row = row_of(one, found)
    for name in ("verifiedAt", "seconds", "readBlocks", "blockDigests"):
        del row[name]
    planned = row.pop("plannedAt")
    if planned is None:
        # Of a store that was named by its path.
        for name in ("brokerId", "incarnation", "begin", "confirm", "cutGeneration"):
            del row[name]
        return row
    return {**row, "plannedAt": planned.isoformat(timespec="seconds")}
