"""
The settings of AutoRecovery: one record, the same for every process. Pure but for the
record store.

The first Auditor writes those that it was started with; later ones find them. They are
changed by compare-and-set, so two operators do not undo each other's changes.

Source: BK-A22; AR-R1, AR-R4, AR-R7, AR-R11 to AR-R13; docs/autorecovery.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache

from pystore.autorecovery.record_form import decode_form, encode_form
from pystore.autorecovery.segment_key import SETTINGS
from pystore.errors import InvalidError, UnknownOutcomeError
from pystore.records.ops import ABSENT, CheckVersion, Put
from pystore.records.record_store import RecordStore

__all__ = ["RecoverySettings", "begin_settings", "change_settings", "read_settings"]

_DAY_S = 86_400
_PERCENT_MAX = 100
_NUMBER_MAX = (1 << 53) - 1  # exact in every JSON reader


@dataclass(frozen=True, slots=True)
class RecoverySettings:
    """
    The settings. Names end in their unit; numbers are from 0 on.

    Attributes:
        delay_s: how long a replica is dead before its segments are marked.
        multi_loss_immediate: a second dead replica ends the delay.
        broker_check_s: how often all replicas are looked at without a cause.
        verify_cycle_s: in which all bytes are verified once; nothing applies it yet.
        verify_percent: of the blocks of a segment that a verification reads; likewise.
        worker_check_percent: of the blocks that a worker reads of a copy which the mark
            does not name.
        placement_check_s: how often the rule of racks is checked; 0: never.
        placement_repair: replicas against that rule are moved.
        ageing_alarm_s: an older mark is an alarm.
        open_grace_s: how long a worker leaves an active segment to replication.
        backoff_s: before the second try of a repair; it doubles with each one.
        backoff_max_s: the longest of these times.
        dead_after: tries without any good copy, before a segment counts as dead.
        worker_slots: repairs of one worker at once.
        queue_window: marks that are published at once, at most.
        fill_window: segments of one filling replica that are marked at once.
        take_rate: segments that one worker takes in a second, with all its slots; 0:
            any number.
        repair_bytes_per_s: into one host; 0: any number.
        serve_bytes_per_s: out of one host, of segments; 0: any number.
        brake_percent: of the segments; a check that would newly mark more stops.
        replacements_at_once: replicas that are replaced at the same time.
        replacements_per_host: new replicas that one host fills at the same time.
        disk_high_percent: no replica is added where the disk would be fuller.
        more: settings of a later program, kept as they are.
    """

    delay_s: int = 600
    multi_loss_immediate: bool = True
    broker_check_s: int = _DAY_S
    verify_cycle_s: int = 21 * _DAY_S
    verify_percent: int = 100
    worker_check_percent: int = 0
    placement_check_s: int = _DAY_S
    placement_repair: bool = False
    ageing_alarm_s: int = 3600
    open_grace_s: int = 30
    backoff_s: int = 10
    backoff_max_s: int = 300
    dead_after: int = 12
    worker_slots: int = 2
    queue_window: int = 10_000
    fill_window: int = 4
    take_rate: int = 0
    repair_bytes_per_s: int = 100_000_000
    serve_bytes_per_s: int = 200_000_000
    brake_percent: int = 5
    replacements_at_once: int = 16
    replacements_per_host: int = 2
    disk_high_percent: int = 85
    more: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            is_percent = name.endswith("_percent")
            most = _PERCENT_MAX if is_percent else _NUMBER_MAX
            if type(value) is not type(default) or not 0 <= value <= most:
                raise InvalidError(f"{name} cannot be {value!r}: 0 to {most}")

    @property
    def values(self) -> dict[str, object]:
        """
        All but `more`, by name.
        """
        return {name: getattr(self, name) for name in _DEFAULTS}

    def back_off_ms(self, tries: int) -> int:
        """
        Returns how long a segment rests after as many failed repairs, from 1 on
        (AR-R11).
        """
        doubled = self.backoff_s << min(tries - 1, 62)
        return 1000 * min(doubled, self.backoff_max_s)


_DEFAULTS: Mapping[str, int] = {
    one.name: one.default  # type: ignore[misc]  # each of them has one
    for one in fields(RecoverySettings)
    if one.name != "more"
}


def read_settings(store: RecordStore) -> tuple[RecoverySettings, int]:
    """
    Returns the settings and the version of their record; `ABSENT`: the defaults.

    Raises:
        FormatError: the record has a later form, or is damaged.
    """
    found = store.get(SETTINGS)
    if found is None:
        return RecoverySettings(), ABSENT
    return _decoded(found.value), found.version


@lru_cache(maxsize=2)
def _decoded(raw: bytes) -> RecoverySettings:
    """
    Returns the settings of a record: the same one is read with each failed repair.
    """
    read = decode_form(raw, SETTINGS)
    known = {name: one for name, one in read.values.items() if name in _DEFAULTS}
    try:
        # A setting that an earlier program did not know has its default.
        return RecoverySettings(**known, more=read.other_than(_DEFAULTS))  # type: ignore[arg-type]
    except InvalidError as error:
        # Its text names the setting, not the record.
        raise read.bad(str(error)) from error


def begin_settings(store: RecordStore, settings: RecoverySettings) -> RecoverySettings:
    """
    Writes the settings if there are none; returns those that hold (BK-A22).

    Raises:
        FormatError: the record has a later form, or is damaged.
    """
    while True:
        found, version = read_settings(store)
        if version != ABSENT:
            return found
        _write(store, settings, ABSENT)


def change_settings(
    store: RecordStore, changes: Mapping[str, object]
) -> RecoverySettings:
    """
    Changes some settings, and leaves those that others change meanwhile.

    The record is written even if nothing changes: its new version asks for an audit
    (BK-A30).

    Raises:
        InvalidError: there is no such setting, or it cannot have this value.
        FormatError: the record has a later form, or is damaged.
    """
    unknown = sorted(changes.keys() - _DEFAULTS.keys())
    if unknown:
        raise InvalidError(f"there is no setting {unknown[0]!r}")
    while True:
        found, version = read_settings(store)
        changed = replace(found, **changes)  # type: ignore[arg-type]
        if _write(store, changed, version):
            return changed


def _write(store: RecordStore, settings: RecoverySettings, version: int) -> bool:
    raw = encode_form({**settings.more, **settings.values})
    try:
        return bool(store.commit([CheckVersion(SETTINGS, version), Put(SETTINGS, raw)]))
    except UnknownOutcomeError:
        # The record shows it: written again it is the same.
        return False
