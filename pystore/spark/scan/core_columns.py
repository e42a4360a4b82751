"""
Columns of texts and bytes, made by the core with one call for each column.

The arrays equal those of `pystore.spark.scan.python_columns`. The core fills memory of
Arrow's pool, which reuses the same pages for the next batch.
"""

from __future__ import annotations

from functools import cached_property
from struct import unpack_from
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pystore.bindings.ffi import RECORD_DTYPE, borrow, check, ffi, give_back, lib
from pystore.message.properties import KEYS, TAGS, UNIQUE_KEY
from pystore.spark.scan.python_columns import PythonColumns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pystore._core import CData

__all__ = ["CoreColumns"]

_MAPS = "properties"
# For each column of the table: the property, and the member of the struct.
_NAMED = {
    "keys": (KEYS, "keys"),
    "tags": (TAGS, "tags"),
    "uniqKey": (UNIQUE_KEY, "unique"),
}


class CoreColumns(PythonColumns):
    """
    The columns of one batch, made by the core.

    Args:
        rows: of ``RECORD_DTYPE``, at least one.
        data: from the first row's offset to the last row's end.
        wanted: names of the table's columns; only their properties are available.

    Raises:
        InvalidError: a record is outside these bytes.
    """

    def __init__(
        self, rows: NDArray[Any], data: memoryview, wanted: frozenset[str]
    ) -> None:
        super().__init__(rows, data, wanted)
        self._wanted = wanted
        self._count = len(rows)
        rows = np.ascontiguousarray(rows, RECORD_DTYPE)
        # cffi's pointers keep the memory alive; the struct keeps no pointer alive.
        self._memory = (
            ffi.from_buffer("ps_record[]", rows),
            ffi.from_buffer("uint8_t[]", data),
        )
        self._given = ffi.new(
            "ps_rows *",
            (*self._memory, len(data), int(rows["offset"][0]), self._count, 0),
        )
        self._sizes = ffi.new("ps_column_sizes *")
        self._call(lib.ps_rows_measure, self._sizes)

    def bodies(self) -> pa.Array:
        """
        Returns the bodies, binary.
        """
        made = _Made(self._count, self._sizes.body_bytes)
        self._call(lib.ps_rows_bodies, made.column())
        return made.array(pa.binary())

    def born_hosts(self) -> pa.Array:
        """
        Returns ``address:port`` of each client.
        """
        made = _Made(self._count, self._sizes.born_bytes)
        self._call(lib.ps_rows_hosts, lib.PS_HOST_BORN, made.column())
        return made.array(pa.string())

    def store_hosts(self) -> pa.Array:
        """
        Returns ``address:port`` of each broker.
        """
        made = _Made(self._count, self._sizes.store_bytes)
        self._call(lib.ps_rows_hosts, lib.PS_HOST_STORE, made.column())
        return made.array(pa.string())

    def ids(self) -> pa.Array:
        """
        Returns the message ids.
        """
        made = _Made(self._count, self._sizes.id_bytes)
        self._call(lib.ps_rows_ids, made.column())
        return made.array(pa.string())

    def maps(self) -> pa.Array:
        """
        Returns all properties of each record.
        """
        return self._found[_MAPS]

    def named(self, name: str) -> pa.Array:
        """
        Returns one property of each record; null: the record has none.
        """
        return self._found[name]

    @cached_property
    def _found(self) -> dict[str, pa.Array]:
        """
        The wanted properties of all records. The property strings are read once.
        """
        sizes, count = self._sizes, self._count
        columns = ffi.new("ps_property_columns *")
        made = {}
        for column, (name, member) in _NAMED.items():
            if column in self._wanted:
                made[name] = _Made(count, sizes.property_bytes, with_nulls=True)
                made[name].lend(getattr(columns, member))
        maps = _MadeMaps(count, sizes) if _MAPS in self._wanted else None
        if maps is not None:
            maps.lend(columns)
        self._call(lib.ps_rows_properties, columns)
        if not columns.is_utf8:
            return self._replaced()
        found = {name: one.array(pa.string()) for name, one in made.items()}
        if maps is not None:
            found[_MAPS] = maps.array()
        return found

    def _replaced(self) -> dict[str, pa.Array]:
        """
        The same by Python, if a string is not UTF-8. This is rare, so it may be slow.
        """
        named = super().named
        made = {name: named(name) for name, _ in _NAMED.values()}
        return {_MAPS: super().maps(), **made}

    def _call(self, function: Callable[..., int], *arguments: CData) -> None:
        scratch = borrow()
        status = function(self._given, *arguments, scratch.error)
        check(status, scratch.error)
        give_back(scratch)


class _Made:
    """
    Memory of a column that the core fills.
    """

    def __init__(self, count: int, capacity: int, *, with_nulls: bool = False) -> None:
        self._count = count
        self._offsets = _allocate(4 * (count + 1))
        self._bytes = _allocate(capacity + lib.PS_COLUMN_SLACK)
        self._present = _allocate((count + 7) // 8) if with_nulls else None

    def lend(self, column: CData) -> None:
        """
        Passes the memory to the core.
        """
        column.offsets = ffi.cast("int32_t *", self._offsets.address)
        column.bytes = ffi.cast("uint8_t *", self._bytes.address)
        column.capacity = self._bytes.size
        if self._present is not None:
            column.present = ffi.cast("uint8_t *", self._present.address)

    def column(self) -> CData:
        """
        Returns a struct with the memory.
        """
        column = ffi.new("ps_text_column *")
        self.lend(column)
        return column

    def array(self, kind: pa.DataType, count: int | None = None) -> pa.Array:
        """
        Returns the filled memory as an array of *count* values.
        """
        count = self._count if count is None else count
        (used,) = unpack_from("=i", self._offsets, 4 * count)
        _shrink(self._offsets, 4 * (count + 1))
        _shrink(self._bytes, used)
        return pa.Array.from_buffers(
            kind, count, [self._present, self._offsets, self._bytes]
        )


class _MadeMaps:
    """
    Memory of a column of maps that the core fills.
    """

    def __init__(self, count: int, sizes: CData) -> None:
        self._count = count
        self._entries_max = sizes.entries
        self._offsets = _allocate(4 * (count + 1))
        self._names = _Made(sizes.entries, sizes.property_bytes)
        self._values = _Made(sizes.entries, sizes.property_bytes)

    def lend(self, columns: CData) -> None:
        """
        Passes the memory to the core.
        """
        columns.maps = ffi.cast("int32_t *", self._offsets.address)
        columns.entries_max = self._entries_max
        self._names.lend(columns.names)
        self._values.lend(columns.values)

    def array(self) -> pa.Array:
        """
        Returns the filled memory as an array.
        """
        (entries,) = unpack_from("=i", self._offsets, 4 * self._count)
        texts = (one.array(pa.string(), entries) for one in (self._names, self._values))
        buffers = [None, self._offsets]
        at = pa.Array.from_buffers(pa.int32(), self._count + 1, buffers)
        return pa.MapArray.from_arrays(at, *texts)


def _allocate(size: int) -> pa.ResizableBuffer:
    return pa.allocate_buffer(size, resizable=True)


def _shrink(buffer: pa.ResizableBuffer, size: int) -> None:
    """
    Shrinks a buffer. Memory is given back only if more than half is unused.
    """
    buffer.resize(size, shrink_to_fit=size < buffer.size // 2)
