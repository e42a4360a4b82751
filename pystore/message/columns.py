"""
Columns to append: Arrow or numpy memory, without a copy.

A column of strings is data and offsets, as in Arrow. So Python does no work per
record for Arrow and numpy, and does not copy the bodies. `Columns` keeps the owners
of the memory alive until the append is done. The memory must not change meanwhile.

Missing values: a null body or number is an error, since its meaning is unknown. A
null key, tag or property string means that there is none, as an empty one does.

The core checks the values: sizes, separators, offsets that do not ascend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.ffi import ffi
from pystore.errors import InvalidError
from pystore.message.arrow import is_arrow, memory, read_arrow
from pystore.message.form import encode_topic
from pystore.stored_names import public

if TYPE_CHECKING:
    from pystore._core import CData

__all__ = ["Columns", "gather_columns"]

# Arrow's formats of strings, and the size of their offsets
_STRINGS = {"z": 4, "u": 4, "Z": 8, "U": 8}
_OFFSETS = {4: "=i4", 8: "=i8"}
_NUMBERS = {"c": "=i1", "C": "=u1", "s": "=i2", "S": "=u2", "i": "=i4", "l": "=i8"}

_NOWHERE = ffi.new("uint8_t[]", 8)
"""The address of columns without a byte: NULL means that a column is absent."""


@public
@dataclass(frozen=True, slots=True)
class Columns:
    """
    Messages of one topic, ready to be appended.

    Attributes:
        struct: the ``ps_columns``.
        count: messages.
        owners: of the memory of the struct; they must live as long as the struct.
    """

    struct: CData
    count: int
    owners: list[object]


class _Strings(NamedTuple):
    """
    A column of strings; ``offsets`` has one entry more than there are strings.
    """

    data: CData
    offsets: NDArray[Any]
    owner: object


@public
def gather_columns(
    topic: str,
    body: object,
    *,
    keys: object = None,
    tags: object = None,
    properties: object = None,
    queue_id: int = 0,
    queue_ids: object = None,
    born_ms: object = None,
    flags: object = None,
    sys_flag: int = 0,
) -> Columns:
    """
    Returns the messages in these columns, for one append.

    A column of strings (body, keys, tags, properties) is an Arrow array of
    binary or strings; a pair (offsets, data) of a numpy array of integers, one
    longer than the column, and a buffer; a numpy array of ``S`` or, with rows of
    equal size, of ``uint8`` in two dimensions; or a list of bytes. A column of
    numbers is an Arrow array, a numpy array or a list of integers.

    Args:
        topic: of all messages.
        body: one string of bytes per message.
        keys: the values of ``KEYS``; empty or null: no keys.
        tags: the values of ``TAGS``; empty or null: no tags.
        properties: raw property strings, to which keys and tags are added.
        queue_id: of all messages, unless there are *queue_ids*.
        queue_ids: 32-bit numbers.
        born_ms: 64-bit numbers or timestamps, ms since 1970.
        flags: 32-bit numbers.
        sys_flag: of all messages.

    Raises:
        InvalidError: a column of another type or length, or with nulls.
    """
    strings = {"body": _strings("body", body)}
    for name, column in (("keys", keys), ("tags", tags), ("properties", properties)):
        if column is not None:
            strings[name] = _strings(name, column)
    count = len(strings["body"].offsets) - 1
    numbers = {}
    for name, column, dtype in (
        ("queue_ids", queue_ids, "=i4"),
        ("born_ms", born_ms, "=i8"),
        ("flags", flags, "=i4"),
    ):
        if column is not None:
            numbers[name] = _numbers(name, column, dtype)
    for name, rows in (
        *((name, len(column.offsets) - 1) for name, column in strings.items()),
        *((name, len(values)) for name, values in numbers.items()),
    ):
        if rows != count:
            raise InvalidError(f"column {name} has {rows} rows, body has {count}")
    return _fill(
        encode_topic(topic),
        count,
        strings,
        numbers,
        queue_id=queue_id,
        sys_flag=sys_flag,
    )


def _fill(
    topic: bytes,
    count: int,
    strings: dict[str, _Strings],
    numbers: dict[str, NDArray[Any]],
    *,
    queue_id: int,
    sys_flag: int,
) -> Columns:
    width = max(column.offsets.itemsize for column in strings.values())
    topic_data = ffi.from_buffer("uint8_t[]", topic)
    owners: list[object] = [topic_data]
    columns = ffi.new("ps_columns *")
    try:
        columns.queue_id = queue_id
        columns.sys_flag = sys_flag
    except (OverflowError, TypeError) as error:  # what cffi raises
        text = f"queue_id {queue_id!r} or sys_flag {sys_flag!r} is no 32-bit number"
        raise InvalidError(text) from error
    columns.count = count
    columns.topic = topic_data
    columns.topic_size = len(topic)
    columns.offset_size = width
    for name, column in strings.items():
        offsets = np.ascontiguousarray(column.offsets, _OFFSETS[width])
        offsets_data = ffi.from_buffer("uint8_t[]", offsets)
        owners += (column, offsets_data)
        setattr(columns, f"{name}_data", column.data)
        setattr(columns, f"{name}_offsets", offsets_data)
    for name, values in numbers.items():
        kind = "int64_t[]" if values.itemsize == 8 else "int32_t[]"
        values_data = ffi.from_buffer(kind, values) if count else ffi.NULL
        owners.append(values_data)
        setattr(columns, name, values_data)
    return Columns(columns, count, owners)


def _strings(name: str, column: object) -> _Strings:
    if is_arrow(column):
        return _arrow_strings(name, column)
    if isinstance(column, tuple) and column and isinstance(column[0], np.ndarray):
        return _pair(name, column)
    if isinstance(column, np.ndarray):
        if column.dtype.kind == "S" and column.ndim == 1:
            return _padded(column)
        if column.dtype == np.uint8 and column.ndim == 2:
            return _rows(column)
        raise InvalidError(
            f"column {name}: numpy {column.dtype} in {column.ndim} dimensions is no "
            "column of bytes: pass S, rows of uint8, or (offsets, data)"
        )
    if hasattr(column, "__arrow_c_stream__"):
        kind = type(column).__name__
        raise InvalidError(
            f"column {name}: {kind} has several chunks: make one Arrow array of them"
        )
    if isinstance(column, Sequence) and not isinstance(column, str | bytes):
        return _list(name, column)
    kind = type(column).__name__
    raise InvalidError(f"column {name}: {kind} is no Arrow array, numpy array or list")


def _arrow_strings(name: str, column: object) -> _Strings:
    arrow = read_arrow(name, column)
    width = _STRINGS.get(arrow.format)
    if width is None:
        raise InvalidError(
            f"column {name}: Arrow type {arrow.format!r} is neither binary nor "
            "string, large or not: cast it first"
        )
    if arrow.length == 0:  # may have no offsets at all
        return _Strings(_NOWHERE, np.zeros(1, _OFFSETS[width]), None)
    _, offsets_at, data_at = arrow.buffers
    start = offsets_at + arrow.offset * width
    offsets = memory(start, _OFFSETS[width], arrow.length + 1)
    if arrow.nulls is not None:
        _check_nulls(name, arrow.nulls, offsets)
    data = ffi.cast("uint8_t *", data_at) if data_at else _NOWHERE
    return _Strings(data, offsets, arrow.capsules)


def _check_nulls(name: str, nulls: NDArray[np.bool_], offsets: NDArray[Any]) -> None:
    if name == "body":
        first, count = int(nulls.argmax()), int(nulls.sum())
        raise InvalidError(
            f"column body: row {first} is null, and {count} in all: a body may be "
            "empty but not missing"
        )
    # Arrow allows any bytes for a null; here they would become a value.
    if np.diff(offsets)[nulls].any():
        raise InvalidError(f"column {name}: bytes lie below a null: fill nulls first")


def _pair(name: str, column: tuple[Any, ...]) -> _Strings:
    if len(column) != 2:
        raise InvalidError(f"column {name}: {len(column)} parts, not (offsets, data)")
    offsets, data = column
    if offsets.dtype.kind not in "iu" or offsets.ndim != 1 or not len(offsets):
        raise InvalidError(
            f"column {name}: offsets of numpy {offsets.dtype} in {offsets.ndim} "
            "dimensions: they must be integers, one more than there are strings"
        )
    width = 4 if offsets.dtype.itemsize <= 4 and offsets.dtype.kind == "i" else 8
    offsets = offsets.astype(_OFFSETS[width], copy=False)
    try:
        owner = ffi.from_buffer("uint8_t[]", data)
    except (TypeError, ValueError, BufferError) as error:  # what cffi raises
        kind = type(data).__name__
        raise InvalidError(f"column {name}: {kind} is no buffer of bytes") from error
    # The core checks that offsets ascend, so the first and the last bound them all.
    if offsets[0] < 0 or offsets[-1] > len(owner):
        raise InvalidError(
            f"column {name}: offsets {offsets[0]} to {offsets[-1]} do not lie "
            f"within {len(owner)} bytes of data"
        )
    return _Strings(owner if len(owner) else _NOWHERE, offsets, owner)


def _padded(column: NDArray[Any]) -> _Strings:
    """
    Strings of ``S``; zeros at the end are padding, as in numpy.
    """
    width = column.dtype.itemsize
    rows = np.frombuffer(column.tobytes(), np.uint8).reshape(len(column), width)
    sizes = np.strings.str_len(column)
    if (sizes == width).all():
        return _rows(rows)
    data = rows[np.arange(width) < sizes[:, np.newaxis]]
    return _joined(data, sizes)


def _rows(column: NDArray[np.uint8]) -> _Strings:
    count, width = column.shape
    data = np.ascontiguousarray(column)
    offsets = np.arange(count + 1, dtype=np.int64) * width
    return _Strings(_place(data), offsets, data)


def _list(name: str, column: Sequence[Any]) -> _Strings:
    text = name in ("keys", "tags")
    values = [
        value.encode() if text and isinstance(value, str) else value for value in column
    ]
    if text:
        values = [b"" if value is None else value for value in values]
    try:
        data = np.frombuffer(b"".join(values), np.uint8)
        sizes = np.fromiter(map(len, values), np.int64, len(values))
    except TypeError as error:  # an item that is no buffer
        raise InvalidError(
            f"column {name}: its items must be bytes: {error}"
        ) from error
    if sizes.sum() != data.size:
        raise InvalidError(f"column {name}: an item is a buffer of more than bytes")
    return _joined(data, sizes)


def _joined(data: NDArray[np.uint8], sizes: NDArray[np.int64]) -> _Strings:
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return _Strings(_place(data), offsets, data)


def _place(data: NDArray[np.uint8]) -> CData:
    return ffi.from_buffer("uint8_t[]", data) if data.size else _NOWHERE


def _numbers(name: str, column: object, dtype: str) -> NDArray[Any]:
    values = _arrow_numbers(name, column) if is_arrow(column) else np.asarray(column)
    if values.dtype.kind == "M" and name == "born_ms":
        values = values.astype("M8[ms]").view(np.int64)
    if values.size == 0:
        values = values.astype(dtype)
    if values.dtype.kind not in "iu" or values.ndim != 1:
        raise InvalidError(
            f"column {name}: {values.dtype} in {values.ndim} dimensions are no integers"
        )
    exact = np.ascontiguousarray(values.astype(dtype, copy=False))
    if not np.array_equal(exact, values):
        raise InvalidError(f"column {name}: a number does not fit {np.dtype(dtype)}")
    return exact


def _arrow_numbers(name: str, column: object) -> NDArray[Any]:
    arrow = read_arrow(name, column)
    dtype = "=M8[ms]" if arrow.format.startswith("tsm:") else _NUMBERS.get(arrow.format)
    if dtype is None:
        raise InvalidError(f"column {name}: Arrow type {arrow.format!r} is no integer")
    if arrow.nulls is not None:
        raise InvalidError(f"column {name}: row {int(arrow.nulls.argmax())} is null")
    if arrow.length == 0:
        return np.zeros(0, dtype)
    start = arrow.buffers[1] + arrow.offset * np.dtype(dtype).itemsize
    return memory(start, dtype, arrow.length).copy()
