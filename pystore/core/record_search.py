"""
Finds the record that has an offset strictly inside: an offset that a caller asked for,
and at which no record begins.

Such an offset is a mistake of the caller, not damage. Only the failure of a read comes
here: the search reads at most `REACH_BYTES` backwards, for bytes that prove themselves
as a record (magic, embedded offset, checksum of the body). A blank record is as long as
its segment has room: over zeros the search walks from the segment's first record.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from pystore.bindings.ffi import Check, Stop
from pystore.core.scan import check_record
from pystore.errors import CorruptError, InvalidError, PystoreError
from pystore.message.constants import MAGIC_BLANK, MAGIC_V1, MAGIC_V2

if TYPE_CHECKING:
    from pystore.core.log_reader import LogReader

__all__ = ["REACH_BYTES", "check_no_record_around"]

REACH_BYTES = 8 * 1024 * 1024
"""Twice the largest body that a broker takes by default."""

_FIRST_CHUNK = 4096
_HEAD_BYTES = 36  # up to the embedded offset, and with it
_SIZE = struct.Struct(">I")
_EMBEDDED = struct.Struct(">28xQ")
_BLANK = struct.Struct(">II")
_MAGICS = re.compile(b"|".join(re.escape(_SIZE.pack(m)) for m in (MAGIC_V1, MAGIC_V2)))


def check_no_record_around(log: LogReader, offset: int) -> None:
    """
    Return unless *offset* lies strictly inside a whole record.

    Args:
        log: that was read at *offset*.
        offset: within the log; no whole record begins there.

    Raises:
        InvalidError: the offset is inside a record, which the text names.
    """
    try:
        found = _find_around(log, offset)
    except PystoreError:
        # The bytes around cannot be read: the first error is the one to report.
        return
    if found is None:
        return
    start, size = found
    raise InvalidError(
        f"{log.path}: no record begins at offset {offset}: it is inside the record at "
        f"{start}, which has {size} bytes",
        offset=offset,
        path=log.path,
    )


def _find_around(log: LogReader, offset: int) -> tuple[int, int] | None:
    ends = log.ends()
    base = offset - (offset - ends.min_offset) % ends.segment_size
    stop, chunk = offset, _FIRST_CHUNK
    lowest = max(base, offset - REACH_BYTES)
    is_zero = True
    while stop > lowest:
        start = max(lowest, stop - chunk)
        # A head may begin below `stop` and end above it.
        data = bytes(log.acquire(start, stop - start + _HEAD_BYTES))
        for match in reversed(list(_MAGICS.finditer(data))):
            at = match.start() - _SIZE.size
            if 0 <= at < stop - start and (size := _proved(log, data, at, start)):
                end = start + at + size
                if end > offset:
                    return start + at, size
                return _blank_at(log, end, base + ends.segment_size)
        is_zero = is_zero and not any(data[: stop - start])
        stop, chunk = start, chunk * 4
    return _find_blank(log, base, offset) if is_zero else None


def _proved(log: LogReader, data: bytes, at: int, start: int) -> int:
    """
    The size of the record at ``data[at]``; 0 if there is none.
    """
    head = data[at : at + _HEAD_BYTES]
    if len(head) < _HEAD_BYTES or _EMBEDDED.unpack(head) != (start + at,):
        return 0
    (size,) = _SIZE.unpack_from(head)
    try:
        # A copy: the error of a damaged record holds on to what was checked.
        record = bytes(log.acquire(start + at, max(size, 1)))
        check_record(record, start + at, Check.BODY | Check.OFFSET)
    except CorruptError:
        # Bytes of a body that look like a record, or a damaged record.
        return 0
    return int(size)


def _find_blank(log: LogReader, base: int, offset: int) -> tuple[int, int] | None:
    """
    The blank record around *offset*, if every record below it is whole.
    """
    cursor = log.scan(base, offset).finish()
    if cursor.stop is not Stop.LIMIT or cursor.offset >= offset:
        return None
    return _blank_at(log, cursor.offset, base + log.ends().segment_size)


def _blank_at(log: LogReader, at: int, segment_end: int) -> tuple[int, int] | None:
    """
    The blank record at *at*, if there is one.
    """
    head = bytes(log.acquire(at, _BLANK.size))
    if head != _BLANK.pack(segment_end - at, MAGIC_BLANK):
        return None
    return at, segment_end - at
