"""
Plans the splits that the tasks of a query read. Runs on the driver.

The end of a log is read once: from the live page, or by a scan of the newest segment.
A segment that cannot hold a wanted record gets no split.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path

from pystore.core.log_reader import LogReader
from pystore.core.options import LogOptions
from pystore.fs.layout import require_store
from pystore.spark.plan.options import SourceOptions
from pystore.spark.plan.record_head import read_record_head
from pystore.spark.plan.schema import Column, choose_columns, without_nulls
from pystore.spark.plan.segment_pruning import prunable_segments
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.split import Split
from pystore.spark.plan.store_files import read_epoch_table
from pystore.store.open_reader import binding_page, open_reader

__all__ = ["plan_range", "plan_splits", "requested_columns", "requested_rows"]

_STALE_MS = 3000


def plan_splits(
    stores: Iterable[Path],
    options: SourceOptions,
    selection: Selection,
    *,
    with_epochs: bool,
) -> list[Split]:
    """
    Returns the splits of all stores.

    Args:
        stores: roots of the stores.
        options: of the source.
        selection: of the query.
        with_epochs: whether a column needs the epochs of records.

    Raises:
        NotAStoreError, StorageError: a store cannot be read.
        FormatError: a needed epoch file cannot be read.
    """
    chosen = selection.offsets(options.from_offset, options.to_offset)
    splits: list[Split] = []
    for store in stores:
        log, generation = _open(store)
        with log:
            splits += plan_range(
                store,
                log,
                options,
                chosen,
                log.ends().published_end,
                with_epochs=with_epochs,
                generation=generation,
            )
    return splits


def _open(store: Path) -> tuple[LogReader, int | None]:
    """
    The log, and the generation of its cuts if there is a valid live page.
    """
    require_store(store)
    live = binding_page(store)
    if live is None:
        log, _ = open_reader(store, LogOptions())
        return log, None
    log = LogReader(store, LogOptions(), live)
    return log, log.ends().cut_generation


def plan_range(
    store: Path,
    log: LogReader,
    options: SourceOptions,
    chosen: Selection,
    end: int,
    *,
    with_epochs: bool,
    record_at: int | None = None,
    generation: int | None = None,
) -> list[Split]:
    """
    Returns the splits of one store.

    Args:
        store: root of the store.
        log: of the store, open.
        options: of the source.
        chosen: the selection, with the options' offsets.
        end: nothing above it is read.
        with_epochs: whether a column needs the epochs of records.
        record_at: the least wanted offset, if a record begins there.
        generation: of the log's cuts, if there is a valid live page.
    """
    size = log.ends().segment_size
    top = end if chosen.to_offset is None else min(end, chosen.to_offset)
    bases = [base for base in log.segments() if base < end]
    epochs = _epochs(store, end) if with_epochs else ()
    wanted = [
        base
        for base, following in zip_longest(bases, bases[1:])
        if base + size > chosen.from_offset
        and base < top
        and _may_hold(store, base, following, chosen)
    ]
    pruned = prunable_segments(store, size, wanted, end, chosen).bases
    splits = []
    for base in wanted:
        if base in pruned:
            continue
        start, stop = max(base, chosen.from_offset), min(base + size, top)
        known = record_at if record_at is not None and record_at >= base else None
        step = options.split_bytes or size
        for at in range(start, stop, step):
            piece = min(at + step, stop)
            splits.append(
                Split(
                    str(store),
                    base,
                    size,
                    at,
                    piece,
                    end,
                    epochs,
                    record_at=known,
                    generation=generation,
                )
            )
    return splits


def _may_hold(store: Path, base: int, following: int | None, chosen: Selection) -> bool:
    """
    Whether a segment may hold records of these store times.

    The first records of this segment and of the next one bound the store times, which
    go back by at most 3 s (A8). If a first record is damaged, the segment is read.
    """
    if chosen.to_ms is not None:
        first = _first_ms(store, base)
        if first is not None and first > chosen.to_ms + _STALE_MS:
            return False
    if chosen.from_ms is not None and following is not None:
        last = _first_ms(store, following)
        if last is not None and last < chosen.from_ms - _STALE_MS:
            return False
    return True


def _first_ms(store: Path, base: int) -> int | None:
    # A blank segment, or one that was deleted meanwhile, has no first record.
    found = read_record_head(store, base, base)
    return None if found is None else found.store_ms


def _epochs(store: Path, end: int) -> tuple[tuple[int, int, int], ...]:
    table = read_epoch_table(store)
    if table is None:
        return ()
    ranges = table.ranges(0, end)
    return tuple((one.epoch, one.start_offset, one.end_offset) for one in ranges)


def requested_columns(options: SourceOptions) -> tuple[Column, ...]:
    """
    Returns the columns of a table without a schema of the user.
    """
    with_damage = options.on_damage == "report"
    columns = choose_columns(
        options.columns, with_body=options.include_body, with_damage=with_damage
    )
    return without_nulls(columns, with_damage=with_damage)


def requested_rows(options: SourceOptions) -> Selection:
    """
    Returns the selection by the options' topics and times.
    """
    found = (
        Selection() if options.topics is None else Selection().only_like(options.topics)
    )
    to_ms = None if options.to_ms is None else options.to_ms - 1
    return found.times(options.from_ms, to_ms)
