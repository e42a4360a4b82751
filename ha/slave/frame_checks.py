"""
What a slave checks of a master's frames, before they change anything. Pure.

Source: docs/protocol.md (RMQ-K.3), RMQ-R182.
"""

from __future__ import annotations

from enum import Enum

from pystore.errors import RemoteViolation
from pystore.ha.slave.effects import SlaveLog
from pystore.ha.wire.frames import TransferData

__all__ = ["LinkPhase", "check_place", "expect"]


class LinkPhase(Enum):
    """
    What the slave waits for: from the master, or from its own log.
    """

    HANDSHAKE = "the answer to the handshake"
    PROMISE = "the promised epoch on disk"
    EPOCHS = "a page of epochs"
    CUT = "the cut on disk"
    QUEUES = "a page of queue offsets"
    BEGIN = "the begin of its log on disk"
    DATA = "data"


def expect(phase: LinkPhase, wanted: LinkPhase, what: str) -> None:
    """
    Raises:
        RemoteViolation: a frame came that the slave does not wait for.
    """
    if phase is not wanted:
        raise RemoteViolation(f"{what}, and the slave waits for {phase.value}")


def check_place(log: SlaveLog, body: TransferData) -> None:
    """
    Raises:
        RemoteViolation: a block begins elsewhere than the log ends, or ends behind the
            master's log.
    """
    if body.offset + len(body.block) > body.end_offset:
        raise RemoteViolation(
            f"a block of offsets {body.offset} to {body.offset + len(body.block)} "
            f"of a log that ends at offset {body.end_offset}"
        )
    if body.offset != log.received_offset:
        raise RemoteViolation(
            f"the block begins at offset {body.offset}, and the log ends at offset "
            f"{log.received_offset}"
        )
