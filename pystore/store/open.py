"""
Opening a store for writing: from the lock to a log that takes appends.

The order of the steps makes it safe: the lock, ``meta/`` complete (A14), the recovery
plan, then the metadata in one transaction (a new incarnation, no clean mark, an intent
if promised bytes are cut), then ``abort``, the live page, and last the log, which
zeroes and rewrites bytes (A2, A12). After a crash between any two steps the next
opening recovers the store.

Rules: docs/crash-safety.md.
"""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from pystore.clocks import wall_ms
from pystore.consumequeue.queues import (
    ConsumeQueues,
    queue_file_size_of,
)
from pystore.core.live_page import LivePage, LiveWords
from pystore.core.lock import Lock
from pystore.core.log_writer import LogHandle
from pystore.core.options import LogOptions
from pystore.core.results import StartReport
from pystore.errors import CorruptError, FullError
from pystore.fs.atomic import (
    replace_file,
    sweep,
)
from pystore.fs.boot import boot_of, place_of
from pystore.fs.cut_history import write_cuts
from pystore.fs.layout import (
    ABORT,
    COMMIT_LOG,
    CONSUME_QUEUE,
    EPOCH_FILE,
    LIVE_FORMAT,
    LIVE_NAME,
    LOCK,
    META_DRAFT_NAME,
    META_NAME,
    TEMPORARY_NAME,
    is_wanted_pull,
    prepare_directory,
    prepare_meta_directories,
    segment_temporary,
)
from pystore.metastore.bootstrap import create_meta
from pystore.metastore.database import MetaStore
from pystore.metastore.schema import (
    CUT,
    EPOCHS,
    EXPORTS,
    INCARNATION,
    POSITIONS,
)
from pystore.metastore.values import Bounds
from pystore.recovery.foreign_writer import Found, find
from pystore.recovery.plan import RecoveryPlan, is_adopted, plan
from pystore.recovery.restart import restart_of
from pystore.recovery.salvage import save_cut
from pystore.recovery.segments import Segments
from pystore.recovery.state import RecoveryInput, opening_of
from pystore.replicaset import Incarnation
from pystore.rocketmq.abort_file import abort_text
from pystore.store.adopt import adopt, prepare_adoption
from pystore.store.cut import undo_append
from pystore.store.queue_table import load_table, next_offsets
from pystore.store.sealer import remove_seals
from pystore.store.writer import Writer, fingerprint_of

__all__ = ["open_writer"]

_BEFORE = StartReport(0, 0, 0)
"""Of a log that is not started yet."""


def open_writer(
    root: Path,
    options: LogOptions,
    *,
    create: bool = True,
    accept_loss: bool = False,
    save_to: Path | None = None,
) -> Writer:
    """
    Open a store for writing.

    Args:
        root: the store's directory.
        options: of the log.
        create: whether a missing or empty directory becomes a store.
        accept_loss: open although promised bytes are bad (A6): removed bytes are
            saved beside the store.
        save_to: the parent of the directory for removed bytes that hold whole records
            (A17); ``None``: that of the store, and at most `LOSS_MAX` bytes unless
            `accept_loss` is set.

    Raises:
        NotAStoreError: missing, or not a store.
        LockedError: another writer has the store.
        CorruptError: promised bytes are bad, at ``offset``.
        FormatError: a small file cannot be read.
        StorageError: the system refused.
    """
    prepare_directory(root, create=create)
    with ExitStack() as stack:
        lock = stack.enter_context(Lock(root / LOCK))
        is_new = _prepare_meta(root)
        metastore = stack.enter_context(MetaStore.open(root / META_NAME))
        live = stack.enter_context(
            LivePage(root / META_NAME / LIVE_NAME, writable=True)
        )
        temporary = _sweep_temporaries(root)
        log = stack.enter_context(LogHandle(root, options, live))
        log.guard(lock, temporary)
        boot = boot_of(root)
        found = find(root)
        size = queue_file_size_of(root)
        with ConsumeQueues(root, size) as queues, metastore.view() as view:
            queues.load()
            view.check(live.read().incarnation)
            recovery_input = RecoveryInput(
                root=root,
                segments=Segments(log),
                found=found,
                queues=queues,
                view=None if is_new or not view.read(INCARNATION).counter else view,
                live=live.read(),
                boot=boot,
                opening=opening_of(found, queues),
            )
            made = plan(recovery_input)
            known = next_offsets(made, queues)
            restart = restart_of(recovery_input)
        if made.corrupt is not None and not accept_loss:
            _refuse(root, made)
        loss = save_cut(
            root, Segments(log), made, save_to=save_to, is_consented=accept_loss
        )
        writer = Writer(root, stack, metastore, live, log, boot, made, _BEFORE, loss)
        writer.parts = (lock, metastore, live, log.pointer)
        writer.restart = restart
        _start(writer, found, known)
        log.after_failure = partial(undo_append, writer)
        writer.stack = stack.pop_all()
    return writer


