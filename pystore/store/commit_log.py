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
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from operator import index
from typing import TYPE_CHECKING, NoReturn

from pystore.bindings.ffi import NO_OFFSET, LocalAck
from pystore.core.arguments import instance
from pystore.core.log_writer import LogHandle
from pystore.core.options import DEFAULTS, AckName, LogOptions, Mode, Route
from pystore.epochs.table import EpochTable
from pystore.errors import CorruptError, InvalidError, PystoreError, check_integers
from pystore.events import EventSink
from pystore.fs.layout import store_root
from pystore.message.columns import Columns
from pystore.message.message import BODY_SIZE_MAX, Message
from pystore.message.properties import parse_delay_levels
from pystore.metastore.schema import EPOCHS
from pystore.store.bounds import keep_bounds
from pystore.store.close import close_writer
from pystore.store.cut import begin_epoch, cut_log
from pystore.store.deletion import delete_before
from pystore.store.handle import StoreHandle
from pystore.store.monitor import Health, Monitor
from pystore.store.open import open_writer
from pystore.store.open_reader import open_reader
from pystore.store.readable_log import ReadableLog
from pystore.store.report import RecoveryReport, report_of
from pystore.store.writer import Writer
from pystore.stored_names import public

if TYPE_CHECKING:
    from pystore.core.log_reader import LogReader
    from pystore.core.log_writer import AppendPositions
    from pystore.core.results import Appended, ClockState, CutReport

__all__ = ["CommitLog"]


_ACKS = {"leader": LocalAck.LEADER, "leader-synced": LocalAck.SYNCED}


