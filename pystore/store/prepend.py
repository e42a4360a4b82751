"""
Queue entries of the segment before the first one of a log.

Dispatching only goes up. A log that is filled downwards gets the entries of each
segment before the segment: readers look at no entry below the log's first record.

Rules: A16 (docs/crash-safety.md).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pystore.bindings.ffi import Check
from pystore.consumequeue.build import Dispatched, Group, groups_of
from pystore.consumequeue.queue import ENTRY_DTYPE
from pystore.consumequeue.queues import ConsumeQueues
from pystore.core.log_reader import LogReader
from pystore.core.segment_view import open_files
from pystore.errors import CorruptError
from pystore.store.delays import with_delivery_times
from pystore.store.light import find_light_groups
from pystore.store.writer import Writer

__all__ = ["prepend_entries"]

_ROWS = 65536
_WANTED = Check.BODY | Check.PROPERTY | Check.OFFSET | Check.TOPIC | Check.TAGS

_Groups = dict[tuple[str, int], list[Group]]


def prepend_entries(
    writer: Writer, queues: ConsumeQueues, base: int, path: Path, temporary: Path
) -> int:
    """
    Writes the entries of the records of a segment that becomes the first one; the
    caller syncs the queues. It takes some 30 bytes of memory for each record.

    Args:
        writer: of the open store, whose log begins where the segment ends.
        queues: of the store; their lock is held.
        base: the first offset of the segment.
        path: of its file.
        temporary: a directory of the file system of the queues.

    Returns:
        The number of entries.

    Raises:
        CorruptError: a record of the segment is bad.
        FullError: no space is left; call it again.
        StorageError: the system refused; likewise.
    """
    size = writer.log.ends().segment_size
    with open_files(writer.root, {base: path}) as view:
        groups = _groups_of(view, base, base + size, writer)
    known, _ = writer.log.queues_fill()
    written, new = 0, {}
    for (topic, queue_id), parts in groups.items():
        whole = Group(
            topic,
            queue_id,
            np.concatenate([one.indexes for one in parts]),
            # Without the type numpy takes the byte order of the machine.
            np.concatenate([one.entries for one in parts], dtype=ENTRY_DTYPE),
        )
        next_index = known.get((topic, queue_id))
        count = queues.prepend(whole, base + size, next_index, temporary)
        if count and next_index is None:
            new[topic, queue_id] = int(whole.indexes[-1]) + 1
        written += count
    if new:
        # Else the next record of such a queue would have queue offset 0 again.
        writer.log.queues_load(new)
    return written


def _groups_of(view: LogReader, base: int, end: int, writer: Writer) -> _Groups:
    """
    The entries of a segment by queue, each in the order of the log.
    """
    groups: _Groups = {}
    scan = view.scan(base, end, _WANTED, rows=_ROWS)
    for found in scan:
        rows = with_delivery_times(view, found, writer.delay_levels_ms)
        light = find_light_groups(view, rows)
        for group in (*groups_of(rows, view.topic, Dispatched()), *light):
            groups.setdefault((group.topic, group.queue_id), []).append(group)
    found_end = scan.cursor.offset
    if found_end < end:
        reason = scan.finish().text or "nothing was written there"
        raise CorruptError(
            f"{writer.root}: the segment before {end} has a bad record at offset "
            f"{found_end}: {reason}",
            offset=found_end,
            path=str(writer.root),
        )
    return groups
