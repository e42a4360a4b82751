"""
The log of a slave: carries out the effects of a connection, and says how it stands.

What a connection asks for in words (`pystore.ha.slave.effects`) becomes calls of an
open store here, each durable as its effect demands: a promised epoch, an epoch
entry and a cut are on disk before the call returns; bytes are in the page cache,
every record in them checked, and reach the disk by the log's own flusher.

The keeper gives queue entries to confirmed records, so that a replica can be read
like any store (`pystore.ha.slave.maintenance`).

Threads: one thread carries out effects; the keeper's and the core's are their own.

Rules: docs/crash-safety.md, A1, A3, A12, B6; R137, R152, R274.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Unpack

import numpy as np

from pystore.bindings.row import NO_CHECK
from pystore.errors import (
    BusyError,
    CorruptError,
    FullError,
    InvalidError,
    OffsetOutOfRange,
    PoisonedError,
    PystoreError,
    StorageError,
)
from pystore.ha.slave.effects import (
    Adopt,
    Append,
    Compare,
    Confirm,
    Cut,
    SlaveLog,
    Wipe,
)
from pystore.ha.slave.maintenance import ReplicaMaintenance
from pystore.ha.wire.codes import AckStatus
from pystore.ha.wire.effects import Promise
from pystore.metastore.schema import EPOCHS, INCARNATION, PROMISED
from pystore.store.maintenance import MaintenanceThread
from pystore.store.store import Store

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from pystore.core.log_writer import LogHandle
    from pystore.core.options import LogArguments
    from pystore.epochs.table import EpochEntry, EpochTable
    from pystore.replicaset import Incarnation
    from pystore.store.commit_log import CommitLog
    from pystore.store.report import RecoveryReport

__all__ = ["LogEffect", "ReplicaLog", "ack_status"]

LogEffect = Promise | Cut | Wipe | Append | Compare | Adopt | Confirm
"""Of all effects, those that are the log's to carry out."""


def ack_status(error: PystoreError) -> AckStatus:
    """
    Returns what a master is told of an effect that the log refused.
    """
    if isinstance(error, FullError):
        return AckStatus.DISK_FULL
    if isinstance(error, PoisonedError):
        return AckStatus.POISONED
    if isinstance(error, CorruptError):
        return AckStatus.BAD_CRC
    return AckStatus.GAP


