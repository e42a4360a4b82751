"""
Whether an epoch begins with a block. Pure.

An entry of the table is recorded with the first byte of its epoch, never later and
never moved (R152): bytes of an epoch whose beginning we do not hold cannot be put
behind ours. Only the first bytes of an empty log may lie inside their epoch.

Source: docs/protocol.md (K.3, TRANSFER_DATA), R191.
"""

from __future__ import annotations

from pystore.epochs import EpochEntry
from pystore.errors import RemoteViolation
from pystore.ha.slave.effects import SlaveLog

__all__ = ["beginning_at"]


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
