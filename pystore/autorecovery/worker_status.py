"""
What a slot of a worker does or waits for, and since when, as a held record: it goes
with the process.

Source: AR-R18, AR-R21; docs/autorecovery.md, *The worker*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from pystore.autorecovery.record_form import decode_form, encode_form
from pystore.autorecovery.segment_key import WORKERS
from pystore.errors import FormatError, UnknownOutcomeError
from pystore.records.ops import Delete, Hold
from pystore.records.record_store import RecordStore

__all__ = ["SlotStatus", "StatusRecord", "list_status", "status_key"]

_REST_MS = 20_000
"""Between two writes: a write costs requests, and wakes those who wait."""


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """
    A slot at one moment.

    Attributes:
        slot: its name; that of its locks.
        doing: what it does or waits for, one line.
        since_ms: since when, Unix time.
        segment: that it repairs, a `SegmentKey.text`; empty: none.
        last: how its last repair ended, one line; empty: there was none.
        found: what it found at each copy then, one line, by broker id.
    """

    slot: str
    doing: str
    since_ms: int
    segment: str = ""
    last: str = ""
    found: Mapping[int, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """
        Returns the record.
        """
        found = {str(one): text for one, text in self.found.items()}
        return encode_form(
            {
                "slot": self.slot,
                "doing": self.doing,
                "since_ms": self.since_ms,
                "segment": self.segment,
                "last": self.last,
                "found": found,
            }
        )

    @classmethod
    def decode(cls, raw: bytes, where: str) -> SlotStatus:
        """
        Returns the status of a record.

        Raises:
            FormatError: it is none, or has a later form.
        """
        fields = decode_form(raw, where)
        found = fields.inner("found")
        try:
            looks = {int(one): found.text(one) for one in found.values}
        except ValueError as error:
            # The key is no broker id.
            raise fields.bad(str(error)) from error
        return cls(
            fields.text("slot"),
            fields.text("doing"),
            fields.number("since_ms"),
            fields.text("segment"),
            fields.text("last"),
            looks,
        )


class StatusRecord:
    """
    The record of one slot. One thread.

    Args:
        store: of the queue.
        slot: its name.
        clock_ms: Unix time.
        now_ms: a clock that never steps back.
    """

    def __init__(
        self,
        store: RecordStore,
        slot: str,
        clock_ms: Callable[[], int],
        now_ms: Callable[[], int],
    ) -> None:
        self.status = SlotStatus(slot, "begins", clock_ms())
        self._store = store
        self._key = status_key(slot)
        self._clock_ms = clock_ms
        self._now_ms = now_ms
        self._written: SlotStatus | None = None
        self._next_ms = now_ms()

    def tell(
        self,
        doing: str,
        segment: str = "",
        *,
        last: str | None = None,
        found: Mapping[int, str] | None = None,
    ) -> None:
        """
        Notes what the slot does; the record follows at most every 20 s.

        Args:
            doing: one line.
            segment: that it repairs.
            last: how a repair ended; ``None``: none did since.
            found: what was found then.

        Raises:
            PystoreError: of `RecordStore.commit`, but for a lost answer.
        """
        self.note(doing, segment, last=last, found=found)
        if self.status != self._written and self._now_ms() >= self._next_ms:
            self._write()

    def note(
        self,
        doing: str,
        segment: str | None = None,
        *,
        last: str | None = None,
        found: Mapping[int, str] | None = None,
    ) -> None:
        """
        As `tell`, without the record store.

        Args:
            doing: as of `tell`.
            segment: as of `tell`; ``None``: the same as before.
            last: as of `tell`.
            found: as of `tell`.
        """
        old = self.status
        segment = old.segment if segment is None else segment
        is_same = (old.doing, old.segment) == (doing, segment)
        if is_same and last is None and found is None:
            return
        self.status = SlotStatus(
            old.slot,
            doing,
            old.since_ms if is_same else self._clock_ms(),
            segment,
            old.last if last is None else last,
            old.found if found is None else dict(found),
        )

    def remove(self) -> None:
        """
        Removes the record, if there is one.

        Raises:
            PystoreError: as of `tell`.
        """
        if self._written is not None:
            self._written = None
            self._commit(Delete(self._key))

    def _write(self) -> None:
        self._next_ms = self._now_ms() + _REST_MS
        # Refused: a process of the same name that is gone has it still.
        if self._commit(Hold(self._key, self.status.encode())):
            self._written = self.status

    def _commit(self, op: Hold | Delete) -> bool:
        try:
            return self._store.commit([op]) is not None
        except UnknownOutcomeError:
            # The next one replaces it, or the end of the session removes it.
            return True


def status_key(slot: str) -> str:
    """
    Returns the key of the record of a slot.
    """
    return WORKERS + quote(slot, safe=":", errors="surrogatepass")


def list_status(store: RecordStore) -> list[SlotStatus]:
    """
    Returns the status of all slots; records that cannot be read are left out.
    """
    found = []
    for one in store.scan(WORKERS):
        try:
            found.append(SlotStatus.decode(one.value, one.key))
        except FormatError:
            # Of a later program; it must not hide the others.
            continue
    return found
