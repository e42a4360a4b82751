"""
A row proves itself, and which record it is of.
"""

from __future__ import annotations

import pytest

from pystore.errors import FormatError
from pystore.records.lmdb_row import NO_HOLDER, Row


@pytest.mark.parametrize("row", [Row(1, NO_HOLDER, b""), Row(1 << 60, 7, b"value")])
def test_a_row_survives_encoding_and_decoding(row: Row) -> None:
    """
    Whatever the value.
    """
    assert row == Row.decode(b"key", row.encode(b"key"), "path")


def test_a_flipped_bit_is_seen_wherever_it_is() -> None:
    """
    In the proof, the numbers or the value.
    """
    stored = Row(3, 4, b"value").encode(b"key")
    for bit in range(8 * len(stored)):
        damaged = bytearray(stored)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError, match="the record 'key' is damaged"):
            Row.decode(b"key", bytes(damaged), "path")


@pytest.mark.parametrize("size", [0, 7, 8, 23])
def test_a_short_row_is_damaged(size: int) -> None:
    """
    It ends before its value begins.
    """
    with pytest.raises(FormatError):
        Row.decode(b"key", Row(3, 4, b"").encode(b"key")[:size], "path")


def test_the_row_of_another_key_is_refused() -> None:
    """
    A page that was mixed up is damage, too.
    """
    with pytest.raises(FormatError):
        Row.decode(b"other", Row(3, 4, b"value").encode(b"key"), "path")
