"""
The state of a store that is open for writing.
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
        queue_lengths: of the consume queues, if a `pystore.store.store.Store` has
            them open.
        queue_bounds: their synced end, likewise.
        unsealable: segments with a bad record, found by the sealer.
        cuts: offsets of cuts of the log that the consume queues have not followed.
        delayed_abort: the content of ``abort``, if a full disk delayed its write.
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
        times = parse_checkpoint(path.read_bytes(), str(path))
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


def fingerprint_of(writer: Writer, before: StoreFingerprint) -> StoreFingerprint:
    """
    The fingerprint of the store now (A7).
    """
    size = writer.log.ends().segment_size
    segments = tuple((base, size) for base in writer.log.segments())
    lengths = writer.queue_lengths
    return StoreFingerprint(
        segments, before.queue_lengths if lengths is None else lengths
    )
