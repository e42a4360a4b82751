"""
What is in the queue: lists, counts, and the summary of the present state.

Source: AR-R15; BK-A51; docs/autorecovery.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pystore.autorecovery.dead_segment import DeadSegment, decode_dead
from pystore.autorecovery.mark import Priority, SegmentMark, decode_mark
from pystore.autorecovery.record_form import decode_form
from pystore.autorecovery.segment_key import DEAD, DISABLED, LOCKS, MARKS, SegmentKey
from pystore.errors import FormatError
from pystore.records.record_store import RecordStore, StoredRecord

__all__ = [
    "QueueContents",
    "RecoverySummary",
    "list_dead",
    "list_marks",
    "read_contents",
    "summarize",
    "summary_of",
]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RecoverySummary:
    """
    The present state of the queue (AR-R15). In ZooKeeper its records are of different
    moments.

    Attributes:
        marks: their number, by priority.
        size: bytes of the marked segments whose size is known.
        oldest_first_ms: when the oldest mark was made, Unix time; ``None``: none.
        claims: segments that are being repaired.
        dead: segments without a good copy.
        is_enabled: whether workers may take segments.
        damaged: one line for each record that cannot be read.
    """

    marks: dict[Priority, int]
    size: int
    oldest_first_ms: int | None
    claims: int
    dead: int
    is_enabled: bool
    damaged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueueContents:
    """
    All that is in the queue, read once.

    Attributes:
        marks: in the order of their keys.
        claims: the name of the slot that repairs a segment; empty: it is unreadable.
        dead: segments without a good copy.
        is_enabled: whether workers may take segments.
        damaged: one line for each record that cannot be read.
    """

    marks: Mapping[SegmentKey, SegmentMark]
    claims: Mapping[SegmentKey, str]
    dead: Mapping[SegmentKey, DeadSegment]
    is_enabled: bool
    damaged: tuple[str, ...]


def list_marks(
    store: RecordStore,
    include: int | None = None,
    exclude: int | None = None,
    within: str = "",
) -> dict[SegmentKey, SegmentMark]:
    """
    Returns marks in the order of their keys; records that cannot be read are left out.

    Args:
        store: of the queue.
        include: only marks of which the copy of this broker is missing.
        exclude: only marks of which it is not.
        within: the beginning of the `SegmentKey.text`, such as ``CLUSTER/SET/``.
    """
    return {
        key: mark
        for key, mark in _read(store.scan(MARKS + within), MARKS, decode_mark, [])
        if (include is None or include in mark.missing)
        and (exclude is None or exclude not in mark.missing)
    }


def list_dead(store: RecordStore, within: str = "") -> dict[SegmentKey, DeadSegment]:
    """
    Returns the dead segments; records that cannot be read are left out.

    Args:
        store: of the queue.
        within: as of `list_marks`.
    """
    return dict(_read(store.scan(DEAD + within), DEAD, decode_dead, []))


def read_contents(store: RecordStore) -> QueueContents:
    """
    Reads the whole queue: with ZooKeeper some 50 requests and one for each record.
    """
    damaged: list[str] = []
    marks = dict(_read(store.scan(MARKS), MARKS, decode_mark, damaged))
    # A lock that cannot be read is held all the same, and goes with its worker.
    claims = dict(_read(store.scan(LOCKS), LOCKS, _worker, []))
    dead = dict(_read(store.scan(DEAD), DEAD, decode_dead, damaged))
    is_enabled = store.get(DISABLED) is None
    return QueueContents(marks, claims, dead, is_enabled, tuple(damaged))


def summarize(store: RecordStore) -> RecoverySummary:
    """
    Returns the present state; it reads the whole queue, as `read_contents` does.
    """
    return summary_of(read_contents(store))


def summary_of(contents: QueueContents) -> RecoverySummary:
    """
    Returns the numbers of what was read.
    """
    marks = contents.marks.values()
    counts = Counter(mark.priority for mark in marks)
    return RecoverySummary(
        marks={priority: counts[priority] for priority in Priority},
        size=sum(mark.size for mark in marks),
        oldest_first_ms=min((mark.first_ms for mark in marks), default=None),
        claims=len(contents.claims),
        dead=len(contents.dead),
        is_enabled=contents.is_enabled,
        damaged=contents.damaged,
    )


def _worker(raw: bytes, where: str) -> str:
    try:
        return decode_form(raw, where).text("worker")
    except FormatError:
        # Who holds it is for people alone.
        return ""


def _read(
    records: Iterable[StoredRecord],
    prefix: str,
    decode: Callable[[bytes, str], _T],
    damaged: list[str],
) -> Iterator[tuple[SegmentKey, _T]]:
    for record in records:
        try:
            if record.damage:
                raise FormatError(record.damage, path=record.key)
            key = SegmentKey.parse(record.key.removeprefix(prefix))
            value = decode(record.value, record.key)
        except FormatError as error:
            # One record must not hide the others.
            damaged.append(str(error))
            continue
        yield key, value
