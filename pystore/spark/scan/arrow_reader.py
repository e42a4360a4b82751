"""
Stores as Arrow record batches, without Spark and without Java.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from pystore.errors import InvalidError
from pystore.spark.plan.arrow_schema import schema_of
from pystore.spark.plan.options import ON_DAMAGE, SourceOptions
from pystore.spark.plan.paths import find_stores
from pystore.spark.plan.requested import requested_columns, requested_rows
from pystore.spark.plan.schema import Column, needs_of
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.split import Split
from pystore.spark.plan.splits import plan_splits
from pystore.spark.scan.task import read_split
from pystore.stored_names import public

__all__ = ["arrow_reader"]

_ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)
_ROWS_PER_BATCH = 8192


@public
def arrow_reader(
    store: str | os.PathLike[str],
    *,
    columns: Iterable[str] | None = None,
    include_body: bool = False,
    topics: Iterable[str] | None = None,
    queue_ids: Iterable[int] | None = None,
    from_offset: int | None = None,
    to_offset: int | None = None,
    from_time: datetime | None = None,
    to_time: datetime | None = None,
    on_damage: str = "fail",
    rows_per_batch: int = _ROWS_PER_BATCH,
) -> pa.RecordBatchReader:
    """
    Returns the current records of a store as Arrow record batches, in offset order.

    The columns are those of ``format("pystore")`` in Spark. The store may be in use;
    records that are appended later are not read. The result has
    ``__arrow_c_stream__``: pandas, Polars and DuckDB take it as it is. It is read once,
    by one thread at a time.

    Args:
        store: root of the store, a glob over roots, or a ``file:`` URL.
        columns: names, in the wanted order; by default all but ``body``. Only these are
            read.
        include_body: whether the default includes ``body``, binary.
        topics: names or shell patterns; by default all.
        queue_ids: numbers of queues; by default all.
        from_offset: the least offset, in bytes of the log.
        to_offset: the end of the offsets, exclusive.
        from_time: the least store time; without a time zone it is in UTC.
        to_time: the end of the store times, exclusive.
        on_damage: ``fail``: a damaged record is an error. ``report``: it is a row, its
            problem in the column ``damage``. ``skip``: it is left out.
        rows_per_batch: most rows of one batch.

    Raises:
        InvalidError: an argument is invalid.
        NotAStoreError: the path is no store, or a glob matches none.
        StorageError: the system refused.
        CorruptError: while reading: the log is damaged.
        CutError, OffsetOutOfRange: while reading: records were cut or deleted.
    """
    options = SourceOptions(
        (os.fspath(store),),
        columns=None if columns is None else tuple(columns),
        include_body=include_body,
        from_offset=from_offset,
        to_offset=to_offset,
        topics=None if topics is None else tuple(topics),
        queues=None if queue_ids is None else frozenset(queue_ids),
        from_ms=_ms(from_time),
        to_ms=_ms(to_time),
        on_damage=on_damage,
        rows_per_batch=rows_per_batch,
    )
    return _reader(options)


def _reader(options: SourceOptions) -> pa.RecordBatchReader:
    if options.on_damage not in ON_DAMAGE:
        raise InvalidError(f"on_damage {options.on_damage!r}: use one of {ON_DAMAGE}")
    if options.rows_per_batch < 1:
        raise InvalidError(
            f"rows_per_batch {options.rows_per_batch}: use a number from 1 on"
        )
    wanted, rows = requested_columns(options), requested_rows(options)
    splits = plan_splits(
        find_stores(options.paths),
        options,
        rows,
        with_epochs="epochs" in needs_of(wanted),
    )
    return pa.RecordBatchReader.from_batches(
        schema_of(wanted), _batches(splits, wanted, rows, options)
    )


def _ms(time: datetime | None) -> int | None:
    if time is None:
        return None
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return -((_ORIGIN - aware) // timedelta(milliseconds=1))  # rounded up


def _batches(
    splits: Sequence[Split],
    columns: Sequence[Column],
    rows: Selection,
    options: SourceOptions,
) -> Iterator[pa.RecordBatch]:
    for split in splits:
        yield from read_split(
            split,
            columns,
            rows,
            on_damage=options.on_damage,
            rows_per_batch=options.rows_per_batch,
        )
