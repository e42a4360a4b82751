"""
Results of checks for replicas made of letters: no store is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pystore.damage.segment_walk import SegmentReport
from pystore.epochs.table import EpochTable
from pystore.recovery.torn_tail import Bound
from pystore.seals import BLOCK_BYTES, Seal
from pystore.spark.verify.check_replicas import Difference, check_replicas
from pystore.spark.verify.check_store import StoreFindings
from pystore.spark.verify.plan import StorePlan
from pystore.spark.verify.segment_list import SegmentList
from pystore.spark.verify.task import SegmentCheck, StoreShare
from pystore.spark.verify.verdicts import Finding, SegmentVerdict

__all__ = ["SIZE", "LetterReplica", "seal", "verdict_words", "verdicts_of"]

BLOCKS = 4
SIZE = BLOCKS * BLOCK_BYTES


@dataclass
class LetterReplica:
    """
    A replica described by letters.

    Attributes:
        name: of the store.
        segments: a letter for each block, by number of the segment; equal letters
            are equal bytes, and a point is a block that was not read.
        end: of the log; by default that of the last segment.
        expected_end: the end that the store's own files name.
        own: blocks with bad records, by number of the segment.
        seals: letters at the time of the seal, by number of the segment.
        errors: why a segment could not be read.
        orphans: files that are no segments.
        odd: sizes of segments of a wrong size, by number.
        missing: numbers of missing segments below the end.
        of_store: findings about the store.
        suspect: blocks with a gap of queue offsets, by number of the segment.
        epochs: epoch and start of each entry of the epoch table.
        size: of a segment.
    """

    name: str
    segments: Mapping[int, str]
    end: int | None = None
    expected_end: int | None = None
    own: Mapping[int, Sequence[int]] = field(default_factory=dict)
    seals: Mapping[int, str] = field(default_factory=dict)
    errors: Mapping[int, str] = field(default_factory=dict)
    orphans: tuple[tuple[str, str], ...] = ()
    odd: Mapping[int, int] = field(default_factory=dict)
    of_store: Sequence[Finding] = ()
    suspect: Mapping[int, Sequence[int]] = field(default_factory=dict)
    epochs: Sequence[tuple[int, int]] = ()
    size: int = SIZE

    def found(self) -> StoreFindings:
        """
        The findings of this replica.
        """
        size = self.size
        there = sorted({*self.segments, *self.odd, *self.errors})
        bases = tuple(number * size for number in there)
        odd = {number * size: bytes_ for number, bytes_ in self.odd.items()}
        end = self.end
        if end is None:
            end = bases[-1] + size if bases else 0
        plan = StorePlan(
            root=Path("/", self.name),
            group="g",
            listing=SegmentList(size if bases else 0, bases, odd, self.orphans),
            end=end,
            bound=Bound(end),
            generation=None,
            share=StoreShare(f"/{self.name}", "g"),
            table=EpochTable.of(self.epochs) if self.epochs else None,
            readable_end=end,
        )
        checks = {number * size: self._check(number) for number in self.segments}
        for number, text in self.errors.items():
            base = number * size
            checks[base] = SegmentCheck(f"/{self.name}", base, error=text)
        found = StoreFindings(plan, checks, end=end, expected_end=end)
        if self.expected_end is not None:
            found.expected_end = self.expected_end
        for number, blocks in self.own.items():
            for block in blocks:
                offset = number * size + block * BLOCK_BYTES + 100
                found.add(Finding("record", offset, "bad", 10))
        for number, blocks in self.suspect.items():
            for block in blocks:
                offset = number * size + block * BLOCK_BYTES + 100
                found.add_note(Finding("queueOffset", offset, "a gap", 10))
        for finding in self.of_store:
            found.add(finding)
        return found

    def _check(self, number: int) -> SegmentCheck:
        letters, base = self.segments[number], number * self.size
        sealed = self.seals.get(number)
        count = len(letters)
        return SegmentCheck(
            f"/{self.name}",
            base,
            report=SegmentReport(
                base_offset=base,
                end_offset=base + count * BLOCK_BYTES,
                is_full=count == BLOCKS,
                record_end=None,
                scanned_bytes=count * BLOCK_BYTES,
                row_bytes=0,
                records=10 * count,
                unproved=0,
                uncovered_bytes=0,
                faults=(),
            ),
            digests={i: ord(one) for i, one in enumerate(letters) if one != "."},
            digest_end=base + count * BLOCK_BYTES,
            seal=None if sealed is None else seal(base, sealed),
            is_sealed_whole=sealed == letters,
        )


def seal(base: int, letters: str, block_bytes: int = BLOCK_BYTES) -> Seal:
    """
    The seal of a segment with these blocks.
    """
    return Seal(
        group="g",
        start_offset=base,
        length_bytes=len(letters) * BLOCK_BYTES,
        record_count=1,
        first_store_ms=0,
        last_store_ms=0,
        epochs=(),
        block_bytes=block_bytes,
        block_digests=tuple(map(ord, letters)),
        digest=letters.encode().ljust(16, b"\0"),
        chain=bytes(16),
    )


def verdicts_of(
    *made: LetterReplica,
) -> tuple[dict[tuple[str, int | None], SegmentVerdict], list[Difference]]:
    """
    The verdicts by store name and segment number, and the differences. Rows about a
    file of the store have its name behind that of the store.
    """
    verdicts, differences = check_replicas([one.found() for one in made])
    sizes = {f"/{one.name}": one.size for one in made}
    by_place: dict[tuple[str, int | None], SegmentVerdict] = {}
    for one in verdicts:
        number = None if one.segment is None else one.segment // sizes[one.store]
        name = one.store[1:]
        if one.name and number is not None:
            name += f"/{one.name}"
        assert (name, number) not in by_place
        by_place[name, number] = one
    return by_place, differences


def verdict_words(
    verdicts: Mapping[tuple[str, int | None], SegmentVerdict],
) -> dict[str, str]:
    """
    The verdicts on the copies of the first segment; a mark shows the bad ones.
    """
    return {
        name: str(one.verdict) + "!" * one.is_bad
        for (name, number), one in verdicts.items()
        if number == 0 and not one.name
    }
