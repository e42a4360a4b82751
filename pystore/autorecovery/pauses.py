"""
Pauses: an operator stops repair, verification, or work on a set or a host, for a time.

Each pause ends by itself, so none is forgotten. All of them are one record: a worker
reads it with one request, and seldom (AR-R19). So a pause is noticed within
`FRESH_MS`; `pystore.autorecovery.queue.UnderReplicationQueue.disable` is the switch
that counts from its commit on, and has no end.

Source: AR-R24; docs/autorecovery.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from pystore.autorecovery.record_form import RecordFields, decode_form, encode_form
from pystore.autorecovery.segment_key import escape_name, read_name
from pystore.errors import FormatError, InvalidError, UnknownOutcomeError
from pystore.records.ops import ABSENT, CheckVersion, Put
from pystore.records.record_store import RecordStore

__all__ = [
    "FRESH_MS",
    "PAUSES",
    "PauseKind",
    "PauseTarget",
    "Pauses",
    "RecentPauses",
    "TimedPause",
    "end_pause",
    "known_pauses",
    "pause",
    "read_pauses",
]

PAUSES = "recovery/pauses"
"""All pauses, by target."""

FRESH_MS = 20_000
"""How long a worker may not notice a pause, or its early end."""

_KEPT_MS = 3_600_000  # after its end, for clocks that differ
_KNOWN = ("until_ms", "by", "at_ms")


class PauseKind(Enum):
    """
    What stops.
    """

    REPAIR = "repair"  # no worker takes a segment
    VERIFICATION = "verification"  # no bytes are read only to look for damage
    SET = "set"  # no segment of the set is taken
    HOST = "host"  # no replica of the host is source or target


@dataclass(frozen=True, slots=True)
class PauseTarget:
    """
    What a pause is about.

    Attributes:
        kind: what stops.
        cluster: of a set.
        name: of a set or a host.

    Raises:
        InvalidError: a name is missing, or is too many.
    """

    kind: PauseKind
    cluster: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        needs = (self.kind is PauseKind.SET, self.kind in _NAMED)
        if needs != (bool(self.cluster), bool(self.name)):
            raise InvalidError(
                "a pause is of repair, verification, set CLUSTER/SET or host HOST, not "
                f"{self.kind.value} {'/'.join(filter(None, (self.cluster, self.name)))}"
            )

    @property
    def text(self) -> str:
        """
        Its key in the record: ``repair``, ``set/CLUSTER/SET``, ``host/HOST``.
        """
        names = (escape_name(one) for one in (self.cluster, self.name) if one)
        return "/".join((self.kind.value, *names))

    @classmethod
    def parse(cls, text: str) -> PauseTarget:
        """
        Returns the target of a `text`.

        Raises:
            InvalidError: it is none.
        """
        kind, *names = text.split("/")
        kinds = {one.value: one for one in PauseKind}
        if kind not in kinds or len(names) > 2:
            raise InvalidError(f"{text!r} is nothing that can be paused")
        cluster, name = ["", "", *map(read_name, names)][-2:]
        return cls(kinds[kind], cluster, name)


_NAMED = (PauseKind.SET, PauseKind.HOST)


@dataclass(frozen=True, slots=True)
class TimedPause:
    """
    One pause.

    Attributes:
        until_ms: its end, Unix time.
        by: who ordered it, for people.
        at_ms: when.
        more: fields of a later program, kept as they are.
    """

    until_ms: int
    by: str
    at_ms: int
    more: Mapping[str, object] = field(default_factory=dict)


class Pauses:
    """
    Pauses at one moment.

    Args:
        entries: by target.
    """

    def __init__(self, entries: Mapping[PauseTarget, TimedPause] | None = None) -> None:
        self.entries = dict(entries or {})
        self.set_texts = frozenset(
            one.text.removeprefix("set/")
            for one in self.entries
            if one.kind is PauseKind.SET
        )

    def at(self, now_ms: int) -> Pauses:
        """
        Returns those that are not over.
        """
        if all(now_ms < one.until_ms for one in self.entries.values()):
            return self
        return Pauses({t: p for t, p in self.entries.items() if now_ms < p.until_ms})

    @property
    def stops_repair(self) -> bool:
        """
        Whether no segment is to be taken.
        """
        return any(one.kind is PauseKind.REPAIR for one in self.entries)

    @property
    def stops_verification(self) -> bool:
        """
        Whether no bytes are to be read only to look for damage.
        """
        return PauseTarget(PauseKind.VERIFICATION) in self.entries

    def stops_set(self, cluster: str, name: str) -> bool:
        """
        Whether no segment of a set is to be taken.
        """
        return PauseTarget(PauseKind.SET, cluster, name) in self.entries

    def stops_host(self, host: str) -> bool:
        """
        Whether no replica of a host is to be source or target of a repair.
        """
        return bool(host) and PauseTarget(PauseKind.HOST, name=host) in self.entries


def read_pauses(store: RecordStore) -> tuple[Pauses, int]:
    """
    Returns all pauses, also those that are over, and the version of their record.

    Raises:
        FormatError: the record has a later form, or is damaged.
    """
    found = store.get(PAUSES)
    if found is None:
        return Pauses(), ABSENT
    fields = decode_form(found.value, PAUSES)
    entries = {}
    for text in fields.values:
        try:
            target = PauseTarget.parse(text)
        except InvalidError as error:
            # Its text names the entry, not the record.
            raise fields.bad(str(error)) from error
        entries[target] = _pause(fields.inner(text))
    return Pauses(entries), found.version


def known_pauses(store: RecordStore) -> Pauses:
    """
    Returns all pauses; none, if their record cannot be read: their end is unknown then,
    and the status tells it.
    """
    try:
        return read_pauses(store)[0]
    except FormatError:
        # As said above.
        return Pauses()


def pause(
    store: RecordStore, target: PauseTarget, until_ms: int, *, by: str, now_ms: int
) -> None:
    """
    Begins a pause, or gives it another end.

    Args:
        store: of the queue.
        target: what stops.
        until_ms: its end, Unix time.
        by: who orders it, for people.
        now_ms: Unix time.

    Raises:
        InvalidError: the end is not later than now.
        FormatError: the record of the pauses cannot be read.
    """
    if until_ms <= now_ms:
        raise InvalidError(f"a pause of {target.text} ends after it begins")
    while True:
        known, version = read_pauses(store)
        new = TimedPause(until_ms, by, now_ms)
        if _write(store, {**known.entries, target: new}, version, now_ms):
            return


def end_pause(store: RecordStore, target: PauseTarget, now_ms: int) -> bool:
    """
    Ends a pause before its time; returns whether there was one.

    Raises:
        FormatError: the record of the pauses cannot be read.
    """
    is_ended = False
    while True:
        known, version = read_pauses(store)
        if target not in known.at(now_ms).entries:
            return is_ended
        # After a lost answer it may be gone: then it was this call.
        is_ended = True
        left = {t: p for t, p in known.entries.items() if t != target}
        if _write(store, left, version, now_ms):
            return True


class RecentPauses:
    """
    The pauses as one slot of a worker knows them, at most `FRESH_MS` old. One thread.

    Args:
        store: of the queue.
    """

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self._known = Pauses()
        self._read_ms: int | None = None

    def at(self, now_ms: int) -> Pauses:
        """
        Returns those that are not over; it reads them now and then.

        Raises:
            PystoreError: the record store cannot be read.
        """
        if self._read_ms is None or not 0 <= now_ms - self._read_ms < FRESH_MS:
            self._known = known_pauses(self._store)
            self._read_ms = now_ms
        return self._known.at(now_ms)


def _pause(fields: RecordFields) -> TimedPause:
    return TimedPause(
        fields.number("until_ms"),
        fields.text("by"),
        fields.number("at_ms"),
        fields.other_than(_KNOWN),
    )


def _write(
    store: RecordStore,
    entries: Mapping[PauseTarget, TimedPause],
    version: int,
    now_ms: int,
) -> bool:
    kept = {
        target.text: {
            **one.more,
            "until_ms": one.until_ms,
            "by": one.by,
            "at_ms": one.at_ms,
        }
        for target, one in entries.items()
        if now_ms < one.until_ms + _KEPT_MS
    }
    try:
        done = store.commit(
            [CheckVersion(PAUSES, version), Put(PAUSES, encode_form(kept))]
        )
    except UnknownOutcomeError:
        # The record shows it: read and written again it is the same.
        return False
    return done is not None
