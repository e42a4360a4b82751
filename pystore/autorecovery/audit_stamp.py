"""
What an Auditor leaves for the next one: which requests were met, and when the last
check of all replicas finished.

Source: AR-R14; BK-A30, BK-A117, BK-A120; docs/autorecovery.md, *The Auditor*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pystore.autorecovery.record_form import decode_form, encode_form
from pystore.errors import FormatError
from pystore.records.record_store import RecordStore

__all__ = ["CHECKED", "AuditStamp", "encode_stamp", "read_stamp"]

CHECKED = "recovery/checked"
"""The stamp of the Auditor."""


@dataclass(frozen=True, slots=True)
class AuditStamp:
    """
    The stamp.

    Attributes:
        finished_ms: when the last check of all replicas that was not cut short
            finished, Unix time; 0: none did.
        kick: the version of the request for an audit that was met last; 0: none was.
        settings: the version of the settings that was seen last; 0: none was.
        values: of these settings.
    """

    finished_ms: int = 0
    kick: int = 0
    settings: int = 0
    values: Mapping[str, object] = field(default_factory=dict)

    def wait_ms(self, now_ms: int, interval_s: int) -> int:
        """
        Returns how long until the next check of all replicas is due. A clock that went
        back counts as a check that finished now.
        """
        if not self.finished_ms:
            return 0
        return max(0, 1000 * interval_s - max(0, now_ms - self.finished_ms))


def encode_stamp(stamp: AuditStamp) -> bytes:
    """
    Returns the record of a stamp.
    """
    return encode_form(
        {
            "finished_ms": stamp.finished_ms,
            "kick": stamp.kick,
            "settings": stamp.settings,
            "values": dict(stamp.values),
        }
    )


def read_stamp(store: RecordStore) -> AuditStamp:
    """
    Returns the stamp; one that cannot be read counts as none: a check too many does no
    harm.
    """
    try:
        found = store.get(CHECKED)
        if found is None:
            return AuditStamp()
        fields = decode_form(found.value, CHECKED)
        return AuditStamp(
            fields.number("finished_ms"),
            fields.number("kick"),
            fields.number("settings"),
            fields.inner("values").values,
        )
    except FormatError:
        # Only the Auditor reads it, and it writes it again.
        return AuditStamp()
