"""
The methods that read a log, whether it is open for reading or for writing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from pystore.bindings.ffi import NO_OFFSET, Check
from pystore.core.arguments import instance
from pystore.core.record_search import check_no_record_around
from pystore.damage.past_damage import rows_past_damage
from pystore.errors import CorruptError, check_integers

if TYPE_CHECKING:
    from pystore.core.log_reader import LogReader
    from pystore.core.results import Block, Ends, IllRange
    from pystore.core.scan import Scan
    from pystore.message.record import Record

__all__ = ["ReadableLog"]


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
    def ill(self) -> tuple[IllRange, ...]:
        """
        The ranges that cannot be read, by offset: a segment is missing, short or
        unreadable. Found when a log was opened for reading; empty for writing, which
        such a log refuses. All other bytes are served.

        Raises:
            ClosedError: closed.
        """
        return self._log.ill()

    @property
    def reader(self) -> LogReader:
        """
        The handle of the core, for work on the whole log: scans, blocks, topics.
        """
        return self._log

    def read(self, offset: int, *, body_crc: bool = True) -> Record:
        """
        A copy of the record at *offset*.

        Args:
            offset: of its first byte.
            body_crc: whether to compare the body with its CRC.

        Raises:
            OffsetOutOfRange: not within the log.
            InvalidError: the offset is inside a record.
            CorruptError: no whole record is there, or its body was changed.
            CutError: the log was cut meanwhile.
        """
        try:
            return self._log.read(offset, body_crc=body_crc)
        except CorruptError:
            # An offset inside a record is a mistake of the caller, not damage.
            check_no_record_around(self._log, offset)
            raise

    def scan(
        self,
        from_offset: int | None = None,
        to_offset: int | None = None,
        checks: Check = Check.TOPIC | Check.TAGS,
        *,
        rows: int = 8192,
        bodies: bool = False,
        stops_at_damage: bool = False,
    ) -> Scan:
        """
        Rows of a range, one numpy array after the other.

        Args:
            from_offset: of a record; ``None``: the first one.
            to_offset: exclusive; ``None``: the end.
            checks: the checks, and the columns to fill.
            rows: of one array.
            bodies: the caller takes the bodies of the rows from `blocks`, so compare
                each with its CRC: as ``Check.BODY`` among the checks.
            stops_at_damage: end without an error at a bad record; the scan's
                ``cursor`` then has its offset and the reason.

        Raises:
            CorruptError: a bad record; all rows below it were yielded.
            InvalidError: *from_offset* is inside a record; while iterating.
            OffsetOutOfRange, CutError, StorageError: while iterating.
        """
        start = self.min_offset if from_offset is None else from_offset
        end = NO_OFFSET if to_offset is None else to_offset
        return self._log.scan(
            start,
            end,
            checks | Check.BODY if bodies else checks,
            rows=rows,
            raises=not stops_at_damage,
            on_bad_start=partial(check_no_record_around, self._log),
        )

    def scan_past_damage(
        self,
        from_offset: int | None = None,
        to_offset: int | None = None,
        checks: Check = Check.TOPIC | Check.TAGS,
        *,
        rows: int = 8192,
        on_damage: Callable[[CorruptError, int], object] | None = None,
    ) -> Iterator[NDArray[Any]]:
        """
        As `scan`, but behind a bad record or an ill range it goes on at the next record
        that proves its place.

        Args:
            from_offset: of a record or of damage; ``None``: the first one.
            to_offset: exclusive; ``None``: the end.
            checks: as in `scan`; the embedded offset is checked, too.
            rows: of one array.
            on_damage: called with the error that `scan` would raise, and the offset
                where the scan goes on.

        Raises:
            InvalidError: an argument of another kind.
            OffsetOutOfRange, CutError, StorageError: while iterating.
        """
        start = self.min_offset if from_offset is None else from_offset
        last = self.end_offset if to_offset is None else to_offset
        check_integers(from_offset=start, to_offset=last, rows=rows)
        instance("checks", checks, Check)
        end = min(last, self.end_offset)
        return rows_past_damage(
            self._log, start, end, checks | Check.OFFSET, rows=rows, on_damage=on_damage
        )

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return iter(self.scan())

    def topic(self, topic_id: int) -> str:
        """
        The name of a row's topic.
        """
        check_integers(topic_id=topic_id)
        return self._log.topic(topic_id)

    def blocks(
        self,
        from_offset: int | None = None,
        to_offset: int | None = None,
        *,
        is_copied: bool = False,
    ) -> Iterator[Block]:
        """
        The bytes of a range, block by block, without a copy.

        Args:
            from_offset: any byte; ``None``: the first one.
            to_offset: exclusive; ``None``: the end.
            is_copied: read copies. If another program makes a file shorter, a copy
                raises `CorruptError`; a view ends the process with SIGBUS.

        Raises:
            InvalidError: an offset that is no integer.
            OffsetOutOfRange, CorruptError, CutError, StorageError: while iterating.
        """
        start = self.min_offset if from_offset is None else from_offset
        check_integers(
            from_offset=start, to_offset=0 if to_offset is None else to_offset
        )
        return self._log.blocks(start, to_offset, is_copied=is_copied)
