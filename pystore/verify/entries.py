"""
Judges the entries of consume queues that no record of the log matched.

The rules are the same for one process, which has a mark for each entry, and for a job
whose tasks report ranges of entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.ffi import Check, Proof
from pystore.consumequeue.queue import ENTRY_DTYPE, ENTRY_SIZE, ConsumeQueue, is_filler
from pystore.core.log_reader import LogReader
from pystore.errors import PystoreError
from pystore.fs.layout import COMMIT_LOG, CONSUME_QUEUE, segment_path
from pystore.verify.report import Basis, Damage

__all__ = [
    "LIGHT",
    "EntryJudge",
    "LostEntries",
    "RecordPlace",
    "SlotMarks",
    "damaged_queue",
    "read_place",
]

LIGHT = "%LMQ%"
"""Topics whose entries belong to records of other topics: they are not checked."""

DAMAGES_MAX = 20
"""Listed for one queue; the rest is counted."""

_LOOKS = 3
"""At an entry behind a queue: a writer may have written a half of it."""

_REBUILD = "`pystore doctor --apply` builds them again"


def damaged_queue(path: str, offset: int | None, text: str, basis: Basis) -> Damage:
    """
    Returns the damage of a consume queue.
    """
    return Damage(path, offset, text, part="queue", basis=(basis,))


class RecordPlace(NamedTuple):
    """
    The queue and size of a whole record.

    Attributes:
        topic: of its queue.
        queue_id: of its queue.
        queue_offset: in its queue.
        size: in bytes.
        is_proved: whether a property CRC proves these fields.
    """

    topic: str
    queue_id: int
    queue_offset: int
    size: int
    is_proved: bool


def read_place(log: LogReader, offset: int) -> RecordPlace | None:
    """
    Returns the place of the record at an offset; ``None``: no whole record begins
    there.
    """
    try:
        checks = Check.BODY | Check.PROPERTY | Check.PASS_COPIED | Check.OFFSET
        rows = next(log.scan(offset, checks=checks | Check.TOPIC, rows=1), None)
    except PystoreError:
        # The entry names no byte of the log.
        return None
    if rows is None:
        return None
    row = rows[0]
    return RecordPlace(
        log.topic(int(row["topic_id"])),
        int(row["queue_id"]),
        int(row["queue_offset"]),
        int(row["size"]),
        bool(row["proof"] & Proof.PROPERTY),
    )


@dataclass(frozen=True, slots=True)
class SlotMarks:
    """
    Consecutive entries of one queue, and which of them the log confirms.

    Attributes:
        first: queue offset of the first entry.
        entries: of ``ENTRY_DTYPE``.
        matched: whether a record of the log has exactly this entry.
        named: whether a record has this queue offset.
        is_below: whether a matched entry follows in the queue.
    """

    first: int
    entries: NDArray[Any]
    matched: NDArray[np.bool_]
    named: NDArray[np.bool_]
    is_below: NDArray[np.bool_]


@dataclass(slots=True)
class LostEntries:
    """
    Records of one queue without the entries that they had.

    Attributes:
        count: of the records.
        first: the least queue offset.
        offsets: of some of them, in the log.
    """

    count: int = 0
    first: int = 0
    offsets: list[int] = field(default_factory=list)

    def add(self, indexes: NDArray[np.int64], offsets: NDArray[Any]) -> None:
        """
        Adds records by queue offset and offset.
        """
        first = int(indexes.min())
        self.first = min(first, self.first) if self.count else first
        self.count += len(indexes)
        self._note(offsets[:DAMAGES_MAX].tolist())

    def since(self, offset: int) -> LostEntries:
        """
        Returns these if their records are at or above an offset of the log, where their
        queue began anew; else none. Call it before parts of the log are joined.
        """
        return self if self.offsets and self.offsets[0] >= offset else LostEntries()

    def _note(self, offsets: list[int]) -> None:
        self.offsets += offsets[: DAMAGES_MAX - len(self.offsets)]

    def join(self, other: LostEntries) -> None:
        """
        Adds those of another part of the log.
        """
        if other.count:
            self.first = min(self.first, other.first) if self.count else other.first
            self.count += other.count
            self._note(other.offsets)


class EntryJudge:
    """
    Decides which entries are wrong, and whether the entry or its record is.

    Args:
        root: of the store.
        segment_size: in bytes.
        place_of: returns the place of the record at an offset.

    Attributes:
        damages: the findings.
        other_tags: the number of entries with another tags code than the record's.
        convicted: offsets of records that their entries prove to be wrong.
    """

    def __init__(
        self,
        root: Path,
        segment_size: int,
        place_of: Callable[[int], RecordPlace | None],
    ) -> None:
        self._root = root
        self._segment_size = segment_size
        self._place_of = place_of
        self.damages: list[Damage] = []
        self.other_tags = 0
        self.convicted: set[int] = set()

    def check_slots(
        self,
        queue: ConsumeQueue,
        parts: Iterable[SlotMarks],
        *,
        log: tuple[int, int],
        unscanned: Sequence[tuple[int, int]],
        is_at_rest: bool,
    ) -> None:
        """
        Judges entries of a queue.

        An entry below a matched entry of its queue must name its record. One above all
        of them may be newer than this check, or of a record that a crash took away.

        Args:
            queue: has the entries.
            parts: the entries, ascending. Those without a part are right.
            log: start and end of the log.
            unscanned: ranges of the log that could not be scanned.
            is_at_rest: whether the store was closed cleanly: then no entry may name
                bytes above the end.
        """
        bad: list[tuple[int, tuple[int, int, int]]] = []
        for part in parts:
            is_bad = _find_bad(part, log, unscanned, is_at_rest=is_at_rest)
            bad += (
                (part.first + slot, part.entries[slot].item())
                for slot in np.flatnonzero(is_bad).tolist()
            )
        listed, first = 0, self._first_offset() if bad else 0
        bad = [one for one in bad if not 0 <= one[1][0] < first]
        for number, (index, entry) in enumerate(bad):
            if listed == DAMAGES_MAX:
                text = f"{len(bad) - number} more entries of this queue are bad"
                folder = str(queue.files.folder)
                damage = damaged_queue(folder, None, text, "queue continuity")
                self.damages.append(damage)
                return
            found = self._find_culprit(queue, index, entry)
            if found is not None:
                listed += 1
                self.damages.append(found)

    def check_end(self, queue: ConsumeQueue, file_size: int, end: int) -> None:
        """
        Behind the last entry of a queue stand zeros, or no file. Other bytes are an
        entry that changed, and hide those behind it; or one that a writer added since
        the queue was loaded.

        Args:
            queue: loaded.
            file_size: of its files.
            end: of the log, when the check began.
        """
        index = queue.max_index
        at = index * ENTRY_SIZE
        if not any(base <= at < base + file_size for base in queue.files.bases):
            return
        behind = np.zeros(1, ENTRY_DTYPE)
        for _ in range(_LOOKS):
            try:
                data = queue.files.read(at, ENTRY_SIZE)
            except PystoreError:
                # RocketMQ deletes a file, or this one is short, which loading reports.
                return
            behind = np.frombuffer(data, ENTRY_DTYPE)
            if not any(data) or is_filler(behind)[0]:
                return
            if self._is_new(queue, index, behind[0].item(), end):
                return
        text = (
            f"queue offset {index} has an entry of size {int(behind[0]['size'])} "
            f"at offset {int(behind[0]['offset'])}, which names nothing: {_REBUILD}"
        )
        folder = str(queue.files.folder)
        self.damages.append(damaged_queue(folder, None, text, "record form"))

    def check_lost(self, topic: str, queue_id: int, lost: LostEntries) -> None:
        """
        Reports entries that were on disk once, and are missing at the end of a queue.
        A convicted record names a wrong queue, which has no entry of it.
        """
        is_of_others = lost.count > len(lost.offsets)
        if not is_of_others and not set(lost.offsets) - self.convicted:
            return
        text = (
            f"{lost.count} entries from queue offset {lost.first} on are missing: "
            f"{_REBUILD}"
        )
        path = str(self._root / CONSUME_QUEUE / topic / str(queue_id))
        self.damages.append(damaged_queue(path, None, text, "stored bound"))

    def check_none(self, records: int) -> None:
        """
        Reports that a store has no queue, although records had entries.
        """
        if records:
            text = f"all {records} entries are missing: {_REBUILD}"
            folder = str(self._root / CONSUME_QUEUE)
            self.damages.append(damaged_queue(folder, None, text, "stored bound"))

    def _is_new(
        self, queue: ConsumeQueue, index: int, entry: tuple[int, int, int], end: int
    ) -> bool:
        """
        Whether an entry is of a record that this check did not have, or of its record.
        """
        offset, size, _ = entry
        if size > 0 and offset >= end:
            return True
        found = self._place_of(offset)
        return found is not None and (
            (found.size, *found[:3]) == (size, queue.topic, queue.queue_id, index)
        )

    def _first_offset(self) -> int:
        """
        Where the log begins now: a retention may have deleted segments since the check
        began.
        """
        names = (path.name for path in (self._root / COMMIT_LOG).glob("*"))
        return int(min((name for name in names if name.isdigit()), default="0"))

    def _find_culprit(
        self, queue: ConsumeQueue, index: int, entry: tuple[int, int, int]
    ) -> Damage | None:
        """
        Decides which of an entry and its record is wrong; ``None``: neither.

        If a record without a property CRC begins at the offset and has the size of the
        entry, its other fields changed: the entry and the order of its queue are two
        witnesses. A tags code depends on the configuration of the broker.
        """
        offset, size, _ = entry
        folder = str(queue.files.folder)
        found = self._place_of(offset)
        if found is not None and found.size == size:
            if found[:3] == (queue.topic, queue.queue_id, index):
                self.other_tags += 1
                return None
            if not found.is_proved:
                text = (
                    f"the record is of {found.topic}, queue {found.queue_id}, queue "
                    f"offset {found.queue_offset}, but the consume queue and its order "
                    f"say {queue.topic}, queue {queue.queue_id}, queue offset {index}: "
                    "take it from a replica"
                )
                self.convicted.add(offset)
                path = segment_path(self._root, offset - offset % self._segment_size)
                return Damage(
                    str(path),
                    offset,
                    text,
                    size,
                    "log",
                    ("queue entry", "queue continuity"),
                    offset + size,
                )
        if 0 <= offset < self._first_offset():
            return None  # deleted just now
        text = (
            f"queue offset {index} names {size} bytes at offset {offset}, which "
            f"are not its record: {_REBUILD}"
        )
        return damaged_queue(folder, offset, text, "queue continuity")


def _find_bad(
    part: SlotMarks,
    log: tuple[int, int],
    unscanned: Sequence[tuple[int, int]],
    *,
    is_at_rest: bool,
) -> NDArray[np.bool_]:
    start, end = log
    entries = part.entries
    is_entry = ~is_filler(entries)
    is_above_end = entries["offset"] + entries["size"] > end
    is_bad = ~part.matched & is_entry & (entries["offset"] >= start)
    is_bad &= ~is_above_end | part.is_below | is_at_rest
    is_bad |= ~part.matched & is_entry & (entries["offset"] < 0)
    is_bad |= part.is_below & ~part.matched & part.named
    for low, high in unscanned:
        is_bad &= (entries["offset"] < low) | (entries["offset"] >= high)
    return np.asarray(is_bad, np.bool_)
