"""
Alarms: what of the present state needs an operator. Pure.

Source: AR-R9, AR-R15, AR-R21; docs/autorecovery.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from pystore.autorecovery.status_view import RecoveryStatus

__all__ = ["NO_CLAIM_MS", "AlarmKind", "RecoveryAlarm", "alarms_of"]

NO_CLAIM_MS = 60_000
"""How long segments may wait while no worker takes one."""


class AlarmKind(Enum):
    """
    What is wrong.
    """

    BRAKE = "brake"
    NO_AUDITOR = "noAuditor"
    NO_CLAIM = "noClaim"
    OLD_MARK = "oldMark"
    DEAD = "deadSegments"
    UNREADABLE = "unreadableRecords"


@dataclass(frozen=True, slots=True)
class RecoveryAlarm:
    """
    One alarm.

    Attributes:
        kind: what is wrong.
        count: how many segments or records it is about; 0: it is about none.
        since_ms: since when at least, Unix time; 0: unknown.
    """

    kind: AlarmKind
    count: int = 0
    since_ms: int = 0


def alarms_of(status: RecoveryStatus) -> list[RecoveryAlarm]:
    """
    Returns the alarms, the most urgent first.
    """
    return list(_alarms(status))


def _alarms(status: RecoveryStatus) -> Iterator[RecoveryAlarm]:
    dead = status.contents.dead
    if dead:
        since_ms = min(one.at_ms for one in dead.values())
        yield RecoveryAlarm(AlarmKind.DEAD, len(dead), since_ms)
    if status.brake_ms is not None:
        yield RecoveryAlarm(AlarmKind.BRAKE, since_ms=status.brake_ms)
    if not status.auditor:
        yield RecoveryAlarm(AlarmKind.NO_AUDITOR)
    waiting = _waiting(status)
    if waiting is not None:
        yield waiting
    oldest_ms = status.at_ms - 1000 * status.settings.ageing_alarm_s
    old = [
        mark.first_ms
        for mark in status.contents.marks.values()
        if mark.first_ms <= oldest_ms
    ]
    if old:
        yield RecoveryAlarm(AlarmKind.OLD_MARK, len(old), min(old))
    if status.damaged:
        yield RecoveryAlarm(AlarmKind.UNREADABLE, len(status.damaged))


def _waiting(status: RecoveryStatus) -> RecoveryAlarm | None:
    """
    Segments that may be taken, and that no worker took for a minute. A worker that said
    something new within it works.
    """
    contents = status.contents
    if contents.claims or not contents.is_enabled or status.pauses.stops_repair:
        return None
    due = [
        max(mark.last_ms, mark.not_before_ms)
        for key, mark in contents.marks.items()
        if mark.not_before_ms <= status.at_ms
        and key.set_text not in status.pauses.set_texts
    ]
    heard_ms = max((one.since_ms for one in status.workers), default=0)
    since_ms = max(min(due, default=status.at_ms), heard_ms)
    if status.at_ms - since_ms < NO_CLAIM_MS:
        return None
    return RecoveryAlarm(AlarmKind.NO_CLAIM, len(due), since_ms)
