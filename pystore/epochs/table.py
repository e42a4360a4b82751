"""
The epoch table: the mastership that wrote each byte of the log. Pure.

The master of an entry (epoch, start offset) wrote every byte from its start to the
start of the next entry. Two replicas hold equal bytes below their consistent point,
provided that every epoch has one master, that its entry is durable before its first
byte, and that the start of an entry never changes (RMQ-R151, RMQ-R152).

The rules are RocketMQ's (RMQ-R135 to RMQ-R152), with five exceptions: an entry with the
start of the previous one replaces it, because that epoch has no bytes (RMQ-R137); after
a cut the last entry has no end again (RMQ-R141); an empty table is valid (RMQ-R142);
entries that start above the end are dropped before histories are compared (RMQ-R144);
and epochs have 64 bits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from pystore.errors import InvalidError
from pystore.stored_names import public

__all__ = ["NO_END", "NO_EPOCH", "EpochEntry", "EpochRange", "EpochTable"]

NO_EPOCH = -1
"""The last epoch of an empty table."""

NO_END = 2**63 - 1
"""The end of the last entry: no later mastership began."""


_EPOCH = attrgetter("epoch")
_START = attrgetter("start_offset")


@public
@dataclass(frozen=True, slots=True)
class EpochEntry:
    """
    One mastership: its epoch and the log offset of its first byte.
    """

    epoch: int
    start_offset: int

    def __post_init__(self) -> None:
        if not 0 <= self.epoch < NO_END:
            raise InvalidError(f"epoch {self.epoch} is not in 0..2^63-2")
        if not 0 <= self.start_offset < NO_END:
            raise InvalidError(
                f"epoch {self.epoch}: start {self.start_offset} is not in 0..2^63-2",
                offset=self.start_offset,
            )


@dataclass(frozen=True, slots=True)
class EpochRange:
    """
    Bytes ``[start_offset, end_offset)`` that one epoch wrote.
    """

    epoch: int
    start_offset: int
    end_offset: int


@public
@dataclass(frozen=True, slots=True)
class EpochTable:
    """
    Entries in ascending order of epoch and of start; immutable.

    Raises:
        InvalidError: epochs or starts do not ascend strictly.
    """

    entries: tuple[EpochEntry, ...] = ()

    def __post_init__(self) -> None:
        for older, newer in zip(self.entries, self.entries[1:], strict=False):
            if newer.epoch <= older.epoch or newer.start_offset <= older.start_offset:
                raise InvalidError(
                    f"epoch {newer.epoch} from {newer.start_offset} does not follow "
                    f"epoch {older.epoch} from {older.start_offset}",
                    offset=newer.start_offset,
                )

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> EpochTable:
        """
        The table of these (epoch, start offset) pairs.

        Raises:
            InvalidError: epochs or starts do not ascend strictly.
        """
        return cls(tuple(EpochEntry(epoch, start) for epoch, start in pairs))

    def pairs(self) -> list[tuple[int, int]]:
        """
        The entries as (epoch, start offset), oldest first.
        """
        return [(entry.epoch, entry.start_offset) for entry in self.entries]

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def last_epoch(self) -> int:
        """
        The newest epoch, `NO_EPOCH` (-1) when there is none.
        """
        return self.entries[-1].epoch if self.entries else NO_EPOCH

    def append(self, epoch: int, start_offset: int) -> EpochTable:
        """
        Begin a mastership at ``start_offset``.

        An entry with the same start has no bytes: the new one replaces it (RMQ-R137).
        The start of an existing epoch never changes (RMQ-R152).

        Raises:
            InvalidError: the epoch is not above the last one, or the start is
                below the last start.
        """
        entry = EpochEntry(epoch, start_offset)
        if not self.entries:
            return EpochTable((entry,))
        last = self.entries[-1]
        if epoch <= last.epoch:
            raise InvalidError(
                f"epoch {epoch} is not above the last epoch {last.epoch}: "
                "each mastership has a new epoch"
            )
        if start_offset < last.start_offset:
            raise InvalidError(
                f"epoch {epoch} would start at {start_offset}, below the start "
                f"{last.start_offset} of epoch {last.epoch}: cut the table first",
                offset=start_offset,
            )
        kept = self.entries
        if start_offset == last.start_offset:
            kept = kept[:-1]
        return EpochTable((*kept, entry))

    def cut_suffix(self, offset: int) -> EpochTable:
        """
        The table without the entries that start at ``offset`` or above (RMQ-R138).
        """
        return EpochTable(tuple(e for e in self.entries if e.start_offset < offset))

    def cut_suffix_from_epoch(self, epoch: int) -> EpochTable:
        """
        The table without ``epoch`` and newer epochs (RMQ-R138).
        """
        return EpochTable(tuple(e for e in self.entries if e.epoch < epoch))

    def cut_prefix(self, offset: int) -> EpochTable:
        """
        The table without the entries that end at ``offset`` or below (RMQ-R138).

        The last entry has no end and always stays.
        """
        return EpochTable(tuple(e for e in self.entries if self.end_of(e) > offset))

    def drop_above(self, end_offset: int) -> EpochTable:
        """
        The table without the entries that start above the log's end (RMQ-R144).

        An entry that starts at the end stays: its first byte may follow.
        """
        return self.cut_suffix(end_offset + 1)

    def find(self, offset: int) -> EpochEntry | None:
        """
        The entry with the byte at ``offset``, ``None`` below the first entry
        (RMQ-R140).

        Logarithmic in the number of entries, as `next_after` and `end_of`: a master
        calls it for every block that it sends.
        """
        place = bisect_right(self.entries, offset, key=_START)
        return self.entries[place - 1] if place else None

    def next_after(self, epoch: int) -> EpochEntry | None:
        """
        The entry with the smallest epoch above ``epoch`` (RMQ-R140).
        """
        place = bisect_right(self.entries, epoch, key=_EPOCH)
        return self.entries[place] if place < len(self.entries) else None

    def end_of(self, entry: EpochEntry) -> int:
        """
        Where the next entry starts, `NO_END` for the last one (RMQ-R135, RMQ-R141).

        Raises:
            InvalidError: the entry is not of this table.
        """
        if self.find(entry.start_offset) != entry:
            raise InvalidError(f"epoch {entry.epoch} is not in the table")
        following = self.next_after(entry.epoch)
        return NO_END if following is None else following.start_offset

    def ranges(self, start_offset: int, end_offset: int) -> tuple[EpochRange, ...]:
        """
        The epochs that wrote the bytes ``[start_offset, end_offset)``, ascending.

        Bytes below the first entry have no epoch.
        """
        ranges = (
            EpochRange(
                entry.epoch,
                max(start_offset, entry.start_offset),
                min(end_offset, self.end_of(entry)),
            )
            for entry in self.entries
        )
        return tuple(one for one in ranges if one.start_offset < one.end_offset)

    def consistent_point(
        self, other: EpochTable, own_end: int, other_end: int
    ) -> int | None:
        """
        The offset up to which two epoch histories agree (RMQ-R145, RMQ-R146).

        It is the lower end of the newest entry that both have, with the same epoch and
        start, and never above the end of either log. An entry that starts above the end
        of its log has no bytes and is not compared (RMQ-R144).

        Args:
            other: the table of the other replica.
            own_end: the end offset of the own log.
            other_end: the end offset of the other log.

        Returns:
            The offset, or ``None`` if no entry is common.
        """
        own, theirs = self.drop_above(own_end), other.drop_above(other_end)
        common = set(own.entries) & set(theirs.entries)
        if not common:
            return None
        newest = max(common, key=lambda entry: entry.epoch)
        ends = own.end_of(newest), theirs.end_of(newest)
        return min(*ends, own_end, other_end)

    def cut_for_import(self, imported: EpochTable, min_offset: int) -> int | None:
        """
        The end of the log after another program wrote ``imported`` (A10).

        If ``imported`` lacks an entry of this table, the other program cut the log at
        the start of that entry, unless it has another entry there or lower: then its
        entries count. Entries wholly below ``min_offset`` were deleted with their
        segments and prove nothing.

        Args:
            imported: the table in the file.
            min_offset: the log's minimum offset.

        Returns:
            The offset to cut at, or ``None``: no cut.
        """
        theirs = set(imported.entries)
        missing = [e for e in self.cut_prefix(min_offset).entries if e not in theirs]
        if not missing:
            return None
        start = missing[0].start_offset
        foreign = theirs.difference(self.entries)
        if any(entry.start_offset <= start for entry in foreign):
            return None
        return start
