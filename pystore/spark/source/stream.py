"""
``spark.readStream.format("pystore")``: stores that a query follows.

For each batch the driver opens a store, reads its end and closes it. The tasks of a
batch read like those of a batch query.
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
        The start of a query without a checkpoint.
        """
        # Spark calls this several times, and needs the same answer each time.
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
        The end of the next batch, always between two records.

        Args:
            start: of the batch; ``None`` in PySpark 4.1.
            limit: of the batch's size; ``None`` in PySpark 4.1.
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
                # PySpark 4.1 after a restart: the start of the batch is unknown.
                limits = ReadLimits(len(snapshots))
            # Small stores first: their unused share goes to the others.
            for store in sorted(
                snapshots, key=lambda one: self._top(snapshots[one]) - begins[one]
            ):
                snapshot, begin = snapshots[store], begins[store]
                stream_offset, records = self._admit(snapshot, begin, limits)
                limits = limits.without(stream_offset.offset - begin, records)
                # Equal offsets need equal JSON: Spark compares the texts.
                if store not in known or not (
                    stream_offset.offset == begin == known[store].offset
                ):
                    reached[store] = stream_offset
        self._reached = reached
        return format_offsets(reached)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        """
        The options as a limit of Spark.
        """
        return default_limit(self._options.stream)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802  Spark's name
        """
        The ends of the stores, for the query's progress.
        """
        tops = {}
        for store in self._stores(self._reached or {}):
            with self._follow(store).snapshot() as snapshot:
                tops[store] = StreamOffset(snapshot.top)
        return format_offsets(tops)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """
        Notes the current ends of the stores: the query ends there.
        """
        self._targets = {}
        for store in self._stores({}):
            with self._follow(store).snapshot() as snapshot:
                self._targets[store] = snapshot.top

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        """
        The partitions of one batch.
        """
        begins, ends = parse_offsets(start), parse_offsets(end)
        self._reached = ends
        there = set(self._stores(ends))
        return [
            SplitPartition(split)
            for store, stream_offset in ends.items()
            if store in there and begins.get(store) != stream_offset
            for split in self._splits(store, begins.get(store), stream_offset)
        ]

    def stop(self) -> None:
        """
        Forgets all stores. No file is open.
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
        # Only the driver needs the wheel.
        from pystore.spark.source.tail import FollowedStore  # noqa: PLC0415

        if store not in self._followed:
            published = self._options.stream.published
            self._followed[store] = FollowedStore(Path(store), published=published)
        return self._followed[store]

    def _stores(self, known: Mapping[str, StreamOffset]) -> list[str]:
        """
        The stores that exist now.

        Raises:
            NotAStoreError: a store that the stream has read is missing, or there is
                no store.
        """
        found: dict[str, None] = {}
        for path in self._options.paths:
            try:
                found.update(dict.fromkeys(map(str, find_stores([path]))))
            except NotAStoreError as error:
                if self._fails or not known:
                    raise
                # Its offset is kept: the store may appear again.
                _log.warning("%s", error)
        missing = sorted(known.keys() - found.keys())
        if missing and self._fails:
            raise NotAStoreError(
                f"{missing[0]}: the stream has read this store up to offset "
                f"{known[missing[0]].offset}, but the store is missing: restore it, or "
                "continue without it with failOnDataLoss=false",
                path=missing[0],
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
        The end of one store's part of a batch, and the number of its records.
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
            # One record is larger than the limit: the batch must hold it.
            step = walk(log, begin, top, end, 1)
        return snapshot.mark(step), step.records

    def _splits(
        self, store: str, begin: StreamOffset | None, stream_offset: StreamOffset
    ) -> list[Split]:
        """
        The splits of one store's part of a batch.
        """
        from pystore.spark.plan.splits import plan_range  # noqa: PLC0415
        from pystore.spark.source.record_walk import last_below  # noqa: PLC0415

        with self._follow(store).snapshot() as snapshot:
            first = snapshot.resume(begin, fails=self._fails)
            end = stream_offset.offset
            if not snapshot.holds(stream_offset):
                snapshot.resume(stream_offset, fails=self._fails)
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
