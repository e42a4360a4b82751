"""
What a task does: one split to Arrow batches.

The core reads where it is installed; where it is not, Python does, with the same
rows (`pystore.spark.scan.python_segment`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pystore.bindings.row import Check
from pystore.errors import CorruptError, CutError, OffsetOutOfRange
from pystore.fs.layout import segment_path
from pystore.spark.plan.schema import BODY, Column, needs_of
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.split import Damaged, Split
from pystore.spark.scan.batches import BatchBuilder
from pystore.spark.scan.python_columns import PlainColumns
from pystore.spark.scan.python_segment import PlainSegment
from pystore.spark.scan.text_filter import rows_with

if TYPE_CHECKING:
    from pystore.spark.scan.core_segment import CoreSegment

__all__ = ["read_split"]

_BATCH_BYTES = 64 << 20
"""Of the log, in one Arrow batch; a single record may be larger."""

_ADVICE = (
    "read with onDamage=report to see what is damaged, or skip to pass over it; "
    "`pystore verify` says more"
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

    Checksums are checked where bodies are read; else only structure and embedded
    offsets are, since what nobody asked for is not read.

    Args:
        split: what to read.
        columns: wanted.
        selection: what can be wanted of the rows.
        on_damage: ``fail``, ``report`` or ``skip``.
        rows_per_batch: at most so many in one batch.
        fail_on_data_loss: whether it must fail where the log was cut or the segment
            deleted since the work was planned; else what is gone is passed over.

    Raises:
        CorruptError: damage, where it must fail.
        CutError, OffsetOutOfRange: what was planned is gone, likewise.
        StorageError, NotAStoreError: the segment cannot be read.
    """
    try:
        yield from _read(split, columns, selection, on_damage, rows_per_batch)
    except CutError as error:
        text = f"{split.store}: {error}"
        if fail_on_data_loss:
            # Spark shows the text alone.
            raise CutError(text, offset=error.offset, path=split.store) from error
        _log.warning("%s", text)
    except OffsetOutOfRange as error:
        if fail_on_data_loss:
            raise
        _log.warning("%s", error)


def _read(
    split: Split,
    columns: Sequence[Column],
    selection: Selection,
    on_damage: str,
    rows_per_batch: int,
) -> Iterator[pa.RecordBatch]:
    with _open(split, _checks(columns, selection), rows_per_batch) as segment:
        try:
            yield from _batches(segment, split, columns, selection, on_damage)
        except Exception:
            # Whatever it looks like: if the log was cut, that is what it is.
            segment.unchanged()
            raise


def _batches(
    segment: CoreSegment | PlainSegment,
    split: Split,
    columns: Sequence[Column],
    selection: Selection,
    on_damage: str,
) -> Iterator[pa.RecordBatch]:
    batches = BatchBuilder(split, columns, segment.topic, _texts(segment))
    needs_bytes = bool(selection.texts) or "bytes" in needs_of(columns)
    for piece in segment.pieces():
        if isinstance(piece, Damaged):
            segment.unchanged()  # or it is no damage
            if on_damage == "fail":
                path = str(segment_path(split.store, split.base))
                raise CorruptError(
                    f"{path}: {piece.text} ({piece.size} bytes): {_ADVICE}",
                    offset=piece.offset,
                    path=path,
                )
            if on_damage == "report":
                yield batches.of_damage(piece)
            else:
                _log.warning(
                    "%s: passed over %d bytes at offset %d: %s",
                    split.store,
                    piece.size,
                    piece.offset,
                    piece.text,
                )
            continue
        for rows in _parts(piece, selection, segment):
            data = _data(rows, segment) if needs_bytes else None
            wanted, data = _holding(rows, data, selection)
            if len(wanted):
                batch = batches.of(wanted, data)
                segment.unchanged()
                yield batch


def _data(rows: NDArray[Any], segment: CoreSegment | PlainSegment) -> memoryview:
    first, last = rows[0], rows[-1]
    start = int(first["offset"])
    return segment.data(start, int(last["offset"]) + int(last["size"]) - start)


def _holding(
    rows: NDArray[Any], data: memoryview | None, selection: Selection
) -> tuple[NDArray[Any], memoryview | None]:
    """
    The rows with the texts that are wanted, and their bytes.
    """
    for values in selection.texts:
        if data is None or not len(rows):
            break
        start = int(rows[0]["offset"])
        rows = rows_with(rows, data, values)
        if len(rows):
            last = rows[-1]
            end = int(last["offset"]) + int(last["size"])
            data = data[int(rows[0]["offset"]) - start : end - start]
    return rows, data


def _open(split: Split, checks: Check, rows: int) -> CoreSegment | PlainSegment:
    try:
        from pystore.spark.scan.core_segment import CoreSegment  # noqa: PLC0415
    except ImportError:  # no wheel here, only Python files: slower, and the same
        return PlainSegment(split, checks, rows)
    return CoreSegment(split, checks, rows)


def _texts(segment: CoreSegment | PlainSegment) -> type[PlainColumns]:
    if isinstance(segment, PlainSegment):
        return PlainColumns
    # Where a segment is the core's, so may its columns be.
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
    rows: NDArray[Any], selection: Selection, segment: CoreSegment | PlainSegment
) -> Iterator[NDArray[Any]]:
    """
    The rows that can be wanted, in parts that fit into a batch.
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
