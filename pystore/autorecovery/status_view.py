"""
The present state of AutoRecovery, read once: what `pystore recovery status` shows.

It is made of the queue, of what operators ordered, and of the records in which the
Auditor and the workers say what they wait for, and since when (AR-R21).

Source: AR-R15, AR-R21, AR-R24; docs/autorecovery.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pystore.autorecovery.maintenance import (
    Maintenance,
    MaintenanceTarget,
    away_until_ms,
    read_maintenance,
)
from pystore.autorecovery.mark_brake import BRAKE_ALARM
from pystore.autorecovery.pauses import Pauses, read_pauses
from pystore.autorecovery.queue_view import (
    QueueContents,
    RecoverySummary,
    read_contents,
    summary_of,
)
from pystore.autorecovery.record_form import RecordFields, decode_form
from pystore.autorecovery.segment_key import DISABLED, read_name
from pystore.autorecovery.settings import RecoverySettings, read_settings
from pystore.errors import FormatError, PystoreError
from pystore.records.record_store import RecordStore, StoredRecord

__all__ = [
    "Activity",
    "LostReplica",
    "RecoveryStatus",
    "SwitchedOff",
    "leading_auditor",
    "read_activity",
    "read_status",
]

_AUDITOR = "recovery/auditor"  # held by the leading one
_LOST = "recovery/lost/"  # CLUSTER/SET/ID
_STATUS = "recovery/status/"
_AUDITOR_STATUS = f"{_STATUS}auditor"
_WORKER_STATUS = f"{_STATUS}worker/"


@dataclass(frozen=True, slots=True)
class Activity:
    """
    What the Auditor or a worker says of itself.

    Attributes:
        name: of the worker; of the Auditor ``auditor``.
        waits_for: what it does or waits for; empty: it does not say.
        since_ms: since when, Unix time; 0: it does not say.
        more: what else it says.
    """

    name: str
    waits_for: str
    since_ms: int
    more: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class LostReplica:
    """
    A replica that the leading controller calls dead.

    Attributes:
        cluster: of its set.
        set_name: of its set.
        broker_id: in the set.
        since_ms: of its death, Unix time.
        more: what else the Auditor says of it.
    """

    cluster: str
    set_name: str
    broker_id: int
    since_ms: int
    more: Mapping[str, object]

    @property
    def text(self) -> str:
        """
        For people: ``CLUSTER/SET/ID``.
        """
        return f"{self.cluster}/{self.set_name}/{self.broker_id}"


@dataclass(frozen=True, slots=True)
class SwitchedOff:
    """
    Who disabled the taking of segments, and when.

    Attributes:
        by: for people; empty: unknown.
        at_ms: Unix time; 0: unknown.
    """

    by: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class RecoveryStatus:
    """
    The present state. In ZooKeeper its records are of different moments.

    Attributes:
        at_ms: when it was read, Unix time.
        contents: of the queue.
        settings: that hold.
        pauses: that are not over.
        switched_off: taking is disabled; ``None``: it is enabled.
        auditor: the name of the leading Auditor; empty: there is none.
        auditor_activity: what it says of itself; ``None``: nothing.
        workers: what each says of itself, by name.
        lost: replicas, in the order of their keys.
        maintenance: hosts and replicas that may be away, also for too long.
        damaged: one line for each record that cannot be read.
        brake_ms: since when a check is stopped because it would have marked too much,
            Unix time, 0: unknown; ``None``: none is.
    """

    at_ms: int
    contents: QueueContents
    settings: RecoverySettings
    pauses: Pauses
    switched_off: SwitchedOff | None
    auditor: str
    auditor_activity: Activity | None
    workers: tuple[Activity, ...]
    lost: tuple[LostReplica, ...]
    maintenance: Mapping[MaintenanceTarget, Maintenance]
    damaged: tuple[str, ...]
    brake_ms: int | None = None

    @property
    def summary(self) -> RecoverySummary:
        """
        The numbers of the queue.
        """
        return summary_of(self.contents)

    def told(self, name: str) -> int | None:
        """
        Returns a number that the leading Auditor tells of itself; ``None``: it tells
        none.
        """
        activity = self.auditor_activity if self.auditor else None
        found = None if activity is None else activity.more.get(name)
        return found if isinstance(found, int) else None

    def due_ms(self, lost: LostReplica) -> int:
        """
        Returns when a lost replica counts: as the Auditor noted it, otherwise after the
        delay, from the loss or the end of its maintenance on.
        """
        noted = lost.more.get("due_ms")
        if isinstance(noted, int) and noted > 0:
            return noted
        host = lost.more.get("host")
        until_ms = away_until_ms(
            self.maintenance,
            host=host if isinstance(host, str) else "",
            cluster=lost.cluster,
            set_name=lost.set_name,
            broker_id=lost.broker_id,
        )
        return max(lost.since_ms, until_ms) + 1000 * self.settings.delay_s


def read_status(store: RecordStore, now_ms: int) -> RecoveryStatus:
    """
    Reads the present state: with ZooKeeper some 100 requests and one for each record.

    Args:
        store: of the queue.
        now_ms: Unix time.
    """
    contents = read_contents(store)
    damaged = list(contents.damaged)
    settings, pauses = RecoverySettings(), Pauses()
    try:
        settings = read_settings(store)[0]
    except FormatError as error:
        # The defaults are shown; the line tells it.
        damaged.append(str(error))
    try:
        pauses = read_pauses(store)[0].at(now_ms)
    except FormatError as error:
        # As the workers, which then know of none.
        damaged.append(str(error))
    return RecoveryStatus(
        at_ms=now_ms,
        contents=contents,
        settings=settings,
        pauses=pauses,
        switched_off=None if contents.is_enabled else _switched_off(store),
        auditor=leading_auditor(store),
        auditor_activity=read_activity(store, damaged),
        workers=_workers(store, damaged),
        lost=_lost(store, damaged),
        maintenance=read_maintenance(store, damaged),
        damaged=tuple(damaged),
        brake_ms=_brake_ms(store),
    )


def leading_auditor(store: RecordStore) -> str:
    """
    Returns the name of the leading Auditor; empty: there is none.
    """
    found = store.get(_AUDITOR)
    return "" if found is None else found.value.decode(errors="replace")


def read_activity(
    store: RecordStore, damaged: list[str] | None = None
) -> Activity | None:
    """
    Returns what the Auditor says of itself; ``None``: nothing.

    Args:
        store: of the queue.
        damaged: gets a line if the record cannot be read.
    """
    found = store.get(_AUDITOR_STATUS)
    if found is None:
        return None
    fields = _fields(found, [] if damaged is None else damaged)
    return None if fields is None else _activity("auditor", fields)


def _workers(store: RecordStore, damaged: list[str]) -> tuple[Activity, ...]:
    return tuple(
        _activity(read_name(record.key.removeprefix(_WORKER_STATUS)), fields)
        for record in store.scan(_WORKER_STATUS)
        if (fields := _fields(record, damaged)) is not None
    )


def _lost(store: RecordStore, damaged: list[str]) -> tuple[LostReplica, ...]:
    found = []
    for record in store.scan(_LOST):
        fields = _fields(record, damaged)
        if fields is None:
            continue
        try:
            target = MaintenanceTarget.parse(record.key.removeprefix(_LOST))
            since_ms = fields.number("since_ms")
        except PystoreError as error:
            # One record must not hide the others.
            damaged.append(str(error))
            continue
        more = fields.other_than(("since_ms",))
        found.append(
            LostReplica(
                target.cluster, target.set_name, target.broker_id, since_ms, more
            )
        )
    return tuple(found)


def _brake_ms(store: RecordStore) -> int | None:
    found = store.get(BRAKE_ALARM)
    fields = None if found is None else _fields(found, [])
    at_ms = None if fields is None else fields.values.get("at_ms")
    return None if found is None else at_ms if isinstance(at_ms, int) else 0


def _switched_off(store: RecordStore) -> SwitchedOff:
    found = store.get(DISABLED)
    fields = None if found is None else _fields(found, [])
    values = {} if fields is None else fields.values
    by, at_ms = values.get("by"), values.get("at_ms")
    return SwitchedOff(
        by if isinstance(by, str) else "", at_ms if isinstance(at_ms, int) else 0
    )


def _activity(name: str, fields: RecordFields) -> Activity:
    """
    Takes what is there: a later program may say it in another way.
    """
    names = [one for one in ("waits_for", "doing") if one in fields.values]
    waits_for = fields.values[names[0]] if names else ""
    since_ms = fields.values.get("since_ms")
    return Activity(
        name,
        waits_for if isinstance(waits_for, str) else "",
        since_ms if isinstance(since_ms, int) else 0,
        fields.other_than((*names[:1], "since_ms")),
    )


def _fields(record: StoredRecord, damaged: list[str]) -> RecordFields | None:
    try:
        if record.damage:
            raise FormatError(record.damage, path=record.key)
        return decode_form(record.value, record.key)
    except FormatError as error:
        # One record must not hide the others.
        damaged.append(str(error))
        return None
