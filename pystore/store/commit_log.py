"""
`CommitLog`: the log for Python programs.

A thin class over `pystore.core.log_writer.LogHandle`, which makes each call of the C
core a method. What is added here is everything that spans the log and the truth
in LMDB: opening, keeping bounds, cutting, closing. Nothing here is on the path
of an append but one call.

Threads: any thread may call any method at any time; `close` waits for calls
that run. After a fork the child's handle raises `ForkedError`.
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
    What every open `pystore.store.commit_log.CommitLog` can do. Any thread may call.
    """

    _log: LogReader

    @property
    def ends(self) -> Ends:
        """
        How far the log reaches, as of now.
        """
        return self._log.ends()

    @property
    def min_offset(self) -> int:
        """
        The first offset that is still there.
        """
        return self._log.ends().min_offset

    @property
    def end_offset(self) -> int:
        """
        The end of what can be read, exclusive.
        """
        return self._log.ends().published_end

    @property
    def synced_offset(self) -> int:
        """
        The end of what survives a power cut.
        """
        return self._log.ends().synced_end

    @property
    def confirm_offset(self) -> int:
        """
        The end of what is safe on the set of replicas.
        """
        return self._log.ends().confirm_offset

    @property
    def reader(self) -> LogReader:
        """
        The handle below, for whole-log work: scans, blocks, topics.
        """
        return self._log

    def read(self, offset: int) -> Record:
        """
        The record at *offset*, copied.

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
            from_offset: where a record begins; ``None``: the first one.
            to_offset: exclusive; ``None``: the end.
            checks: what to check, and which columns to fill.
            rows: of one array.
            stops_at_damage: end without an error at a bad record; the scan's
                ``cursor`` then says where and why.

        Raises:
            CorruptError: a bad record; all rows below it were given out.
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
        create: with ``w``: make a store of a missing or empty directory.
        segment_size: of new stores, in bytes; 0: 1 GiB. A store that has segments
            keeps their size.
        property_crc: append RocketMQ's property CRC, which covers every byte of a
            record.
        message_size_max: the largest body, in bytes.
        flush_interval_ms: a thread of the core syncs this often; 0: only when asked.
        writeback_bytes: write-back starts each so many bytes; 0: with the sync.
        store_host: ``address:port`` that records name as their broker.
        accept_loss: open although promised bytes are bad: what stands from there on
            is saved beside the store and cut.

    Attributes:
        path: the store's directory.
        recovery: what opening found and did.

    Raises:
        NotAStoreError: missing, or something else than a store.
        LockedError: another writer has the store.
        CorruptError: promised bytes are bad; `offset` says where.
        FormatError: a small file of the store cannot be read.
        FullError: no space even for what opening needs.
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
            self._append = self._append_nothing
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
        Sync, leave the clean mark, and give the store back; again is fine.

        Raises:
            PoisonedError: a write-back failed: the store is closed, not clean.
            StorageError: the system refused; closed all the same.
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

    def _append_nothing(self, form: bytes, ack: int) -> Appended:
        # What a reader has for ``append``: the hottest call asks nothing twice.
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
            message: what to append.
            ack: ``leader``: in the page cache when this returns, so it survives a
                killed process; ``leader-synced``: on disk, so it survives a power
                cut.

        Raises:
            InvalidError: the message does not fit a segment, or no such ack.
            FullError: no space; nothing of it is there; try again later.
            FencedError: the write authority is gone.
            BusyError: a cut did not finish; open the store again.
            PoisonedError: a write-back failed; close and open again.
            StorageError: the system refused.
        """
        try:
            form, wish = message.form, _ACKS[ack]
        except (AttributeError, KeyError, TypeError) as error:
            raise _refusal(message, ack) from error
        return self._append(form, wish)

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
            positions: an array of ``POSITION_DTYPE`` that is filled with where each
                record went.

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
            PystoreError: as `append`; its ``records_appended`` says how many are
                there all the same.
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
        Wait until everything below *end* is on disk; ``None``: all of now.

        Raises:
            PoisonedError: a write-back failed.
            OffsetOutOfRange: *end* is above the log's end.
        """
        self._handle.sync(NO_OFFSET if end is None else end)

    # -- the truth ---------------------------------------------------------

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
        What an open store holds: for the floors above.

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
        A mastership begins at the log's end: durable before its first byte.

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
        Store lower bounds of what is synced, if they changed: at most once a second
        is enough (A5). `pystore.open_log` has a thread that does.

        Returns:
            Whether there was something to store.

        Raises:
            PoisonedError: a write-back failed.
            StorageError: the system refused.
        """
        return keep_bounds(self.writer)

    def cut(self, offset: int) -> CutReport:
        """
        Cut the log's end: what stands from *offset* on is gone, durably (A3).

        Raises:
            InvalidError: no record ends there.
            BusyError: a block above it is held.
            StorageError: the system refused; open the store again.
        """
        return cut_log(self.writer, offset)

    def delete_before(self, offset: int) -> int:
        """
        Delete whole segments that end at or below *offset*, never the newest.

        Returns:
            How many went.

        Raises:
            PoisonedError: a write-back failed.
            StorageError: the system refused.
        """
        # The records that go may be the only ones that tell where a queue goes on.
        self.keep()
        return self._handle.delete_before(offset)


def _ack(name: str) -> int:
    try:
        return _ACKS[name]
    except (KeyError, TypeError):
        # The other names need replicas.
        raise _no_ack(name) from None


def _no_ack(name: str) -> InvalidError:
    return InvalidError(f"ack {name!r}: one log knows {', '.join(_ACKS)}")


def _refusal(message: object, ack: str) -> InvalidError:
    if hasattr(message, "form"):
        return _no_ack(ack)
    return InvalidError(f"{type(message).__name__} is no Message: make one of it")
