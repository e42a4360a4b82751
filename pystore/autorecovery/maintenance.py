"""
Maintenance: a host or a replica is away on purpose for a time, and nothing of it is
marked until then. One that is still away after that counts as lost since that time.

A rolling upgrade so needs no switch for the whole cluster.

Source: AR-R3; docs/autorecovery.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pystore.autorecovery.record_form import decode_form, encode_form
from pystore.autorecovery.segment_key import escape_name, read_name
from pystore.errors import FormatError, InvalidError, UnknownOutcomeError
from pystore.records.ops import Delete, Op, Put, check_key
from pystore.records.record_store import RecordStore

__all__ = [
    "MAINTENANCE",
    "Maintenance",
    "MaintenanceTarget",
    "away_until_ms",
    "enter",
    "leave",
    "read_maintenance",
]

MAINTENANCE = "recovery/maintenance/"
"""One record for each host, ``HOST``, or replica, ``CLUSTER/SET/ID``."""

_KNOWN = ("until_ms", "by", "at_ms")


@dataclass(frozen=True, slots=True, order=True)
class MaintenanceTarget:
    """
    What is away: a host with all its replicas, or one replica.

    Attributes:
        host: of the addresses of brokers; empty: it is one replica.
        cluster: of the replica.
        set_name: of the replica.
        broker_id: of the replica.

    Raises:
        InvalidError: it is neither, or both.
    """

    host: str = ""
    cluster: str = ""
    set_name: str = ""
    broker_id: int = 0

    def __post_init__(self) -> None:
        replica = (bool(self.cluster), bool(self.set_name), self.broker_id > 0)
        if replica != (not self.host,) * 3:
            raise InvalidError("maintenance is of a HOST or of CLUSTER/SET/ID")

    @property
    def text(self) -> str:
        """
        The end of its key: ``HOST``, or ``CLUSTER/SET/ID``.
        """
        if self.host:
            return escape_name(self.host)
        names = f"{escape_name(self.cluster)}/{escape_name(self.set_name)}"
        return f"{names}/{self.broker_id}"

    @property
    def key(self) -> str:
        """
        The key of its record.

        Raises:
            InvalidError: the names are too long for a key.
        """
        key = MAINTENANCE + self.text
        check_key(key)
        return key

    @classmethod
    def parse(cls, text: str) -> MaintenanceTarget:
        """
        Returns the target of a `text`.

        Raises:
            InvalidError: it is none.
        """
        parts = text.split("/")
        if len(parts) == 1:
            return cls(read_name(text))
        number = parts[-1]
        if len(parts) != 3 or not (number.isascii() and number.isdigit()):
            raise InvalidError(f"{text!r} is neither a HOST nor CLUSTER/SET/ID")
        return cls("", read_name(parts[0]), read_name(parts[1]), int(number))


@dataclass(frozen=True, slots=True)
class Maintenance:
    """
    The record of one that is away.

    Attributes:
        until_ms: Unix time.
        by: who ordered it, for people.
        at_ms: when.
        more: fields of a later program, kept as they are.
    """

    until_ms: int
    by: str
    at_ms: int
    more: Mapping[str, object] = field(default_factory=dict)


def read_maintenance(
    store: RecordStore, damaged: list[str] | None = None
) -> dict[MaintenanceTarget, Maintenance]:
    """
    Returns the records, also those whose time is over: it is since when the target
    counts as lost.

    Args:
        store: of the queue.
        damaged: gets one line for each record that cannot be read.
    """
    found: dict[MaintenanceTarget, Maintenance] = {}
    for record in store.scan(MAINTENANCE):
        try:
            if record.damage:
                raise FormatError(record.damage, path=record.key)
            target = MaintenanceTarget.parse(record.key.removeprefix(MAINTENANCE))
            fields = decode_form(record.value, record.key)
            found[target] = Maintenance(
                fields.number("until_ms"),
                fields.text("by"),
                fields.number("at_ms"),
                fields.other_than(_KNOWN),
            )
        except (FormatError, InvalidError) as error:
            # One record must not hide the others.
            if damaged is not None:
                damaged.append(str(error))
    return found


def away_until_ms(
    records: Mapping[MaintenanceTarget, Maintenance],
    *,
    host: str,
    cluster: str,
    set_name: str,
    broker_id: int,
) -> int:
    """
    Returns until when a replica may be away, by its own record or that of its host; 0:
    there is neither.
    """
    targets = [MaintenanceTarget("", cluster, set_name, broker_id)]
    if host:
        targets.append(MaintenanceTarget(host))
    return max((records[one].until_ms for one in targets if one in records), default=0)


def enter(
    store: RecordStore,
    target: MaintenanceTarget,
    until_ms: int,
    *,
    by: str,
    now_ms: int,
) -> None:
    """
    Lets a host or a replica be away for a time, or gives it another end.

    Raises:
        InvalidError: the end is not later than now.
    """
    if until_ms <= now_ms:
        raise InvalidError(f"maintenance of {target.text} ends after it begins")
    raw = encode_form({"until_ms": until_ms, "by": by, "at_ms": now_ms})
    _settled(store, Put(target.key, raw))


def leave(store: RecordStore, target: MaintenanceTarget) -> bool:
    """
    Ends it before its time, also a record that cannot be read; returns whether there
    was one.
    """
    is_there = any(one.key == target.key for one in store.scan(target.key))
    _settled(store, Delete(target.key))
    return is_there


def _settled(store: RecordStore, op: Op) -> None:
    while True:
        try:
            store.commit([op])
        except UnknownOutcomeError:
            # The same again is the same record.
            continue
        return
