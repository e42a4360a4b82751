"""
Cutting a log: first the intent, then the live page, then the bytes (A3). An empty log
may begin at another segment, and an epoch begins at the end.

Appends wait in the core from the first step to the last. The intent is stored between
the steps, so that a crash leaves either the whole log or a cut that the next opening
finishes. The same intent removes what a failed append wrote, if the core could not: in
another boot the published end is not known, and the bytes may be on disk.

Rules: docs/crash-safety.md, A2, A3 and A19.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pystore.errors import (
    ClosedError,
    InvalidError,
    PoisonedError,
    PystoreError,
    StorageError,
)
from pystore.fs.cut_history import write_cuts
from pystore.metastore.schema import EPOCHS, FINGERPRINT, POSITIONS
from pystore.metastore.values import QueueMark, QueueOffsets, StoreFingerprint
from pystore.store.queue_table import queues_at
from pystore.store.sealer import remove_seals

if TYPE_CHECKING:
    from pystore.core.results import CutReport
    from pystore.epochs.table import EpochTable
    from pystore.metastore.values import CutState
    from pystore.store.writer import Writer

__all__ = ["begin_at", "begin_epoch", "cut_log", "undo_append"]


def cut_log(writer: Writer, offset: int) -> CutReport:
    """
    Cut the log at ``offset``; at 0 the whole log and its epochs are removed.

    Raises:
        InvalidError: no record ends there.
        StorageError: the system refused; if appends fail from now on, reopen the
            store, which finishes the cut.
    """
    # A repair must not write bytes back that a cut removes.
    with writer.mending:
        return _cut_log(writer, offset)


def _cut_log(writer: Writer, offset: int) -> CutReport:
    log = writer.log
    is_intended = is_done = False
    try:
        log.cut_begin(offset)
        queues = queues_at(writer, offset) if offset else {}
        is_intended = True
        try:
            state, table = _intend(writer, offset, queues)
        except PystoreError as error:
            # A failed transaction changed nothing, unless its outcome is unknown.
            is_intended = isinstance(error, PoisonedError)
            raise
        write_cuts(writer.live.path, state.history)
        log.cut_publish(state.generation)
        report = log.cut_apply()
        log.queues_load(queues)
        writer.knows_offsets = False
        remove_seals(writer, offset)
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
        change.store_fingerprint(StoreFingerprint())
    writer.log.begin_at(base)


def begin_epoch(writer: Writer, epoch: int) -> EpochTable:
    """
    Begin a mastership at the log's end. Appends wait until its entry is durable, so
    that each byte of the epoch comes after it.

    Raises:
        FencedError: a higher epoch was promised.
        InvalidError: the epoch is not new.
        StorageError: the system refused.
    """
    log = writer.log
    log.sync()  # most of the work, while appends go on
    try:
        end = log.hold()
        with writer.metastore.change() as change:
            table = change.begin_epoch(epoch, end)
    finally:
        with suppress(InvalidError):  # it was not held
            log.cut_end(is_done=False)
    writer.export_epochs(table)
    return table


def undo_append(writer: Writer, failure: StorageError) -> None:
    """
    Make certain that a failed append has left nothing. Any thread may call.

    Args:
        writer: of the log.
        failure: of the append.

    Raises:
        StorageError: the intent could not be stored either.
    """
    try:
        end = writer.log.undo()
    except ClosedError:
        # The close has tried to zero the bytes, and has stored no clean mark.
        return
    if end is None:
        return
    try:
        with writer.metastore.change() as change:
            change.intend_undo(end)
    except PystoreError as second:
        # The published end protects the log until the machine restarts.
        raise StorageError(
            f"{failure}; what it wrote above offset {end} could not be removed, and "
            f"this could not be stored ({second}): open the store again before the "
            "machine restarts",
            errno=failure.errno,
            offset=end,
            path=str(writer.root),
        ) from second


def _intend(
    writer: Writer, offset: int, queues: dict[tuple[str, int], int]
) -> tuple[CutState, EpochTable]:
    """
    Store the intent; returns the state of cuts and the remaining epochs.
    """
    with writer.metastore.change() as change:
        if change.as_of(POSITIONS) > offset:
            # Retention may have deleted the records with these offsets. The offsets of
            # a lower end stay: this end may not be on disk yet.
            marks = (QueueMark(*key, value) for key, value in queues.items())
            change.write_marks(POSITIONS, QueueOffsets(offset, tuple(marks)))
        state = change.intend_cut(offset)
        left = change.read(FINGERPRINT)
        # It may have segments that retention deleted.
        present = {base for base in writer.log.segments() if base <= offset}
        segments = tuple(pair for pair in left.segments if pair[0] in present)
        change.store_fingerprint(StoreFingerprint(segments))
        table = change.read(EPOCHS)
        writer.cuts.append(offset)
    return state, table


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
