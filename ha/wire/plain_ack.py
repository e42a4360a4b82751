"""
The ack of a link that is in step, taken with one look. Pure.

While an `all` waits for an ack, nearly all of its fields are those of the acks before.
Every other frame is left to `pystore.ha.wire.decoder`, which says what is wrong with
it. The slave's end is `pystore.core.frame_step`.

Source: docs/protocol.md (RMQ-K.3, TRANSFER_ACK).
"""

from __future__ import annotations

from pystore.ha.wire.codes import FrameType
from pystore.ha.wire.v3 import ACK_BYTES, ACK_FRAME

__all__ = ["PlainAck", "plain_ack"]

_ACK = int(FrameType.TRANSFER_ACK)

PlainAck = tuple[int, int, int]
"""Received offset, flushed offset, echo of the end."""


def plain_ack(data: memoryview, epoch: int, session_id: int) -> PlainAck | None:
    """
    Returns the offsets of the ack at the front, if it has status OK and no flag.

    Args:
        data: the received bytes.
        epoch: of the session.
        session_id: of the handshake.
    """
    if len(data) < ACK_BYTES:
        return None
    words = ACK_FRAME.unpack_from(data)
    size, kind, _, its_epoch, its_session, received, flushed, _, _, *words = words
    echo_end_offset, status, flags = words
    found = size, kind, its_epoch, its_session, status, flags
    if found != (ACK_BYTES, _ACK, epoch, session_id, 0, 0):
        return None
    return received, flushed, echo_end_offset
