"""
Opening a store for writing: from the lock to a log that takes appends.

The order is the safety: the lock, ``meta/`` complete (A14), the plan, then the
truth in one transaction (a new incarnation, the clean mark void, an intent if
something promised is cut), then ``abort``, the live page, and only then the log
itself, which zeroes and rewrites (A2, A12). A crash between any two of these
steps leaves a store that the next opening understands.

Rules: docs/crash-safety.md.
"""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from pystore.consumequeue.queues import CONSUME_QUEUE, ConsumeQueues, queue_file_size
from pystore.core.live_page import Live
from pystore.core.lock import Lock
from pystore.core.log_writer import LogHandle
from pystore.core.options import LogOptions
from pystore.core.results import LiveWords, StartReport
from pystore.epochs.file import EPOCHS as EPOCH_FILE
from pystore.epochs.file import EPOCHS_BACKUP, encode_epochs
from pystore.epochs.table import EpochTable
from pystore.errors import CorruptError, FullError, NotAStoreError
from pystore.fs.atomic import (
    remove_file,
    replace_file,
    storage_error,
    sweep,
    sync_directory,
)
from pystore.fs.boot import Boot, boot_of
from pystore.metastore.bootstrap import META_NAME, TEMPORARY_NAME, create_meta, place_of
from pystore.metastore.database import Checkpoint
from pystore.metastore.schema import CUT, EPOCHS, EXPORTS, INCARNATION, LEFT, POSITIONS
from pystore.metastore.values import Bounds, Incarnation, Left, QueueBounds, QueueMark
from pystore.recovery.foreign_writer import Found, find
from pystore.recovery.plan import Plan, plan
from pystore.recovery.salvage import Loss, save_loss
from pystore.recovery.state import Situation, opening_of
from pystore.recovery.survey import Segments, last_record
from pystore.rocketmq.side_files import (
    ABORT,
    CHECKPOINT,
    LOCK,
    abort_text,
    parse_checkpoint,
)
from pystore.store.adopt import adopt, is_adopted, prepare_adoption
from pystore.store.dispatch import load_table, next_offsets
from pystore.store.sealer import remove_seals

__all__ = ["LIVE_NAME", "Writer", "left_of", "open_writer"]

LIVE_NAME = "live"
COMMIT_LOG = "commitlog"
LIVE_FORMAT = 1
_QUEUE_FILE_BYTES = queue_file_size()


@dataclass(slots=True)
class Writer:
    """
    An opened store and what it holds.

    Attributes:
        root: the store.
        stack: closes everything else here, the lock last.
        checkpoint: the truth.
        live: the live page.
        log: started; takes appends.
        boot: the boot that runs.
        plan: how the store was found.
        report: what starting the log took.
        loss: what was given up, if promised bytes were bad.
        queue_lengths: of the consume queues, if a `pystore.store.store.Store` keeps
            them.
        queue_bounds: how far they are on disk, likewise.
        unsealable: segments whose damage was found when they were to be sealed.
        cuts: where the log was cut and the consume queues were not yet.
        delayed_abort: our ``abort``, if a full disk has delayed it.
        is_closed: whether closing has begun.
    """

    root: Path
    stack: ExitStack
    checkpoint: Checkpoint
    live: Live
    log: LogHandle
    boot: Boot
    plan: Plan
    report: StartReport
    loss: Loss | None
    queue_lengths: tuple[QueueMark, ...] | None = None
    queue_bounds: QueueBounds | None = None
    unsealable: set[int] = field(default_factory=set)
    cuts: list[int] = field(default_factory=list)
    delayed_abort: bytes | None = None
    is_closed: bool = False

    @property
    def temporary(self) -> Path:
        """
        Where files are written before they get their names.
        """
        return self.root / META_NAME / TEMPORARY_NAME

    def export_epochs(self, table: EpochTable) -> bool:
        """
        Write the epoch file, whose digest is stored already.

        The backup goes first: Java prefers it to a table without entries.
        """
        remove_file(self.root / EPOCHS_BACKUP)
        return self.export(EPOCH_FILE, encode_epochs(table))

    def limit_checkpoint(self, end: int) -> None:
        """
        Let ``checkpoint`` say nothing of what a cut at ``end`` took (A11).
        """
        path = self.root / CHECKPOINT
        if not path.exists():
            return
        times = parse_checkpoint(path.read_bytes(), str(path))
        last = last_record(Segments(self.log), end)
        limited = times.limited(last[1] if last else 0, end)
        if limited != times:
            with self.checkpoint.change() as change:
                change.intend_export(CHECKPOINT, limited.encode())
            self.export(CHECKPOINT, limited.encode())

    def export(self, name: str, content: bytes | None) -> bool:
        """
        Give a file of RocketMQ's the content that was intended for it.

        Returns:
            Whether it is there now; a full disk delays an export (A13).
        """
        try:
            if content is None:
                remove_file(self.root / name)
            else:
                replace_file(self.root / name, content, self.temporary)
            with self.checkpoint.change() as change:
                change.settle_export(name)
        except FullError:
            # Delayed: the digests in LMDB allow the old content as well.
            return False
        return True


