"""
Where the export of a store goes on, and what a run reads of it. On the driver.

A position names the last exported record and its checksum, as that of a stream does:
offsets alone do not show that a log was cut and grew again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pystore.errors import CutError, OffsetOutOfRange, PystoreError
from pystore.spark.export.commit import LogGap
from pystore.spark.plan.options import SourceOptions
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.split import Split
from pystore.spark.plan.splits import plan_range
from pystore.spark.source.offsets import StreamOffset
from pystore.spark.source.record_walk import first_from
from pystore.spark.source.tail import FollowedStore, StoreSnapshot

__all__ = ["ExportBounds", "StoreExport"]


@dataclass(frozen=True, slots=True)
class ExportBounds:
    """
    What a user chose of every store.

    Attributes:
        from_offset: where the first run begins.
        to_offset: behind the last record; ``None``: all that is confirmed.
        allow_gap: go on where the log is not the one that was exported.
    """

    from_offset: int = 0
    to_offset: int | None = None
    allow_gap: bool = False


class StoreExport:
    """
    What a run does with a store.

    Args:
        store: its root.
        before: where the last run ended; ``None``: there was none.
        bounds: chosen.

    Attributes:
        store: its root.
        from_offset: the first offset to read.
        position: after the run.
        gap: that it goes over.

    Raises:
        NotAStoreError, StorageError: it cannot be read.
        CutError: the log was cut below the position.
        OffsetOutOfRange: records were deleted, or shall be left out, between the
            position and where it would go on.
    """

    def __init__(
        self, store: Path, before: StreamOffset | None, bounds: ExportBounds
    ) -> None:
        self.store = str(store)
        self._followed = FollowedStore(store, published=False)
        with self._followed.snapshot() as snapshot:
            self.from_offset, self.gap = _start(snapshot, before, bounds)
            top = snapshot.top
            if bounds.to_offset is not None:
                top = min(top, first_from(snapshot.log, bounds.to_offset, snapshot.end))
            self.position = StreamOffset(self.from_offset)
            if top > self.from_offset:
                self.position = snapshot.last(self.from_offset, top)
            elif before and not self.gap:
                self.position = before
            self._generation = snapshot.generation

    @property
    def size(self) -> int:
        """
        How many bytes of the log are to be read.
        """
        return self.position.offset - self.from_offset

    def splits(self, split_bytes: int, *, with_epochs: bool) -> list[Split]:
        """
        Returns what is to be read.

        Args:
            split_bytes: at most so many in one of them.
            with_epochs: whether a column asks who wrote a record.

        Raises:
            NotAStoreError, StorageError: the store cannot be read.
        """
        if not self.size:
            return []
        options = SourceOptions((self.store,), split_bytes=split_bytes)
        chosen = Selection().offsets(self.from_offset, self.position.offset)
        with self._followed.snapshot() as snapshot:
            return plan_range(
                Path(self.store),
                snapshot.log,
                options,
                chosen,
                snapshot.end,
                with_epochs=with_epochs,
                record_at=self.from_offset,
                generation=self._generation,
            )

    def require_unchanged(self) -> None:
        """
        Returns if the log still is the one that was read.

        Raises:
            CutError: it was cut meanwhile.
        """
        with self._followed.snapshot() as snapshot:
            if not snapshot.holds(self.position):
                raise CutError(
                    f"{self.store}: the log was cut below {self.position.offset} while "
                    "it was exported: nothing was published, run again",
                    offset=self.position.offset,
                    path=self.store,
                )


def _start(
    snapshot: StoreSnapshot, before: StreamOffset | None, bounds: ExportBounds
) -> tuple[int, LogGap | None]:
    """
    Where a record begins from which on nothing was exported.
    """
    if before is None:
        start = max(bounds.from_offset, snapshot.min_offset)
        return first_from(snapshot.log, start, snapshot.end), None
    at = before.offset
    kind: type[PystoreError] = OffsetOutOfRange
    if at < snapshot.min_offset:
        start = snapshot.min_offset
        reason = f"offsets {at} to {start} were deleted before they were exported"
    elif not snapshot.holds(before):
        # What was written since the cut is new; where it was, the page may know.
        start = min(snapshot.cut_offset, snapshot.end)
        start = max(snapshot.min_offset, start if start <= at else snapshot.end)
        reason, kind = f"the log was cut below {at}, where the last run ended", CutError
    elif at < bounds.from_offset:
        start = first_from(snapshot.log, bounds.from_offset, snapshot.end)
        reason = f"offsets {at} to {start} were never exported"
    else:
        return at, None
    if not bounds.allow_gap:
        raise kind(
            f"{snapshot.store}: {reason}: --allow-gap continues at offset {start} and "
            "records the gap; another directory starts a new export",
            offset=at,
            path=snapshot.store,
        )
    return start, LogGap(snapshot.store, at, start, reason)
