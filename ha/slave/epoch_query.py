"""
A master's epoch table, collected from pages. Pure.

Source: docs/protocol.md (RMQ-K.3, RETURN_EPOCH).
"""

from __future__ import annotations

from pystore.epochs.table import EpochTable
from pystore.errors import InvalidError, RemoteViolation
from pystore.ha.slave.consistent_point import MasterHistory
from pystore.ha.wire.codes import EpochsFlag
from pystore.ha.wire.frames import ReturnEpoch

__all__ = ["ENTRIES_MAX", "EpochPages"]

ENTRIES_MAX = 1 << 20
"""No set elects so many masters: a longer table would only exhaust the memory."""


class EpochPages:
    """
    The entries received so far: (epoch, start, end), ascending and without a gap.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, int]] = []
        self._page: ReturnEpoch | None = None

    @property
    def next_epoch(self) -> int:
        """
        The first epoch that is still missing.
        """
        return self._entries[-1][0] + 1 if self._entries else 0

    @property
    def is_whole(self) -> bool:
        """
        Whether the last page came.
        """
        return self._page is not None and EpochsFlag.MORE not in self._page.flags

    @property
    def min_offset(self) -> int:
        """
        Where the master's log begins, by the newest page; 0 before it.
        """
        return 0 if self._page is None else self._page.min_offset

    def add(self, page: ReturnEpoch) -> None:
        """
        Takes a page.

        Raises:
            RemoteViolation: its entries do not continue the table.
        """
        if not page.entries and EpochsFlag.MORE in page.flags:
            raise RemoteViolation("an empty page of epochs says that more follow")
        for entry in page.entries:
            self._add(entry)
        self._page = page
        if page.entries_total > ENTRIES_MAX or len(self._entries) > ENTRIES_MAX:
            raise RemoteViolation(f"a table of more than {ENTRIES_MAX} epochs")
        if not 0 <= page.min_offset <= page.end_offset:
            raise RemoteViolation(
                f"the master's log cannot begin at offset {page.min_offset} and end at "
                f"offset {page.end_offset}"
            )
        if self.is_whole:
            self._check_end(page)

    def history(self, epoch: int) -> MasterHistory:
        """
        Returns the whole table, of a master of this epoch.

        Raises:
            RemoteViolation: it is no epoch table, or has a higher epoch.
        """
        page = self._page
        if page is None:
            raise RemoteViolation("no page of epochs came")
        try:
            table = EpochTable.of((number, start) for number, start, _ in self._entries)
        except InvalidError as error:  # the peer's numbers
            raise RemoteViolation(f"the master's epochs: {error}") from error
        if table.last_epoch > epoch:
            raise RemoteViolation(
                f"the master of epoch {epoch} has bytes of epoch {table.last_epoch}"
            )
        return MasterHistory(table, page.end_offset, epoch, page.min_offset)

    def _add(self, entry: tuple[int, int, int]) -> None:
        epoch, start, end = entry
        if self._entries:
            before, _, border = self._entries[-1]
            if epoch <= before or start != border:
                raise RemoteViolation(
                    f"epoch {epoch} from {start} does not follow epoch {before}, "
                    f"which ends at {border}"
                )
        if end < start:
            raise RemoteViolation(f"epoch {epoch} ends at {end}, below {start}")
        self._entries.append(entry)

    def _check_end(self, page: ReturnEpoch) -> None:
        if len(self._entries) != page.entries_total:
            raise RemoteViolation(
                f"{len(self._entries)} epochs came of a table of {page.entries_total}"
            )
        if self._entries and self._entries[-1][2] != page.end_offset:
            raise RemoteViolation(
                f"the last epoch ends at {self._entries[-1][2]}, the master's log at "
                f"{page.end_offset}"
            )
