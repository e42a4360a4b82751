"""
A frame as a value: compared by what it says, and never changed.
"""

from __future__ import annotations

import inspect
from typing import get_args

import pytest
from lib.ha.wire_frames import EXAMPLES

from pystore.ha.wire import frames
from pystore.ha.wire.codes import FrameType


def test_every_type_of_frame_has_a_body_and_an_example() -> None:
    """
    What the examples prove is proven for all.
    """
    bodies = set(get_args(frames.Body))

    assert len(FrameType) == len(bodies)
    assert bodies == {type(frame.body) for frame, _ in EXAMPLES.values()}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_frame_cannot_be_changed(name: str) -> None:
    """
    What was decoded stays what the peer said.
    """
    frame, _ = EXAMPLES[name]
    for value in (frame, frame.body):
        field = next(iter(inspect.signature(type(value)).parameters))
        with pytest.raises(AttributeError):
            setattr(value, field, 0)


def test_a_query_asks_for_everything_unless_told_otherwise() -> None:
    """
    From the first epoch on, as many as fit.
    """
    assert frames.QueryEpoch(7, 0, 0) == frames.QueryEpoch(7)


def test_data_without_a_block_is_a_heartbeat() -> None:
    """
    Nothing has to be said about bytes that are not there.
    """
    frame, _ = EXAMPLES["data"]
    assert isinstance(frame.body, frames.TransferData)

    assert b"" == frames.TransferData._field_defaults["block"]
