"""
Reads one split into Arrow batches. Runs on an executor.

The core reads the segment if it is installed. Otherwise Python reads the same rows
(`pystore.spark.scan.python_segment`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pystore.bindings.row import Check
from pystore.errors import CorruptError, CutError, OffsetOutOfRange
from pystore.fs.cut_history import read_cuts
from pystore.fs.layout import LIVE_NAME, META_NAME
from pystore.spark.plan.schema import BODY, Column, needs_of
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.split import Damaged, Split
from pystore.spark.scan.batches import BatchBuilder
from pystore.spark.scan.ill_segment import IllSegment, Segment
from pystore.spark.scan.python_columns import PythonColumns
from pystore.spark.scan.python_segment import PythonSegment

if TYPE_CHECKING:
    from pystore.spark.scan.core_segment import CoreSegment

__all__ = ["read_split"]

_BATCH_BYTES = 64 << 20
"""Most bytes of the log in one Arrow batch; a single record may be larger."""

_ADVICE = (
    "read with onDamage=report to list the damage, or with onDamage=skip to skip it; "
    "`pystore verify` reports details"
)

_log = logging.getLogger(__name__)


def read_split(
    split: Split,
    columns: Sequence[Column],
    selection: Selection,
    *,
    on_damage: str,
    rows_per_batch: int,
    fail_on_data_loss: bool = True,
) -> Iterator[pa.RecordBatch]:
    """
    Yields the records of a split.

    Checksums are checked if bodies are read. Otherwise only structure and embedded
    offsets are checked, because the bodies' bytes are not read.

    Args:
        split: what to read.
        columns: wanted.
        selection: of the query.
        on_damage: ``fail``, ``report`` or ``skip``.
        rows_per_batch: most rows in one batch.
        fail_on_data_loss: whether to fail if the log was cut or the segment deleted
            since the split was planned; else the missing records are skipped.

    Raises:
        CorruptError: the log is damaged, and ``on_damage`` is ``fail``.
        CutError, OffsetOutOfRange: records are missing, and ``fail_on_data_loss``.
        StorageError, NotAStoreError: the segment cannot be read.
    """
    reading = _Reading(columns, selection, on_damage, rows_per_batch)
    left: Split | None = split
    while left is not None:
        try:
            yield from _read(left, reading)
        except CutError as error:
            rest = _below_cut(left, reading.read_to)
            if rest is not None and rest.to_offset == left.to_offset:
                left = rest  # all cuts were above
                continue
            text = f"{split.store}: {error}"
            if fail_on_data_loss:
                # Spark shows only the text of an error.
                raise CutError(text, offset=error.offset, path=split.store) from error
            _log.warning("%s", text)
            left = rest
        except OffsetOutOfRange as error:
            if fail_on_data_loss:
                raise
            _log.warning("%s", error)
            return
        else:
            return


def _below_cut(split: Split, read_to: int | None) -> Split | None:
    """
    The rest of a split below the cuts since it was planned; ``None``: there is none.

    A stream goes on at the least of these cuts, so the records below are of this task.
    """
    cuts = read_cuts(Path(split.store, META_NAME, LIVE_NAME))
    if split.generation is None or cuts is None or not cuts.knows(split.generation):
        return None
    cut = cuts.least_since(split.generation)
    start = split.from_offset if read_to is None else read_to
    if cut is None or start >= cut:
        return None
    known = split.record_at if read_to is None else read_to
    return replace(
        split,
        from_offset=start,
        to_offset=min(cut, split.to_offset),
        end=min(cut, split.end),
        record_at=known,
        generation=cuts.up_to,
    )


@dataclass(slots=True)
class _Reading:
    """
    What is read, and how far.
    """

    columns: Sequence[Column]
    selection: Selection
    on_damage: str
    rows_per_batch: int
    read_to: int | None = None


def _read(split: Split, reading: _Reading) -> Iterator[pa.RecordBatch]:
    checks = _checks(reading.columns, reading.selection)
    if checks & Check.BODY and not _may_hold(split, reading):
        reading.read_to = split.to_offset
        return
    with _open_any(split, checks, reading.rows_per_batch) as segment:
        try:
            yield from _batches(segment, split, reading)
        except Exception:
            # If the log was cut, the cut is the cause of any other error.
            segment.unchanged()
            raise


def _may_hold(split: Split, reading: _Reading) -> bool:
    """
    Whether records of a split have a wanted store time: by the heads of all of them,
    before the bodies are read.
    """
    selection = reading.selection
    if selection.from_ms is None and selection.to_ms is None:
        return True
    times = Selection(from_ms=selection.from_ms, to_ms=selection.to_ms)
    with _open_any(split, Check.OFFSET, reading.rows_per_batch) as segment:
        for piece in segment.pieces():
            if isinstance(piece, Damaged):
                return True
            mask = times.mask(piece, segment.topic)
            if mask is None or mask.any():
                return True
        segment.unchanged()
    return False


def _batches(
    segment: Segment,
    split: Split,
    reading: _Reading,
) -> Iterator[pa.RecordBatch]:
    columns, selection = reading.columns, reading.selection
    on_damage = reading.on_damage
    batches = BatchBuilder(split, columns, segment.topic, _texts(segment))
    needs_bytes = "bytes" in needs_of(columns)
    for piece in segment.pieces():
        if isinstance(piece, Damaged):
            segment.unchanged()  # a cut is no damage
            if on_damage == "fail":
                raise CorruptError(
                    f"{split.path}: {piece.text} ({piece.size} bytes): {_ADVICE}",
                    offset=piece.offset,
                    path=split.path,
                )
            if on_damage == "report":
                yield batches.of_damage(piece)
            else:
                _log.warning(
                    "%s: skipped %d bytes at offset %d: %s",
                    split.store,
                    piece.size,
                    piece.offset,
                    piece.text,
                )
            continue
        for rows in _parts(piece, selection, segment):
            data = _data(rows, segment) if needs_bytes else None
            batch = batches.of(rows, data)
            segment.unchanged()
            yield batch
            reading.read_to = _end_of(rows)
        if len(piece):  # all rows of it may be behind the range
            reading.read_to = _end_of(piece)


def _end_of(rows: NDArray[Any]) -> int:
    return int(rows[-1]["offset"]) + int(rows[-1]["size"])


def _data(rows: NDArray[Any], segment: Segment) -> memoryview:
    first, last = rows[0], rows[-1]
    start = int(first["offset"])
    return segment.data(start, int(last["offset"]) + int(last["size"]) - start)


def _open_any(
    split: Split, checks: Check, rows: int
) -> CoreSegment | PythonSegment | IllSegment:
    if split.ill is None:
        return _open(split, checks, rows)
    return IllSegment(split, lambda part: _open(part, checks, rows))


def _open(split: Split, checks: Check, rows: int) -> CoreSegment | PythonSegment:
    try:
        from pystore.spark.scan.core_segment import CoreSegment  # noqa: PLC0415
    except ImportError:  # no wheel here, only Python files: slower
        return PythonSegment(split, checks, rows)
    return CoreSegment(split, checks, rows)


def _texts(segment: Segment) -> type[PythonColumns]:
    if isinstance(segment, IllSegment):
        return PythonColumns if segment.rest is None else _texts(segment.rest)
    if isinstance(segment, PythonSegment):
        return PythonColumns
    # The core read the segment, so it can make the columns.
    from pystore.spark.scan.core_columns import CoreColumns  # noqa: PLC0415

    return CoreColumns


def _checks(columns: Sequence[Column], selection: Selection) -> Check:
    needs = needs_of(columns)
    checks = Check.OFFSET
    if any(column.name == BODY for column in columns):
        checks |= Check.BODY | Check.PROPERTY
    if "topic" in needs or selection.needs_topics:
        checks |= Check.TOPIC
    if "tags" in needs:
        checks |= Check.TAGS
    return checks


def _parts(
    rows: NDArray[Any], selection: Selection, segment: Segment
) -> Iterator[NDArray[Any]]:
    """
    The rows that may be wanted, in parts that fit into a batch.
    """
    mask = selection.mask(rows, segment.topic)
    if mask is not None:
        rows = rows[mask]
    if not len(rows):
        return
    ends = (rows["offset"] + rows["size"]).astype(np.int64)
    first = 0
    while first < len(rows):
        limit = int(rows["offset"][first]) + _BATCH_BYTES
        last = max(first + 1, int(np.searchsorted(ends, limit, "right")))
        yield rows[first:last]
        first = last
