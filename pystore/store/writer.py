"""
An open log with what belongs to its writer: values that opening hands on.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

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
from pystore.metastore.database import MetaStore
from pystore.metastore.values import QueueBounds, QueueMark, StoreFingerprint
from pystore.recovery.plan import RecoveryPlan
from pystore.recovery.salvage import Loss
from pystore.recovery.segments import Segments, last_record
from pystore.rocketmq.checkpoint_file import parse_checkpoint


@dataclass(slots=True)
class Writer:
    """
    An opened store and what it holds.

    Attributes:
        root: the store.
        stack: closes everything else here, the lock last.
        metastore: the small durable facts.
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
    metastore: MetaStore
    live: LivePage
    log: LogHandle
    boot: Boot
    plan: RecoveryPlan
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
        remove_file(self.root / EPOCH_FILE_BACKUP)
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
            with self.metastore.change() as change:
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
            with self.metastore.change() as change:
                change.settle_export(name)
        except FullError:
            # Delayed: the digests in LMDB allow the old content as well.
            return False
        return True


def left_of(writer: Writer, before: StoreFingerprint) -> StoreFingerprint:
    """
    What another program would change, as it is now (A7).
    """
    size = writer.log.ends().segment_size
    segments = tuple((base, size) for base in writer.log.segments())
    lengths = writer.queue_lengths
    return StoreFingerprint(
        segments, before.queue_lengths if lengths is None else lengths
    )
