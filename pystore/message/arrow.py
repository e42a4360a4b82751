"""
Arrow arrays, read in place through Arrow's C data interface.

Arrays of any library work: two C structs in capsules hold the addresses. Nothing is
copied, and pyarrow is not needed.

Source: the Arrow specification, "C data interface" and "PyCapsule interface".
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.ffi import ffi
from pystore.errors import InvalidError

__all__ = ["ArrowColumn", "is_arrow", "memory", "read_arrow"]

# length, null count, offset, number of buffers, of children, buffers
_ARRAY = struct.Struct("@qqqqqP")
_POINTER = struct.Struct("@P")

_capsule_pointer = ctypes.PYFUNCTYPE(
    ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p
)(("PyCapsule_GetPointer", ctypes.pythonapi))


class ArrowColumn(NamedTuple):
    """
    The memory of an Arrow array.

    Attributes:
        format: Arrow's format string.
        length: rows.
        offset: rows to skip in every buffer; a slice has some.
        nulls: which rows are null, or ``None`` if none is.
        buffers: addresses; 0: no buffer. The first is the validity bitmap.
        capsules: keep the memory alive.
    """

    format: str
    length: int
    offset: int
    nulls: NDArray[np.bool_] | None
    buffers: tuple[int, ...]
    capsules: object


def is_arrow(column: object) -> bool:
    """
    Whether *column* is an Arrow array of any library.
    """
    return hasattr(column, "__arrow_c_array__")


def memory(address: int, dtype: str, count: int) -> NDArray[Any]:
    """
    Returns *count* values at an address, without a copy; the owner must stay alive.
    """
    size = np.dtype(dtype).itemsize * count
    pointer = ffi.cast("uint8_t *", address)
    return np.frombuffer(ffi.buffer(pointer, size), dtype)


def read_arrow(name: str, array: Any) -> ArrowColumn:  # noqa: ANN401
    """
    Returns the memory of *array*.

    Args:
        name: of the column, for errors.
        array: has ``__arrow_c_array__``.

    Raises:
        InvalidError: dictionary-encoded or nested values.
    """
    schema, capsule = array.__arrow_c_array__()
    schema_at = _capsule_pointer(schema, b"arrow_schema")
    array_at = _capsule_pointer(capsule, b"arrow_array")
    (format_at,) = _POINTER.unpack(_bytes_at(schema_at, _POINTER.size))
    text = ffi.string(ffi.cast("char *", format_at)).decode()
    length, null_count, offset, buffer_count, children, buffers_at = _ARRAY.unpack(
        _bytes_at(array_at, _ARRAY.size)
    )
    if children:
        raise InvalidError(f"column {name}: Arrow type {text!r} is nested")
    addresses = struct.unpack(
        f"@{buffer_count}P", _bytes_at(buffers_at, buffer_count * _POINTER.size)
    )
    nulls = _nulls(text, length, offset, addresses) if null_count else None
    return ArrowColumn(text, length, offset, nulls, addresses, (schema, capsule))


def _nulls(
    text: str, length: int, offset: int, addresses: tuple[int, ...]
) -> NDArray[np.bool_] | None:
    if text == "n":  # the type of null values, which has no buffers
        return np.ones(length, bool)
    if not length or not addresses[0]:
        return None
    bits = memory(addresses[0], "u1", (offset + length + 7) // 8)
    valid = np.unpackbits(bits, count=offset + length, bitorder="little")
    nulls: NDArray[np.bool_] = valid[offset:] == 0
    return nulls if nulls.any() else None


def _bytes_at(address: int | None, size: int) -> bytes:
    return bytes(ffi.buffer(ffi.cast("uint8_t *", address or 0), size))
