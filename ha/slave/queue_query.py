"""
A master's table of next queue offsets, collected from pages. Pure.

Source: docs/protocol.md (RMQ-K.3, RETURN_QUEUES), A20.
"""

from __future__ import annotations

from pystore.errors import RemoteViolation
from pystore.ha.slave.effects import Begin
from pystore.ha.wire.codes import QueuesFlag
from pystore.ha.wire.frames import NextQueueOffset, ReturnQueues

__all__ = ["QUEUES_MAX", "QueuePages"]

QUEUES_MAX = 1 << 24
"""No store has so many queues: a longer table would only exhaust the memory."""

_OFFSET_MAX = 1 << 62  # no queue reaches it


class QueuePages:
    """
    The entries received so far, of one snapshot of the master.
    """

    def __init__(self) -> None:
        self._entries: list[NextQueueOffset] = []
        self._page: ReturnQueues | None = None

    @property
    def first(self) -> int:
        """
        The number of entries that came: the first one that is still missing.
        """
        return len(self._entries)

    @property
    def is_whole(self) -> bool:
        """
        Whether the last page came.
        """
        return self._page is not None and QueuesFlag.MORE not in self._page.flags

    def add(self, page: ReturnQueues, segment_size: int) -> None:
        """
        Takes a page.

        Args:
            page: as received.
            segment_size: bytes of one file of the log.

        Raises:
            RemoteViolation: it does not continue the table, or has impossible numbers.
        """
        before = self._page
        self._page = page
        if page.first != len(self._entries):
            raise RemoteViolation(
                f"queues from number {page.first} on, and {len(self._entries)} came"
            )
        if before is not None and _head(before) != _head(page):
            raise RemoteViolation("the table of queue offsets changed between pages")
        if not page.entries and QueuesFlag.MORE in page.flags:
            raise RemoteViolation("an empty page of queues says that more follow")
        if not 0 <= page.min_offset <= page.start_offset or (
            page.start_offset % segment_size
        ):
            raise RemoteViolation(
                f"a log that begins at offset {page.start_offset}, of a master whose "
                f"log begins at offset {page.min_offset}"
            )
        for one in page.entries:
            if not 0 <= one.next_offset < _OFFSET_MAX:
                raise RemoteViolation(
                    f"next queue offset {one.next_offset} of queue {one.queue_id} of "
                    f"topic {one.topic[:64]!r}"
                )
        self._entries += page.entries
        if page.entries_total > QUEUES_MAX or len(self._entries) > page.entries_total:
            raise RemoteViolation(
                f"{len(self._entries)} queues of a table of {page.entries_total}: at "
                f"most {QUEUES_MAX} are taken"
            )
        if self.is_whole and len(self._entries) != page.entries_total:
            raise RemoteViolation(
                f"{len(self._entries)} queues came of a table of {page.entries_total}"
            )

    def begin(self) -> Begin:
        """
        Returns the effect that begins the log.

        Raises:
            RemoteViolation: no page came.
        """
        page = self._page
        if page is None:
            raise RemoteViolation("no page of queue offsets came")
        return Begin(page.start_offset, page.min_offset, tuple(self._entries))


def _head(page: ReturnQueues) -> tuple[int, int, int]:
    return page.min_offset, page.start_offset, page.entries_total
