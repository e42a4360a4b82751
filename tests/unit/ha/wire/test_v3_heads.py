"""
The head of a block is the one that the codec of whole frames makes.
"""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from lib.ha.wire_frames import frames

from pystore.errors import InvalidError
from pystore.ha.wire.frames import Frame, TransferData
from pystore.ha.wire.v3 import data_head, encode_head


@given(frames.filter(lambda frame: isinstance(frame.body, TransferData)))
def test_the_head_of_a_block_is_the_one_of_its_frame(frame: Frame) -> None:
    """
    The short way is the long one, but for a checksum, which is put in later.
    """
    body = frame.body
    assert isinstance(body, TransferData)
    head = data_head(
        epoch=frame.epoch,
        sent_ms=frame.sent_ms,
        label=(body.epoch, body.epoch_start),
        confirm_offset=body.confirm_offset,
        block=(body.offset, len(body.block)),
        end_offset=body.end_offset,
        session_id=body.session_id,
        flags=body.flags,
    )

    plain = dataclasses.replace(body, crc=0)
    assert head == encode_head(dataclasses.replace(frame, body=plain), len(body.block))


def test_a_head_names_no_block_that_fits_into_no_frame() -> None:
    """
    Our own mistake, named by where the block begins.
    """
    with pytest.raises(InvalidError, match="a block of 2147483647 bytes at 7"):
        data_head(
            epoch=1,
            sent_ms=0,
            label=(1, 0),
            confirm_offset=0,
            block=(7, 2**31 - 1),
            end_offset=0,
            session_id=1,
            flags=0,
        )
