"""
``spark.readStream.format("pystore")``: stores that a query follows.

On the driver, between batches, a store is looked at anew and nothing stays open; the
tasks of a batch read as those of a batch query do.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pystore.errors import NotAStoreError
from pystore.spark.plan.options import SourceOptions
from pystore.spark.plan.paths import find_stores
from pystore.spark.plan.schema import Column, needs_of
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.split import Split
from pystore.spark.source.offsets import (
    StreamOffset,
    StreamOffsets,
    format_offsets,
    parse_offsets,
)
from pystore.spark.source.partition import SplitPartition, read_partition
from pystore.spark.source.read_limits import (
    AvailableNow,
    ReadLimits,
    default_limit,
    limits_of,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit

    from pystore.spark.source.tail import FollowedStore, StoreSnapshot

__all__ = ["PystoreStreamReader"]

_log = logging.getLogger(__name__)


class PystoreStreamReader(AvailableNow, DataSourceStreamReader):
    """
    Follows stores on the driver, reads on the workers.

    Args:
        options: of the source.
        columns: wanted.
    """

    def __init__(self, options: SourceOptions, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._selection = Selection()
        if options.topics is not None:
            self._selection = self._selection.only_like(options.topics)
        self._followed: dict[str, FollowedStore] = {}
        self._initial: StreamOffsets | None = None
        self._targets: dict[str, int] | None = None
        self._reached: StreamOffsets | None = None

    # -- on the driver --------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's name
        """
        Where a query without a checkpoint begins.
        """
        # Spark asks several times, and must hear the same: the end moves.
        if self._initial is None:
            self._initial = {}
            for store in self._stores({}):
                with self._follow(store).snapshot() as snapshot:
                    self._initial[store] = self._start(snapshot)
            self._reached = self._reached or self._initial
        return format_offsets(self._initial)

    def latestOffset(  # noqa: N802  Spark's name
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """
        Where the next batch ends: always between two records.

        Args:
            start: where it begins; not told by PySpark 4.1.
            limit: what Spark wants at most; likewise.
        """
        begun = self._reached if start is None else parse_offsets(start)
        known = begun or {}
        reached = dict(known)
        with ExitStack() as stack:
            snapshots = {
                store: stack.enter_context(self._follow(store).snapshot())
                for store in self._stores(known)
                if self._targets is None or store in self._targets
            }
            begins = {
                store: snapshot.resume(known.get(store), fails=self._fails)
                for store, snapshot in snapshots.items()
            }
            limits = limits_of(limit, self._options.stream, len(snapshots))
            if begun is None:
                # PySpark 4.1 behind a restart: nobody says where the batch begins.
                limits = ReadLimits(len(snapshots))
            # The short ones first: what they leave is for the others.
            for store in sorted(
                snapshots, key=lambda one: self._top(snapshots[one]) - begins[one]
            ):
                snapshot, begin = snapshots[store], begins[store]
                position, records = self._admit(snapshot, begin, limits)
                limits = limits.without(position.offset - begin, records)
                # The same position must read the same: Spark compares texts.
                if store not in known or not (
                    position.offset == begin == known[store].offset
                ):
                    reached[store] = position
        self._reached = reached
        return format_offsets(reached)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        """
        The options, as Spark has them.
        """
        return default_limit(self._options.stream)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802  Spark's name
        """
        How far the stores reach, for the query's progress.
        """
        tops = {}
        for store in self._stores(self._reached or {}):
            with self._follow(store).snapshot() as snapshot:
                tops[store] = StreamOffset(snapshot.top)
        return format_offsets(tops)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """
        Remembers how far the stores reach now: the query goes no further.
        """
        self._targets = {}
        for store in self._stores({}):
            with self._follow(store).snapshot() as snapshot:
                self._targets[store] = snapshot.top

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        """
        What the tasks of one batch read.
        """
        begins, ends = parse_offsets(start), parse_offsets(end)
        self._reached = ends
        there = set(self._stores(ends))
        return [
            SplitPartition(split)
            for store, position in ends.items()
            if store in there and begins.get(store) != position
            for split in self._splits(store, begins.get(store), position)
        ]

    def stop(self) -> None:
        """
        Forgets what was seen. Nothing is open.
        """
        self._followed.clear()

    # -- on the workers -------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """
        The records of one partition.
        """
        return read_partition(partition, self._columns, self._selection, self._options)

    # -- one store ------------------------------------------------------------

    @property
    def _fails(self) -> bool:
        return self._options.fail_on_data_loss

    def _follow(self, store: str) -> FollowedStore:
        # Only the driver has the wheel for sure.
        from pystore.spark.source.tail import FollowedStore  # noqa: PLC0415

        if store not in self._followed:
            published = self._options.stream.published
            self._followed[store] = FollowedStore(Path(store), published=published)
        return self._followed[store]

    def _stores(self, known: Mapping[str, StreamOffset]) -> list[str]:
        """
        The stores that are there now.

        Raises:
            NotAStoreError: one is gone that the stream has read, or there is none.
        """
        found: dict[str, None] = {}
        for path in self._options.paths:
            try:
                found.update(dict.fromkeys(map(str, find_stores([path]))))
            except NotAStoreError as error:
                if self._fails or not known:
                    raise
                # It may come back: its position is kept.
                _log.warning("%s", error)
        gone = sorted(known.keys() - found.keys())
        if gone and self._fails:
            raise NotAStoreError(
                f"{gone[0]}: the stream has read it up to offset "
                f"{known[gone[0]].offset}, and it is no longer there: bring it back, "
                "or let the stream go on without it with failOnDataLoss=false",
                path=gone[0],
            )
        return list(found)

    def _start(self, snapshot: StoreSnapshot) -> StreamOffset:
        from pystore.spark.source.record_walk import first_from  # noqa: PLC0415

        starting = self._options.stream.starting
        if starting == "earliest":
            return snapshot.first()
        if starting == "latest":
            return snapshot.last(snapshot.min_offset, snapshot.top)
        return StreamOffset(first_from(snapshot.log, int(starting), snapshot.top))

    def _top(self, snapshot: StoreSnapshot) -> int:
        targets = self._targets
        return (
            snapshot.top
            if targets is None
            else min(snapshot.top, targets[snapshot.store])
        )

    def _admit(
        self, snapshot: StoreSnapshot, begin: int, limits: ReadLimits
    ) -> tuple[StreamOffset, int]:
        """
        Where one store's part of a batch ends, and how many records are counted.
        """
        from pystore.spark.source.record_walk import last_below, walk  # noqa: PLC0415

        log, end, top = snapshot.log, snapshot.end, self._top(snapshot)
        size, records = limits.share()
        below = top if size is None else min(top, begin + size)
        if records is not None:
            step = walk(log, begin, below, end, records)
        else:
            step = last_below(log, begin, below, end)
        if step.offset == begin and below < top:
            # One record is larger than that, and the stream must go on.
            step = walk(log, begin, top, end, 1)
        return snapshot.mark(step), step.records

    def _splits(
        self, store: str, begin: StreamOffset | None, position: StreamOffset
    ) -> list[Split]:
        """
        One store's part of a batch.
        """
        from pystore.spark.plan.splits import plan_range  # noqa: PLC0415
        from pystore.spark.source.record_walk import last_below  # noqa: PLC0415

        with self._follow(store).snapshot() as snapshot:
            first = snapshot.resume(begin, fails=self._fails)
            end = position.offset
            if not snapshot.holds(position):
                snapshot.resume(position, fails=self._fails)
                end = last_below(
                    snapshot.log, first, min(end, snapshot.end), snapshot.end
                ).offset
            return plan_range(
                Path(store),
                snapshot.log,
                self._options,
                self._selection.offsets(first, end),
                end,
                with_epochs="epochs" in needs_of(self._columns),
                record_at=first,
                generation=snapshot.generation,
            )
