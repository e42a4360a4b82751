"""
What a store must hold after a crash, told by the notes before it.

The notes of a trace are taken one by one. What was promised is known then, and
what was being done may have happened or not: the truth is the one that was told
last, or the one that is told next.
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
    What was told up to now.

    Attributes:
        records: by offset, the bytes of each record that an append returned.
        maybe: the same, of records that a power cut may have taken.
        synced: the end of what survives a power cut.
        flying: bodies of appends that have not returned, by thread.
        cut: where a cut that has not returned cuts.
        deed: what else is being done.
        truth: as told last.
        next_truth: as told next; the same if nothing more is told.
        is_clean: whether a close has returned and nothing began since.
        is_told: whether anything was told.
    """

    records: dict[int, bytes] = field(default_factory=dict)
    maybe: dict[int, bytes] = field(default_factory=dict)
    synced: int = 0
    flying: dict[int, list[str]] = field(default_factory=dict)
    cut: int | None = None
    deed: str = ""
    truth: dict[str, Any] = field(default_factory=dict)
    next_truth: dict[str, Any] = field(default_factory=dict)
    is_clean: bool = False

    def take(self, told: Note, later: Iterable[Note]) -> None:
        """One note more; ``later`` are those that follow it."""
        note: Note = json.loads(json.dumps(told))  # as a trace gives it back
        if "begin" in note:
            self._begin(note)
        else:
            self._done(note)
        truths = (one["truth"] for one in later if "truth" in one)
        self.next_truth = next(truths, self.truth)

    def _begin(self, note: Note) -> None:
        self.is_clean = False
        self.deed = note["begin"]
        if self.deed == "append":
            self.flying[note["thread"]] = note["bodies"]
        elif self.deed == "cut":
            self.cut = note["offset"]

    def _done(self, note: Note) -> None:
        self.truth = note["truth"]
        self.deed = ""
        match note["done"]:
            case "append":
                del self.flying[note["thread"]]
                self.records |= _records_of(note)
                self.synced = max(self.synced, note["synced"])
            case "cut":
                self.cut = None
                self._drop_from(note["offset"])
            case "open":
                # What was found is synced, and what was in flight is decided.
                self.flying.clear()
                self.maybe.clear()
                self.cut = None
                self.records = _records_of(note)
            case "close":
                self.is_clean = True
        self.synced = max(self.synced, self.truth["synced"])

    def lose_power(self) -> None:
        """What was not synced may be gone."""
        self.maybe |= self.records
        self.records = self.must_hold(is_power_cut=True)

    def _drop_from(self, end: int) -> None:
        self.records = {at: raw for at, raw in self.records.items() if at < end}
        self.synced = min(self.synced, end)

    def allowed(self, name: str) -> list[Any]:
        """What a part of the truth may be: as told last, or as told next."""
        return [one[name] for one in (self.truth, self.next_truth) if name in one]

    @property
    def flying_bodies(self) -> list[bytes]:
        """Bodies that may have been written, or some of them."""
        return [one.encode() for bodies in self.flying.values() for one in bodies]

    def must_hold(self, *, is_power_cut: bool) -> dict[int, bytes]:
        """Records that no crash of this kind takes."""
        if not is_power_cut:
            return dict(self.records)
        return {
            at: raw for at, raw in self.records.items() if at + len(raw) <= self.synced
        }


def _records_of(note: Note) -> dict[int, bytes]:
    return {int(at): bytes.fromhex(data) for at, data in note["records"].items()}