@public
class CommitLog(StoreHandle, ReadableLog):
    """
    An append-only log of records, in RocketMQ's format.

    Args:
        path: the store's directory.
        mode: ``w`` to append and read, ``r`` to read, also beside a writer.
        create: with ``w``: create a store in a missing or empty directory.
        segment_size: of new stores, in bytes; 0: 1 GiB. A store with segments keeps
            their size.
        property_crc: append RocketMQ's property CRC, which covers every byte of a
            record.
        message_size_max: the largest body, in bytes.
        flush_interval_ms: the interval of the flusher; 0: no flusher.
        writeback_bytes: bytes between two early write-backs; 0: none.
        store_host: the ``address:port`` of the broker in records.
        accept_loss: open although promised bytes are bad: these are saved and cut.
        save_to: the parent of the directory for removed bytes that hold whole records;
            by default that of the store.
        on_event: called with each `pystore.events.StoreEvent`, in any thread.
        delay_levels: ``messageDelayLevel`` of the broker; empty: RocketMQ's default.
        queue_file_bytes: ``mappedFileSizeConsumeQueue`` of the broker; ``None``: not
            known, and missing queue files are not built.

    Attributes:
        path: the store's directory.
        recovery: the findings and the work of the opening.

    Raises:
        InvalidError: an argument that no log could have; the text names it.
        NotAStoreError: missing, or not a store.
        LockedError: another writer has the store.
        CorruptError: promised bytes are bad, at `offset`.
        FormatError: a small file of the store cannot be read.
        FullError: no space for the opening.
        StorageError: the system refused.
    """

    recovery: RecoveryReport

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: Mode = "w",
        create: bool = True,
        segment_size: int = 0,
        property_crc: bool = True,
        message_size_max: int = BODY_SIZE_MAX,
        flush_interval_ms: int = DEFAULTS.flush_interval_ms,
        writeback_bytes: int = DEFAULTS.writeback_bytes,
        store_host: str = DEFAULTS.store_host,
        accept_loss: bool = False,
        save_to: str | os.PathLike[str] | None = None,
        on_event: EventSink | None = None,
        delay_levels: str = "",
        queue_file_bytes: int | None = None,
    ) -> None:
        if mode not in ("r", "w"):
            raise InvalidError(f"mode {mode!r} is neither 'r' nor 'w'")
        if on_event is not None and not callable(on_event):
            raise InvalidError(f"on_event: {on_event!r} cannot be called")
        super().__init__(store_root(path), is_writable=mode == "w")
        self._writer: Writer | None = None
        self._log: LogReader
        self._append: Callable[[bytes, int], Appended]
        levels_ms = parse_delay_levels(delay_levels) if delay_levels else ()
        options = LogOptions(
            writable=mode == "w",
            segment_size=segment_size,
            property_crc=property_crc,
            message_size_max=message_size_max,
            flush_interval_ms=flush_interval_ms,
            writeback_bytes=writeback_bytes,
            store_host=store_host,
            serves_ill=mode == "r",
        )
        options.pack()  # a wrong option must not leave an empty directory
        if mode == "w":
            monitor = Monitor(str(self.path), on_event)
            opening = self._opening(
                partial(
                    self._open_writer,
                    partial(
                        open_writer,
                        self.path,
                        options,
                        create=create,
                        accept_loss=accept_loss,
                        save_to=None if save_to is None else store_root(save_to),
                    ),
                    monitor,
                    levels_ms,
                    queue_file_bytes,
                )
            )
        else:
            opening = self._opening(partial(self._open_reader, options))
        try:
            opening.run()
        except BaseException:
            # Also Ctrl-C: no caller gets this handle.
            opening.abandon()
            raise

    def _open_writer(
        self,
        open_it: Callable[[], Writer],
        monitor: Monitor,
        levels_ms: tuple[int, ...],
        queue_file_bytes: int | None,
    ) -> None:
        try:
            writer = open_it()
        except CorruptError as error:
            # The caller gets it as well.
            monitor.note_damage(error)
            raise
        writer.monitor = monitor
        writer.delay_levels_ms = levels_ms
        writer.queue_file_bytes = queue_file_bytes
        self._writer = writer
        self._log = writer.log
        self._append = writer.log.append
        self.recovery = report_of(
            writer.plan, writer.report, writer.loss, writer.restart
        )
        monitor.note_opening(self.recovery)

    def _open_reader(self, options: LogOptions) -> None:
        self._log, self.recovery = open_reader(self.path, options)
        self._append = partial(_refuse_append, str(self.path))

    def __repr__(self) -> str:
        mode = "r" if self._writer is None else "w"
        return f"CommitLog({str(self.path)!r}, mode={mode!r})"

    def _parts(self) -> tuple[object, ...]:
        return self.writer.parts

    def _prepare_close(self) -> None:
        if self._writer is not None:
            # Ctrl-C may have left a cut of this thread, for which closing would wait.
            with suppress(PystoreError):
                self._writer.log.cut_end(is_done=False)

    def _close(self) -> None:
        if self._writer is None:
            self._log.close()
            return
        monitor, end = self._writer.monitor, self._log.ends().published_end
        try:
            close_writer(self._writer)
        except PystoreError as error:
            # The caller gets it as well.
            monitor.note_closing(end, error)
            raise
        monitor.note_closing(end)

    def _release_in_child(self) -> None:
        if self._writer is None:
            self._log.close()
        else:
            self._writer.is_closed = True
            self._writer.stack.close()

    @property
    def health(self) -> Health:
        """
        The state of the log and of its maintenance now.

        Raises:
            InvalidError: open for reading only.
            ClosedError: closed.
        """
        return self.writer.monitor.health(self._handle.ends(), None)

    @property
    def _handle(self) -> LogHandle:
        return self.writer.log

    # -- appending ---------------------------------------------------------

    def append(self, message: Message, ack: AckName = "leader") -> Appended:
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
        ack: AckName = "leader",
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
        ack: AckName = "leader",
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
        instance("columns", columns, Columns)
        return self._handle.append_columns(columns, _ack(ack), positions)

    def append_client_batch(
        self, route: Route, batch: bytes, ack: AckName = "leader"
    ) -> Appended:
        """
        Append RocketMQ's client batch form, as a producer sends it.

        Raises:
            PystoreError: as `append`.
        """
        instance("route", route, Route)
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
            raise _read_only(str(self.path))
        return self._writer

    def begin_epoch(self, epoch: int) -> EpochTable:
        """
        Begin a mastership at the log's end; it is durable before its first byte, since
        appends of other threads wait meanwhile.

        Raises:
            FencedError: a higher epoch was promised.
            InvalidError: the epoch is not new.
            StorageError: the system refused.
        """
        return begin_epoch(self.writer, epoch)

    @property
    def clock(self) -> ClockState:
        """
        The clock that stamps records.
        """
        return self._handle.clock()

    def accept_clock(self) -> ClockState:
        """
        Take the wall clock as right, although it stepped forward and ``CLOCK_BOOTTIME``
        does not confirm that: new records are stamped with it from now on. Store times
        never fall again, so be certain that it is right (A21).

        Raises:
            InvalidError: open for reading only.
        """
        return self._handle.clock(is_accepted=True)

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
        writer = self.writer
        with writer.monitor.keeping(writer.log.ends, is_whole=False):
            return keep_bounds(writer)

    def cut(self, offset: int) -> CutReport:
        """
        Cut the log: all bytes from *offset* on are removed, durably (A3).

        Raises:
            InvalidError: no record ends there.
            StorageError: the system refused; reopen the store.
        """
        check_integers(offset=offset)
        offset = index(offset)  # an integer of numpy has no place in the metadata
        report = cut_log(self.writer, offset)
        self.writer.monitor.note_cut(offset, report.bytes_cut, "asked for")
        return report

    def delete_before(self, offset: int) -> int:
        """
        Delete whole segments that end at or below *offset*, never the newest.

        Returns:
            The number of deleted segments.

        Raises:
            PoisonedError: a write-back failed.
            StorageError: the system refused.
        """
        check_integers(offset=offset)
        return delete_before(self.writer, index(offset))


def _refuse_append(path: str, form: bytes, ack: int) -> NoReturn:  # noqa: ARG001
    # The ``append`` of a reader: so the hottest call does not check the mode.
    raise _read_only(path)


def _read_only(path: str) -> InvalidError:
    return InvalidError(f"{path} is open for reading only: open it with mode 'w'")


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
