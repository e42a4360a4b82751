"""
The offsets of a stream in Spark's checkpoint.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from pystore.errors import FormatError
from pystore.spark.source.offsets import StreamOffset, format_offsets, parse_offsets


def test_stream_offsets_are_read_as_written_and_their_json_is_stable() -> None:
    """
    In any order of the stores: Spark compares texts.
    """
    one, other = StreamOffset(10), StreamOffset(2**40, 2**39, 0xFFFFFFFF)

    shown = format_offsets({"/b": other, "/a": one})

    assert json.dumps(shown) == json.dumps(format_offsets({"/a": one, "/b": other}))
    assert {"/a": one, "/b": other} == parse_offsets(json.loads(json.dumps(shown)))
    assert 1 == shown["version"]


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (
            {"version": 2, "stores": {}},
            "have version 2, but this pystore reads version 1",
        ),
        ({}, "have version None"),
        ({"version": 1}, "are invalid"),
        ({"version": 1, "stores": {"/a": 7}}, "are invalid"),
        ({"version": 1, "stores": {"/a": {"offset": "x"}}}, "are invalid"),
    ],
)
def test_offsets_of_another_program_are_refused(
    kept: dict[str, Any], message: str
) -> None:
    """
    A guess would lose or repeat records.
    """
    with pytest.raises(FormatError, match=message):
        parse_offsets(kept)