class ReplicaLog:
    """
    A store that is open for writing as a replica. A context manager.

    Args:
        path: the store's directory; a missing or empty one becomes a store.
        options: of `pystore.store.commit_log.CommitLog`.

    Raises:
        PystoreError: as `pystore.store.store.Store`.
    """

    def __init__(
        self, path: str | os.PathLike[str], **options: Unpack[LogArguments]
    ) -> None:
        self._path = path
        self._options = options
        self._is_broken = self._has_bytes = False
        self._store: Store
        self._maintenance: MaintenanceThread
        self._handle: LogHandle
        self._epochs: EpochTable
        self._promised: int
        self._open()

    def _open(self) -> None:
        store = Store(
            self._path, lock=threading.RLock(), until_confirmed=True, **self._options
        )
        try:
            self._store = store
            self._handle = store.log.writer.log
            self._reread()
            if self.log().is_empty:
                # Entries of records that a crash or a wipe took fit no others.
                store.begin_at(self._handle.ends().received_end)
            self._maintenance = MaintenanceThread(ReplicaMaintenance(store))
        except BaseException:
            # Whatever it was: the lock must not outlive this call.
            with suppress(PystoreError):
                store.close()
            raise
        store.before_close(self._maintenance.stop)
        self._is_broken = False

    def _reread(self) -> None:
        with self._store.log.writer.metastore.view() as view:
            self._epochs, self._promised = view.read(EPOCHS), view.read(PROMISED)
        self._has_bytes = False  # the next append looks

    def __enter__(self) -> ReplicaLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def recovery(self) -> RecoveryReport:
        """
        What the newest opening found and did.
        """
        return self._store.log.recovery

    @property
    def incarnation(self) -> Incarnation:
        """
        Of this opening: it rises with each (B1).
        """
        return self._store.log.writer.metastore.read(INCARNATION)

    @property
    def problem(self) -> PystoreError | None:
        """
        Why queues or bounds could not be kept a moment ago, or ``None``.
        """
        return self._maintenance.error

    def log(self) -> SlaveLog:
        """
        How the log stands now.
        """
        ends = self._handle.ends()
        return SlaveLog(
            ends.min_offset,
            ends.published_end,
            ends.received_end,
            ends.synced_end,
            ends.confirm_offset,
            self._epochs,
            self._promised,
            ends.segment_size,
            ends.poisoned,
        )

    def sync(self) -> None:
        """
        Wait until all whole records are on disk.

        Raises:
            PoisonedError: a write-back failed.
        """
        self._handle.sync()

    def mend(self) -> None:
        """
        Open the store again after a cut that the system did not let end: opening
        ends it. Nothing if there was none.

        Raises:
            PystoreError: as opening; mend again later.
        """
        if not self._is_broken:
            return
        if not self._store.log.is_closed:
            with suppress(PystoreError):  # what it could not do, opening does
                self._store.close()
        self._open()

    def begin_mastership(self, epoch: int) -> CommitLog:
        """
        The replica becomes the log of a master: half a record is dropped, and the
        epoch begins at its end. The same opening goes on, so the incarnation stays
        the one that was elected (B1), and the keeper goes on too.

        Args:
            epoch: of the mastership.

        Returns:
            The log, to append to; it is closed by `close`. Effects are void.

        Raises:
            FencedError: a higher epoch was promised.
            InvalidError: the epoch is not new.
            PoisonedError: a write-back failed.
            StorageError: the system refused.
            BusyError: a cut did not end.
        """
        self.mend()
        ends = self._handle.ends()
        if ends.received_end != ends.published_end:
            self._cut_store(ends.published_end)
        log = self._store.log
        log.begin_epoch(epoch)
        self._reread()
        return log

    def close(self) -> None:
        """
        Drop half a record, sync, leave the clean mark; again is fine.

        Raises:
            PoisonedError: a write-back failed: closed, but not clean.
            StorageError: the system refused; closed all the same.
        """
        if self._store.log.is_closed:
            return
        try:
            ends = self._handle.ends()
            is_whole = ends.received_end == ends.published_end
            if not is_whole and not self._is_broken and not ends.poisoned:
                self._maintenance.stop()
                self._store.cut(ends.published_end)
        finally:
            self._store.close()

    # -- effects -----------------------------------------------------------

    def carry_out(self, effect: LogEffect) -> int | None:
        """
        Do what a connection asks for.

        Returns:
            Of a `Compare` that found other bytes, the highest record end with equal
            bytes below; else ``None``.

        Raises:
            FencedError: a higher epoch was promised.
            InvalidError: a cut not on a record end, an epoch that does not follow.
            OffsetOutOfRange: bytes that do not follow, or a cut above the end.
            CorruptError: bytes that are no records; those before them are in.
            FullError: no space; the log ends with its last whole record.
            PoisonedError: a write-back failed; nothing more gets durable.
            StorageError: the system refused; `mend` before the next effect.
            BusyError: a cut did not end; likewise.
        """
        match effect:
            case Append():
                self._append(effect)
            case Confirm():
                self._confirm(effect.offset)
            case Promise():
                self._promise(effect.epoch)
            case Cut():
                self._cut(effect.offset)
            case Wipe():
                self._wipe()
            case Adopt():
                self._adopt(effect.epochs)
            case Compare():
                return self._compare(effect.offset, effect.block)
        return None

    def _append(self, effect: Append) -> None:
        if not self._has_bytes:
            self._place(effect.offset)
        if effect.entry is not None:
            self._begin_epoch(effect.entry, effect.offset)
        for offset, block in effect.blocks:
            self._handle.append_raw(offset, block)
            self._has_bytes = True

    def _place(self, offset: int) -> None:
        """
        An empty log begins where its first byte belongs.
        """
        ends = self._handle.ends()
        is_empty = ends.received_end == ends.min_offset
        if not is_empty or offset == ends.received_end:
            return
        if offset % ends.segment_size:
            raise InvalidError(
                f"an empty log cannot begin at {offset}: no segment of "
                f"{ends.segment_size} bytes begins there: give the replica the "
                "master's segment size",
                offset=offset,
            )
        self._begin_at(offset)

    def _begin_at(self, base: int) -> None:
        try:
            self._store.begin_at(base)
        except (StorageError, BusyError):
            # It may have cut; opening again ends that.
            self._is_broken = True
            raise
        self._reread()

    def _begin_epoch(self, entry: EpochEntry, offset: int) -> None:
        """
        The entry is durable before its first byte; one that is there never moves.
        """
        if entry in self._epochs.entries:
            return
        if entry.start_offset > offset:
            raise InvalidError(
                f"epoch {entry.epoch} begins at {entry.start_offset}, above its bytes "
                f"at {offset}",
                offset=offset,
            )
        self._adopt(self._epochs.append(entry.epoch, entry.start_offset))

    def _adopt(self, table: EpochTable) -> None:
        if table == self._epochs:
            return
        writer = self._store.log.writer
        with writer.metastore.change() as change:
            change.replace_epochs(table)
        self._epochs = table
        writer.export_epochs(table)

    def _confirm(self, offset: int) -> None:
        try:
            self._handle.confirm(offset)
        except OffsetOutOfRange:  # what is below our end is confirmed all the same
            self._handle.confirm(min(offset, self._handle.ends().published_end))

    def _promise(self, epoch: int) -> None:
        if epoch == self._promised:
            return
        with self._store.log.writer.metastore.change() as change:
            change.promise(epoch)
        self._promised = epoch

    def _cut(self, offset: int) -> None:
        ends = self._handle.ends()
        is_there = ends.received_end == ends.published_end == offset
        if not (is_there and self._epochs.cut_suffix(offset) == self._epochs):
            self._cut_store(offset)

    def _wipe(self) -> None:
        if self._handle.ends().received_end or self._epochs.entries:
            self._cut_store(0)

    def _cut_store(self, offset: int) -> None:
        try:
            self._store.cut(offset)
        except (StorageError, BusyError):
            # The log may take no bytes any more; opening again ends the cut.
            self._is_broken = True
            raise
        self._reread()

    def _compare(self, offset: int, block: bytes | memoryview) -> int | None:
        done, size = 0, len(block)
        theirs = np.frombuffer(block, np.uint8)
        reader = self._store.log.reader
        while done < size:
            # A copy: bytes that are held would keep a cut waiting.
            own = np.frombuffer(
                bytes(reader.acquire(offset + done, size - done)), np.uint8
            )
            unequal = own != theirs[done : done + len(own)]
            if unequal.any():
                return self._record_end(offset + done + int(unequal.argmax()))
            done += len(own)
        return None

    def _record_end(self, offset: int) -> int:
        """
        The highest record end at or below an offset.
        """
        ends = self._handle.ends()
        base = offset - (offset - ends.min_offset) % ends.segment_size
        return self._store.log.reader.scan(base, offset, NO_CHECK).finish().offset
