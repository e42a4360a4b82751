"""
The store that gets salvaged records.

It is an ordinary new store with an identity of its own. A record gets a new offset in
the log, and with it a new property CRC if it has one; everything else stays, its queue
offset, too. So a queue may have gaps: their slots are filled, as before the first entry
of a queue.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.row import Check, Proof
from pystore.consumequeue.build import Dispatched, groups_of
from pystore.message.constants import BLANK_SIZE, CRC_MASK, CRC_NAME, CRC_SIZE
from pystore.message.record_batch import move_records
from pystore.salvage.records import RecordBlock
from pystore.store.light import find_light_groups
from pystore.store.store import Store

__all__ = ["SalvageTarget"]

_DISPATCH_BYTES = 64 << 20
_ROWS = 65536
_DIGITS = 10


class SalvageTarget:
    """
    A new store, filled with records of another log. A context manager; one thread.

    Args:
        root: a missing directory.
        segment_size: in bytes; a record and a blank record fit.
        queue_file_bytes: the size of a queue file.
        firsts: the lowest queue offset of each topic and queue.

    Raises:
        StorageError: the system refused.
    """

    def __init__(
        self,
        root: Path,
        *,
        segment_size: int,
        queue_file_bytes: int,
        firsts: Mapping[tuple[str, int], int],
    ) -> None:
        self._store = Store(
            root, segment_size=segment_size, queue_file_bytes=queue_file_bytes
        )
        self._log = self._store.log.writer.log
        self._size = segment_size
        self._firsts = firsts
        self._undispatched = 0

    @property
    def end_offset(self) -> int:
        """
        The end of the new log.
        """
        return self._log.ends().published_end

    def append(self, block: RecordBlock, rows: NDArray[Any]) -> None:
        """
        Appends some records of a block.

        Raises:
            FullError: no space is left.
            StorageError: the system refused.
        """
        data = block.data
        if (rows["proof"] & Proof.DIFFERS).any():
            data = memoryview(_with_own_crc(block, rows))
        sizes = rows["size"].astype(np.int64)
        at = 0
        while at < len(rows):
            end = self.end_offset
            rest = self._size - end % self._size - BLANK_SIZE
            ends = np.cumsum(sizes[at:])
            count = int(np.searchsorted(ends, rest, "right"))
            if not count:
                self._log.roll()
                continue
            taken = rows[at : at + count]
            targets = (end + ends[:count] - sizes[at : at + count]).astype(np.uint64)
            copies, _ = move_records(
                data, block.offset, taken["offset"], targets, int(ends[count - 1])
            )
            self._log.append_raw(end, copies.data)
            self._undispatched += int(ends[count - 1])
            at += count
        if self._undispatched >= _DISPATCH_BYTES:
            self._dispatch()

    def finish(self) -> None:
        """
        Writes the last entries of the consume queues.

        Raises:
            FullError: no space is left.
            StorageError: the system refused.
        """
        self._dispatch()

    def _dispatch(self) -> None:
        log, queues = self._log, self._store.queues
        self._undispatched = 0
        end = self.end_offset
        scan = log.scan(
            queues.dispatched_end, end, Check.TOPIC | Check.TAGS, rows=_ROWS
        )
        for rows in scan:
            stop = scan.cursor.offset
            for group in groups_of(rows, log.topic, Dispatched()):
                queues.insert(group, self._firsts[group.topic, group.queue_id])
            light = find_light_groups(log, rows)
            queues.dispatch(rows[:0], stop, log.topic, light=light)
            queues.dispatched_ms = int(rows["store_ms"][-1])
        queues.dispatched_end = max(queues.dispatched_end, end)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._store.close()


def _with_own_crc(block: RecordBlock, rows: NDArray[Any]) -> bytearray:
    """
    The bytes of a block, in which records with the property CRC of another record have
    one of their own: between others it would count as damage.
    """
    data = bytearray(block.data)
    for row in rows[(rows["proof"] & Proof.DIFFERS) != 0]:
        start = int(row["offset"]) - block.offset
        end = start + int(row["size"])
        crc = zlib.crc32(memoryview(data)[start : end - CRC_SIZE]) & CRC_MASK
        digits = str(crc)[::-1].ljust(_DIGITS, "0")
        data[end - CRC_SIZE : end] = f"{CRC_NAME}\x01{digits}\x02".encode()
    return data
