"""
A salvage: the source is walked, and what is whole is taken.

A salvage into a store walks twice. The first walk finds the queue offsets that every
queue has, the second copies. The new store is made beside its place, in a directory
whose name and whose note say that it is unfinished, and gets its name at the end.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.row import Proof
from pystore.consumequeue.queue import ENTRY_SIZE
from pystore.consumequeue.queues import queue_file_size, queue_file_size_of
from pystore.core.lock import Lock
from pystore.errors import InvalidError, LockedError
from pystore.fs.atomic import storage_error, sync_directory
from pystore.fs.layout import LOCK, store_root
from pystore.message.constants import BLANK_SIZE, RECORD_SIZE_MIN
from pystore.salvage.pieces import PiecedLog, find_pieces
from pystore.salvage.queue_witness import QueueWitness
from pystore.salvage.records import RecordBlock, walk_pieces
from pystore.salvage.report import SalvageReport
from pystore.salvage.sieve import QueueSurvey, RecordSieve
from pystore.salvage.target import SalvageTarget

__all__ = ["UNFINISHED_SUFFIX", "salvage_records", "salvage_store"]

UNFINISHED_SUFFIX = ".unfinished"
_NOTE, _STORE, _SCRATCH = "README", "store", "pieces"
_NOTE_TEXT = """\
This directory was made by `pystore salvage`, which did not finish. No store is in it.
Run the command again, or remove this directory.
"""

_DEFAULT_SEGMENT = 1 << 30

SalvageProgress = Callable[[int, int], object]


def salvage_records(
    source: Path,
    take: Callable[[RecordBlock], object],
    *,
    progress: SalvageProgress | None = None,
) -> SalvageReport:
    """
    Hands over every whole record of a store, or of a ``.lost-`` directory, in the order
    of the log; records with the same queue offset, too.

    Args:
        source: its directory; it is not changed.
        take: called with each block; its memory is valid during the call only.
        progress: called with the bytes that are done, and their total.

    Raises:
        NotAStoreError: there are no files of a log.
        StorageError: the system refused.
    """
    report = SalvageReport()

    def count(block: RecordBlock) -> None:
        _count(report, block.rows)
        take(block)

    walk_pieces(find_pieces(source), count, report, progress=progress)
    return report


def _count(report: SalvageReport, rows: NDArray[Any]) -> None:
    report.records += len(rows)
    report.record_bytes += int(rows["size"].sum(dtype=np.int64))
    proof = rows["proof"] & (Proof.PROPERTY | Proof.DIFFERS)
    report.unproved += int((proof != Proof.PROPERTY).sum())


def salvage_store(
    source: Path,
    target: Path,
    *,
    segment_size: int | None = None,
    queue_file_bytes: int | None = None,
    progress: SalvageProgress | None = None,
) -> SalvageReport:
    """
    Makes a new store of the whole records of a store, or of a ``.lost-`` directory.

    Queue offsets stay; of records of one queue with the same queue offset the first in
    the log is taken. Offsets in the log are new.

    Args:
        source: its directory; it is not changed.
        target: the new store: missing, or an empty directory.
        segment_size: in bytes; ``None``: that of the source, else 1 GiB.
        queue_file_bytes: the size of queue files; ``None``: that of the source, else
            RocketMQ's default.
        progress: called with the bytes that are done, and their total.

    Raises:
        InvalidError: the target is not empty, or in the source; or a record does not
            fit a segment.
        NotAStoreError: there are no files of a log.
        LockedError: another salvage makes this store.
        FullError: no space is left; the target was not made.
        StorageError: the system refused; the same.
    """
    source, target = store_root(source), store_root(target)
    _check_places(source, target)
    pieces = find_pieces(source)
    size = segment_size or pieces.segment_size or _DEFAULT_SEGMENT
    file_bytes = queue_file_size_of(source)
    if queue_file_bytes is not None:
        file_bytes = queue_file_size(queue_file_bytes)
    draft = target.with_name(target.name + UNFINISHED_SUFFIX)
    with _prepare(draft):
        try:
            with QueueWitness(source) as witness:
                report = _fill(pieces, witness, draft, (size, file_bytes), progress)
            _publish(draft, target)
        except BaseException:
            # Also Ctrl-C: an incomplete store is of no use.
            shutil.rmtree(draft, ignore_errors=True)
            raise
    return report


def _check_places(source: Path, target: Path) -> None:
    real_source, real_target = source.resolve(), target.resolve()
    if real_target == real_source or real_source in real_target.parents:
        raise InvalidError(
            f"{target}: the new store cannot be in the source: give another directory",
            path=str(target),
        )
    if os.path.lexists(target) and not (target.is_dir() and not any(target.iterdir())):
        raise InvalidError(
            f"{target} exists and is not empty: give the path of a new store",
            path=str(target),
        )
    if not target.parent.is_dir():
        raise InvalidError(
            f"{target.parent}: no such directory: create it, or check the path",
            path=str(target.parent),
        )


def _prepare(draft: Path) -> Lock:
    """
    Makes the directory of an unfinished store, without what a killed run left.
    """
    try:
        draft.mkdir(exist_ok=True)
        names = set(os.listdir(draft))
        if names and _NOTE not in names:
            raise InvalidError(
                f"{draft} exists and was not made by this command: move it away",
                path=str(draft),
            )
        (draft / _NOTE).write_text(_NOTE_TEXT, encoding="utf-8")
    except OSError as error:
        # The error of the system may not name the path.
        raise storage_error("create", draft, error) from error
    try:
        lock = Lock(draft / LOCK)
    except LockedError as error:
        # Its text would name the wrong thing to do.
        raise LockedError(
            f"{draft}: another process salvages into this store: wait for it",
            path=str(draft),
        ) from error
    shutil.rmtree(draft / _STORE, ignore_errors=True)
    shutil.rmtree(draft / _SCRATCH, ignore_errors=True)
    (draft / _SCRATCH).mkdir()
    return lock


def _publish(draft: Path, target: Path) -> None:
    try:
        (draft / _STORE).rename(target)
    except OSError as error:
        # The caller knows the target, not the draft.
        raise storage_error("create", target, error) from error
    sync_directory(target.parent)
    shutil.rmtree(draft, ignore_errors=True)


def _fill(
    pieces: PiecedLog,
    witness: QueueWitness,
    draft: Path,
    sizes: tuple[int, int],
    progress: SalvageProgress | None,
) -> SalvageReport:
    segment_size, queue_file_bytes = sizes
    total = 2 * sum(piece.size for piece in pieces.pieces)
    scratch = draft / _SCRATCH

    def first_half(done: int, _total: int) -> None:
        if progress is not None:
            progress(done, total)

    def second_half(done: int, _total: int) -> None:
        first_half(total // 2 + done, total)

    seen = QueueSurvey(witness)
    found = SalvageReport()
    walk_pieces(pieces, seen.note, found, scratch=scratch, progress=first_half)
    if seen.size_max + BLANK_SIZE > segment_size:
        raise InvalidError(
            f"a record of {seen.size_max} bytes does not fit a segment of "
            f"{segment_size}: give a larger segment size"
        )
    gap_max = max(queue_file_bytes // ENTRY_SIZE, found.left_bytes // RECORD_SIZE_MIN)
    ranges = {key: runs.main_range(gap_max) for key, runs in seen.queues.items()}
    report = SalvageReport()
    with SalvageTarget(
        draft / _STORE,
        segment_size=segment_size,
        queue_file_bytes=queue_file_bytes,
        firsts={key: first for key, (first, _) in ranges.items()},
    ) as target:
        sieve = RecordSieve(ranges, seen.named, report)

        def take(block: RecordBlock) -> None:
            rows = sieve.kept(block)
            _count(report, rows)
            target.append(block, rows)

        walk_pieces(pieces, take, report, scratch=scratch, progress=second_half)
        target.finish()
        report.end_offset = target.end_offset
    return report
