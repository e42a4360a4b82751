"""
Whether an epoch begins with a block. Pure.

An entry of the table is recorded with the first byte of its epoch, never later and
never moved (R152): bytes of an epoch whose beginning we do not hold cannot be put
behind ours. Only the first bytes of an empty log may lie inside their epoch.

Source: docs/protocol.md (K.3, TRANSFER_DATA), R191.
"""

from __future__ import annotations

from pystore.epochs.table import EpochEntry
from pystore.errors import InvalidError, RemoteViolation
from pystore.ha.slave.effects import SlaveLog
from pystore.ha.wire.codes import DataFlag
from pystore.ha.wire.frames import TransferData

__all__ = ["beginning_at", "beginning_with"]


def beginning_with(
    log: SlaveLog, body: TransferData, session_epoch: int
) -> EpochEntry | None:
    """
    As `beginning_at`, for a block of a v3 master, which says of which epoch it is.

    Args:
        log: ours, before the block.
        body: with a block; a heartbeat has no first byte, so nothing is recorded.
        session_epoch: no block is of a higher one.

    Raises:
        RemoteViolation: its bytes cannot stand behind ours.
    """
    if body.epoch > session_epoch:
        raise RemoteViolation(
            f"a block of epoch {body.epoch} in a session of epoch {session_epoch}"
        )
    if not body.flags and _goes_on(log, body):
        return None
    begins = DataFlag.EPOCH_BEGINS in body.flags
    if begins and body.epoch_start != body.offset:
        raise RemoteViolation(
            f"epoch {body.epoch} is said to begin at {body.offset} and at "
            f"{body.epoch_start}"
        )
    try:
        epoch = EpochEntry(body.epoch, body.epoch_start)
    except InvalidError as error:  # the peer's numbers, not ours
        raise RemoteViolation(f"the block at {body.offset}: {error}") from error
    return beginning_at(log, body.offset, epoch)


def _goes_on(log: SlaveLog, body: TransferData) -> bool:
    # What nearly every block does: its epoch is our last one.
    if not log.epochs.entries:
        return False
    last = log.epochs.entries[-1]
    is_last = body.epoch == last.epoch and body.epoch_start == last.start_offset
    return is_last and last.start_offset <= body.offset


def beginning_at(log: SlaveLog, offset: int, epoch: EpochEntry) -> EpochEntry | None:
    """
    Returns the entry that is to be durable before a block's first byte, ``None`` if
    the table has it.

    Args:
        log: ours, before the block.
        offset: where the block begins.
        epoch: the epoch of its first byte.

    Raises:
        RemoteViolation: its bytes cannot stand behind ours.
    """
    if epoch.start_offset > offset:
        raise RemoteViolation(
            f"the block at {offset} is named epoch {epoch.epoch}, which begins at "
            f"{epoch.start_offset}"
        )
    last = log.epochs.entries[-1] if log.epochs.entries else None
    if epoch == last:
        return None
    if last is not None and epoch.epoch <= last.epoch:
        raise RemoteViolation(
            f"the block at {offset} is of epoch {epoch.epoch} from "
            f"{epoch.start_offset}, ours ends with epoch {last.epoch} from "
            f"{last.start_offset}"
        )
    if epoch.start_offset != offset and not log.is_empty:
        raise RemoteViolation(
            f"epoch {epoch.epoch} began at {epoch.start_offset}, and the block that "
            f"names it first begins at {offset}"
        )
    return epoch
