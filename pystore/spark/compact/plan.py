"""
What one compaction reads: the segments of a store up to a bound that stays.

The plan is made once, on the driver, and kept beside the work: a run that was killed
goes on with it, whatever was appended meanwhile.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pystore.core.live_page import LivePage
from pystore.core.log_reader import LogReader
from pystore.core.options import LogOptions
from pystore.epochs.file import read_epochs
from pystore.errors import OffsetOutOfRange, PystoreError
from pystore.fs.layout import CHECKPOINT, EPOCH_FILE, EPOCH_FILE_BACKUP
from pystore.rocketmq.checkpoint_file import parse_checkpoint
from pystore.spark.compact.sizes import DEFAULT_SIZES, FileSizes
from pystore.spark.plan.split import Split
from pystore.store.open_reader import binding_page, open_reader

__all__ = ["CompactionChoice", "CompactionPlan", "make_plan", "still_holds"]


@dataclass(frozen=True, slots=True)
class CompactionChoice:
    """
    What the user chose.

    Attributes:
        topics: patterns as of a shell, one of which a topic's name matches; none:
            every topic.
        keep_tombstones: whether the newest record of a key stays if it has no body.
        sizes: of the files that are made.
    """

    topics: tuple[str, ...] = ()
    keep_tombstones: bool = False
    sizes: FileSizes = DEFAULT_SIZES


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """
    The input of one compaction, and how it is done.

    Attributes:
        store: absolute root of the store, as every host has it.
        segment_size: in bytes.
        bases: offsets of the segments below the end.
        end: nothing above is read; the end of a record.
        proof: hash of the newest record below the end. A log only grows, or is cut
            at its end: while this record is the same, so is everything below it.
        proof_offset: where that record is; -1: there is none.
        choice: of the user.
        generation: of the log's cuts, if a live page told it.
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
        A name for all of this.
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
        Returns the plan of such a text.

        Raises:
            ValueError, KeyError, TypeError: it is none.
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
    Returns the plan for a store as it is now.

    Args:
        store: its root, absolute.
        choice: of the user.

    Raises:
        NotAStoreError, StorageError: it cannot be read.
        FormatError: its epochs or its checkpoint cannot.
    """
    log, _ = open_reader(store, LogOptions())
    with log:
        ends = log.ends()
        page = binding_page(store)
        bound = min(ends.published_end, _confirmed(store, log, page))
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


def still_holds(plan: CompactionPlan) -> bool:
    """
    Whether the store still has everything that a plan was made of, unchanged.
    """
    try:
        log, _ = open_reader(Path(plan.store), LogOptions())
        with log:
            ends = log.ends()
            if plan.end > ends.published_end or plan.segment_size != ends.segment_size:
                return False
            if not set(plan.bases) <= set(log.segments()):
                return False
            is_empty = plan.proof_offset < 0
            return is_empty or _proof(log, plan.proof_offset) == plan.proof
    except PystoreError:
        # Whoever makes a new plan is told what is wrong.
        return False


def _confirmed(store: Path, log: LogReader, page: LivePage | None) -> int:
    """
    Up to where all replicas have the log; the end where it has none.

    A store belongs to a set of replicas if it has epochs, or if its writer says how
    far the others are.
    """
    ends = log.ends()
    if page is not None and ends.confirm_offset:
        return ends.confirm_offset
    contents = [_content(store / name) for name in (EPOCH_FILE, EPOCH_FILE_BACKUP)]
    epochs = read_epochs(contents[0], contents[1], str(store / EPOCH_FILE))
    if epochs is None or not epochs.table.entries:
        return ends.published_end
    if page is not None:
        return ends.confirm_offset
    times = _content(store / CHECKPOINT)
    if times is None:
        return ends.published_end
    return parse_checkpoint(times, str(store / CHECKPOINT)).confirm_offset


def _last_record(
    log: LogReader, bases: list[int], bound: int
) -> tuple[int, int | None]:
    """
    The bound, rounded down to the end of a record, and where the newest one is.
    """
    for base in reversed(bases):
        found = log.scan(base, bound).finish()
        if base == bases[-1] and not found.stop.is_bad:
            bound = min(bound, found.offset)
        if found.record_start is not None:
            return bound, found.record_start
    return bound, None


def _proof(log: LogReader, offset: int) -> str:
    try:
        return hashlib.sha256(log.read(offset).data).hexdigest()
    except OffsetOutOfRange:
        # It was deleted: nothing proves that the rest is the same.
        return ""


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        # A store without replicas has none.
        return None
