"""
The methods that read a store by topic and queue, whether it is open for reading or for
writing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from pystore.consumequeue.queue import ConsumeQueue, is_filler
from pystore.core.arguments import text
from pystore.errors import InvalidError, OffsetOutOfRange, check_integers
from pystore.message.properties import tags_code
from pystore.store.queue_read import read_named

if TYPE_CHECKING:
    from pystore.consumequeue.queues import ConsumeQueues
    from pystore.message.record import Record
    from pystore.store.commit_log import CommitLog

__all__ = ["ReadableQueues"]

_TAG_ENTRIES = 4096


class ReadableQueues:
    """
    The reading methods of `pystore.store.store.Store`. A read at the end of a queue
    dispatches first, under the lock of the store.
    """

    log: CommitLog
    queues: ConsumeQueues
    _is_writable: bool
    _read_entry: Callable[..., Record | None]

    if TYPE_CHECKING:

        def _catch_up(self) -> None: ...

    def _queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        text("topic", topic)
        check_integers(queue_id=queue_id)
        queue = self.queues.get(topic, queue_id)
        if queue is None:
            self._catch_up()
            queue = self.queues.get(topic, queue_id)
        if queue is None:
            raise OffsetOutOfRange(f"{topic}, queue {queue_id}: no such queue")
        return queue

    def read(
        self, topic: str, queue_id: int, queue_offset: int, *, body_crc: bool = True
    ) -> Record:
        """
        The record at a queue offset.

        Args:
            topic: of the queue.
            queue_id: of the queue.
            queue_offset: of the record.
            body_crc: whether to compare the body with its CRC.

        Raises:
            OffsetOutOfRange: the record does not exist, or was deleted.
            CorruptError: the entry of the queue is wrong, the log has no whole record
                there, or its body was changed.
        """
        try:
            queue = self.queues.get(topic, queue_id)
            if queue is None or queue_offset >= queue.max_index:
                self._catch_up()
                queue = self._queue(topic, queue_id)
            # The variable keeps the descriptor open during the call.
            try:
                file, at = queue.place(queue_offset)
            except OffsetOutOfRange:
                # A repair may have put records before the first one since.
                self._catch_up()
                queue = self._queue(topic, queue_id)
                file, at = queue.place(queue_offset)
            record = self._read_entry(file.number, at, body_crc=body_crc)
            if (
                record is None
                or record.queue_offset != queue_offset
                or record.queue_id != queue_id
            ):
                offset = queue.read(queue_offset).offset
                record = self._read_named(
                    queue, queue_offset, offset, body_crc=body_crc
                )
        except TypeError as error:
            # A check of each argument would take a tenth of a read.
            check_integers(queue_id=queue_id, queue_offset=queue_offset)
            raise InvalidError(f"topic {topic!r}: {error}") from error
        return record

    def read_from(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        count: int,
        *,
        body_crc: bool = True,
    ) -> list[Record]:
        """
        Up to *count* records from a queue offset on; empty at the end.

        Args:
            topic: of the queue.
            queue_id: of the queue.
            queue_offset: of the first record.
            count: the most records to return.
            body_crc: whether to compare the bodies with their CRCs.

        Raises:
            OffsetOutOfRange: *queue_offset* is not within the queue.
            CorruptError: as `read`; the text names the queue offset, and what follows
                it can be read.
        """
        check_integers(queue_id=queue_id, queue_offset=queue_offset, count=count)
        queue = self._queue(topic, queue_id)
        if queue_offset < queue.first_slot or queue_offset + count > queue.max_index:
            self._catch_up()
        queue = self._queue(topic, queue_id)
        entries = queue.entries(queue_offset, count)
        named = (entries["offset"] >= self.log.min_offset) & ~is_filler(entries)
        return [
            self._read_named(queue, queue_offset + at, offset, body_crc=body_crc)
            for at, offset in zip(
                np.flatnonzero(named).tolist(),
                entries["offset"][named].tolist(),
                strict=True,
            )
        ]

    def _read_named(
        self, queue: ConsumeQueue, index: int, offset: int, *, body_crc: bool = True
    ) -> Record:
        return read_named(
            self.log.reader,
            queue,
            index,
            offset,
            end=self._end_of_named,
            body_crc=body_crc,
        )

    def _end_of_named(self) -> int:
        """
        No right entry names a record above it. The queues may be ahead of the end that
        a reader found, but not of its files.
        """
        reader = self.log.reader
        segments = reader.segments() if reader.has_own_end else ()
        if self._is_writable or not segments:
            return self.log.end_offset
        return segments[-1] + self.log.ends.segment_size

    def find_tag(
        self, topic: str, queue_id: int, tag: str, queue_offset: int = 0
    ) -> Iterator[Record]:
        """
        The records with a tag, from a queue offset on.

        The hashes of tags select candidates, then the tags are compared.
        """
        check_integers(queue_id=queue_id, queue_offset=queue_offset)
        code = tags_code(text("tag", tag))
        self._catch_up()
        queue = self._queue(topic, queue_id)
        at = max(queue_offset, queue.first_index(self.log.min_offset))
        while at < queue.max_index:
            for index in queue.find_tags(code, at, _TAG_ENTRIES).tolist():
                offset = queue.read(index).offset
                record = self._read_named(queue, index, offset)
                if record.tags == tag:
                    yield record
            at += _TAG_ENTRIES

    def offset_at_time(self, topic: str, queue_id: int, time_ms: int) -> int:
        """
        The first queue offset stored at or after a time, in ms since 1970; the end if
        there is none.

        Raises:
            InvalidError: a number that is none.
            OffsetOutOfRange: no such queue.
        """
        check_integers(queue_id=queue_id, time_ms=time_ms)
        self._catch_up()
        queue = self._queue(topic, queue_id)

        def store_ms(offset: int) -> int:
            return self.log.reader.read(offset, body_crc=False).store_ms

        return queue.index_at_time(time_ms, self.log.min_offset, store_ms)

    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """
        The first readable queue offset, and the next one of the queue.
        """
        text("topic", topic)
        check_integers(queue_id=queue_id)
        self._catch_up()
        queue = self._queue(topic, queue_id)
        return queue.first_index(self.log.min_offset), queue.max_index
