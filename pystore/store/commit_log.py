"""
`CommitLog`: the log for Python programs.

It is a thin class over `pystore.core.log_writer.LogHandle`, which has one method for
each call of the C core. It adds the operations on the log and the metastore: opening,
storing bounds, cutting, closing. An append has only one call here.

Threads: any thread may call any method at any time; `close` waits for running calls.
After a fork the child's handle raises `ForkedError`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from pystore.bindings.ffi import NO_OFFSET, Check, LocalAck
from pystore.core.log_writer import LogHandle
from pystore.core.options import LogOptions, Route
from pystore.epochs.table import EpochTable
from pystore.errors import InvalidError
from pystore.message.columns import Columns
from pystore.message.message import BODY_SIZE_MAX, Message
from pystore.metastore.schema import EPOCHS
from pystore.store.bounds import keep_bounds
from pystore.store.close import close_writer
from pystore.store.cut import cut_log
from pystore.store.open import open_writer
from pystore.store.open_reader import open_reader
from pystore.store.report import RecoveryReport, report_of
from pystore.store.writer import Writer
from pystore.stored_names import public

if TYPE_CHECKING:
    from pystore.core.log_reader import LogReader
    from pystore.core.log_writer import AppendPositions
    from pystore.core.results import Appended, Block, CutReport, Ends
    from pystore.core.scan import Scan
    from pystore.message.record import Record

__all__ = ["CommitLog", "ReadableLog"]


class ReadableLog:
    """
    The reading methods of `pystore.store.commit_log.CommitLog`. Any thread may call.
    """

    _log: LogReader

    @property
    def ends(self) -> Ends:
        """
        The present ends of the log.
        """
        return self._log.ends()

    @property
    def min_offset(self) -> int:
        """
        The first offset that is not deleted.
        """
        return self._log.ends().min_offset

    @property
    def end_offset(self) -> int:
        """
        The end for readers, exclusive.
        """
        return self._log.ends().published_end

    @property
    def synced_offset(self) -> int:
        """
        The bytes below this end survive a power cut.
        """
        return self._log.ends().synced_end

    @property
    def confirm_offset(self) -> int:
        """
        The bytes below this end are safe on the set of replicas.
        """
        return self._log.ends().confirm_offset

    @property
    def reader(self) -> LogReader:
        """
        The handle of the core, for work on the whole log: scans, blocks, topics.
        """
        return self._log

    def read(self, offset: int) -> Record:
        """
        A copy of the record at *offset*.

        Raises:
            OffsetOutOfRange: not within the log.
            CorruptError: no whole record is there.
            CutError: the log was cut meanwhile.
        """
        return self._log.read(offset)

    def scan(
        self,
        from_offset: int | None = None,
        to_offset: int | None = None,
        checks: Check = Check.TOPIC | Check.TAGS,
        *,
        rows: int = 8192,
        stops_at_damage: bool = False,
    ) -> Scan:
        """
        Rows of a range, one numpy array after the other.

        Args:
            from_offset: of a record; ``None``: the first one.
            to_offset: exclusive; ``None``: the end.
            checks: the checks, and the columns to fill.
            rows: of one array.
            stops_at_damage: end without an error at a bad record; the scan's
                ``cursor`` then has its offset and the reason.

        Raises:
            CorruptError: a bad record; all rows below it were yielded.
            OffsetOutOfRange, CutError, StorageError: while iterating.
        """
        start = self.min_offset if from_offset is None else from_offset
        end = NO_OFFSET if to_offset is None else to_offset
        return self._log.scan(start, end, checks, rows=rows, raises=not stops_at_damage)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return iter(self.scan())

    def topic(self, topic_id: int) -> str:
        """
        The name of a row's topic.
        """
        return self._log.topic(topic_id)

    def blocks(
        self, from_offset: int | None = None, to_offset: int | None = None
    ) -> Iterator[Block]:
        """
        The bytes of a range, block by block, without a copy.

        Raises:
            OffsetOutOfRange, CorruptError, CutError: while iterating.
        """
        start = self.min_offset if from_offset is None else from_offset
        return self._log.blocks(start, to_offset)


_ACKS = {"leader": LocalAck.LEADER, "leader-synced": LocalAck.SYNCED}
_DEFAULTS = LogOptions()


@public
class CommitLog(ReadableLog):
    """
    An append-only log of records, in RocketMQ's format.

    Args:
        path: the store's directory.
        mode: ``w`` to append and read, ``r`` to read, also while another process
            appends.
        create: with ``w``: create a store in a missing or empty directory.
        segment_size: of new stores, in bytes; 0: 1 GiB. A store with segments keeps
            their size.
        property_crc: append RocketMQ's property CRC, which covers every byte of a
            record.
        message_size_max: the largest body, in bytes.
        flush_interval_ms: the interval of the flusher; 0: no flusher.
        writeback_bytes: bytes between two early write-backs; 0: none.
        store_host: the ``address:port`` of the broker in records.
        accept_loss: open although promised bytes are bad: all bytes from there on are
            saved beside the store and cut.

    Attributes:
        path: the store's directory.
        recovery: the findings and the work of the opening.

    Raises:
        NotAStoreError: missing, or not a store.
        LockedError: another writer has the store.
        CorruptError: promised bytes are bad, at `offset`.
        FormatError: a small file of the store cannot be read.
        FullError: no space for the opening.
        StorageError: the system refused.
    """

    path: Path
    recovery: RecoveryReport

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: str = "w",
        create: bool = True,
        segment_size: int = 0,
        property_crc: bool = True,
        message_size_max: int = BODY_SIZE_MAX,
        flush_interval_ms: int = _DEFAULTS.flush_interval_ms,
        writeback_bytes: int = _DEFAULTS.writeback_bytes,
        store_host: str = _DEFAULTS.store_host,
        accept_loss: bool = False,
    ) -> None:
        self.path = Path(path)
        self._writer: Writer | None = None
        self._closers: list[Callable[[], object]] = []
        self._log: LogReader
        self._append: Callable[[bytes, int], Appended]
        options = LogOptions(
            writable=mode == "w",
            segment_size=segment_size,
            property_crc=property_crc,
            message_size_max=message_size_max,
            flush_interval_ms=flush_interval_ms,
            writeback_bytes=writeback_bytes,
            store_host=store_host,
        )
        if mode == "w":
            self._writer = open_writer(
                self.path, options, create=create, accept_loss=accept_loss
            )
            self._log = self._writer.log
            self._append = self._writer.log.append
            self.recovery = report_of(
                self._writer.plan, self._writer.report, self._writer.loss
            )
        elif mode == "r":
            self._log, self.recovery = open_reader(self.path, options)
            self._append = self._refuse_append
        else:
            raise InvalidError(f"mode {mode!r} is neither 'r' nor 'w'")

    def __enter__(self) -> CommitLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        mode = "r" if self._writer is None else "w"
        return f"CommitLog({str(self.path)!r}, mode={mode!r})"

    def close(self) -> None:
        """
        Sync, store the clean mark, and release the store; calling it again is allowed.

        Raises:
            PoisonedError: a write-back failed: the store is closed, not clean.
            StorageError: the system refused; the store is closed.
        """
        while self._closers:
            self._closers.pop()()
        if self._writer is None:
            self._log.close()
        else:
            close_writer(self._writer)

    def before_close(self, closer: Callable[[], object]) -> None:
        """
        Call *closer* when the log begins to close; the newest first.
        """
        self._closers.append(closer)

    def _refuse_append(self, form: bytes, ack: int) -> Appended:
        # The ``append`` of a reader: so the hottest call does not check the mode.
        return self._handle.append(form, ack)

    @property
    def _handle(self) -> LogHandle:
        if self._writer is None:
            raise InvalidError(
                f"{self.path} is open for reading only: open it with mode 'w'"
            )
        return self._writer.log

    # -- appending ---------------------------------------------------------

    def append(self, message: Message, ack: str = "leader") -> Appended:
        """
        Append one message.

        Args:
            message: to append.
            ack: ``leader``: in the page cache when this returns, so it survives a
                killed process; ``leader-synced``: on disk, so it survives a power
                cut.

        Raises:
            InvalidError: the message does not fit a segment, or no such ack.
            FullError: no space; nothing was written; try again later.
            FencedError: the write authority is gone.
            BusyError: a cut did not finish; reopen the store.
            PoisonedError: a write-back failed; reopen the store.
            StorageError: the system refused.
        """
        try:
            form, local_ack = message.form, _ACKS[ack]
        except (AttributeError, KeyError, TypeError) as error:
            raise _refusal(message, ack) from error
        return self._append(form, local_ack)

    def append_batch(
        self,
        messages: Iterable[Message],
        ack: str = "leader",
        positions: AppendPositions | None = None,
    ) -> Appended:
        """
        Append messages in one call: all of them or none, in one segment.

        Args:
            messages: of any topics and queues.
            ack: as in `append`.
            positions: an array of ``POSITION_DTYPE``, filled with the offsets of each
                record.

        Raises:
            PystoreError: as `append`.
        """
        return self._handle.append_batch(messages, _ack(ack), positions)

    def append_columns(
        self,
        columns: Columns,
        ack: str = "leader",
        positions: AppendPositions | None = None,
    ) -> Appended:
        """
        Append columns from Arrow or numpy, in order; they may span segments.

        Args:
            columns: see `pystore.message.columns.Columns`.
            ack: as in `append`.
            positions: as in `append_batch`.

        Raises:
            PystoreError: as `append`; its ``records_appended`` is the number of records
                that are in the log.
        """
        return self._handle.append_columns(columns, _ack(ack), positions)

    def append_client_batch(
        self, route: Route, batch: bytes, ack: str = "leader"
    ) -> Appended:
        """
        Append RocketMQ's client batch form, as a producer sends it.

        Raises:
            PystoreError: as `append`.
        """
        return self._handle.append_client_batch(route, batch, _ack(ack))

    def sync(self, end: int | None = None) -> None:
        """
        Wait until all bytes below *end* are on disk; ``None``: the present end.

        Raises:
            PoisonedError: a write-back failed.
            OffsetOutOfRange: *end* is above the log's end.
        """
        self._handle.sync(NO_OFFSET if end is None else end)

    # -- metadata ----------------------------------------------------------

    @property
    def epochs(self) -> EpochTable:
        """
        The epoch table.
        """
        return self.writer.metastore.read(EPOCHS)

    @property
    def is_closed(self) -> bool:
        """
        Whether closing has begun.
        """
        return self._writer is not None and self._writer.is_closed

    @property
    def writer(self) -> Writer:
        """
        The writer of the open store, for packages above.

        Raises:
            InvalidError: open for reading only.
        """
        if self._writer is None:
            raise InvalidError(
                f"{self.path} is open for reading only: open it with mode 'w'"
            )
        return self._writer

    def begin_epoch(self, epoch: int) -> EpochTable:
        """
        Begin a mastership at the log's end; it is durable before its first byte.

        Raises:
            FencedError: a higher epoch was promised.
            InvalidError: the epoch is not new.
        """
        writer = self.writer
        end = self.end_offset
        self.sync(end)
        with writer.metastore.change() as change:
            table = change.begin_epoch(epoch, end)
        writer.export_epochs(table)
        return table

    def keep(self) -> bool:
        """
        Sync, and store lower bounds if they changed: once a second is enough (A5). The
        maintenance thread of `pystore.open_log` calls it.

        Returns:
            Whether bounds were stored.

        Raises:
            PoisonedError: a write-back failed.
            StorageError: the system refused.
        """
        return keep_bounds(self.writer)

    def cut(self, offset: int) -> CutReport:
        """
        Cut the log: all bytes from *offset* on are removed, durably (A3).

        Raises:
            InvalidError: no record ends there.
            BusyError: a block above it is held.
            StorageError: the system refused; reopen the store.
        """
        return cut_log(self.writer, offset)

    def delete_before(self, offset: int) -> int:
        """
        Delete whole segments that end at or below *offset*, never the newest.

        Returns:
            The number of deleted segments.

        Raises:
            PoisonedError: a write-back failed.
            StorageError: the system refused.
        """
        # Only the deleted records may have the last offset of a queue.
        self.keep()
        return self._handle.delete_before(offset)


def _ack(name: str) -> int:
    try:
        return _ACKS[name]
    except (KeyError, TypeError):
        # The other acks need replicas.
        raise _no_ack(name) from None


def _no_ack(name: str) -> InvalidError:
    return InvalidError(f"ack {name!r}: one log has {', '.join(_ACKS)}")


def _refusal(message: object, ack: str) -> InvalidError:
    if hasattr(message, "form"):
        return _no_ack(ack)
    return InvalidError(f"{type(message).__name__} is no Message: make one of it")
