"""
The master's epoch table in pages, and a table again. Pure.

A table of any length travels: the slave asks from an epoch on, the master answers
with as many entries as fit into a frame, and says whether more follow (R198). An
epoch change ends every session, so within one the table changes in two ways only:
the end of its last entry grows, and old entries go with deleted segments.

Source: docs/protocol.md (K.3, QUERY_EPOCH and RETURN_EPOCH).
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

__all__ = ["EPOCHS_MAX", "EpochPages", "EpochSnapshot", "page_of"]

EPOCHS_MAX = 1 << 20
"""The longest table that a slave puts together: a peer's number is no budget."""

_ATTEMPTS_MAX = 8


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
            bytes are not there (R144).
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


class EpochPages:
    """
    Puts the pages of one table together; owned by one thread.

    `query` says what to ask, `take` takes the answer, until that returns the table.
    If the master's table changed between two pages, it starts again, a few times.

    Args:
        session_id: of the session.
    """

    def __init__(self, session_id: int) -> None:
        self._session_id = session_id
        self._attempts = 1
        self._pages: list[ReturnEpoch] = []
        self._entries: list[tuple[int, int, int]] = []

    def query(self) -> QueryEpoch:
        """
        Returns the frame that asks for the next page.
        """
        first = self._entries[-1][0] + 1 if self._entries else 0
        return QueryEpoch(self._session_id, first)

    def take(self, page: ReturnEpoch) -> EpochSnapshot | None:
        """
        Returns the table if this was its last page; ``None``: query again.

        Raises:
            RemoteViolation: entries that are no epoch table, a page of another
                session, or a table that never stands still.
        """
        self._check_head(page)
        if self._is_of_another_table(page):
            self._start_again()
            return None
        self._check_entries(page)
        self._pages.append(page)
        self._entries += page.entries
        if page.flags & EpochsFlag.MORE:
            return None
        if len(self._entries) != page.entries_total:
            raise RemoteViolation(
                f"{len(self._entries)} epochs of {page.entries_total} came, "
                "and no more follow"
            )
        return EpochSnapshot(self._table(), page.min_offset, page.end_offset)

    def _check_head(self, page: ReturnEpoch) -> None:
        if page.session_id != self._session_id:
            raise RemoteViolation(f"epochs of another session, {page.session_id}")
        if not 0 <= page.entries_total <= EPOCHS_MAX:
            raise RemoteViolation(
                f"a table of {page.entries_total} epochs: up to {EPOCHS_MAX} are taken"
            )
        if not 0 <= page.min_offset <= page.end_offset:
            raise RemoteViolation(
                f"a log from {page.min_offset} to {page.end_offset}: it ends before "
                "it begins"
            )

    def _is_of_another_table(self, page: ReturnEpoch) -> bool:
        # A log that is written to grows from page to page: that alone is no change,
        # or a busy master would be asked for ever.
        if not self._pages:
            return False
        last = self._pages[-1]
        return (
            page.entries_total != last.entries_total
            or page.min_offset != last.min_offset
            or page.end_offset < last.end_offset
        )

    def _start_again(self) -> None:
        if self._attempts == _ATTEMPTS_MAX:
            raise RemoteViolation(
                f"the epoch table changed in each of {_ATTEMPTS_MAX} attempts"
            )
        self._attempts += 1
        self._pages.clear()
        self._entries.clear()

    def _check_entries(self, page: ReturnEpoch) -> None:
        more = bool(page.flags & EpochsFlag.MORE)
        if more and not page.entries:
            raise RemoteViolation("a page without epochs, and more follow")
        if len(self._entries) + len(page.entries) + more > page.entries_total:
            raise RemoteViolation(f"more epochs came than {page.entries_total}")
        before = self._entries[-1] if self._entries else None
        for entry in page.entries:
            epoch, start, end = entry
            if before and (epoch <= before[0] or start != before[2]):
                raise RemoteViolation(
                    f"epoch {epoch} from {start} does not follow epoch {before[0]}, "
                    f"which ends at {before[2]}"
                )
            is_last = entry is page.entries[-1] and not more
            if epoch < 0 or start < 0 or end < start or (end == start and not is_last):
                raise RemoteViolation(f"epoch {epoch} from {start} to {end}")
            before = entry
        if before and not more and before[2] != page.end_offset:
            raise RemoteViolation(
                f"the last epoch ends at {before[2]}, the log at {page.end_offset}"
            )

    def _table(self) -> EpochTable:
        try:
            return EpochTable.of((epoch, start) for epoch, start, _ in self._entries)
        except InvalidError as error:  # numbers that no log reaches
            raise RemoteViolation(f"no epoch table: {error}") from error
