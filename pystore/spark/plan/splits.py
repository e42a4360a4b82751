"""
Plans the splits that the tasks of a query read. Runs on the driver.

The end of a log is read once: from the live page, or by a scan of the newest segment.
A segment that cannot hold a wanted record gets no split.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pystore.core.log_reader import LogReader
from pystore.core.options import LogOptions
from pystore.epochs.table import EpochTable
from pystore.fs.layout import require_store
from pystore.spark.plan.options import SourceOptions
from pystore.spark.plan.segment_pruning import prunable_segments
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.split import Split
from pystore.spark.plan.store_files import read_epoch_table
from pystore.spark.plan.time_pruning import segments_of_times
from pystore.store.open_reader import binding_page, open_reader

__all__ = ["plan_range", "plan_splits"]


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
    options = LogOptions(serves_ill=True)
    if live is None:
        log, _ = open_reader(store, options)
        return log, None
    log = LogReader(store, options, live)
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
    ill = {
        one.offset - one.offset % size: (one.offset, one.reason)
        for one in log.ill()
        if one.offset - one.offset % size < end
    }
    # Also those that only the live page knows of; their records have no heads.
    bases = [base for base in log.segments() if base < end and base not in ill]
    table = read_epoch_table(store) if with_epochs else None
    timely = segments_of_times(store, bases, size, chosen, options.skew_ms)
    wanted = [
        base
        for base in sorted({*timely, *ill})
        if base + size > chosen.from_offset and base < top
    ]
    pruned: frozenset[int] = frozenset()
    if not ill:
        pruned = prunable_segments(store, size, wanted, end, chosen).bases
    splits = []
    for base in wanted:
        if base in pruned:
            continue
        start, stop = max(base, chosen.from_offset), min(base + size, top)
        known = record_at if record_at is not None and record_at >= base else None
        # What is missing from a segment is one damage, so it is in one split.
        step = size if base in ill else options.split_bytes or size
        for at in range(start, stop, step):
            piece = min(at + step, stop)
            epochs = _epochs(table, base, min(base + size, end))
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
                    ill=ill.get(base),
                )
            )
    return splits


def _epochs(
    table: EpochTable | None, start: int, end: int
) -> tuple[tuple[int, int, int], ...]:
    if table is None:
        return ()
    ranges = table.ranges(start, end)
    return tuple((one.epoch, one.start_offset, one.end_offset) for one in ranges)
