"""
The plan of a compaction: the segments that it reads, up to a fixed end.

The driver makes the plan once, and saves it with the work. After a killed run the next
run uses the same plan, even if records were appended meanwhile.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pystore.bindings.ffi import Stop
from pystore.core.log_reader import LogReader
from pystore.core.options import LogOptions
from pystore.errors import CorruptError, OffsetOutOfRange, PystoreError
from pystore.spark.compact.sizes import DEFAULT_SIZES, FileSizes
from pystore.spark.plan.confirmed import confirmed_end
from pystore.spark.plan.split import Split
from pystore.store.open_reader import binding_page, open_reader

__all__ = ["CompactionChoice", "CompactionPlan", "is_unchanged", "make_plan"]

_OPTIONS = LogOptions(serves_ill=True)


@dataclass(frozen=True, slots=True)
class CompactionChoice:
    """
    The options of the user.

    Attributes:
        topics: shell patterns; a topic is compacted if it matches one. Empty: every
            topic is.
        keep_tombstones: whether the newest record of a key stays if it has no body.
        sizes: of the output files.
    """

    topics: tuple[str, ...] = ()
    keep_tombstones: bool = False
    sizes: FileSizes = DEFAULT_SIZES


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """
    The input and the options of one compaction.

    Attributes:
        store: absolute root of the store, the same path on every host.
        segment_size: in bytes.
        bases: base offsets of the segments below the end.
        end: end of the last record that is read.
        proof: hash of the newest record below the end. A log grows or is cut at its
            end only: while this record is unchanged, all records below it are, too.
        proof_offset: offset of that record; -1: there is none.
        choice: of the user.
        generation: of the log's cuts; ``None``: the store has no valid live page.
    """

    store: str
    segment_size: int
    bases: tuple[int, ...]
    end: int
    proof: str
    proof_offset: int
    choice: CompactionChoice
    generation: int | None = None

    @property
    def id(self) -> str:
        """
        A hash of the whole plan, used as a name.
        """
        return hashlib.sha256(self.text().encode()).hexdigest()[:16]

    @property
    def input_bytes(self) -> int:
        """
        Bytes of the log that are read.
        """
        return self.end - self.bases[0] if self.bases else 0

    def splits(self) -> list[Split]:
        """
        Returns one split for each segment.
        """
        size = self.segment_size
        return [
            Split(
                self.store,
                base,
                size,
                base,
                min(base + size, self.end),
                self.end,
                generation=self.generation,
            )
            for base in self.bases
        ]

    def text(self) -> str:
        """
        Returns it as JSON.
        """
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def parse(cls, text: str) -> CompactionPlan:
        """
        Returns the plan from its JSON.

        Raises:
            ValueError, KeyError, TypeError: the text is not a plan.
        """
        found: dict[str, Any] = json.loads(text)
        choice = found.pop("choice")
        sizes = FileSizes(**choice.pop("sizes"))
        topics = tuple(choice.pop("topics"))
        return cls(
            bases=tuple(found.pop("bases")),
            choice=CompactionChoice(topics=topics, sizes=sizes, **choice),
            **found,
        )


def make_plan(store: Path, choice: CompactionChoice) -> CompactionPlan:
    """
    Plans a compaction of a store as it is now.

    Args:
        store: absolute root.
        choice: of the user.

    Raises:
        NotAStoreError, StorageError: the store cannot be read.
        FormatError: its epoch file or its checkpoint cannot be read.
        CorruptError: a segment is missing, short or unreadable.
    """
    log, _ = open_reader(store, _OPTIONS)
    with log:
        ends = log.ends()
        page = binding_page(store)
        bound = confirmed_end(store, ends, is_live=page is not None)
        _require_served(log, bound)
        bases = [base for base in log.segments() if base < bound]
        end, last = _last_record(log, bases, bound)
        return CompactionPlan(
            store=str(store),
            segment_size=ends.segment_size,
            bases=tuple(base for base in bases if base < end),
            end=end,
            proof="" if last is None else _proof(log, last),
            proof_offset=-1 if last is None else last,
            choice=choice,
            generation=None if page is None else ends.cut_generation,
        )


def is_unchanged(plan: CompactionPlan) -> bool:
    """
    Whether the store still has all input of a plan, unchanged.
    """
    try:
        log, _ = open_reader(Path(plan.store), _OPTIONS)
        with log:
            ends = log.ends()
            _require_served(log, plan.end)
            if plan.end > ends.published_end or plan.segment_size != ends.segment_size:
                return False
            if not set(plan.bases) <= set(log.segments()):
                return False
            is_empty = plan.proof_offset < 0
            return is_empty or _proof(log, plan.proof_offset) == plan.proof
    except PystoreError:
        # Making a new plan reports the error.
        return False


def _require_served(log: LogReader, bound: int) -> None:
    """
    Makes sure that every record below a bound can be read: one that is missing may be
    the latest of its key, so an older one, or a tombstone's key, would come back.
    """
    lost = [one for one in log.ill() if one.offset < bound]
    if lost:
        first, more = lost[0], len(lost) - 1
        also = f" (and {more} more)" if more else ""
        raise CorruptError(
            f"{first.path}: {first.reason}: offsets {first.offset} to "
            f"{min(first.end, bound)} are missing{also}: nothing was compacted",
            offset=first.offset,
            path=first.path,
        )


def _last_record(
    log: LogReader, bases: list[int], bound: int
) -> tuple[int, int | None]:
    """
    The bound, rounded down to the end of a record, and that record's offset.
    """
    for base in reversed(bases):
        found = log.scan(base, bound).finish()
        if base == bases[-1] and found.stop is Stop.LIMIT:
            # Not at a bad record or zeros: the task that reads these refuses.
            bound = min(bound, found.offset)
        if found.record_start is not None:
            return bound, found.record_start
    return bound, None


def _proof(log: LogReader, offset: int) -> str:
    try:
        return hashlib.sha256(log.read(offset).data).hexdigest()
    except OffsetOutOfRange:
        # The record was deleted: nothing proves that the rest is unchanged.
        return ""
