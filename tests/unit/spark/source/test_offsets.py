"""
What a checkpoint of Spark keeps of a stream.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from pystore.errors import FormatError
from pystore.spark.source.offsets import StreamOffset, format_offsets, parse_offsets


def test_positions_come_back_as_they_were_and_their_text_is_stable() -> None:
    """
    In whatever order the stores were found: Spark compares texts.
    """
    one, other = StreamOffset(10), StreamOffset(2**40, 2**39, 0xFFFFFFFF)

    shown = format_offsets({"/b": other, "/a": one})

    assert json.dumps(shown) == json.dumps(format_offsets({"/a": one, "/b": other}))
    assert {"/a": one, "/b": other} == parse_offsets(json.loads(json.dumps(shown)))
    assert 1 == shown["version"]


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ({"version": 2, "stores": {}}, "have version 2, this pystore reads 1"),
        ({}, "have version None"),
        ({"version": 1}, "are not ours"),
        ({"version": 1, "stores": {"/a": 7}}, "are not ours"),
        ({"version": 1, "stores": {"/a": {"offset": "x"}}}, "are not ours"),
    ],
)
def test_offsets_of_another_program_are_refused(
    kept: dict[str, Any], said: str
) -> None:
    """
    A guess would lose records, or repeat them.
    """
    with pytest.raises(FormatError, match=said):
        parse_offsets(kept)
