"""
The checkpoint file against what RocketMQ wrote and read.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

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
        (bytes(40) + b"\x80" + bytes(4055), "the value at byte 40 is negative"),
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


def test_the_queue_offset_of_rocketmq_5_5_is_read_and_written() -> None:
    """
    The sixth field, at byte 40, is an offset in the log.
    """
    content = bytes(40) + (14155).to_bytes(8, "big") + bytes(4048)

    times = parse_checkpoint(content)

    assert CheckpointTimes(logics_offset=14155) == times
    assert content == times.encode()
    assert "" == times.note


@given(st.binary(max_size=CHECKPOINT_BYTES - 48))
def test_bytes_behind_the_known_fields_are_kept_and_named(rest: bytes) -> None:
    """
    Another version of RocketMQ has more fields: they are written as they were read.
    """
    content = (bytes(48) + rest).ljust(CHECKPOINT_BYTES, b"\0")

    times = parse_checkpoint(content)

    assert content == times.encode()
    assert content == times.limited(0, 0).encode()
    assert any(rest) == bool(times.note)


def test_a_note_names_the_range_of_the_unknown_bytes() -> None:
    """
    It begins at the first byte that is not zero.
    """
    times = parse_checkpoint(bytes(50) + b"\x07\0\x07" + bytes(4043))

    assert times.note.startswith("bytes 50 to 53 of checkpoint are fields of another")


def test_a_pickle_of_five_fields_is_read() -> None:
    """
    Values that an older build stored have the newer fields as zero.
    """
    times: Any = object.__new__(CheckpointTimes)

    times.__setstate__([1, 2, 3, 4, 5])

    assert CheckpointTimes(1, 2, 3, 4, 5) == times
    assert times == pickle.loads(pickle.dumps(times))


def test_a_cut_limits_the_queue_offset() -> None:
    """
    No entry of a record above the end is flushed.
    """
    assert 100 == CheckpointTimes(logics_offset=500).limited(0, 100).logics_offset