def prepare_directory(root: Path, *, create: bool) -> None:
    """
    Make sure that *root* is a store, or becomes one.

    Raises:
        NotAStoreError: missing, no directory, or something else is in it.
        StorageError: the system refused.
    """
    if not root.exists():
        if not create:
            raise NotAStoreError(
                f"{root}: no such directory: check the path", path=str(root)
            )
        if not root.parent.exists():
            raise NotAStoreError(
                f"{root.parent}: no such directory: create it, or check the path",
                path=str(root.parent),
            )
        _make_directory(root)
    if not root.is_dir():
        raise NotAStoreError(
            f"{root}: not a directory: give the root of a store", path=str(root)
        )
    if (root / COMMIT_LOG).is_dir() or (root / META_NAME).is_dir():
        return
    others = sorted(set(os.listdir(root)) - {LOCK})
    if others or not create:
        what = f"holds {others[0]!r}" if others else "is empty"
        raise NotAStoreError(
            f"{root}: not a store: it has no {COMMIT_LOG}/ and {what}: "
            "give the root of a store, or an empty directory",
            path=str(root),
        )
    _make_directory(root / COMMIT_LOG)


def _make_directory(path: Path) -> None:
    try:
        path.mkdir()
    except OSError as error:
        # The caller gets the path with it.
        raise storage_error("create", path, error) from error
    sync_directory(path.parent)


def open_writer(
    root: Path,
    options: LogOptions,
    *,
    create: bool = True,
    accept_loss: bool = False,
) -> Writer:
    """
    Open a store for writing.

    Args:
        root: the store's directory.
        options: of the log.
        create: whether a missing or empty directory becomes a store.
        accept_loss: go on where promised bytes are bad (A6): what is removed
            is saved beside the store.

    Raises:
        NotAStoreError: missing, or no store.
        LockedError: another writer has it.
        CorruptError: promised bytes are bad; ``offset`` says where.
        FormatError: a small file cannot be read.
        StorageError: the system refused.
    """
    prepare_directory(root, create=create)
    with ExitStack() as stack:
        lock = stack.enter_context(Lock(root / LOCK))
        assert lock.is_held
        is_new = _prepare_meta(root)
        checkpoint = stack.enter_context(Checkpoint.open(root / META_NAME))
        live = stack.enter_context(Live(root / META_NAME / LIVE_NAME, writable=True))
        sweep(root / META_NAME / TEMPORARY_NAME)
        log = stack.enter_context(LogHandle(root, options, live))
        boot = boot_of(root)
        found = find(root)
        size = queue_file_size_of(root)
        with ConsumeQueues(root, size) as queues, checkpoint.view() as view:
            queues.load()
            situation = Situation(
                root=root,
                segments=Segments(log),
                found=found,
                queues=queues,
                view=None if is_new or not view.read(INCARNATION).counter else view,
                live=live.read(),
                boot=boot,
                opening=opening_of(found, queues),
            )
            made = plan(situation)
            known = next_offsets(made, queues)
        loss = None
        if made.corrupt is not None:
            if not accept_loss:
                _refuse(root, made)
            loss = save_loss(root, Segments(log), made.end_offset)
        nothing = StartReport(0, 0, 0)
        writer = Writer(root, stack, checkpoint, live, log, boot, made, nothing, loss)
        _start(writer, found, known)
        writer.stack = stack.pop_all()
    return writer


