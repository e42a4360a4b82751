"""
Columns of every kind become the same records.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.store.logs import make_root, open_log

from pystore.bindings.ffi import ffi
from pystore.errors import InvalidError
from pystore.message.columns import Columns, gather_columns

BODIES = [b"one", b"", b"three", b"\0\0", b"five!"]


def _strings(columns: Columns, name: str) -> list[bytes]:
    """
    Reads a column of strings back out of the struct, as the core would.
    """
    struct = columns.struct
    kind = {4: "int32_t *", 8: "int64_t *"}[struct.offset_size]
    offsets = ffi.cast(kind, getattr(struct, f"{name}_offsets"))
    data = getattr(struct, f"{name}_data")
    return [
        bytes(ffi.buffer(data + offsets[row], offsets[row + 1] - offsets[row]))
        for row in range(struct.count)
    ]


def _pair(values: list[bytes], dtype: str = "=i4") -> tuple[Any, bytes]:
    return np.cumsum([0, *map(len, values)]).astype(dtype), b"".join(values)


@pytest.mark.parametrize("dtype", ["=i4", "=i8", "=u4", "=u2", ">i4", ">i8"])
def test_offsets_and_data_are_a_column(dtype: str) -> None:
    """
    Offsets may be integers of any kind.
    """
    columns = gather_columns("T", _pair(BODIES, dtype))

    assert BODIES == _strings(columns, "body")
    assert len(BODIES) == columns.count


def test_offsets_and_data_are_not_copied() -> None:
    """
    The core gets the memory of the caller.
    """
    offsets, data = _pair(BODIES)
    struct = gather_columns("T", (offsets, data)).struct

    assert int(ffi.cast("uintptr_t", struct.body_offsets)) == offsets.ctypes.data
    assert ffi.from_buffer("uint8_t[]", data) == struct.body_data


@pytest.mark.parametrize("kind", ["binary", "large_binary", "string", "large_string"])
def test_arrow_strings_are_a_column(kind: str) -> None:
    """
    Binary and string, with offsets of either size, in place, also sliced.
    """
    pa: Any = pytest.importorskip("pyarrow")
    array = pa.array([b"zero", *BODIES, b"six"], pa.binary()).cast(getattr(pa, kind)())
    array = array.slice(1, len(BODIES))

    columns = gather_columns("T", array)

    assert BODIES == _strings(columns, "body")
    data = array.buffers()[2].address
    assert data == int(ffi.cast("uintptr_t", columns.struct.body_data))


def test_columns_with_offsets_of_different_sizes_are_made_equal() -> None:
    """
    The core takes one size for all.
    """
    pa: Any = pytest.importorskip("pyarrow")
    columns = gather_columns(
        "T",
        pa.array(BODIES, pa.binary()),
        keys=pa.array(["a", None, "b", "", "c"], pa.large_string()),
        tags=["x", None, b"y", "", "z"],
        properties=_pair([b"p\x01q\x02"] * 5),
    )

    assert 8 == columns.struct.offset_size
    assert BODIES == _strings(columns, "body")
    assert [b"a", b"", b"b", b"", b"c"] == _strings(columns, "keys")
    assert [b"x", b"", b"y", b"", b"z"] == _strings(columns, "tags")
    assert [b"p\x01q\x02"] * 5 == _strings(columns, "properties")


@given(st.lists(st.binary(max_size=9).map(lambda body: body.rstrip(b"\0")), min_size=1))
def test_padded_numpy_strings_lose_their_padding(bodies: list[bytes]) -> None:
    """
    The zeros at the end of ``S`` values are numpy's, not the message's.
    """
    columns = gather_columns("T", np.array(bodies, dtype="S"))

    assert bodies == _strings(columns, "body")


@given(st.lists(st.binary(max_size=9)))
def test_lists_of_bytes_are_a_column(bodies: list[bytes]) -> None:
    """
    A list works as well as an array, also an empty one.
    """
    assert bodies == _strings(gather_columns("T", bodies), "body")


def test_rows_of_bytes_are_a_column() -> None:
    """
    Records of equal size come as a table, also as every second of its rows.
    """
    rows = np.arange(12, dtype=np.uint8).reshape(4, 3)

    assert [bytes(row) for row in rows] == _strings(gather_columns("T", rows), "body")
    every = gather_columns("T", rows[::2])
    assert [bytes(row) for row in rows[::2]] == _strings(every, "body")
    assert [b""] * 4 == _strings(gather_columns("T", rows[:, :0]), "body")


def test_numbers_may_be_lists_numpy_or_arrow() -> None:
    """
    They have the width that the core takes, or are refused.
    """
    pa: Any = pytest.importorskip("pyarrow")
    columns = gather_columns(
        "T",
        BODIES,
        queue_id=7,
        sys_flag=2,
        queue_ids=[1, 2, 3, 4, 5],
        born_ms=pa.array([0, 1000, 2, 3, 4, 5], pa.timestamp("ms")).slice(1),
        flags=np.array([-1, 2**31 - 1, 0, 1, 2], np.int64),
    )

    struct = columns.struct
    assert [1, 2, 3, 4, 5] == ffi.unpack(struct.queue_ids, 5)
    assert [1000, 2, 3, 4, 5] == ffi.unpack(struct.born_ms, 5)
    assert [-1, 2**31 - 1, 0, 1, 2] == ffi.unpack(struct.flags, 5)
    assert (7, 2) == (struct.queue_id, struct.sys_flag)
    times = np.array(["1970-01-01T00:00:01"] * 5, "M8[s]")
    other = gather_columns("T", BODIES, born_ms=times).struct
    assert [1000] * 5 == ffi.unpack(other.born_ms, 5)
    assert ffi.NULL == other.queue_ids
    assert ffi.NULL == other.flags
    assert ffi.NULL == other.keys_data


def test_columns_without_rows_are_columns() -> None:
    """
    An empty table of any kind is valid.
    """
    pa: Any = pytest.importorskip("pyarrow")
    bodies: Any = ([], pa.array([], pa.binary()), np.array([], "S3"), _pair([]))
    for body in bodies:
        columns = gather_columns("T", body, queue_ids=[], born_ms=pa.array([], "int64"))

        assert 0 == columns.count


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ({"body": "text"}, "column body: str is no Arrow array, numpy array or list"),
        ({"body": b"bytes"}, "column body: bytes is no Arrow array"),
        ({"body": ["text"]}, "column body: its items must be bytes"),
        ({"body": [None]}, "column body: its items must be bytes"),
        ({"body": [np.zeros(3)]}, "column body: an item is a buffer of m"),
        ({"body": np.zeros(3)}, "column body: numpy float64 in 1 dimensions"),
        ({"body": np.array(["a"])}, "column body: numpy <U1 in 1 dimensions"),
        ({"body": (np.zeros(1, int),)}, "column body: 1 parts, not (offsets, data)"),
        ({"body": (np.zeros(2), b"")}, "column body: offsets of numpy float64"),
        ({"body": (np.zeros(0, int), b"")}, "column body: offsets of numpy int64"),
        ({"body": (np.array([0, 5]), b"abcd")}, "column body: offsets 0 to 5 do not"),
        ({"body": (np.array([-1, 4]), b"abcd")}, "column body: offsets -1 to 4 do n"),
        ({"body": (np.array([0, 4]), "abcd")}, "column body: str is no buffer"),
        ({"keys": ["a", "b"]}, "column keys has 2 rows, body has 1"),
        ({"flags": [1, 2]}, "column flags has 2 rows, body has 1"),
        ({"flags": [2**31]}, "column flags: a number does not fit int32"),
        ({"flags": [1.5]}, "column flags: float64 in 1 dimensions are no integers"),
        ({"born_ms": [[1]]}, "column born_ms: int64 in 2 dimensions are no integers"),
        ({"queue_id": 2**31}, "queue_id 2147483648 or sys_flag 0 is no 32-bit number"),
        ({"topic": "a/b"}, "topic 'a/b' cannot name a folder of queues"),
    ],
)
def test_an_object_that_is_no_column_is_refused_in_one_line(
    columns: dict[str, Any], line: str
) -> None:
    """
    The error names the column, its type and the accepted types.
    """
    with pytest.raises(InvalidError) as info:
        gather_columns(**({"topic": "T", "body": [b""]} | columns))

    assert str(info.value).startswith(line)
    assert "\n" not in str(info.value)


def test_arrow_arrays_of_other_types_are_refused() -> None:
    """
    Nulls in bodies, other types and chunked arrays are named.
    """
    pa: Any = pytest.importorskip("pyarrow")
    binary = pa.array([b"a", None, None])
    for column, line in (
        (binary, "column body: row 1 is null, and 2 in all"),
        (pa.array([1]), "column body: Arrow type 'l' is neither binary nor string"),
        (pa.array(["a"]).dictionary_encode(), "column body: Arrow type 'i' is neither"),
        (pa.chunked_array([[b"a"], [b"b"]]), "column body: ChunkedArray has several c"),
    ):
        with pytest.raises(InvalidError) as info:
            gather_columns("T", column)
        assert str(info.value).startswith(line)
    with pytest.raises(InvalidError, match="column flags: row 1 is null"):
        gather_columns("T", [b"", b""], flags=pa.array([1, None], pa.int32()))
    with pytest.raises(InvalidError, match="column flags: Arrow type 'g' is no"):
        gather_columns("T", [b""], flags=pa.array([1.0]))


def test_bytes_below_a_null_are_not_taken_for_a_key() -> None:
    """
    Arrow allows any bytes there; the column is refused.
    """
    pa: Any = pytest.importorskip("pyarrow")
    offsets, data = pa.py_buffer(np.array([0, 1, 3], np.int32)), pa.py_buffer(b"abc")
    validity = pa.py_buffer(b"\x01")
    keys = pa.Array.from_buffers(pa.binary(), 2, [validity, offsets, data])

    with pytest.raises(InvalidError, match="column keys: bytes lie below a null"):
        gather_columns("T", [b"", b""], keys=keys)


def test_columns_keep_their_memory_until_the_append(tmp_path: Path) -> None:
    """
    Columns keep every buffer alive, also without another reference.
    """
    pa: Any = pytest.importorskip("pyarrow")
    bodies = [bytes([row % 251]) * 100 for row in range(1000)]
    columns = gather_columns(
        "T", pa.array(bodies), keys=[f"k{row}" for row in range(1000)]
    )
    gc.collect()
    waste = [pa.array([b"x" * 100] * 1000) for _ in range(8)]

    with open_log(make_root(tmp_path)) as log:
        appended = log.append_columns(columns)

        rows = np.concatenate(list(log.scan(0)))
        assert 1000 == appended.count == len(rows)
        assert bodies == [log.read(row["offset"].item()).body for row in rows]
        assert "k999" == log.read(rows[-1]["offset"].item()).keys
    assert 8 == len(waste)
