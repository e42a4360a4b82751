"""
The state of AutoRecovery, as one object of JSON and as text for people.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pystore.autorecovery.alarms import AlarmKind, RecoveryAlarm
from pystore.autorecovery.mark import Priority
from pystore.autorecovery.status_view import Activity, LostReplica, RecoveryStatus
from pystore.cli.lib.durations import moment_text, since_text, span_text, until_text
from pystore.cli.lib.output import lines_text, pairs_text, table_text
from pystore.cli.recovery.segment_text import PRIORITIES, dead_lines, dead_row
from pystore.text import count_text, size_text

__all__ = ["first_line", "status_row", "status_text"]

_SHOWN = 20
"""Claims and dead segments that the text names; `list` and `dead` have all."""

_ALARMS = {
    AlarmKind.DEAD: "{count} segments have no good copy, the first one for {since}: "
    "`pystore recovery dead` names them and the evidence",
    AlarmKind.BRAKE: "a check is stopped for {since}, because it would mark too much: "
    "look for a common cause, and ask again with `pystore recovery kick`",
    AlarmKind.NO_AUDITOR: "no Auditor: lost and damaged copies are not marked",
    AlarmKind.NO_CLAIM: "{count} segments wait, and no worker has taken one for "
    "{since}: look at the workers below",
    AlarmKind.OLD_MARK: "{count} segments are not repaired in time, the first one "
    "waits for {since}: `pystore recovery list` shows their tries",
    AlarmKind.UNREADABLE: "{count} records cannot be read: see below",
}


def status_row(status: RecoveryStatus, alarms: list[RecoveryAlarm]) -> dict[str, Any]:
    """
    Returns the state with JSON keys.
    """
    summary, off = status.summary, status.switched_off
    return {
        "atMillis": status.at_ms,
        "enabled": off is None,
        "disabledBy": None if off is None else off.by,
        "disabledMillis": None if off is None else off.at_ms,
        "pauses": [
            {"target": target.text, "untilMillis": one.until_ms, "by": one.by}
            for target, one in status.pauses.entries.items()
        ],
        "alarms": [
            {
                "alarm": one.kind.value,
                "count": one.count,
                "sinceMillis": one.since_ms or None,
                "text": _alarm_text(one, status.at_ms),
            }
            for one in alarms
        ],
        "auditor": status.auditor or None,
        "auditorActivity": _activity_row(status.auditor_activity),
        "segments": sum(summary.marks.values()),
        "segmentsByPriority": {str(int(p)): n for p, n in summary.marks.items()},
        "bytes": summary.size,
        "oldestFirstMillis": summary.oldest_first_ms,
        "delaySeconds": status.settings.delay_s,
        "claims": [
            {"segment": key.text, "worker": worker}
            for key, worker in status.contents.claims.items()
        ],
        "dead": [dead_row(key, one) for key, one in status.contents.dead.items()],
        "lost": [
            {
                **one.more,
                "clusterName": one.cluster,
                "brokerName": one.set_name,
                "brokerId": one.broker_id,
                "sinceMillis": one.since_ms,
                "dueMillis": status.due_ms(one),
            }
            for one in status.lost
        ],
        "maintenance": [
            {"target": target.text, "untilMillis": one.until_ms, "by": one.by}
            for target, one in status.maintenance.items()
        ],
        "workers": [_activity_row(one) for one in status.workers],
        "damaged": list(status.damaged),
    }


def _activity_row(one: Activity | None) -> dict[str, Any] | None:
    if one is None:
        return None
    said = {"name": one.name, "waitsFor": one.waits_for, "sinceMillis": one.since_ms}
    return {**one.more, **said}


def first_line(status: RecoveryStatus) -> str:
    """
    Returns what stops AutoRecovery, or that nothing does.
    """
    now_ms, off = status.at_ms, status.switched_off
    parts = []
    if off is not None:
        when = f", {moment_text(off.at_ms, now_ms)}" if off.at_ms else ""
        parts.append(f"DISABLED by {off.by or 'unknown'}{when}")
    for target, one in status.pauses.entries.items():
        name = "/".join(filter(None, (target.cluster, target.name)))
        what = f"{target.kind.value} {name}".rstrip()
        parts.append(
            f"PAUSED: {what}, for {until_text(one.until_ms, now_ms)}, by {one.by}"
        )
    if not status.auditor:
        parts.append("NO AUDITOR")
    if parts:
        return "; ".join(parts)
    return f"repair is enabled, {status.auditor} is the Auditor, nothing is paused"


def status_text(status: RecoveryStatus, alarms: list[RecoveryAlarm]) -> str:
    """
    Returns the state for people: what stops it, alarms, the queue, and who does what.
    """
    top = [first_line(status)]
    top += [f"alarm: {_alarm_text(one, status.at_ms)}" for one in alarms]
    parts = [lines_text(top), pairs_text(_pairs(status))]
    parts += _tables(status)
    parts += [lines_text(lines) for lines in _lists(status) if lines]
    return "\n\n".join(parts)


def _alarm_text(one: RecoveryAlarm, now_ms: int) -> str:
    since = since_text(one.since_ms, now_ms)
    return _ALARMS[one.kind].format(count=count_text(one.count), since=since)


def _pairs(status: RecoveryStatus) -> list[tuple[str, str]]:
    summary, now_ms = status.summary, status.at_ms
    oldest = summary.oldest_first_ms
    waits = status.auditor_activity
    auditor = status.auditor or "none"
    if status.auditor and waits is not None and waits.waits_for:
        auditor += f", {_activity_text(waits, now_ms)}"
    count = sum(summary.marks.values())
    return [
        ("Auditor", auditor),
        ("in the queue", f"{count_text(count)} segments, {size_text(summary.size)}"),
        ("being repaired", f"{count_text(summary.claims)} segments"),
        ("oldest mark", "none" if oldest is None else moment_text(oldest, now_ms)),
        ("dead", f"{count_text(summary.dead)} segments"),
        ("lost", f"{count_text(len(status.lost))} replicas"),
        *_placed(status),
        ("delay", f"{span_text(1000 * status.settings.delay_s)} after a loss"),
    ]


def _placed(status: RecoveryStatus) -> list[tuple[str, str]]:
    misplaced = status.told("misplaced")
    more = status.told("overreplicated")
    told = []
    if misplaced is not None:
        told.append(("on a wrong rack", f"{count_text(misplaced)} replicas"))
    if more:
        told.append(("more replicas than wanted", f"{count_text(more)} sets"))
    return told


def _tables(status: RecoveryStatus) -> Iterator[str]:
    now_ms, contents = status.at_ms, status.contents
    if contents.marks:
        rows = [_priority_row(status, one) for one in Priority]
        yield table_text(("priority", "segments", "size", "oldest mark"), rows)
    claims = list(contents.claims.items())
    if claims:
        rows = [(key.text, worker or "unknown") for key, worker in claims[:_SHOWN]]
        yield table_text(("being repaired", "by"), [*rows, *_rest(len(claims), 2)])
    if status.lost:
        lost = [_lost_row(status, one) for one in status.lost[:_SHOWN]]
        header = ("lost replica", "dead for", "counts as lost", "why")
        yield table_text(header, [*lost, *_rest(len(status.lost), 4)])
    if status.workers:
        works = [
            (
                one.name,
                one.waits_for or "-",
                since_text(one.since_ms, now_ms) if one.since_ms else "-",
            )
            for one in status.workers[:_SHOWN]
        ]
        names = ("worker", "does or waits for", "for")
        yield table_text(names, [*works, *_rest(len(status.workers), 3)])


def _priority_row(status: RecoveryStatus, priority: Priority) -> tuple[str, ...]:
    marks = [one for one in status.contents.marks.values() if one.priority is priority]
    oldest = min((one.first_ms for one in marks), default=None)
    return (
        f"{int(priority)}  {PRIORITIES[priority]}",
        count_text(len(marks)),
        size_text(sum(one.size for one in marks)),
        "-" if oldest is None else moment_text(oldest, status.at_ms),
    )


def _lost_row(status: RecoveryStatus, one: LostReplica) -> tuple[str, ...]:
    return (
        one.text,
        since_text(one.since_ms, status.at_ms),
        moment_text(status.due_ms(one), status.at_ms),
        str(one.more.get("why") or "-"),
    )


def _activity_text(one: Activity, now_ms: int) -> str:
    since = f", for {since_text(one.since_ms, now_ms)}" if one.since_ms else ""
    return f"waits for {one.waits_for}{since}"


def _rest(count: int, columns: int) -> list[tuple[str, ...]]:
    """
    Returns a row that says how many are not shown.
    """
    if count <= _SHOWN:
        return []
    return [(f"and {count_text(count - _SHOWN)} more", *[""] * (columns - 1))]


def _lists(status: RecoveryStatus) -> Iterator[list[str]]:
    now_ms, dead = status.at_ms, list(status.contents.dead.items())
    lines = [
        one for key, grave in dead[:_SHOWN] for one in dead_lines(key, grave, now_ms)
    ]
    if len(dead) > _SHOWN:
        lines.append(f"and {count_text(len(dead) - _SHOWN)} more")
    yield lines
    yield [
        f"{target.text}: in maintenance for {until_text(one.until_ms, now_ms)}, by "
        f"{one.by}"
        if now_ms < one.until_ms
        else f"{target.text}: its maintenance has been over for "
        f"{since_text(one.until_ms, now_ms)}: if it is away, it counts as lost since "
        "then"
        for target, one in status.maintenance.items()
    ]
    yield [f"unreadable: {one}" for one in status.damaged]
