"""
The results of a verification: plain values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pystore.errors import PystoreError
from pystore.fs.layout import CONSUME_QUEUE

__all__ = [
    "Basis",
    "Damage",
    "Heal",
    "Part",
    "QueueReport",
    "StoreReport",
    "StoreVerdict",
    "damage_of",
]

StoreVerdict = Literal["whole", "torn", "damaged", "unknown"]

Part = Literal["log", "queue", "seal", "file"]
"""What is damaged; ``file``: a small file of the store, or its metadata."""

Basis = Literal[
    "checksum",
    "record form",
    "embedded offset",
    "neighbours",
    "queue entry",
    "queue continuity",
    "seal",
    "stored bound",
    "file form",
    "system",
]
"""What a judgement rests on."""

Heal = Literal["rebuild", "seal again", "replica", "filler", "cut", "by hand"]
"""What heals damage: from the one without any loss to the one that loses most."""

_HEALS: dict[Part, tuple[Heal, ...]] = {
    "queue": ("rebuild",),
    "seal": ("seal again",),
    "log": ("replica", "filler", "cut"),
    "file": ("by hand",),
}


@dataclass(frozen=True, slots=True)
class Damage:
    """
    One damaged place of a store.

    Attributes:
        path: the file or directory.
        offset: the offset in the log; ``None`` if the whole file is meant.
        reason: one line.
        skipped_bytes: the bytes that could not be checked because of it.
        part: what is damaged.
        basis: what the judgement rests on.
        end: the end of the damaged range of the log, where the next bytes can be read;
            ``None``: the range is not known.
    """

    path: str
    offset: int | None
    reason: str
    skipped_bytes: int = 0
    part: Part = "file"
    basis: tuple[Basis, ...] = ("file form",)
    end: int | None = None

    @property
    def heals(self) -> tuple[Heal, ...]:
        """
        What can heal it, in the order of loss.
        """
        return ("replica", "by hand") if self.is_ill else _HEALS[self.part]

    @property
    def is_ill(self) -> bool:
        """
        Whether a segment is missing, short or unreadable, so that no opening for
        writing can cut there.
        """
        return self.part == "log" and "file form" in self.basis

    def covers(self, offset: int) -> bool:
        """
        Whether an offset of the log is among the bytes that could not be checked.
        """
        return (
            self.offset is not None
            and self.offset <= offset < self.offset + self.skipped_bytes
        )


def damage_of(root: Path, error: PystoreError) -> Damage:
    """
    Returns the damage of a file that could not be read.

    Args:
        root: of its store.
        error: of the reading.
    """
    path = Path(error.path or root)
    is_queue = path.is_relative_to(root / CONSUME_QUEUE)
    part: Part = "queue" if is_queue else "file"
    return Damage(str(path), error.offset, str(error), part=part)


@dataclass(slots=True)
class QueueReport:
    """
    The consume queues compared with the log.

    Attributes:
        queues: the number of consume queues.
        entries: the number of entries that name a record of the log correctly.
        missing: the number of records without an entry: the queues follow the log.
        other_tags: the number of entries with another tags code than the record's: the
            code depends on the configuration of the broker.
        damages: the wrong entries, and records that entries prove to be wrong.
    """

    queues: int = 0
    entries: int = 0
    missing: int = 0
    other_tags: int = 0
    damages: list[Damage] = field(default_factory=list)


@dataclass(slots=True)
class StoreReport:
    """
    The verification of one store.

    Attributes:
        path: the directory of the store.
        min_offset: the offset of the first byte.
        end_offset: the end of the log, as an opening would find it.
        segments: the number of scanned segments.
        records: the number of whole records.
        scanned_bytes: the bytes of the log that were checked.
        seconds: the duration.
        unproved: the number of records without a property CRC.
        uncovered_bytes: the bytes of these records that no checksum covers.
        seals: the number of seals compared with their segments.
        queues: the consume queues.
        damages: all damage, by offset.
        unknown: the segments that the system did not open, for which nothing is known.
        torn_bytes: the bytes that a crash left after the end; opening cuts them.
        torn_reason: why these bytes are not records.
    """

    path: str
    min_offset: int = 0
    end_offset: int = 0
    segments: int = 0
    records: int = 0
    scanned_bytes: int = 0
    seconds: float = 0.0
    unproved: int = 0
    uncovered_bytes: int = 0
    seals: int = 0
    queues: QueueReport = field(default_factory=QueueReport)
    damages: list[Damage] = field(default_factory=list)
    unknown: list[Damage] = field(default_factory=list)
    torn_bytes: int = 0
    torn_reason: str = ""

    @property
    def verdict(self) -> StoreVerdict:
        """
        Damaged, torn (only after the end, as a crash leaves it) or whole; unknown, if
        the system did not show all of it and the rest is not damaged.
        """
        if self.damages:
            return "damaged"
        if self.unknown:
            return "unknown"
        return "torn" if self.torn_bytes else "whole"
