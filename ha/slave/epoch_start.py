"""
Whether an epoch begins with a block. Pure.

An entry of the table is recorded with the first byte of its epoch, never later, and
never moves (RMQ-R152). So a slave cannot append bytes of an epoch whose begin it does
not hold. Only the first bytes of an empty log may lie inside their epoch.

Source: docs/protocol.md (RMQ-K.3, TRANSFER_DATA), RMQ-R191.
"""

from __future__ import annotations

from pystore.epochs.table import EpochEntry
from pystore.errors import InvalidError, RemoteViolation
from pystore.ha.slave.effects import SlaveLog
from pystore.ha.wire.codes import DataFlag
from pystore.ha.wire.frames import TransferData

__all__ = ["new_epoch_at", "new_epoch_of_block"]


def new_epoch_of_block(
    log: SlaveLog, body: TransferData, session_epoch: int
) -> EpochEntry | None:
    """
    As `new_epoch_at`, for a block of a v3 master, which names its epoch.

    Args:
        log: of the slave, before the block.
        body: with a block; a heartbeat has no first byte, so it records nothing.
        session_epoch: no block is of a higher one.

    Raises:
        RemoteViolation: its bytes cannot follow the slave's log.
    """
    if body.epoch > session_epoch:
        raise RemoteViolation(
            f"a block of epoch {body.epoch} in a session of epoch {session_epoch}"
        )
    if not body.flags and _is_in_last_epoch(log, body):
        return None
    begins = DataFlag.EPOCH_BEGINS in body.flags
    if begins and body.epoch_start != body.offset:
        raise RemoteViolation(
            f"epoch {body.epoch} begins at offset {body.offset} by its flag, and at "
            f"offset {body.epoch_start} by its label"
        )
    try:
        epoch = EpochEntry(body.epoch, body.epoch_start)
    except InvalidError as error:  # the peer's numbers
        raise RemoteViolation(f"the block at {body.offset}: {error}") from error
    return new_epoch_at(log, body.offset, epoch)


def _is_in_last_epoch(log: SlaveLog, body: TransferData) -> bool:
    # True of nearly every block: its epoch is the last one of the table.
    if not log.epochs.entries:
        return False
    last = log.epochs.entries[-1]
    is_last = body.epoch == last.epoch and body.epoch_start == last.start_offset
    return is_last and last.start_offset <= body.offset


def new_epoch_at(log: SlaveLog, offset: int, epoch: EpochEntry) -> EpochEntry | None:
    """
    Returns the entry that must be durable before a block's first byte; ``None``: the
    table has it.

    Args:
        log: of the slave, before the block.
        offset: where the block begins.
        epoch: the epoch of its first byte.

    Raises:
        RemoteViolation: its bytes cannot follow the slave's log.
    """
    if epoch.start_offset > offset:
        raise RemoteViolation(
            f"the block at offset {offset} is labelled epoch {epoch.epoch}, which "
            f"begins at offset {epoch.start_offset}"
        )
    last = log.epochs.entries[-1] if log.epochs.entries else None
    if epoch == last:
        return None
    if last is not None and epoch.epoch <= last.epoch:
        raise RemoteViolation(
            f"the block at offset {offset} belongs to epoch {epoch.epoch} from offset "
            f"{epoch.start_offset}; this log ends with epoch {last.epoch} from offset "
            f"{last.start_offset}"
        )
    if epoch.start_offset != offset and not log.is_empty:
        raise RemoteViolation(
            f"epoch {epoch.epoch} began at offset {epoch.start_offset}, and its first "
            f"block here begins at offset {offset}"
        )
    return epoch
