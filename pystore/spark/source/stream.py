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
from pystore.spark.plan.requested import requested_rows
from pystore.spark.plan.schema import Column, needs_of
from pystore.spark.plan.split import Split
from pystore.spark.source.offsets import (
    StreamOffset,
    StreamOffsets,
    format_offsets,
    parse_offsets,
)
from pystore.spark.source.partition import pack_splits, read_partition
from pystore.spark.source.read_limits import (
    AvailableNow,
    ReadLimits,
    default_limit,
    limits_of,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit

    from pystore.spark.source.followed_log import FollowedLog
    from pystore.spark.source.record_walk import WalkStep
    from pystore.spark.source.replicas import LogReplicas
    from pystore.spark.source.tail import StoreSnapshot

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
        self._selection = requested_rows(options)
        self._followed: dict[LogReplicas, FollowedLog] = {}
        self._initial: StreamOffsets | None = None
        self._targets: dict[str, int] | None = None
        self._reached: StreamOffsets | None = None

    # -- on the driver --------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's name
        """
        The start of a query without a checkpoint.
        """
        # Only the driver needs the wheel.
        from pystore.spark.source.starting import starting_offset  # noqa: PLC0415

        # Spark calls this several times, and needs the same answer each time.
        if self._initial is None:
            self._initial = {}
            for key, log in self._logs({}).items():
                with log.store(None).snapshot() as snapshot:
                    self._initial[key] = starting_offset(
                        snapshot, log.names, self._options.stream
                    )
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
                key: stack.enter_context(log.store(known.get(key)).snapshot())
                for key, log in self._logs(known).items()
                if self._targets is None or key in self._targets
            }
            begins = {
                key: snapshot.resume(known.get(key), fails=self._fails)
                for key, snapshot in snapshots.items()
            }
            limits = limits_of(limit, self._options.stream, len(snapshots))
            if begun is None:
                # PySpark 4.1 after a restart: the start of the batch is unknown.
                limits = ReadLimits(len(snapshots))
            tops = {key: self._top(key, one.top) for key, one in snapshots.items()}
            # Small stores first: their unused share goes to the others.
            for key in sorted(snapshots, key=lambda one: tops[one] - begins[one]):
                snapshot, begin = snapshots[key], begins[key]
                step = self._walk(snapshot, begin, tops[key], limits)
                limits = limits.without(step.offset - begin, step.records)
                # Equal offsets need equal JSON: Spark compares the texts.
                if key not in known or not step.offset == begin == known[key].offset:
                    reached[key] = snapshot.mark(step, begin, known.get(key))
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
        known = self._reached or {}
        for key, log in self._logs(known).items():
            with log.store(known.get(key)).snapshot() as snapshot:
                tops[key] = StreamOffset(snapshot.top)
        return format_offsets(tops)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """
        Notes the current ends of the stores: the query ends there.
        """
        self._targets = {}
        known = self._reached or {}
        for key, log in self._logs(known).items():
            with log.store(known.get(key)).snapshot() as snapshot:
                self._targets[key] = snapshot.top

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        """
        The partitions of one batch.
        """
        begins, ends = parse_offsets(start), parse_offsets(end)
        self._reached = ends
        logs = self._logs(ends)
        return pack_splits(
            split
            for key, stream_offset in ends.items()
            if key in logs and begins.get(key) != stream_offset
            for split in self._splits(logs[key], begins.get(key), stream_offset)
        )

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

    def _follow(self, replicas: LogReplicas) -> FollowedLog:
        # Only the driver needs the wheel.
        from pystore.spark.source.followed_log import FollowedLog  # noqa: PLC0415

        if replicas not in self._followed:
            published = self._options.stream.published
            self._followed[replicas] = FollowedLog(replicas, published=published)
        return self._followed[replicas]

    def _logs(self, known: Mapping[str, StreamOffset]) -> dict[str, FollowedLog]:
        """
        The logs that exist now, by key.

        Raises:
            NotAStoreError: a store that the stream has read is missing, or there is
                no store.
        """
        from pystore.spark.source.replicas import (  # noqa: PLC0415
            find_logs,
            with_known_keys,
        )

        named, absent = with_known_keys(
            find_logs(self._roots(known)),
            known,
            lambda log, position: self._follow(log).holds(position),
        )
        if absent and self._fails:
            missing = min(absent)
            raise NotAStoreError(
                f"{missing}: the stream has read this store up to offset "
                f"{known[missing].offset}, but the store is missing: restore it, or "
                "continue without it with failOnDataLoss=false",
                path=missing,
            )
        return {log.key: self._follow(log) for log in named}

    def _roots(self, known: Mapping[str, StreamOffset]) -> list[Path]:
        """
        The stores that exist now.
        """
        found: dict[Path, None] = {}
        for path in self._options.paths:
            try:
                found.update(dict.fromkeys(find_stores([path])))
            except NotAStoreError as error:
                if self._fails or not known:
                    raise
                # Its offset is kept: the store may appear again.
                _log.warning("%s", error)
        return list(found)

    def _top(self, key: str, top: int) -> int:
        return top if self._targets is None else min(top, self._targets[key])

    def _walk(
        self, snapshot: StoreSnapshot, begin: int, top: int, limits: ReadLimits
    ) -> WalkStep:
        """
        The end of one log's part of a batch.
        """
        from pystore.spark.source.record_walk import last_below, walk  # noqa: PLC0415

        log, end = snapshot.log, snapshot.walk_end(top)
        size, records = limits.share()
        below = top if size is None else min(top, begin + size)
        if records is not None:
            step = walk(log, begin, below, end, records)
        else:
            step = last_below(log, begin, below, end)
        if step.offset == begin and below < top:
            # One record is larger than the limit: the batch must hold it.
            step = walk(log, begin, top, end, 1)
        return step

    def _splits(
        self, log: FollowedLog, begin: StreamOffset | None, stream_offset: StreamOffset
    ) -> list[Split]:
        """
        The splits of one log's part of a batch.
        """
        from pystore.spark.plan.splits import plan_range  # noqa: PLC0415

        with log.store(stream_offset, begin).snapshot() as snapshot:
            first = snapshot.resume(begin, fails=self._fails)
            end = stream_offset.offset
            if not snapshot.holds(stream_offset):
                # The next batch begins at the fork: what was written since the cut
                # is not of this batch.
                end = snapshot.resume(stream_offset, fails=self._fails)
                if end <= first:
                    return []
            return plan_range(
                Path(snapshot.store),
                snapshot.log,
                self._options,
                self._selection.offsets(first, end),
                end,
                with_epochs="epochs" in needs_of(self._columns),
                record_at=first,
                generation=snapshot.generation,
            )
