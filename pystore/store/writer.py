"""
The state of a store that is open for writing.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from pystore.core.live_page import LivePage
from pystore.core.log_writer import LogHandle
from pystore.core.results import StartReport
from pystore.epochs.file import encode_epochs
from pystore.epochs.table import EpochTable
from pystore.errors import FullError
from pystore.fs.atomic import remove_file, replace_file
from pystore.fs.boot import Boot
from pystore.fs.layout import (
    CHECKPOINT,
    EPOCH_FILE,
    EPOCH_FILE_BACKUP,
    META_NAME,
    TEMPORARY_NAME,
)
from pystore.fs.regular_file import read_regular
from pystore.metastore.database import MetaStore
from pystore.metastore.values import QueueBounds, StoreFingerprint
from pystore.recovery.plan import RecoveryPlan
from pystore.recovery.restart import NO_RESTART, Restart
from pystore.recovery.salvage import Loss
from pystore.recovery.segments import Segments, last_record
from pystore.rocketmq.checkpoint_file import parse_checkpoint
from pystore.store.monitor import Monitor
from pystore.store.segment_age import SegmentAges


@dataclass(slots=True)
class Sealing:
    """
    What the sealer knows; another object replaces it when seals are removed.

    Attributes:
        bases: offsets of the sealed segments; ``None``: not listed yet.
        end: no segment below it waits for its seal.
    """

    bases: set[int] | None = None
    end: int = 0


@dataclass(slots=True)
class Writer:
    """
    A store that is open for writing.

    Attributes:
        root: the store.
        stack: closes the other attributes, the lock last.
        metastore: the metadata.
        live: the live page.
        log: started; takes appends.
        boot: the boot that runs.
        plan: of the recovery at the opening.
        report: the work of the start of the log.
        loss: the saved bytes, if promised bytes were bad.
        restart: what the opening found of the process before.
        new_offsets: next queue offsets that the metastore does not have yet.
        gap_max: of the queue offsets of lost records that a consume queue passes over;
            0: there are none.
        new_lengths: lengths of consume queues, likewise, if a
            `pystore.store.store.Store` has them open.
        knows_offsets: whether the new offsets are complete: no cut came after the last
            of them.
        left: minimum offset, number of segments and cut generation when the fingerprint
            was stored; ``None``: not known.
        storing: held while any of them is changed or stored, but by a cut.
        seals_lock: held by the thread that seals a segment.
        mending: held while a block is patched or a segment installed, by a cut, and
            while retention deletes segments.
        queue_bounds: the synced end of the consume queues, if a store has them open.
        delay_levels_ms: of the broker; empty: RocketMQ's default.
        queue_file_bytes: of the broker's configuration, if it is known.
        unsealable: segments with a bad record, found by the sealer.
        sealing: what is sealed.
        cuts: offsets of cuts of the log that the consume queues have not followed.
        delayed_abort: the content of ``abort``, if a full disk delayed its write.
        is_clock_ahead: whether the wall clock was ahead of boot time at the last look.
        monitor: hears what happens to the store.
        is_closed: whether closing has begun.
        ages: of the segments.
        parts: of it, those with finalizers: lock, metadata, live page, log of the core.
    """

    root: Path
    stack: ExitStack
    metastore: MetaStore
    live: LivePage
    log: LogHandle
    boot: Boot
    plan: RecoveryPlan
    report: StartReport
    loss: Loss | None
    restart: Restart = NO_RESTART
    new_offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    gap_max: int = 0
    new_lengths: dict[tuple[str, int], int] | None = None
    knows_offsets: bool = True
    left: tuple[int, int, int] | None = None
    storing: Lock = field(default_factory=Lock)
    seals_lock: Lock = field(default_factory=Lock)
    mending: Lock = field(default_factory=Lock)
    queue_bounds: QueueBounds | None = None
    delay_levels_ms: tuple[int, ...] = ()
    queue_file_bytes: int | None = None
    unsealable: set[int] = field(default_factory=set)
    sealing: Sealing = field(default_factory=Sealing)
    cuts: list[int] = field(default_factory=list)
    delayed_abort: bytes | None = None
    is_clock_ahead: bool = False
    monitor: Monitor = field(default_factory=lambda: Monitor(""))
    is_closed: bool = False
    ages: SegmentAges = field(init=False)
    parts: tuple[object, ...] = ()

    def __post_init__(self) -> None:
        self.ages = SegmentAges(self.root, self.log)

    @property
    def temporary(self) -> Path:
        """
        The directory of files before their rename.
        """
        return self.root / META_NAME / TEMPORARY_NAME

    def export_epochs(self, table: EpochTable) -> bool:
        """
        Write the epoch file; its digest is stored already.

        The backup is removed first: Java prefers it to a table without entries.
        """
        remove_file(self.root / EPOCH_FILE_BACKUP)
        return self.export(EPOCH_FILE, encode_epochs(table))

    def limit_checkpoint(self, end: int) -> None:
        """
        Limit ``checkpoint`` to the records below a cut at ``end`` (A11).
        """
        path = self.root / CHECKPOINT
        if not path.exists():
            return
        times = parse_checkpoint(read_regular(path), str(path))
        last = last_record(Segments(self.log), end)
        limited = times.limited(last[1] if last else 0, end)
        if limited != times:
            with self.metastore.change() as change:
                change.intend_export(CHECKPOINT, limited.encode())
            self.export(CHECKPOINT, limited.encode())

    def export(self, name: str, content: bytes | None) -> bool:
        """
        Write the intended content of one of RocketMQ's files.

        Returns:
            Whether it was written; a full disk delays an export (A13).
        """
        try:
            if content is None:
                remove_file(self.root / name)
            else:
                replace_file(self.root / name, content, self.temporary)
            with self.metastore.change() as change:
                change.settle_export(name)
        except FullError:
            # Delayed: the stored digests allow the old content as well.
            return False
        return True


def fingerprint_of(writer: Writer) -> StoreFingerprint:
    """
    The fingerprint of the store now (A7).
    """
    size = writer.log.ends().segment_size
    return StoreFingerprint(tuple((base, size) for base in writer.log.segments()))
