"""
One task: checks one segment of one store. Runs on an executor.

A task gets plain values and returns plain values. It opens only the segment's file,
read-only, without a lock and without LMDB. So it needs no handle of the driver, and
the rest of the store may be damaged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.ffi import NO_OFFSET
from pystore.bindings.row import Check
from pystore.core.log_reader import LogReader
from pystore.core.segment_view import open_view
from pystore.damage.segment_walk import SegmentReport, walk_segment
from pystore.errors import FormatError, PystoreError
from pystore.fs.layout import META_NAME, SEALS_NAME, segment_path
from pystore.seals import BLOCK_BYTES, Seal, read_seal
from pystore.spark.verify.digests import BlockDigests, BlockMap
from pystore.spark.verify.queue_columns import SegmentQueues, pack_queues
from pystore.spark.verify.queue_runs import QueueRuns
from pystore.spark.verify.sampled_walk import walk_blocks
from pystore.verify.answers import require_readable
from pystore.verify.coverage import uncovered_bytes

__all__ = ["SegmentCheck", "SegmentTask", "StoreShare", "check_segment"]

_ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class StoreShare:
    """
    The values that all tasks of a store share.

    Attributes:
        store: root of the store, the same path on every host.
        group: stores of one group are compared with each other.
        has_queues: whether records are compared with the consume queues.
        queue_file_size: of the consume queues' files, in bytes.
        dispatched_end: the records below had their queue entries on disk.
        torn_from: as in `walk_segment`.
    """

    store: str
    group: str
    has_queues: bool = False
    queue_file_size: int = 0
    dispatched_end: int = 0
    torn_from: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """
    One segment to check.

    Attributes:
        share: values of the store.
        base: base offset of the segment.
        end: end of the segment's bytes that belong to the log.
        digest_end: blocks are digested up to here; ``base``: no block is.
        stops: offsets below ``digest_end`` where shorter replicas end.
        blocks: indexes of the blocks to read; the records in them are checked.
            ``None``: every block is read, and every record is checked.
        has_seal: whether the segment has a seal.
        epochs: offsets in the segment at which epochs begin.
    """

    share: StoreShare
    base: int
    end: int
    digest_end: int
    blocks: tuple[int, ...] | None = None
    has_seal: bool = False
    epochs: tuple[int, ...] = ()
    stops: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """
        The bytes to read, approximately.
        """
        if self.blocks is None:
            return self.end - self.base
        return min(len(self.blocks) * BLOCK_BYTES, self.end - self.base)


@dataclass(slots=True)
class SegmentCheck:
    """
    The result of one task.

    Attributes:
        store: root of the store.
        base: base offset of the segment.
        report: of the scan; ``None``: the segment could not be read.
        digests: XXH3-64 of each block, by index.
        digest_end: end of the last digested block.
        is_sampled: whether only some blocks were read.
        partial: XXH3-64 of a block up to the end of a shorter replica, by that end.
        seal: of the segment; ``None``: it has none.
        seal_problem: why the seal is invalid; empty: it is valid, or there is none.
        is_sealed_whole: whether every byte is as it was sealed.
        queues: the segment's records in each queue.
        stray_epochs: offsets at which an epoch begins but no record does.
        error: why the segment could not be checked; empty: it was checked.
        seconds: that the check took.
    """

    store: str
    base: int
    report: SegmentReport | None = None
    digests: Mapping[int, int] = field(default_factory=BlockMap)
    digest_end: int = 0
    is_sampled: bool = False
    partial: dict[int, int] = field(default_factory=dict)
    seal: Seal | None = None
    seal_problem: str = ""
    is_sealed_whole: bool = False
    queues: SegmentQueues = field(default_factory=SegmentQueues)
    stray_epochs: tuple[int, ...] = ()
    error: str = ""
    seconds: float = 0.0


def check_segment(task: SegmentTask) -> SegmentCheck:
    """
    Checks a segment. A problem of the store becomes part of the result, no exception.
    """
    began = time.monotonic()
    is_sampled = task.blocks is not None
    check = SegmentCheck(task.share.store, task.base, is_sampled=is_sampled)
    for _ in range(_ATTEMPTS):
        check = SegmentCheck(task.share.store, task.base, is_sampled=is_sampled)
        try:
            require_readable(segment_path(Path(task.share.store), task.base))
            _read_seal(task, check)
            with open_view(task.share.store, [task.base]) as log:
                _check(task, check, log)
            break
        except (PystoreError, OSError) as error:
            # A queue's file may have been deleted meanwhile: look again. If that does
            # not help, the segment is UNKNOWN, and the others are still checked.
            check.error = " ".join(str(error).split("\n"))
    check.seconds = time.monotonic() - began
    return check


def _read_seal(task: SegmentTask, check: SegmentCheck) -> None:
    if not task.has_seal:
        return
    try:
        seals = Path(task.share.store, META_NAME, SEALS_NAME)
        check.seal = read_seal(seals, task.base)
    except FormatError as error:
        # An invalid seal is a finding, and nothing is compared with it.
        check.seal_problem = str(error)


def _check(task: SegmentTask, check: SegmentCheck, log: LogReader) -> None:
    log.limit(task.end)
    seal = check.seal
    is_whole = task.blocks is None
    sealed_end = min(seal.end_offset, task.end) if seal else 0
    digest_end = max(task.digest_end, sealed_end)
    digests = BlockDigests(
        log,
        task.base,
        digest_end,
        chosen=task.blocks,
        stops=task.stops,
        with_whole=seal is not None and is_whole,
    )
    runs = QueueRuns(
        Path(task.share.store),
        log.topic,
        with_queues=is_whole and task.share.has_queues,
        queue_file_size=task.share.queue_file_size,
        dispatched_end=task.share.dispatched_end,
    )
    starts = np.array(task.epochs, np.int64)
    found = np.zeros(len(starts), np.bool_)

    def note(rows: NDArray[Any]) -> None:
        if is_whole:
            runs.note(rows)
        digests.reach(int(rows["offset"][-1] + rows["size"][-1]))
        if len(starts):
            found[np.isin(starts, rows["offset"].astype(np.int64))] = True

    try:
        check.report = _walk(task, log, note, runs.columns)
    finally:
        runs.close()
    digests.finish()
    if is_whole:
        # A sample tells nothing about the order of a queue.
        check.queues = pack_queues(runs.summaries())
    if is_whole and not check.report.faults:
        check.stray_epochs = tuple(
            start for start in starts[~found].tolist() if not _is_blank(log, start)
        )
    check.digests, check.digest_end = BlockMap(digests.blocks), digest_end
    check.partial = digests.partial
    if seal is not None:
        check.is_sealed_whole = digests.whole == seal.digest


def _walk(
    task: SegmentTask,
    log: LogReader,
    note: Callable[[NDArray[Any]], None],
    columns: Check,
) -> SegmentReport:
    torn_from = task.share.torn_from
    if task.blocks is None:
        return walk_segment(
            log,
            task.base,
            task.end,
            note,
            uncovered=uncovered_bytes,
            columns=columns,
            torn_from=torn_from,
        )
    return walk_blocks(
        log,
        task.base,
        task.end,
        task.blocks,
        note,
        uncovered=uncovered_bytes,
        torn_from=torn_from,
    )


def _is_blank(log: LogReader, offset: int) -> bool:
    """
    Whether a blank record begins here. A new master may fill a segment's end with one.
    """
    scan = log.scan(offset, checks=Check.OFFSET, rows=1)
    next(scan, None)
    return scan.cursor.blanks > 0
