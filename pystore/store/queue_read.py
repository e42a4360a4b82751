"""
The record of an entry of a consume queue, with an error that names the entry.

An entry that names bytes outside the log, or the record of another queue, is a damaged
queue and not a lost record (A16): the entries around it can be read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pystore.consumequeue.light import LIGHT_PREFIX
from pystore.consumequeue.queue import ENTRY_SIZE
from pystore.errors import CorruptError, OffsetOutOfRange
from pystore.fs.layout import segment_name

if TYPE_CHECKING:
    from pystore.consumequeue.queue import ConsumeQueue
    from pystore.core.log_reader import LogReader
    from pystore.message.record import Record

__all__ = ["read_named"]

_ADVICE = "`pystore doctor --apply` builds the queue again"


def read_named(
    log: LogReader,
    queue: ConsumeQueue,
    index: int,
    offset: int,
    *,
    end: Callable[[], int],
    body_crc: bool = True,
) -> Record:
    """
    Returns the record that an entry names.

    Args:
        log: of the store.
        queue: with the entry.
        index: queue offset of the entry.
        offset: in the log, from the entry.
        end: returns an offset at and above which no record is; asked after an error.
        body_crc: whether to compare the body with its CRC.

    Raises:
        OffsetOutOfRange: the record was deleted, or is not visible yet.
        CorruptError: the entry is wrong, or the record is not whole.
        CutError: the log was cut meanwhile.
    """
    try:
        record = log.read(offset, body_crc=body_crc)
    except OffsetOutOfRange as error:
        if offset < (last := end()):
            raise
        text = f"the entry names offset {offset}, and the log ends at {last}"
        raise _wrong(queue, index, text) from error
    except CorruptError as error:
        text = f"{_place(queue, index)}: {error}: if the log is whole, {_ADVICE}"
        raise CorruptError(text, offset=error.offset, path=error.path) from error
    if not _is_of(queue, index, record):
        text = (
            f"the entry names the record at offset {offset}, which is "
            f"{record.topic}, queue {record.queue_id}, queue offset "
            f"{record.queue_offset}"
        )
        raise _wrong(queue, index, text)
    return record


def _is_of(queue: ConsumeQueue, index: int, record: Record) -> bool:
    if queue.topic.startswith(LIGHT_PREFIX):
        return True
    # A topic that is no text is not compared: its forms differ.
    topic = record.topic
    return (
        record.queue_offset == index
        and record.queue_id == queue.queue_id
        and (topic == queue.topic or "\N{REPLACEMENT CHARACTER}" in topic)
    )


def _place(queue: ConsumeQueue, index: int) -> str:
    return f"{queue.topic}, queue {queue.queue_id}, queue offset {index}"


def _wrong(queue: ConsumeQueue, index: int, text: str) -> CorruptError:
    at = index * ENTRY_SIZE % queue.files.file_size
    path = queue.files.folder / segment_name(index * ENTRY_SIZE - at)
    return CorruptError(
        f"{_place(queue, index)}: {text}: {_ADVICE}; the queue can be read on from "
        f"queue offset {index + 1}",
        offset=at,
        path=str(path),
    )
