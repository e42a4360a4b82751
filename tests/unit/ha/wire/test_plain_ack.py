"""
Acks in step: each is taken as the decoder would take it, or left to the decoder.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from lib.ha.wire_frames import ack_frames, frames

from pystore.ha.wire.codes import AckFlag, AckStatus
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.frames import Frame, TransferAck
from pystore.ha.wire.plain_ack import plain_ack
from pystore.ha.wire.v3 import ACK_BYTES, encode

ACK = TransferAck(99, 500, 400, 300, 1234, 600, AckStatus.OK, AckFlag(0))


def test_an_ack_in_step_is_three_offsets() -> None:
    """
    Whatever follows it in the buffer.
    """
    data = encode(Frame(7, 4321, ACK))
    assert len(data) == ACK_BYTES

    assert plain_ack(memoryview(data + b"more"), 7, 99) == (500, 400, 600)


def test_an_ack_that_says_more_is_left_to_the_decoder() -> None:
    """
    Another epoch or session, a status, a flag, a part of it.
    """
    data = memoryview(encode(Frame(7, 4321, ACK)))
    flagged = ACK._replace(flags=AckFlag.SUSPEND)
    full = ACK._replace(status=AckStatus.DISK_FULL)
    others = [encode(Frame(7, 4321, one)) for one in (flagged, full)]

    assert plain_ack(data, 8, 99) is None
    assert plain_ack(data, 7, 98) is None
    assert plain_ack(data[:-1], 7, 99) is None
    assert [plain_ack(memoryview(one), 7, 99) for one in others] == [None, None]


@given(ack_frames | frames, st.binary(max_size=100))
def test_what_is_taken_is_what_the_decoder_finds(frame: Frame, more: bytes) -> None:
    """
    For any frame with any bytes behind it.
    """
    body = frame.body
    data = memoryview(encode(frame) + more)
    epoch, session_id = frame.epoch, getattr(body, "session_id", 0)
    found = plain_ack(data, epoch, session_id)
    if found is None:
        return
    decoded, size = take_frame(data, len(data))

    assert size == ACK_BYTES
    assert isinstance(body, TransferAck)
    assert decoded == frame
    offsets = body.received_offset, body.flushed_offset, body.echo_end_offset
    assert found == offsets
