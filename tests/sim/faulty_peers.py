"""
Brokers that are other peers than the product's: each function changes the process in
which it is called.
"""

from __future__ import annotations

from lib.values import replace

from pystore.ha.slave.transport import MasterStream
from pystore.ha.wire.codes import FRAME_BYTES_MAX
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.frames import TransferAck
from pystore.ha.wire.v3 import encode

__all__ = ["acks_more_than_it_has"]

_MORE = 1 << 20
"""Above whatever is on its way to the slave: less could not be told from the truth."""


def acks_more_than_it_has() -> None:
    """
    A slave with a defect: its acks are above its end.
    """
    real = MasterStream.send

    def send(stream: MasterStream, data: bytes) -> None:
        real(stream, _inflated(data))

    MasterStream.send = send  # type: ignore[method-assign,assignment]


def _inflated(data: bytes) -> bytes:
    frame, _ = take_frame(memoryview(data), FRAME_BYTES_MAX)
    if frame is None or not isinstance(frame.body, TransferAck):
        return data
    end = frame.body.received_offset + _MORE
    body = replace(frame.body, received_offset=end, flushed_offset=end)
    return bytes(encode(replace(frame, body=body)))
