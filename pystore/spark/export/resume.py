"""
The start of a run in each store, and the range that the run reads. On the driver.

The exported end of a store is kept with the last record and its checksum, as in a
stream's checkpoint: an offset alone does not show that a log was cut and grew again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pystore.bindings.row import Check
from pystore.errors import CorruptError, CutError, OffsetOutOfRange, PystoreError
from pystore.spark.export.commit import LogGap
from pystore.spark.plan.options import SourceOptions
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.split import Split
from pystore.spark.plan.splits import plan_range
from pystore.spark.scan.core_segment import CoreSegment
from pystore.spark.scan.ill_segment import IllSegment
from pystore.spark.source.followed_log import FollowedLog
from pystore.spark.source.offsets import StreamOffset
from pystore.spark.source.record_walk import first_from
from pystore.spark.source.tail import StoreSnapshot

__all__ = ["ExportBounds", "StoreExport"]

_ROWS = 8192


@dataclass(frozen=True, slots=True)
class ExportBounds:
    """
    The bounds of an export, for every store.

    Attributes:
        from_offset: offset at which the first run begins.
        to_offset: records that begin below it are exported; ``None``: all confirmed
            records.
        allow_gap: whether to continue although the log was cut or records were
            deleted since the last run.
    """

    from_offset: int = 0
    to_offset: int | None = None
    allow_gap: bool = False


class StoreExport:
    """
    The part of a run that exports one store.

    Args:
        log: the log.
        before: exported end of the last run; ``None``: the log is new.
        bounds: of the export.

    Attributes:
        key: of the log's position.
        store: root of the store that is read.
        from_offset: the first offset to read.
        exported_end: exported end after this run.
        gap: that the run leaves; ``None``: no gap.

    Raises:
        NotAStoreError, StorageError: the store cannot be read.
        CutError: the log was cut below the exported end.
        OffsetOutOfRange: records above the exported end were deleted, or are below
            ``bounds.from_offset``.
    """

    def __init__(
        self, log: FollowedLog, before: StreamOffset | None, bounds: ExportBounds
    ) -> None:
        self.key = log.key
        self._followed = log.store(before)
        with self._followed.snapshot() as snapshot:
            self.store = snapshot.store
            self.from_offset, self.gap = _start(snapshot, before, bounds)
            top = snapshot.top
            if bounds.to_offset is not None:
                top = min(top, first_from(snapshot.log, bounds.to_offset, snapshot.end))
            self.exported_end = StreamOffset(self.from_offset)
            if top > self.from_offset:
                self.exported_end = snapshot.last(self.from_offset, top, before)
            elif before and not self.gap:
                self.exported_end = before
            elif before:
                self.exported_end = snapshot.last(
                    self.from_offset, self.from_offset, before
                )
            self._generation = snapshot.generation

    @property
    def size(self) -> int:
        """
        Bytes of the log to read.
        """
        return self.exported_end.offset - self.from_offset

    def splits(self, split_bytes: int, *, with_epochs: bool) -> list[Split]:
        """
        Returns the splits to read.

        Args:
            split_bytes: largest size of a split.
            with_epochs: whether a column needs the epochs of records.

        Raises:
            NotAStoreError, StorageError: the store cannot be read.
        """
        if not self.size:
            return []
        options = SourceOptions((self.store,), split_bytes=split_bytes)
        chosen = Selection().offsets(self.from_offset, self.exported_end.offset)
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

    def require_served(self, splits: Iterable[Split]) -> None:
        """
        Makes sure that no record of the range is missing, as far as it is known before
        a task begins.

        Args:
            splits: of all stores.

        Raises:
            CorruptError: a segment is missing, short or unreadable.
        """
        for split in splits:
            if split.store != self.store or split.ill is None:
                continue
            with IllSegment(split, _open) as segment:
                lost = segment.lost()
            if lost is not None:
                raise CorruptError(
                    f"{split.path}: {lost.text}: offsets {lost.offset} to "
                    f"{lost.offset + lost.size} are missing, and nothing was exported: "
                    "--on-damage skip exports the rest and records the range",
                    offset=lost.offset,
                    path=split.path,
                )

    def require_unchanged(self) -> None:
        """
        Makes sure that the log was not cut while it was read.

        Raises:
            CutError: it was cut below the end of the range.
        """
        with self._followed.snapshot() as snapshot:
            if self.size and not snapshot.holds(self.exported_end):
                raise CutError(
                    f"{self.store}: the log was cut below offset "
                    f"{self.exported_end.offset} while it was exported: nothing was "
                    "published, run again",
                    offset=self.exported_end.offset,
                    path=self.store,
                )


def _open(split: Split) -> CoreSegment:
    return CoreSegment(split, Check.OFFSET, _ROWS)


def _start(
    snapshot: StoreSnapshot, before: StreamOffset | None, bounds: ExportBounds
) -> tuple[int, LogGap | None]:
    """
    The offset of the first record to export, and the gap before it.
    """
    if before is None:
        start = max(bounds.from_offset, snapshot.min_offset)
        return first_from(snapshot.log, start, snapshot.end), None
    at = before.offset
    kind: type[PystoreError] = OffsetOutOfRange
    if at < snapshot.min_offset:
        start = snapshot.min_offset
        reason = f"offsets {at} to {start} were deleted before they were exported"
    elif not snapshot.holds(before) and not snapshot.lags(before):
        start = snapshot.fork(before)
        reason = f"the log was cut below offset {at}, where the last run ended"
        kind = CutError
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
