"""
The contents that a store must have after a crash, from the notes before it.

The notes of a trace are added one by one. Acknowledged operations are known then; an
operation in progress may have happened or not: the metadata is that of the last note,
or that of the next note.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Facts"]

Note = dict[str, Any]


@dataclass(slots=True)
class Facts:
    """
    The facts of the notes so far.

    Attributes:
        records: by offset, the bytes of each record that an append returned.
        maybe: the same, of records that a power cut may have removed.
        synced: the bytes below survive a power cut.
        flying: bodies of appends that have not returned, by thread.
        batches: the same, of appends that are whole or not there.
        cut: the offset of a cut that has not returned.
        deed: another operation in progress.
        metadata: of the last note.
        next_metadata: of the next note; the same if there is none.
        is_clean: whether a close has returned and nothing began since.
    """

    records: dict[int, bytes] = field(default_factory=dict)
    maybe: dict[int, bytes] = field(default_factory=dict)
    synced: int = 0
    flying: dict[int, list[str]] = field(default_factory=dict)
    batches: dict[int, list[str]] = field(default_factory=dict)
    cut: int | None = None
    deed: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    next_metadata: dict[str, Any] = field(default_factory=dict)
    is_clean: bool = False

    def take(self, noted: Note, later: Iterable[Note]) -> None:
        """Add one note; ``later`` are the notes after it."""
        note: Note = json.loads(json.dumps(noted))  # as a trace returns it
        if "begin" in note:
            self._begin(note)
        else:
            self._done(note)
        all_metadata = (one["metadata"] for one in later if "metadata" in one)
        self.next_metadata = next(all_metadata, self.metadata)

    def _begin(self, note: Note) -> None:
        self.is_clean = False
        self.deed = note["begin"]
        if self.deed == "append":
            self.flying[note["thread"]] = note["bodies"]
            self.batches.pop(note["thread"], None)
            if note.get("is_batch"):
                self.batches[note["thread"]] = note["bodies"]
        elif self.deed == "cut":
            self.cut = note["offset"]

    def _done(self, note: Note) -> None:
        self.metadata = note["metadata"]
        self.deed = ""
        match note["done"]:
            case "append":
                del self.flying[note["thread"]]
                self.batches.pop(note["thread"], None)
                self.records |= _records_of(note)
                self.synced = max(self.synced, note["synced"])
            case "cut":
                self.cut = None
                self._drop_from(note["offset"])
            case "open":
                # The found records are synced, and appends in flight are decided.
                self.flying.clear()
                self.batches.clear()
                self.maybe.clear()
                self.cut = None
                self.records = _records_of(note)
            case "close":
                self.is_clean = True
        self.synced = max(self.synced, self.metadata["synced"])

    def lose_power(self) -> None:
        """Unsynced records may be lost."""
        self.maybe |= self.records
        self.records = self.must_hold(is_power_cut=True)

    def _drop_from(self, end: int) -> None:
        self.records = {at: raw for at, raw in self.records.items() if at < end}
        self.synced = min(self.synced, end)

    def allowed(self, name: str) -> list[Any]:
        """The values of one key of the metadata, in the last and the next note."""
        return [one[name] for one in (self.metadata, self.next_metadata) if name in one]

    @property
    def flying_bodies(self) -> list[bytes]:
        """Bodies that may have been written, or some of them."""
        return [one.encode() for bodies in self.flying.values() for one in bodies]

    def must_hold(self, *, is_power_cut: bool) -> dict[int, bytes]:
        """Records that survive a crash of this kind."""
        if not is_power_cut:
            return dict(self.records)
        return {
            at: raw for at, raw in self.records.items() if at + len(raw) <= self.synced
        }


def _records_of(note: Note) -> dict[int, bytes]:
    return {int(at): bytes.fromhex(data) for at, data in note["records"].items()}
