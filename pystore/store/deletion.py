"""
Deleting old segments, with what depends on them.

First the bounds are stored: only the deleted records may have the last offset of a
queue. Then the segments that stay (A16), then the segments go, then their seals.

Rules: docs/crash-safety.md, A13, A16, A21.
"""

from __future__ import annotations

import numpy as np

from pystore.bindings.ffi import Check
from pystore.errors import FullError
from pystore.message.constants import NO_ENTRY
from pystore.metastore.schema import POSITIONS
from pystore.metastore.values import StoreFingerprint
from pystore.store.bounds import current_bounds, keep_bounds
from pystore.store.sealer import remove_old_seals
from pystore.store.writer import Writer, fingerprint_of

__all__ = ["delete_before"]


def delete_before(writer: Writer, offset: int) -> int:
    """
    Delete whole segments that end at or below ``offset``, never the newest.

    Returns:
        The number of deleted segments.

    Raises:
        FullError: the disk is full, and the bounds need more than the reserve.
        PoisonedError: a write-back failed.
        StorageError: the system refused.
    """
    removed = 0
    while True:
        ends = writer.log.ends()
        first = ends.min_offset + ends.segment_size
        try:
            keep_bounds(writer)
        except FullError:
            # The space of one segment is more than the rows that it takes.
            if ends.segments < 2 or first > offset:
                if removed:
                    return removed
                raise
            _keep_last_offsets(writer, first)
            gone = _delete(writer, first)
            if not gone:
                raise
            removed += gone
        else:
            return removed + _delete(writer, offset)


def _delete(writer: Writer, offset: int) -> int:
    _intend_deletion(writer, offset)
    # A repair must not give a segment back that goes.
    with writer.mending:
        removed = writer.log.delete_before(offset)
    lowest = writer.log.ends().min_offset
    if removed:
        remove_old_seals(writer)
        writer.ages.forget_below(lowest)
    writer.monitor.note_deleted(removed, lowest)
    return removed


def _intend_deletion(writer: Writer, offset: int) -> None:
    """
    Store the segments that a deletion below ``offset`` leaves, before it begins: the
    others may be missing afterwards (A16).
    """
    size = writer.log.ends().segment_size
    with writer.storing, writer.metastore.change() as change:
        writer.left = None
        left = fingerprint_of(writer).segments
        kept = tuple(one for one in left if one[0] + size > offset)
        change.store_fingerprint(StoreFingerprint(kept or left[-1:]))


def _keep_last_offsets(writer: Writer, offset: int) -> None:
    """
    Store the bounds with the offsets of those queues alone whose last record is below
    ``offset``. An opening finds the others in the log.
    """
    with writer.storing:
        end, bounds = current_bounds(writer)
        writer.log.sync(end)
        later = _queues_from(writer, offset, end)
        last = {key: n for key, n in writer.new_offsets.items() if key not in later}
        with writer.metastore.change() as change:
            change.store_bounds(bounds)
            change.change_marks(POSITIONS, last)


def _queues_from(writer: Writer, offset: int, end: int) -> set[tuple[str, int]]:
    """
    The queues of the records from an offset on.
    """
    found: set[tuple[str, int]] = set()
    topic = writer.log.topic
    for rows in writer.log.scan(offset, end, Check.TOPIC):
        counted = rows[(rows["sys_flag"] & NO_ENTRY) == 0]
        groups = np.unique(counted[["topic_id", "queue_id"]]).tolist()
        found.update((topic(topic_id), queue_id) for topic_id, queue_id in groups)
    return found
