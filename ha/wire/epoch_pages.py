"""
The master's epoch table in pages. Pure.

The table may have any length. The slave queries from an epoch on; the master answers
with as many entries as fit into a frame, and says whether more follow (RMQ-R198). The
slave's side is `pystore.ha.slave.epoch_query`.

Source: docs/protocol.md (RMQ-K.3, QUERY_EPOCH and RETURN_EPOCH).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from operator import attrgetter

from pystore.epochs.table import EpochTable
from pystore.errors import InvalidError, RemoteViolation
from pystore.ha.wire.codes import HEADER_BYTES, EpochsFlag
from pystore.ha.wire.frames import QueryEpoch, ReturnEpoch
from pystore.ha.wire.v3 import EPOCH_BYTES, RETURN_BYTES_MIN

__all__ = ["EpochSnapshot", "page_of"]


@dataclass(frozen=True, slots=True)
class EpochSnapshot:
    """
    A table, and the ends of the log that it describes, of one moment.

    Attributes:
        epochs: the table.
        min_offset: where the log begins.
        end_offset: where the log and the last entry end.
    """

    epochs: EpochTable
    min_offset: int
    end_offset: int


def page_of(
    snapshot: EpochSnapshot, query: QueryEpoch, session_id: int, frame_bytes_max: int
) -> ReturnEpoch:
    """
    Returns the page that was asked for.

    Args:
        snapshot: of the master's log. Entries above its end are left out: their
            bytes are not there (RMQ-R144).
        query: first epoch and number of entries.
        session_id: of the session.
        frame_bytes_max: the longest frame of the session.

    Raises:
        RemoteViolation: a number of entries below 0.
        InvalidError: not one entry fits into a frame.
    """
    if query.entries_max < 0:
        raise RemoteViolation(f"a query for {query.entries_max} epochs")
    room = (frame_bytes_max - HEADER_BYTES - RETURN_BYTES_MIN) // EPOCH_BYTES
    if room < 1:
        raise InvalidError(f"no epoch fits into a frame of {frame_bytes_max} bytes")
    room = min(room, query.entries_max or room)
    entries = snapshot.epochs.drop_above(snapshot.end_offset).entries
    first = bisect_left(entries, query.first_epoch, key=attrgetter("epoch"))
    last = min(first + room, len(entries))
    ends = [entry.start_offset for entry in entries[first + 1 : last + 1]]
    if last == len(entries):
        ends.append(snapshot.end_offset)
    return ReturnEpoch(
        session_id,
        snapshot.min_offset,
        snapshot.end_offset,
        len(entries),
        EpochsFlag.MORE if last < len(entries) else EpochsFlag(0),
        tuple(
            (entry.epoch, entry.start_offset, end)
            for entry, end in zip(entries[first:last], ends, strict=False)
        ),
    )
