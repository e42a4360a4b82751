"""
The log of a slave: carries out the effects of a link, and returns the log's state.

Each effect (`pystore.ha.slave.effects`) becomes calls of an open store, as durable as
the effect requires. A promised epoch, an epoch entry and a cut are on disk before the
call returns. Bytes are in the page cache, with every record in them checked, and the
log's own flusher writes them to disk.

The maintenance thread adds queue entries for confirmed records, so a replica can be
read like any store (`pystore.ha.slave.maintenance`).

Threads: one thread carries out effects; the maintenance and the core have their own.

Rules: docs/crash-safety.md, A1, A3, A12, B6; RMQ-R137, RMQ-R152, RMQ-R274.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Unpack

import numpy as np

from pystore.bindings.row import NO_CHECK
from pystore.core.frame_step import FrameStep
from pystore.errors import (
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
    Begin,
    Compare,
    Confirm,
    Cut,
    ReachFloor,
    SlaveLog,
    Wipe,
)
from pystore.ha.slave.maintenance import ReplicaMaintenance
from pystore.ha.wire.codes import AckStatus
from pystore.ha.wire.effects import Promise
from pystore.metastore.schema import (
    CLUSTER,
    EPOCHS,
    INCARNATION,
    JOINED,
    LOSSY,
    POSITIONS,
    PROMISED,
    STARTS,
)
from pystore.metastore.values import NOT_LOSSY, JoinMark, QueueMark, QueueOffsets
from pystore.store.maintenance import MaintenanceThread
from pystore.store.mend import PulledSegment, install_before
from pystore.store.queue_table import indexed_queues_at
from pystore.store.store import Store

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from pystore.core.frame_step import FrameLabel, SteppedFrame
    from pystore.core.log_writer import LogHandle
    from pystore.core.options import LogArguments
    from pystore.core.results import Ends
    from pystore.epochs.table import EpochEntry, EpochTable
    from pystore.replicaset import Incarnation
    from pystore.store.commit_log import CommitLog
    from pystore.store.report import RecoveryReport
    from pystore.store.writer import Writer

__all__ = ["LogEffect", "ReplicaLog", "ack_status"]

LogEffect = (
    Promise | Cut | Wipe | Begin | ReachFloor | Append | Compare | Adopt | Confirm
)
"""The effects that the log carries out."""


def ack_status(error: PystoreError) -> AckStatus:
    """
    Returns the ack status for an effect that the log refused.
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

    Attributes:
        joined: what it lacks since it began above 0 (B11).

    Raises:
        PystoreError: as `pystore.store.store.Store`.
    """

    def __init__(
        self, path: str | os.PathLike[str], **options: Unpack[LogArguments]
    ) -> None:
        self._path = path
        self._options = options
        self._cut_again: int | None = None
        self._has_bytes = False
        self._step: FrameStep | None = None
        self._lock = threading.RLock()
        self._store: Store
        self._maintained: ReplicaMaintenance
        self._maintenance: MaintenanceThread
        self._handle: LogHandle
        self._epochs: EpochTable
        self._promised: int
        self.joined: JoinMark
        self._open()

    def _open(self) -> None:
        store = Store(
            self._path, lock=self._lock, until_confirmed=True, **self._options
        )
        try:
            self._store = store
            self._handle = store.log.writer.log
            self._reread()
            if self.log().is_empty:
                # Queue entries of lost records do not fit the records that follow.
                store.begin_at(self._handle.ends().received_end)
            # The thread has a weak reference only.
            self._maintained = ReplicaMaintenance(store)
            self._maintenance = MaintenanceThread(self._maintained)
        except BaseException:
            # Any error: release the lock.
            with suppress(PystoreError):
                store.close()
            raise
        store.before_close(self._maintenance.stop)

    def _reread(self) -> None:
        with self._lock, self._store.log.writer.metastore.view() as view:
            self._epochs, self._promised = view.read(EPOCHS), view.read(PROMISED)
            self.joined = view.read(JOINED)
        self._has_bytes = False  # the next append finds out

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
        The report of the opening.
        """
        return self._store.log.recovery

    @property
    def incarnation(self) -> Incarnation:
        """
        The incarnation of this opening; each opening has a higher one (B1).
        """
        return self._store.log.writer.metastore.read(INCARNATION)

    @property
    def writer(self) -> Writer:
        """
        The open store: its identity, its boot.
        """
        return self._store.log.writer

    @property
    def store(self) -> Store:
        """
        The open store, to read from.
        """
        return self._store

    @property
    def problem(self) -> Exception | None:
        """
        Why the last maintenance of queues or bounds failed, or ``None``.
        """
        return self._maintenance.error

    def log(self) -> SlaveLog:
        """
        Returns the state of the log now.
        """
        return self._log_of(self._handle.ends())

    def _log_of(self, ends: Ends) -> SlaveLog:
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
            self.joined.is_filling,
            self.joined.has_queue_offsets,
        )

    def queues_at(self, offset: int) -> dict[tuple[str, int], int]:
        """
        Returns (topic, queue id) -> next queue offset as of an offset where a segment
        begins (A20). Any thread.
        """
        store = self._store
        return indexed_queues_at(store.log.writer, store.queues, self._lock, offset)

    def sync(self) -> None:
        """
        Wait until all whole records are on disk.

        Raises:
            PoisonedError: a write-back failed.
        """
        self._handle.sync()

    def mend(self) -> None:
        """
        Does a cut again that the system has refused, as the log takes no bytes until
        it is complete. The store stays open, and the incarnation the same (B14). No
        effect if there was none.

        Raises:
            PoisonedError: a write-back failed; only a restart helps.
            StorageError: the system refused again; mend again later.
        """
        if self._cut_again is not None:
            self._cut_store(self._cut_again)

    def fill(self, pulled: PulledSegment) -> None:
        """
        Puts a segment of another copy before the log, which began late. At the floor of
        its set the replica is whole (B11). Any thread.

        Raises:
            PystoreError: as `pystore.store.mend.install_before`.
        """
        with self._lock:
            store = self._store
            install_before(store.log.writer, store.queues, pulled)
            self._epochs = store.log.epochs
            if pulled.base > 0:
                self._join(self.joined.reached(pulled.base))
            else:
                # Every number was counted from the records.
                self._join(JoinMark())

    def begin_mastership(self, epoch: int) -> CommitLog:
        """
        Makes this the log of a master: it drops half a record, and begins the epoch at
        the end. The store stays open, so the incarnation stays the elected one (B1),
        and the maintenance continues.

        Args:
            epoch: of the mastership.

        Returns:
            The log, to append to; `close` closes it. No effect may follow.

        Raises:
            FencedError: a higher epoch was promised.
            InvalidError: the epoch is not new.
            PoisonedError: a write-back failed.
            StorageError: the system refused.
        """
        self.mend()
        ends = self._handle.ends()
        if ends.received_end != ends.published_end:
            self._cut_store(ends.published_end)
        log = self._store.log
        log.begin_epoch(epoch)
        # Its begin is the floor of the set now (B11).
        self._join(JoinMark())
        self._reread()
        return log

    def close(self) -> None:
        """
        Drops half a record, syncs, and writes the clean mark; may be called again.

        Raises:
            PoisonedError: a write-back failed: closed, but without the clean mark.
            StorageError: the system refused; closed nevertheless.
        """
        if self._store.log.is_closed:
            return
        try:
            ends = self._handle.ends()
            is_whole = ends.received_end == ends.published_end
            if not is_whole and self._cut_again is None and not ends.poisoned:
                self._maintenance.stop()
                self._store.cut(ends.published_end)
        finally:
            self._store.close()

    @property
    def cluster_id(self) -> str:
        """
        The record store of the controllers to which this replica belongs; empty: none
        yet.
        """
        with self._store.log.writer.metastore.view() as view:
            return view.read(CLUSTER)

    def join_cluster(self, cluster_id: str) -> None:
        """
        Stores to which controllers this replica belongs from now on.

        Raises:
            PystoreError: the metadata cannot be written.
        """
        with self._lock, self._store.log.writer.metastore.change() as change:
            change.write(CLUSTER, cluster_id)

    @property
    def starts(self) -> tuple[Incarnation, ...]:
        """
        The start that controllers registered last, and the later ones without this one;
        empty: unknown (B1).

        Raises:
            PystoreError: the metadata cannot be read.
        """
        with self._lock, self._store.log.writer.metastore.view() as view:
            return tuple(one for one in view.read(STARTS) if one != self.incarnation)

    def registered(self) -> None:
        """
        Controllers have registered this start.

        Raises:
            PystoreError: the metadata cannot be written.
        """
        with self._lock:
            metastore = self._store.log.writer.metastore
            own = self.incarnation
            with metastore.view() as view:
                is_known = view.read(STARTS) == (own,)
            if not is_known:
                with metastore.change() as change:
                    change.note_registered(own)

    def admitted(self) -> None:
        """
        A master has admitted this replica since it gave records up: it has them again
        (B4).

        Raises:
            PystoreError: the metadata cannot be written.
        """
        with self._lock:
            metastore = self._store.log.writer.metastore
            with metastore.view() as view:
                is_lossy = view.read(LOSSY) != NOT_LOSSY
            if is_lossy:
                with metastore.change() as change:
                    change.write(LOSSY, NOT_LOSSY)

    # -- effects -----------------------------------------------------------

    def carry_out(self, effect: LogEffect) -> int | None:
        """
        Carries out an effect.

        Returns:
            Of a `Compare` that found other bytes, the highest record end with equal
            bytes below; else ``None``.

        Raises:
            FencedError: a higher epoch was promised.
            InvalidError: a cut not on a record end, an epoch that does not follow.
            OffsetOutOfRange: bytes that do not follow, or a cut above the end.
            CorruptError: bytes that are no records; records before them are appended.
            FullError: no space; the log ends with its last whole record.
            PoisonedError: a write-back failed; nothing more gets durable.
            StorageError: the system refused; `mend` before the next effect.
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
            case Begin():
                self._begin(effect)
            case ReachFloor():
                self._join(self.joined.reached(self.joined.floor))
            case Adopt():
                self._adopt(effect.epochs)
            case Compare():
                return self._compare(effect.offset, effect.block)
        return None

    def append_frame(
        self, data: memoryview, label: FrameLabel, now_ms: int
    ) -> bytes | None:
        """
        Appends the block of a frame in step, and returns the ack; see
        `pystore.core.frame_step.FrameStep.append`.

        Raises:
            PystoreError: as `carry_out` of an `Append`.
        """
        if not self._has_bytes:
            return None
        step = self._step
        if step is None or step.label is not label:
            step = self._step = FrameStep(self._handle, label)
        return step.append(data, now_ms)

    def stepped(self) -> tuple[SteppedFrame, SlaveLog]:
        """
        Returns the frame that `append_frame` has acked, and the state of the log after
        it.
        """
        assert self._step is not None  # it has acked
        return self._step.frame, self._log_of(self._step.ends)

    def _append(self, effect: Append) -> None:
        if not self._has_bytes:
            self._place(effect.offset)
        if effect.entry is not None:
            self._begin_epoch(effect.entry, effect.offset)
        if not effect.more and len(effect.block):
            self._handle.append_raw(effect.offset, effect.block)
            self._has_bytes = True
            return
        for offset, block in effect.blocks:
            self._handle.append_raw(offset, block)
            self._has_bytes = True

    def _place(self, offset: int) -> None:
        """
        Sets the begin of an empty log for its first byte.
        """
        ends = self._handle.ends()
        is_empty = ends.received_end == ends.min_offset
        if not is_empty or offset == ends.received_end:
            return
        if offset % ends.segment_size:
            raise InvalidError(
                f"an empty log cannot begin at offset {offset}: no segment of "
                f"{ends.segment_size} bytes begins there; set the replica's segment "
                "size to the master's",
                offset=offset,
            )
        self._begin_at(offset)
        # A master of RocketMQ tells neither where its log begins nor queue offsets.
        self._join(JoinMark(0, has_queue_offsets=False))

    def _begin(self, effect: Begin) -> None:
        """
        Begins the empty log, with the numbers of its queues: durable before its first
        byte. After a crash between the steps it is empty, and begins again.
        """
        if effect.offset != self._handle.ends().received_end:
            self._begin_at(effect.offset)
        marks = tuple(QueueMark(*one) for one in effect.queues)
        joined = JoinMark(effect.floor if effect.floor < effect.offset else -1)
        with self._store.log.writer.metastore.change() as change:
            change.write_marks(POSITIONS, QueueOffsets(effect.offset, marks))
            change.write(JOINED, joined)
        self.joined = joined
        self._handle.queues_reset()
        self._handle.queues_load({one[:2]: one.next_offset for one in effect.queues})

    def _begin_at(self, base: int) -> None:
        try:
            self._store.begin_at(base)
        except StorageError:
            # It may have begun to cut all; `mend` completes that.
            self._cut_again = 0
            raise
        self._reread()

    def _begin_epoch(self, entry: EpochEntry, offset: int) -> None:
        """
        Makes the entry durable before its first byte; an existing entry never moves.
        """
        if entry in self._epochs.entries:
            return
        if entry.start_offset > offset:
            raise InvalidError(
                f"epoch {entry.epoch} begins at {entry.start_offset}, above its bytes "
                f"at {offset}",
                offset=offset,
            )
        with self._lock:
            self._adopt(self._epochs.append(entry.epoch, entry.start_offset))

    def _adopt(self, table: EpochTable) -> None:
        with self._lock:  # against `fill`
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
        except OffsetOutOfRange:  # bytes below the end are confirmed nevertheless
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
        self._join(JoinMark())

    def _join(self, joined: JoinMark) -> None:
        with self._lock:
            if joined == self.joined:
                return
            with self._store.log.writer.metastore.change() as change:
                change.write(JOINED, joined)
            self.joined = joined

    def _cut_store(self, offset: int) -> None:
        try:
            self._store.cut(offset)
        except StorageError:
            # The log may refuse bytes now; `mend` completes the cut.
            self._cut_again = offset
            raise
        self._cut_again = None
        self._reread()

    def _compare(self, offset: int, block: bytes | memoryview) -> int | None:
        done, size = 0, len(block)
        theirs = np.frombuffer(block, np.uint8)
        reader = self._store.log.reader
        while done < size:
            # A copy: held bytes would delay a cut.
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
        Returns the highest record end at or below an offset.
        """
        ends = self._handle.ends()
        base = offset - (offset - ends.min_offset) % ends.segment_size
        return self._store.log.reader.scan(base, offset, NO_CHECK).finish().offset
