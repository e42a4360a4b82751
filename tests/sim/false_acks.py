"""
Acks above the end of a slave: a peer with a defect, on purpose.
"""

from __future__ import annotations

from dataclasses import replace

from pystore.ha.wire.codes import FRAME_BYTES_MAX
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.frames import TransferAck
from pystore.ha.wire.v3 import encode

__all__ = ["inflated_ack"]

_MORE = 1 << 20
"""Above whatever is on its way to the slave: less could not be told from the truth."""


def inflated_ack(data: bytes) -> bytes:
    """
    Returns a v3 frame as it is, or an ack of some bytes more.
    """
    frame, _ = take_frame(memoryview(data), FRAME_BYTES_MAX)
    if frame is None or not isinstance(frame.body, TransferAck):
        return data
    end = frame.body.received_offset + _MORE
    body = replace(frame.body, received_offset=end, flushed_offset=end)
    return bytes(encode(replace(frame, body=body)))
