"""
Arrow arrays of any library are read where they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pystore.errors import InvalidError
from pystore.message.arrow import is_arrow, memory, read_arrow

pa: Any = pytest.importorskip("pyarrow", reason="one library that makes Arrow arrays")


def test_values_are_read_in_place() -> None:
    """
    The addresses are those of the array's own buffers.
    """
    array = pa.array([b"a", b"bc"], pa.binary())

    found = read_arrow("body", array)

    assert ("z", 2, 0, None) == found[:4]
    assert tuple(b.address if b else 0 for b in array.buffers()) == found.buffers
    assert [0, 1, 3] == memory(found.buffers[1], "=i4", 3).tolist()


def test_a_slice_has_the_number_of_rows_to_skip() -> None:
    """
    A slice of an Arrow array copies no byte.
    """
    found = read_arrow("body", pa.array([b"a", b"bc", b"d"], pa.binary()).slice(1, 2))

    assert (2, 1) == (found.length, found.offset)


@pytest.mark.parametrize("start", range(12))
def test_nulls_are_found_after_any_offset(start: int) -> None:
    """
    The validity bits of a slice begin in the middle of a byte.
    """
    values = [None if row % 3 == 1 else row for row in range(20)]

    found = read_arrow("flags", pa.array(values, pa.int32()).slice(start))

    nulls = found.nulls
    assert nulls is not None
    assert [value is None for value in values[start:]] == nulls.tolist()


def test_an_array_without_nulls_has_no_null_mask() -> None:
    """
    A validity bitmap without a zero bit has no nulls.
    """
    array = pa.array([1, None, 2], pa.int32()).slice(2)

    assert read_arrow("flags", array).nulls is None


def test_an_array_of_nulls_alone_is_all_null() -> None:
    """
    Arrow has a type whose values have no memory.
    """
    nulls = read_arrow("body", pa.nulls(3)).nulls

    assert nulls is not None
    assert [True] * 3 == nulls.tolist()


def test_memory_lives_as_long_as_its_capsules() -> None:
    """
    The caller may drop the array.
    """
    found = read_arrow("body", pa.array(np.arange(100_000, dtype=np.int64)))

    values = memory(found.buffers[1], "=i8", found.length)
    assert np.array_equal(np.arange(100_000), values)


def test_nested_values_are_refused() -> None:
    """
    A list of messages in a row is no message.
    """
    with pytest.raises(InvalidError, match=r"column body: Arrow type .* is nested"):
        read_arrow("body", pa.array([[b"a"], [b"b"]]))


def test_only_an_object_with_the_interface_is_arrow() -> None:
    """
    Numpy arrays and lists are not.
    """
    assert is_arrow(pa.array([1]))
    assert not is_arrow(np.zeros(1))
    assert not is_arrow([1])
