"""
The acks of a slave: they report the state of the log, nothing else (RMQ-R181). Pure.

Source: docs/protocol.md (RMQ-K.3, TRANSFER_ACK), docs/crash-safety.md (A12).
"""

from __future__ import annotations

from typing import NamedTuple

from pystore.core.frame_step import FAR_BEHIND_BYTES, FrameLabel
from pystore.ha.slave.effects import SlaveLog
from pystore.ha.wire.codes import AckFlag, AckStatus, DataFlag
from pystore.ha.wire.frames import Frame, TransferAck, TransferData

__all__ = [
    "DELAYED_ACK_BYTES",
    "Echo",
    "label_of",
    "may_delay_ack",
    "next_confirm_offset",
    "status_of",
    "transfer_ack",
]


DELAYED_ACK_BYTES = 1 << 20
"""It then acks when it has this many more bytes."""

_ACK_NOW = int(DataFlag.ACK_NOW)


class Echo(NamedTuple):
    """
    Fields of the master's newest frame, which acks repeat.

    Attributes:
        sent_ms: the master's clock when it was encoded.
        end_offset: of the master's log then.
    """

    sent_ms: int = 0
    end_offset: int = 0


def label_of(frame: Frame, body: TransferData, frame_bytes_max: int) -> FrameLabel:
    """
    Returns what the frames after a block have, whose acks the core makes.
    """
    numbers = frame.epoch, body.epoch, body.epoch_start, body.session_id
    return FrameLabel(*numbers, frame_bytes_max)


def next_confirm_offset(log: SlaveLog, master_confirm: int) -> int | None:
    """
    Returns where the confirm offset moves for the master's *master_confirm*; ``None``:
    it stays, as it never moves back.
    """
    target = min(master_confirm, log.end_offset)
    return target if target > log.confirm_offset else None


def may_delay_ack(
    newest: TransferData, received_offset: int, acked_offset: int
) -> bool:
    """
    Returns whether the ack of a block may wait for the blocks that follow: an ack costs
    both ends as much as moving 100 KB.

    Args:
        newest: the newest frame.
        received_offset: of the log, that frame's block included.
        acked_offset: of the newest ack.
    """
    return (
        received_offset - acked_offset < DELAYED_ACK_BYTES
        and newest.end_offset - received_offset >= FAR_BEHIND_BYTES
        and len(newest.block) > 0
        and not int(newest.flags) & _ACK_NOW
    )


def status_of(log: SlaveLog) -> AckStatus:
    """
    Returns the ack status of a log that takes appends.
    """
    return AckStatus.POISONED if log.is_poisoned else AckStatus.OK


def transfer_ack(
    log: SlaveLog, session_id: int, echo: Echo, status: AckStatus, flags: AckFlag
) -> TransferAck:
    """
    Returns the ack for the state of a log.
    """
    ends = log.received_offset, log.flushed_offset, log.confirm_offset
    return TransferAck(session_id, *ends, *echo, status, flags)
