"""
Reads one split into Arrow batches. Runs on an executor.

The core reads the segment if it is installed. Otherwise Python reads the same rows
(`pystore.spark.scan.python_segment`).
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
from pystore.spark.plan.schema import BODY, Column, needs_of
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.split import Damaged, Split
from pystore.spark.scan.batches import BatchBuilder
from pystore.spark.scan.python_columns import PythonColumns
from pystore.spark.scan.python_segment import PythonSegment
from pystore.spark.scan.text_filter import rows_with

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
    try:
        yield from _read(split, columns, selection, on_damage, rows_per_batch)
    except CutError as error:
        text = f"{split.store}: {error}"
        if fail_on_data_loss:
            # Spark shows only the text of an error.
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
            # If the log was cut, the cut is the cause of any other error.
            segment.unchanged()
            raise


def _batches(
    segment: CoreSegment | PythonSegment,
    split: Split,
    columns: Sequence[Column],
    selection: Selection,
    on_damage: str,
) -> Iterator[pa.RecordBatch]:
    batches = BatchBuilder(split, columns, segment.topic, _texts(segment))
    needs_bytes = bool(selection.texts) or "bytes" in needs_of(columns)
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
            wanted, data = _holding(rows, data, selection)
            if len(wanted):
                batch = batches.of(wanted, data)
                segment.unchanged()
                yield batch


def _data(rows: NDArray[Any], segment: CoreSegment | PythonSegment) -> memoryview:
    first, last = rows[0], rows[-1]
    start = int(first["offset"])
    return segment.data(start, int(last["offset"]) + int(last["size"]) - start)


def _holding(
    rows: NDArray[Any], data: memoryview | None, selection: Selection
) -> tuple[NDArray[Any], memoryview | None]:
    """
    The rows that contain the wanted texts, and their bytes.
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


def _open(split: Split, checks: Check, rows: int) -> CoreSegment | PythonSegment:
    try:
        from pystore.spark.scan.core_segment import CoreSegment  # noqa: PLC0415
    except ImportError:  # no wheel here, only Python files: slower
        return PythonSegment(split, checks, rows)
    return CoreSegment(split, checks, rows)


def _texts(segment: CoreSegment | PythonSegment) -> type[PythonColumns]:
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
    rows: NDArray[Any], selection: Selection, segment: CoreSegment | PythonSegment
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
