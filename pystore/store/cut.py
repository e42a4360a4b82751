"""
Cutting a log: first the intent, then the live page, then the bytes (A3). An empty log
may begin at another segment.

Appends wait in the core from the first step to the last. The intent is stored between
the steps, so that a crash leaves either the whole log or a cut that the next opening
finishes.

Rules: docs/crash-safety.md, A2 and A3.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from pystore.bindings.ffi import Check
from pystore.errors import InvalidError, PoisonedError, PystoreError
from pystore.message.constants import NO_ENTRY
from pystore.metastore.schema import EPOCHS, FINGERPRINT, POSITIONS
from pystore.metastore.values import QueueMark, QueueOffsets, StoreFingerprint
from pystore.store.sealer import remove_seals

if TYPE_CHECKING:
    from pystore.core.results import CutReport
    from pystore.epochs.table import EpochTable
    from pystore.store.writer import Writer

__all__ = ["begin_at", "cut_log"]


def cut_log(writer: Writer, offset: int) -> CutReport:
    """
    Cut the log at ``offset``; at 0 the whole log and its epochs are removed.

    Raises:
        InvalidError: no record ends there.
        BusyError: a block above it is held.
        StorageError: the system refused; if appends fail from now on, reopen the
            store, which finishes the cut.
    """
    log = writer.log
    is_intended = is_done = False
    try:
        log.cut_begin(offset)
        queues = _queues_at(writer, offset) if offset else {}
        is_intended = True
        try:
            generation, table = _intend(writer, offset, queues)
        except PystoreError as error:
            # A failed transaction changed nothing, unless its outcome is unknown.
            is_intended = isinstance(error, PoisonedError)
            raise
        log.cut_publish(generation)
        report = log.cut_apply()
        log.queues_load(queues)
        remove_seals(writer.root, offset, log.ends().segment_size)
        writer.limit_checkpoint(offset)
        with writer.metastore.change() as change:
            change.finish_cut()
        is_done = True
    finally:
        _end(writer, is_intended=is_intended, is_done=is_done)
    writer.export_epochs(table)
    return report


def begin_at(writer: Writer, base: int) -> None:
    """
    Move the beginning of an empty log to the base of a segment, as in a replica with
    deleted segments. The caller has removed the consume queues.

    A crash leaves an empty log that begins at 0 or here.

    Raises:
        InvalidError: the log is not empty, or no segment can begin there.
        FullError: no space for a segment; try again later.
        StorageError: the system refused.
    """
    if writer.log.ends().received_end == base:
        return
    if writer.log.ends().received_end:
        cut_log(writer, 0)
    with writer.metastore.change() as change:
        # The removed segment at 0 must not count as foreign (A7).
        change.store_fingerprint(
            StoreFingerprint((), change.read(FINGERPRINT).queue_lengths)
        )
    writer.log.begin_at(base)


def _intend(
    writer: Writer, offset: int, queues: dict[tuple[str, int], int]
) -> tuple[int, EpochTable]:
    """
    Store the intent; returns the generation and the remaining epochs.
    """
    with writer.metastore.change() as change:
        if change.read(POSITIONS).as_of > offset:
            # Retention may have deleted the records with these offsets. The offsets of
            # a lower end stay: this end may not be on disk yet.
            marks = (QueueMark(*key, value) for key, value in queues.items())
            change.write(POSITIONS, QueueOffsets(offset, tuple(marks)))
        state = change.intend_cut(offset)
        left = change.read(FINGERPRINT)
        # It may have segments that retention deleted.
        present = {base for base in writer.log.segments() if base <= offset}
        segments = tuple(pair for pair in left.segments if pair[0] in present)
        change.store_fingerprint(StoreFingerprint(segments, left.queue_lengths))
        table = change.read(EPOCHS)
        writer.cuts.append(offset)
    return state.generation, table


def _end(writer: Writer, *, is_intended: bool, is_done: bool) -> None:
    """
    End the cut of this thread, if it began one.

    The next opening would cut records that were appended after an unfinished intent.
    Ctrl-C may come between the intent and the step that makes appends fail, so that
    step is done here.
    """
    log = writer.log
    try:
        if is_intended and not is_done:
            with suppress(InvalidError):  # it was published
                log.cut_publish(log.ends().cut_generation + 1)
    finally:
        with suppress(InvalidError):  # none was begun
            log.cut_end(is_done)


def _queues_at(writer: Writer, offset: int) -> dict[tuple[str, int], int]:
    """
    The next queue offsets after the cut: for each queue the lowest removed one, else
    the present one.
    """
    log = writer.log
    queues, end = log.queues_fill()
    for rows in log.scan(offset, end, Check.TOPIC):
        counted = rows[(rows["sys_flag"] & NO_ENTRY) == 0]
        keys = counted[["topic_id", "queue_id"]]
        groups, first = np.unique(keys, return_index=True)
        for group, at in zip(groups, first, strict=True):
            key = log.topic(int(group["topic_id"])), int(group["queue_id"])
            lowest = int(counted["queue_offset"][at])
            queues[key] = min(queues.get(key, lowest), lowest)
    return queues
