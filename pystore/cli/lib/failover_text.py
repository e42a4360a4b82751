"""
The report of the demo's replicated part, as text and as JSON.
"""

from __future__ import annotations

from typing import Any

from pystore.cli.lib.output import pairs_text, table_text, verdict_text
from pystore.demo.failover import CONTROLLER, KILL, SWITCH, FailoverReport
from pystore.demo.replicas import AgreementReport
from pystore.demo.tail_cut import TailCut
from pystore.demo.timeline import AckGap
from pystore.text import count_text, rate_text, seconds_text, size_text

__all__ = ["failover_json", "failover_text"]

_HEADER = ("broker", "looked up", "missing", "records", "log", "verdict")
_CAUSES = {KILL: "SIGKILL of the master", SWITCH: "switch", CONTROLLER: "controller"}


def failover_text(report: FailoverReport, *, keep: bool) -> str:
    """
    Returns the table with a line for each store, and the totals.

    Args:
        report: of the part.
        keep: whether the stores stay, so that their place is of interest.
    """
    rows = [
        (
            str(one.broker),
            count_text(one.compared),
            count_text(one.missing),
            count_text(one.records),
            size_text(one.log_bytes),
            one.verdict,
        )
        for one in report.checks
    ]
    problems = [
        f"broker {one.broker}: {one.verdict}: {one.problem}"
        for one in report.checks
        if one.problem
    ]
    result = f"acknowledged but missing: {count_text(report.missing)}"
    return "\n".join(
        [
            table_text(_HEADER, rows),
            "",
            pairs_text(_pairs(report, keep=keep)),
            "",
            *problems,
            verdict_text(result, is_good=report.is_good),
        ]
    )


def _pairs(report: FailoverReport, *, keep: bool) -> list[tuple[str, str]]:
    extra = max((one.records for one in report.checks), default=0) - report.records
    pairs = [
        (
            "acknowledged",
            f"{count_text(report.records)} records as `all`, "
            f"{size_text(report.log_bytes)} of log",
        ),
        ("without acks", "\n".join(map(_gap_text, report.timeline.gaps)) or "-"),
        ("diverged", "-" if report.cut is None else _cut_text(report.cut)),
        (
            "extra",
            f"{count_text(extra)} records without an `all` ack: appended as `leader`,\n"
            "or again after a missing answer",
        ),
        ("total time", seconds_text(report.seconds)),
    ]
    if report.agreement is not None:
        pairs.append(("on Spark", _agreement_text(report.agreement)))
    if report.picture is not None:
        pairs.append(("timeline", str(report.picture)))
    if keep:
        pairs += [("store", str(one.store)) for one in report.checks]
    return pairs


def _gap_text(gap: AckGap) -> str:
    text = f"{_CAUSES.get(gap.name, gap.name)}: "
    if gap.begin_s >= gap.cause_s:
        return text + f"{seconds_text(gap.seconds)} at most"
    return text + (
        f"{seconds_text(gap.after_s)} after it, "
        f"{seconds_text(gap.seconds)} with the pause"
    )


def _cut_text(cut: TailCut) -> str:
    if cut.offset is None:
        return f"broker {cut.broker} cut nothing: the slaves had received all of it"
    return (
        f"broker {cut.broker} cut {size_text(cut.size_bytes)} "
        f"({count_text(cut.records)} records) when it came back\n"
        "of them acknowledged as `leader`, so safe on it alone: "
        f"{count_text(cut.leader_records)}\n"
        f"of them acknowledged as `all`: {count_text(cut.all_records)}\n"
        "what a master orders to cut is not saved"
    )


def _agreement_text(agreement: AgreementReport) -> str:
    if agreement.skipped:
        return agreement.skipped
    lines = [
        f"the three stores against each other: {count_text(agreement.segments)} "
        f"segments at {rate_text(agreement.checked_bytes, agreement.seconds)}"
    ]
    lines += [
        f"BAD: {store} segment {'-' if segment is None else segment}: {evidence}"
        for store, segment, evidence in agreement.bad
    ] or ["all segments agree"]
    return "\n".join([*lines, f"report: {agreement.page}"])


def failover_json(report: FailoverReport, *, keep: bool) -> dict[str, Any]:
    """
    Returns the report with JSON keys.
    """
    timeline, cut, spark = report.timeline, report.cut, report.agreement
    return {
        "records": report.records,
        "logBytes": report.log_bytes,
        "missing": report.missing,
        "retries": report.retries,
        "seconds": round(report.seconds, 3),
        "gaps": [
            {
                "cause": one.name,
                "seconds": round(one.seconds, 3),
                "secondsAfter": round(one.after_s, 3),
            }
            for one in timeline.gaps
        ],
        "cut": cut
        and {
            "broker": cut.broker,
            "offset": cut.offset,
            "bytes": cut.size_bytes,
            "records": cut.records,
            "leaderRecords": cut.leader_records,
            "allRecords": cut.all_records,
        },
        "stores": [
            {
                "broker": one.broker,
                "store": str(one.store) if keep else None,
                "compared": one.compared,
                "missing": one.missing,
                "records": one.records,
                "logBytes": one.log_bytes,
                "verdict": one.verdict,
                "problem": one.problem,
            }
            for one in report.checks
        ],
        "spark": spark
        and {
            "segments": spark.segments,
            "bad": [list(one) for one in spark.bad],
            "page": spark.page and str(spark.page),
            "skipped": spark.skipped,
        },
        "timeline": [
            {"seconds": round(one.at_s, 3), "who": one.who, "what": one.what}
            for one in timeline.events
        ],
        "picture": report.picture and str(report.picture),
    }
