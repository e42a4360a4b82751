"""
The reading half of a log, whoever writes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from pystore._seam import NO_OFFSET, Check

if TYPE_CHECKING:
    from pystore.reader import LogReader
    from pystore.record import Record
    from pystore.results import Block, Ends
    from pystore.scan import Scan

__all__ = ["ReadableLog"]


class ReadableLog:
    """
    What every open `pystore.log.CommitLog` can do. Any thread may call.
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
