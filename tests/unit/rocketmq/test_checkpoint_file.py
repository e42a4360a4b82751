"""
The checkpoint file against what RocketMQ wrote and read.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystore.errors import FormatError, InvalidError
from pystore.rocketmq.checkpoint_file import (
    CHECKPOINT_BYTES,
    CheckpointTimes,
    parse_checkpoint,
)

GOLDEN = Path(__file__).parents[2] / "golden"
CHECKPOINTS = json.loads((GOLDEN / "checkpoint" / "expected.json").read_text())


@pytest.mark.parametrize("case", CHECKPOINTS, ids=lambda case: case["file"])
def test_checkpoints_are_read_and_written_as_java_does(
    case: dict[str, int],
) -> None:
    """
    Five values, two minima, and the same 4096 bytes back.
    """
    content = (GOLDEN / "checkpoint" / str(case["file"])).read_bytes()
    times = parse_checkpoint(content)
    expected = CheckpointTimes(
        physic_ms=case["physicMsgTimestamp"],
        logics_ms=case["logicsMsgTimestamp"],
        index_ms=case["indexMsgTimestamp"],
        master_flushed_offset=case["masterFlushedOffset"],
        confirm_offset=case["confirmPhyOffset"],
    )
    assert expected == times
    assert case["minTimestamp"] == times.min_ms
    assert case["minTimestampIndex"] == times.min_index_ms
    assert content == times.encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes instead of 4096"),
        (bytes(4095), "4095 bytes instead of 4096"),
        (b"\xff" * CHECKPOINT_BYTES, "the value at byte 0 is negative"),
        (bytes(8) + b"\x80" + bytes(4087), "the value at byte 8 is negative"),
        (bytes(4095) + b"\x01", "byte 4095 is not zero"),
        (bytes(40) + b"\x01" + bytes(4055), "byte 40 is not zero"),
    ],
)
def test_the_error_of_a_bad_checkpoint_has_its_name_and_advice(
    content: bytes, message: str
) -> None:
    """
    An incomplete or damaged file is an error, and removing it is safe.
    """
    with pytest.raises(FormatError, match=message) as caught:
        parse_checkpoint(content, "/store/checkpoint")
    assert "move it away: recovery then reads the whole log" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_holds_no_negative_value() -> None:
    """
    A time or an offset below zero is an error of the caller.
    """
    with pytest.raises(InvalidError, match="a value is negative"):
        CheckpointTimes(physic_ms=-1)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_a_format_error_of_one_line(content: bytes) -> None:
    """
    No bytes raise another error.
    """
    text = ""
    try:
        parse_checkpoint(content)
    except FormatError as error:
        text = str(error)

    assert "\n" not in text
