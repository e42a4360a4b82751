"""
The report of the demo of AutoRecovery, as text and as JSON.
"""

from __future__ import annotations

from typing import Any

from pystore.cli.lib.output import pairs_text, table_text, verdict_text
from pystore.demo.recovery_run import RecoveryDemoReport, SetCheck
from pystore.text import count_text, seconds_text, size_text

__all__ = ["recovery_demo_json", "recovery_demo_text"]

_STORIES = ("story", "took", "no ack at most")
_SETS = ("set", "acknowledged", "missing", "unreadable", "copies on hosts", "log")


def recovery_demo_text(report: RecoveryDemoReport, *, keep: bool) -> str:
    """
    Returns a table of the stories and one of the sets, and the totals.

    Args:
        report: of the demo.
        keep: whether the stores stay, so that their place is of interest.
    """
    parts = []
    if report.stories:
        rows = [
            (one.name, seconds_text(one.seconds), seconds_text(one.gap_s))
            for one in report.stories
        ]
        parts.append(table_text(_STORIES, rows))
    if report.sets:
        parts.append(table_text(_SETS, [_row(one) for one in report.sets]))
    parts.append(pairs_text(_pairs(report, keep=keep)))
    lines = [line for one in report.sets for line in _problems(one)]
    if report.problem:
        lines.append(f"it did not come true: {report.problem}")
    result = "acknowledged but missing: not looked up"
    if report.sets:
        result = (
            f"acknowledged but missing: {count_text(report.missing)}, "
            f"unreadable on a master: {count_text(report.unreadable)}"
        )
    lines.append(verdict_text(result, is_good=report.is_good))
    return "\n\n".join([*parts, "\n".join(lines)])


def _row(one: SetCheck) -> tuple[str, ...]:
    verdicts = {check.verdict for check in one.stores}
    hosts = ", ".join(str(check.broker) for check in one.stores)
    equal = "differ" if one.differing else "equal"
    sizes = {check.log_bytes for check in one.stores}
    return (
        one.name,
        count_text(one.acknowledged),
        count_text(one.missing),
        count_text(one.unreadable),
        f"{hosts}: {'/'.join(sorted(verdicts))}, {equal}",
        size_text(max(sizes, default=0)),
    )


def _problems(one: SetCheck) -> list[str]:
    lines = [
        f"{one.name} on host {check.broker}: {check.verdict}: {check.problem}"
        for check in one.stores
        if check.problem
    ]
    if one.unread:
        lines.append(f"{one.name}: its consumer lacks {count_text(one.unread)} records")
    if one.problem:
        lines.append(f"{one.name}: {one.problem}")
    if one.differing:
        hosts = ", ".join(map(str, one.differing))
        lines.append(f"{one.name}: the logs of hosts {hosts} differ from the first one")
    return lines


def _pairs(report: RecoveryDemoReport, *, keep: bool) -> list[tuple[str, str]]:
    pairs = []
    if report.sets:
        pairs.append(("acknowledged", f"{count_text(report.records)} records as `all`"))
    pairs += [
        ("tried again", f"{count_text(report.retries)} appends"),
        ("total time", seconds_text(report.seconds)),
    ]
    if report.picture is not None:
        pairs.append(("timeline", str(report.picture)))
    if keep:
        stores = [str(check.store) for one in report.sets for check in one.stores]
        pairs += [("store", one) for one in stores]
    return pairs


def recovery_demo_json(report: RecoveryDemoReport, *, keep: bool) -> dict[str, Any]:
    """
    Returns the report with JSON keys.
    """
    return {
        "isGood": report.is_good,
        "problem": report.problem or None,
        "records": report.records,
        "missing": report.missing,
        "unreadable": report.unreadable,
        "retries": report.retries,
        "seconds": round(report.seconds, 3),
        "stories": [
            {
                "name": one.name,
                "text": one.text,
                "seconds": round(one.seconds, 3),
                "longestGapSeconds": round(one.gap_s, 3),
            }
            for one in report.stories
        ],
        "sets": [
            {
                "name": one.name,
                "masterHost": one.master,
                "acknowledged": one.acknowledged,
                "missing": one.missing,
                "unread": one.unread,
                "unreadable": one.unreadable,
                "problem": one.problem or None,
                "differing": list(one.differing),
                "stores": [
                    {
                        "host": check.broker,
                        "store": str(check.store) if keep else None,
                        "compared": check.compared,
                        "missing": check.missing,
                        "records": check.records,
                        "logBytes": check.log_bytes,
                        "verdict": check.verdict,
                        "problem": check.problem,
                    }
                    for check in one.stores
                ],
            }
            for one in report.sets
        ],
        "timeline": [
            {"seconds": round(one.at_s, 3), "who": one.who, "what": one.what}
            for one in report.timeline.events
        ],
        "picture": report.picture and str(report.picture),
    }
