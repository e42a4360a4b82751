"""
A log that a stream or an export follows: for each look it chooses one of its stores.
"""

from __future__ import annotations

import logging
from pathlib import Path

from pystore.errors import PystoreError
from pystore.spark.source.offsets import StreamOffset
from pystore.spark.source.replicas import LogReplicas
from pystore.spark.source.tail import FollowedStore, StoreSnapshot

__all__ = ["FollowedLog"]

_log = logging.getLogger(__name__)


class FollowedLog:
    """
    The stores of one log. One thread.

    Args:
        replicas: the log.
        published: whether to read up to the published end, above the confirm offset.
    """

    def __init__(self, replicas: LogReplicas, *, published: bool) -> None:
        self.key = replicas.key
        self._stores = {
            root: FollowedStore(Path(root), published=published)
            for root in replicas.roots
        }

    @property
    def names(self) -> tuple[str, ...]:
        """
        The key, and the roots of the stores.
        """
        return (self.key, *self._stores)

    def store(
        self, position: StreamOffset | None, start: StreamOffset | None = None
    ) -> FollowedStore:
        """
        Returns the store to read from a position on.

        It is the one with the highest epoch. Of several, one that has the record at the
        position; then the one that may be read furthest without an ill range; then the
        one that was read.

        Args:
            position: end of what was read; ``None``: nothing.
            start: of a range up to *position* that is read again.

        Raises:
            NotAStoreError, StorageError: no store can be read.
        """
        if len(self._stores) == 1:
            return next(iter(self._stores.values()))
        best: tuple[tuple[int, bool, int, bool], FollowedStore] | None = None
        first: PystoreError | None = None
        for root, store in self._stores.items():
            try:
                with store.snapshot() as snapshot:
                    rank = _rank(snapshot, position, start or position)
            except PystoreError as error:
                # Another replica may be read instead.
                _log.warning("%s: %s", root, error)
                first = first or error
                continue
            if best is None or rank > best[0]:
                best = rank, store
        if best is None:
            assert first is not None
            raise first
        return best[1]

    def holds(self, position: StreamOffset) -> bool:
        """
        Whether a store has the record at a position.
        """
        for root, store in self._stores.items():
            try:
                with store.snapshot() as snapshot:
                    if snapshot.has_record(position):
                        return True
            except PystoreError as error:
                # It cannot be read, so it proves nothing.
                _log.warning("%s: %s", root, error)
        return False


def _rank(
    snapshot: StoreSnapshot,
    position: StreamOffset | None,
    start: StreamOffset | None,
) -> tuple[int, bool, int, bool]:
    epoch = snapshot.epochs(snapshot.end).last_epoch
    served = snapshot.served_end(snapshot.min_offset if start is None else start.offset)
    if position is None:
        return epoch, True, served, False
    has_record = (
        snapshot.min_offset <= position.offset
        and snapshot.holds(position)
        and not snapshot.has_lost(position)
    )
    return epoch, has_record, served, snapshot.store == position.store
