"""
Where the histories of replicas part, by their epoch tables. Pure.

Epochs decide which history is right, as in replication: the one with the highest epoch.
Seals and majorities say nothing about it: a master that was cut off seals what it
wrote, and a replica may have followed it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pystore.epochs.table import EpochTable

__all__ = ["Fork", "History", "find_forks"]


@dataclass(frozen=True, slots=True)
class History:
    """
    The history of one replica.

    Attributes:
        store: root of the store.
        table: its epochs; ``None``: it has none, or they cannot be read.
        end: of its log.
    """

    store: str
    table: EpochTable | None
    end: int


@dataclass(frozen=True, slots=True)
class Fork:
    """
    The offset from which on a replica holds a history that was given up.

    Attributes:
        offset: below it, the log is that of the other store.
        epoch: of the first byte above, in this store; ``None``: it is not known.
        other: root of the store with the highest epoch.
        other_epoch: of the first byte above, in that store.
    """

    offset: int
    epoch: int | None
    other: str
    other_epoch: int | None

    @property
    def text(self) -> str:
        """
        One line for people.
        """
        return (
            f"from offset {self.offset} on it holds epoch {self.epoch}, and "
            f"{self.other}, which has the highest epoch, holds epoch "
            f"{self.other_epoch}: as a replica of it, this store is cut there; copy "
            "away first what only this store has"
        )


def find_forks(histories: Iterable[History]) -> dict[str, Fork]:
    """
    Returns the fork of each store that holds bytes of another history than the store
    with the highest epoch.

    Stores without epochs have none.
    """
    tables = [(one, _table(one)) for one in histories]
    known = [(one, table) for one, table in tables if table.entries]
    if len(known) < 2:
        return {}
    best, theirs = max(known, key=lambda pair: (pair[1].last_epoch, pair[0].end))
    forks = {}
    for one, table in known:
        if one is best:
            continue
        point = table.consistent_point(theirs, one.end, best.end)
        if point is None:
            # No epoch is common. Above both first entries, the bytes are of two epochs.
            point = max(table.entries[0].start_offset, theirs.entries[0].start_offset)
        if one.end <= point:
            continue
        mine, other = table.find(point), theirs.find(point)
        forks[one.store] = Fork(
            point,
            None if mine is None else mine.epoch,
            best.store,
            None if other is None else other.epoch,
        )
    return forks


def _table(one: History) -> EpochTable:
    return EpochTable() if one.table is None else one.table.drop_above(one.end)
