"""
The epoch table in a legacy answer, both ways. Pure.

A Java master sends what its epoch file holds. It never appends an entry with the
start of the one before (R136), but a file may hold one, and one twice: an epoch
without bytes leaves no trace (R137), so the newer takes its place. Whatever else
does not ascend is no history.

Source: docs/protocol.md (formats 5.2, 6.4; R136, R137).
"""

from __future__ import annotations

from pystore.epochs import EpochTable
from pystore.errors import InvalidError, RemoteViolation
from pystore.ha.codes import LEGACY_EPOCH_MAX
from pystore.ha.wire.legacy import LegacyEpochs

__all__ = ["epochs_in_legacy", "table_of_legacy"]


def table_of_legacy(frame: LegacyEpochs) -> EpochTable:
    """
    Returns the table that a master sent.

    Entries above the master's end stay: `EpochTable.consistent_point` leaves them
    out of the comparison (R144).

    Raises:
        RemoteViolation: epochs or starts fall, or are negative; an epoch with two
            starts.
    """
    entries: list[tuple[int, int]] = []
    for epoch, start in frame.entries:
        if entries and (epoch, start) == entries[-1]:
            continue
        if entries and start == entries[-1][1] and epoch > entries[-1][0]:
            entries.pop()
        entries.append((epoch, start))
    try:
        return EpochTable.of(entries)
    except InvalidError as error:  # the peer's mistake, not our caller's
        raise RemoteViolation(f"the master's epochs: {error}") from error


def epochs_in_legacy(epochs: EpochTable, end_offset: int) -> LegacyEpochs:
    """
    Returns the answer to a legacy handshake.

    Args:
        epochs: the master's table. Entries above its end are left out (R144).
        end_offset: of the master's log.

    Raises:
        InvalidError: an epoch that no legacy frame can name; a set with a Java
            member must not get that far.
    """
    if epochs.last_epoch > LEGACY_EPOCH_MAX:
        raise InvalidError(
            f"epoch {epochs.last_epoch}: a legacy frame names up to {LEGACY_EPOCH_MAX}"
        )
    told = epochs.drop_above(end_offset)
    return LegacyEpochs(end_offset, told.last_epoch, tuple(told.pairs()))
