"""
What an ack says: how the log stands, and nothing else (R181). Pure.

Source: docs/protocol.md (K.3, TRANSFER_ACK), docs/crash-safety.md (A12).
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.ha.slave.effects import SlaveLog
from pystore.ha.wire.codes import AckFlag, AckStatus, DataFlag
from pystore.ha.wire.frames import TransferAck, TransferData

__all__ = [
    "FAR_BYTES",
    "REST_BYTES",
    "Echo",
    "confirmable",
    "health",
    "may_rest",
    "transfer_ack",
]


FAR_BYTES = 4 << 20
"""A slave that is so many bytes behind counts for nothing yet: no ack is urgent."""

REST_BYTES = 1 << 20
"""And then acks again when it has so many more."""

_ACK_NOW = int(DataFlag.ACK_NOW)


@dataclass(frozen=True, slots=True)
class Echo:
    """
    What the newest frame of the master said of itself, which acks repeat.

    Attributes:
        sent_ms: the master's clock when it was encoded.
        end_offset: of the master's log then.
    """

    sent_ms: int = 0
    end_offset: int = 0


def confirmable(log: SlaveLog, told: int) -> int | None:
    """
    Returns where the confirm offset goes when the master says *told*; ``None``: it
    stays, as it never goes back.
    """
    target = min(told, log.end_offset)
    return target if target > log.confirm_offset else None


def may_rest(told: TransferData, received_offset: int, acked_offset: int) -> bool:
    """
    Returns whether the ack of a block may wait for those behind it, which are on
    their way: each costs both ends as much as to move a hundred kilobytes.

    Args:
        told: the newest frame.
        received_offset: of the log, that frame's block included.
        acked_offset: what the newest ack said.
    """
    return (
        received_offset - acked_offset < REST_BYTES
        and told.end_offset - received_offset >= FAR_BYTES
        and len(told.block) > 0
        and not int(told.flags) & _ACK_NOW
    )


def health(log: SlaveLog) -> AckStatus:
    """
    Returns what ails a log that takes appends.
    """
    return AckStatus.POISONED if log.is_poisoned else AckStatus.OK


def transfer_ack(
    log: SlaveLog, session_id: int, echo: Echo, status: AckStatus, flags: AckFlag
) -> TransferAck:
    """
    Returns the ack of a log as it stands.
    """
    return TransferAck(
        session_id=session_id,
        received_offset=log.received_offset,
        flushed_offset=log.flushed_offset,
        confirm_offset=log.confirm_offset,
        echo_ms=echo.sent_ms,
        echo_end_offset=echo.end_offset,
        status=status,
        flags=flags,
    )