def _prepare_meta(root: Path) -> bool:
    """
    Make ``meta/`` if there is none; answers whether it is new (A14).
    """
    meta = root / META_NAME
    if os.path.lexists(meta):
        shutil.rmtree(root / "meta.new", ignore_errors=True)
        return False
    create_meta(root, lambda draft: Live.create(draft / LIVE_NAME))
    return True


def queue_file_size_of(root: Path, default: int = _QUEUE_FILE_BYTES) -> int:
    """
    The size of the store's queue files: that of one it has, else the default.
    """
    for path in (root / CONSUME_QUEUE).glob("*/*/*"):
        if path.is_file() and (size := path.stat().st_size):
            return queue_file_size(size)
    return default


def _refuse(root: Path, made: Plan) -> None:
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
    state = _store_truth(writer, found)
    text = abort_text(os.getpid(), state.text)
    _write_abort(writer, text)
    with writer.checkpoint.view() as view:
        cut, epochs = view.read(CUT), view.read(EPOCHS)
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
        remove_seals(writer.root, made.end_offset, writer.log.ends().segment_size)
        writer.limit_checkpoint(made.end_offset)
    with writer.checkpoint.change() as change:
        if writer.delayed_abort is None:
            change.settle_export(ABORT)
        if cut.intent is not None:
            change.finish_cut()
        boot_id, mount_id = writer.boot.text
        end = made.end_offset
        change.store_bounds(Bounds(end, made.confirm_offset, boot_id, mount_id))
        change.leave(left_of(writer, change.read(LEFT)))
        is_exported = change.read(EXPORTS).is_current(
            EPOCH_FILE, found.contents[EPOCH_FILE]
        )
    if not is_exported:
        writer.export_epochs(epochs)


def _store_truth(writer: Writer, found: Found) -> Incarnation:
    """
    The first transaction: from here on the store is ours and not clean.
    """
    made = writer.plan
    with writer.checkpoint.change() as change:
        state = change.begin_incarnation(os.urandom)
        change.settle_place(place_of(writer.root))
        change.void_clean()
        if is_adopted(made):
            adopt(change, made, found, writer.boot)
        elif change.read(EPOCHS) != made.epochs:
            change.replace_epochs(made.epochs)
        if made.import_cut is not None or made.corrupt is not None:
            change.intend_cut(made.end_offset)
        if change.read(POSITIONS) != made.positions:
            change.write(POSITIONS, made.positions)
        text = abort_text(os.getpid(), state.text)
        change.intend_export(ABORT, text)
    return state


def _write_abort(writer: Writer, text: bytes) -> None:
    try:
        replace_file(writer.root / ABORT, text, writer.temporary)
    except FullError:
        # Opening works on a full disk (A13); the digests allow both contents.
        writer.delayed_abort = text


def left_of(writer: Writer, before: Left) -> Left:
    """
    What another program would change, as it is now (A7).
    """
    size = writer.log.ends().segment_size
    segments = tuple((base, size) for base in writer.log.segments())
    lengths = writer.queue_lengths
    return Left(segments, before.queue_lengths if lengths is None else lengths)
