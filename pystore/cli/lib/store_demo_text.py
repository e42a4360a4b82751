"""
The report of the demo's part with one store, as text and as JSON.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pystore.cli.lib.output import pairs_text, table_text, verdict_text
from pystore.demo.replicas import COPIES, ReplicaReport
from pystore.demo.run import DemoReport, DemoRound
from pystore.text import count_text, json_keys, rate_text, seconds_text, size_text

__all__ = ["report_json", "report_text"]

_HEADER = (
    "writer",
    "records",
    "log",
    "rate",
    "cut",
    "recovery",
    "read back",
    "missing",
    "extra",
)


def report_text(report: DemoReport, *, keep: bool) -> str:
    """
    Returns the table with a line for each writer, and the totals.
    """
    corpus, last = report.corpus, report.rounds[-1]
    records = sum(one.records for one in report.rounds)
    log_bytes = sum(one.log_bytes for one in report.rounds)
    seconds = sum(one.append_seconds for one in report.rounds)
    missing = sum(one.missing for one in report.rounds)
    rows = [
        (
            "input",
            f"{count_text(corpus.lines)} lines of {count_text(len(corpus.files))} "
            f"files ({size_text(corpus.size_bytes)}, {corpus.topics} topics), "
            f"{report.repeat} times",
        ),
        (
            "acknowledged",
            f"{count_text(records)} records, {size_text(log_bytes)} of log, at "
            f"{rate_text(log_bytes, seconds)} or "
            f"{count_text(round(records / seconds)) if seconds else '-'} records/s",
        ),
        (
            "read back",
            f"{count_text(last.compared)} records, {size_text(report.body_bytes)} of "
            f"bodies compared in {seconds_text(last.compare_seconds)}",
        ),
        (
            "verified",
            f"{count_text(last.verified)} records at "
            f"{rate_text(last.verified_bytes, last.verify_seconds)}: {last.verdict}",
        ),
        ("recoveries", _recoveries_text(report.rounds)),
        (
            "extra",
            f"{count_text(last.extra)} records were stored but not acknowledged: "
            "SIGKILL ended their writer first",
        ),
        ("total time", seconds_text(report.seconds)),
    ]
    if report.replicas is not None:
        rows.append(("on Spark", _replicas_text(report.replicas)))
    if keep:
        rows.append(("store", str(report.store)))
    result = f"acknowledged but missing: {count_text(missing)}"
    problems = [
        f"writer {one.number}: {one.verdict}: {one.problem}"
        for one in report.rounds
        if one.problem
    ]
    return "\n".join(
        [
            table_text(_HEADER, [_row(one) for one in report.rounds]),
            "",
            pairs_text(rows),
            "",
            *problems,
            verdict_text(result, is_good=report.is_good),
        ]
    )


def _row(one: DemoRound) -> tuple[str, ...]:
    return (
        f"{one.number} {'killed' if one.is_killed else 'done'}",
        count_text(one.records),
        size_text(one.log_bytes),
        rate_text(one.log_bytes, one.append_seconds),
        size_text(one.cut_bytes),
        seconds_text(one.recovery_seconds),
        count_text(one.compared),
        count_text(one.missing),
        count_text(one.extra),
    )


def _recoveries_text(rounds: list[DemoRound]) -> str:
    killed = [one for one in rounds if one.is_killed]
    if not killed:
        return "none"
    slowest = max(one.recovery_seconds for one in killed)
    cut = sum(one.cut_bytes for one in killed)
    return (
        f"{len(killed)} after SIGKILL, {count_text(cut)} bytes cut, "
        f"the slowest in {seconds_text(slowest)}"
    )


def _replicas_text(replicas: ReplicaReport) -> str:
    if replicas.skipped:
        return replicas.skipped
    lines = [
        f"the store and {COPIES} copies, one bit changed in one of them: "
        f"{count_text(replicas.segments)} segments at "
        f"{rate_text(replicas.checked_bytes, replicas.seconds)}"
    ]
    for store, segment in replicas.named:
        note = "as planted" if (store, segment) == replicas.planted else "NOT planted"
        lines.append(f"bad: {Path(store).name} segment {segment}, {note}")
    if replicas.planted not in replicas.named:
        lines.append("NOT FOUND: the changed bit")
    return "\n".join([*lines, f"report: {replicas.page}"])


def report_json(report: DemoReport, *, keep: bool) -> dict[str, Any]:
    """
    Returns the report with JSON keys.
    """
    rounds = report.rounds
    return {
        "store": str(report.store) if keep else None,
        "files": len(report.corpus.files),
        "lines": report.corpus.lines,
        "topics": report.corpus.topics,
        "repeat": report.repeat,
        "records": sum(one.records for one in rounds),
        "logBytes": sum(one.log_bytes for one in rounds),
        "bodyBytes": report.body_bytes,
        "missing": sum(one.missing for one in rounds),
        "seconds": round(report.seconds, 3),
        "replicas": _replicas_json(report.replicas),
        "rounds": [
            json_keys({name: getattr(one, name) for name in one.__slots__})
            for one in rounds
        ],
    }


def _replicas_json(replicas: ReplicaReport | None) -> dict[str, Any] | None:
    if replicas is None:
        return None
    values = {name: getattr(replicas, name) for name in replicas.__slots__}
    return json_keys(values | {"page": replicas.page and str(replicas.page)})
