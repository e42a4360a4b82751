"""
The head of a block, apart from the block.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from lib.ha.wire_frames import data_frames

from pystore.errors import InvalidError
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.frames import Frame, TransferData
from pystore.ha.wire.v3 import data_head, encode


@given(data_frames)
def test_a_head_and_its_block_are_the_frame(frame: Frame) -> None:
    """
    Blocks go from their segment to the socket, not through the codec.
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
        crc=body.crc,
    )

    whole = memoryview(head + bytes(body.block))
    assert (frame, len(whole)) == take_frame(whole, len(whole))
    assert encode(frame) == whole


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
