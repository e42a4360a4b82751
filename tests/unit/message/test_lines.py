"""
Bytes become lines, and every line is there once.
"""

from __future__ import annotations

import io
import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystore.message.lines import Strings, read_lines, repeat, split_lines


def strings(column: Strings) -> list[bytes]:
    """
    Takes a column apart.
    """
    offsets, data = column
    assert 0 == offsets[0]
    assert len(data) == offsets[-1]
    return [data[start:end] for start, end in pairwise(offsets)]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\n\nb", [b"a", b"", b"b"]),
        (b"\n\n", [b"", b""]),
        (b"a\r\nb\0\n", [b"a\r", b"b\0"]),
    ],
)
def test_a_newline_ends_a_line_and_belongs_to_none(
    content: bytes, lines: list[bytes]
) -> None:
    """
    Blank lines are empty strings; bytes after the last newline are a line.
    """
    assert lines == strings(split_lines(content))


@given(content=st.lists(st.sampled_from([b"\n", b"x", b"yy\n"])), seed=st.integers())
def test_lines_do_not_depend_on_how_they_arrive(
    content: list[bytes], seed: int
) -> None:
    """
    Read in pieces of any size they are those of the whole.
    """
    stream, chance = io.BytesIO(b"".join(content)), random.Random(seed)
    found = [
        line
        for part in read_lines(lambda _: stream.read(chance.randint(1, 5)))
        for line in strings(part)
    ]

    assert strings(split_lines(b"".join(content))) == found


def test_an_incomplete_line_is_left_out_if_reading_was_stopped() -> None:
    """
    At the end of the input it is a line, after Ctrl-C it is not.
    """
    pieces = iter([b"a\nb", b"c\nd", None])

    assert [b"a", b"bc"] == [
        line for part in read_lines(lambda _: next(pieces)) for line in strings(part)
    ]


def test_a_value_is_repeated_as_a_column() -> None:
    """
    Also an empty one, also no times.
    """
    assert [b"ab"] * 3 == strings(repeat(b"ab", 3))
    assert [b""] * 2 == strings(repeat(b"", 2))
    assert [] == strings(repeat(b"ab", 0))
    assert np.int64 == repeat(b"ab", 1)[0].dtype
