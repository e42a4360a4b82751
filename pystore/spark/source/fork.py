"""
Where reading goes on after a log was cut below what was read: at the fork, which is the
end of the records that both logs have.

A fork that is too high loses records that were written since the cut. One that is too
low delivers records twice. Three witnesses, the best first:

1. The live page has the least cut since the generation that the position saw. It counts
   for the store that the position was read from, and only while its page is valid.
2. The epochs of the position and of the store have a consistent point. They count for
   every replica, unless the log was cut within an epoch.
3. Some records below the position were kept with their checksums. The newest of them
   that the log still has is below the fork. It may be far below.

The third witness checks the others: a fork below a kept record that is still there, or
above one that is not, is wrong.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pystore.epochs.table import EpochTable
from pystore.errors import PystoreError

if TYPE_CHECKING:
    from pystore.core.log_reader import LogReader
    from pystore.fs.cut_history import CutHistory

__all__ = ["KeptRecord", "find_fork", "holds_record", "kept_records", "thinned"]

_KEPT_MAX = 16


class KeptRecord(NamedTuple):
    """
    A record below a position.

    Attributes:
        offset: start of the record.
        end: end of the record.
        crc: CRC-32 of its bytes.
    """

    offset: int
    end: int
    crc: int


def holds_record(log: LogReader, record: KeptRecord) -> bool:
    """
    Whether the log has a record, byte for byte.
    """
    size = record.end - record.offset
    try:
        data = log.acquire(record.offset, size)
    except PystoreError:
        # An unreadable record is not the record that was read.
        return False
    return len(data) == size and zlib.crc32(data) == record.crc


def kept_records(
    log: LogReader, position: int, before: Iterable[KeptRecord]
) -> tuple[KeptRecord, ...]:
    """
    Returns records below a position to keep with it, the newest first.

    They are records of earlier positions, and the first ones of some segments. The
    distance from the position doubles from one to the next.

    Args:
        log: open for reading.
        position: end of a record.
        before: of the last position, below the fork of the log if it was cut.
    """
    ends = log.ends()
    first, size = ends.min_offset, ends.segment_size
    found = list(before)
    number, step = (position - 1 - first) // size, 1
    while number >= 0:
        record = _first_record(log, first + number * size, size)
        if record is not None:
            found.append(record)
        number, step = number - step, 2 * step
    return thinned(found, position)


def _first_record(log: LogReader, base: int, segment_size: int) -> KeptRecord | None:
    try:
        size = int.from_bytes(log.acquire(base, 4))
        if not 0 < size <= segment_size:
            return None
        return KeptRecord(base, base + size, zlib.crc32(log.acquire(base, size)))
    except PystoreError:
        # Damaged, or deleted meanwhile: another record is kept.
        return None


def thinned(found: Sequence[KeptRecord], position: int) -> tuple[KeptRecord, ...]:
    """
    Returns records of which each is twice as far from a position as the one before.
    """
    kept: list[KeptRecord] = []
    least = 1
    for record in sorted(set(found), reverse=True):
        distance = position - record.end
        if distance >= least and len(kept) < _KEPT_MAX:
            kept.append(record)
            least = 2 * distance
    return tuple(kept)


def find_fork(
    log: LogReader,
    position: int,
    kept: Iterable[KeptRecord],
    *,
    generation: int | None,
    cuts: CutHistory | None,
    epochs: tuple[EpochTable, EpochTable],
) -> int:
    """
    Returns the offset at which reading goes on, at most *position*.

    Args:
        log: open for reading, with another record at the position.
        position: end of what was read.
        kept: records below it.
        generation: of the cuts that the position saw; ``None``: not of this store.
        cuts: of the log; ``None``: not known.
        epochs: of the position, and of the log.
    """
    ends = log.ends()
    least, missing = ends.min_offset, None
    for record in kept:
        if record.offset < ends.min_offset:
            break
        if record.end <= ends.published_end and holds_record(log, record):
            least = max(least, record.end)
            break
        missing = record.end
    found: int | None = None
    if generation is not None and cuts is not None and cuts.knows(generation):
        cut = cuts.least_since(generation)
        found = position if cut is None else cut
    else:
        end = ends.published_end
        found = epochs[0].consistent_point(epochs[1], position, end)
        if found == position:
            found = None  # the epochs do not show this cut
    if found is None or (missing is not None and missing <= found):
        found = least
    return min(max(found, least), position, ends.published_end)