def _sweep_temporaries(root: Path) -> Path:
    """
    Removes what a killed process left; returns the directory for new segments. A
    segment that a repair was copying stays for a day: the repair goes on with it.
    """
    temporary = segment_temporary(root)
    now_ms = wall_ms()
    for directory in {root / META_NAME / TEMPORARY_NAME, temporary}:
        sweep(directory, keeps=lambda one: is_wanted_pull(one, now_ms))
    return temporary


def _prepare_meta(root: Path) -> bool:
    """
    Create ``meta/`` if there is none; returns whether it is new (A14).
    """
    meta = root / META_NAME
    if os.path.lexists(meta):
        shutil.rmtree(root / META_DRAFT_NAME, ignore_errors=True)
        prepare_meta_directories(root)
        return False
    create_meta(root, lambda draft: LivePage.create(draft / LIVE_NAME))
    return True


def _refuse(root: Path, made: RecoveryPlan) -> None:
    found = made.corrupt
    assert found is not None
    raise CorruptError(
        f"{root}: damage at offset {found.offset}: {found.reason} "
        f"(rule {found.rule}): restore it from a replica, read what is left with "
        "`pystore dump`, or give it up with `pystore recover --accept-loss`",
        offset=found.offset,
        path=str(root),
    )


def _start(writer: Writer, found: Found, known: dict[tuple[str, int], int]) -> None:
    made = writer.plan
    if is_adopted(made):
        prepare_adoption(writer.root, (COMMIT_LOG, CONSUME_QUEUE), writer.live)
    state = _store_metadata(writer, found)
    text = abort_text(os.getpid(), state.text)
    _write_abort(writer, text)
    with writer.metastore.view() as view:
        cut, epochs = view.read(CUT), view.read(EPOCHS)
    write_cuts(writer.live.path, cut.history)
    writer.live.begin(
        LiveWords(
            format=LIVE_FORMAT,
            incarnation=state.counter,
            boot_id=writer.boot.boot_id,
            mount_id=writer.boot.mount_id,
            published_end=made.end_offset,
            synced_end=made.synced_end,
            confirm_offset=made.confirm_offset,
            min_offset=made.min_offset,
            cut_generation=cut.generation,
            cut_offset=made.end_offset if cut.intent is None else cut.intent,
        )
    )
    last = made.survey.last_offset
    writer.report = writer.log.start(
        made.end_offset,
        synced_end=made.synced_end,
        confirm_offset=made.confirm_offset,
        clean=made.is_clean,
        store_ms=made.survey.store_ms,
        last_offset=None if last is None or last >= made.end_offset else last,
    )
    load_table(writer, known)
    if made.intent is not None or made.cut_reason:
        remove_seals(writer, made.end_offset)
        writer.limit_checkpoint(made.end_offset)
    with writer.metastore.change() as change:
        if writer.delayed_abort is None:
            change.settle_export(ABORT)
        if cut.intent is not None:
            change.finish_cut()
        boot_id, mount_id = writer.boot.text
        end = made.end_offset
        change.store_bounds(Bounds(end, made.confirm_offset, boot_id, mount_id))
        change.store_fingerprint(fingerprint_of(writer))
        is_exported = change.read(EXPORTS).is_current(
            EPOCH_FILE, found.contents[EPOCH_FILE]
        )
    if not is_exported:
        writer.export_epochs(epochs)


def _store_metadata(writer: Writer, found: Found) -> Incarnation:
    """
    The first transaction: the store has a new incarnation and is not clean.
    """
    made = writer.plan
    with writer.metastore.change() as change:
        state = change.begin_incarnation(os.urandom)
        change.store_place(place_of(writer.root))
        change.void_clean()
        if is_adopted(made):
            adopt(change, made, found, writer.boot)
        elif change.read(EPOCHS) != made.epochs:
            change.replace_epochs(made.epochs)
        if made.corrupt is not None:
            change.note_loss(made.end_offset)
        if made.import_cut is not None or made.corrupt is not None:
            change.intend_cut(made.end_offset)
        if not made.is_clean and (made.end_offset or made.cut_reason):
            change.note_end(made.end_offset, is_known=not is_adopted(made))
        is_voided = made.corrupt is not None  # by the intent of the cut
        if is_voided or change.as_of(POSITIONS) != made.positions.as_of:
            change.write_marks(POSITIONS, made.positions)
        text = abort_text(os.getpid(), state.text)
        change.intend_export(ABORT, text)
    return state


def _write_abort(writer: Writer, text: bytes) -> None:
    try:
        replace_file(writer.root / ABORT, text, writer.temporary)
    except FullError:
        # Opening works on a full disk (A13); the digests allow both contents.
        writer.delayed_abort = text
