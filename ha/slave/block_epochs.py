"""
The epoch of a block from a Java master. Pure.

A Java master labels the last chunk of an epoch with the next epoch, whose start is
the end of the chunk (RMQ-R191), and an epoch that fits into one chunk is never named.
So a label that starts after the block names the next epoch. The epoch of the block is
the one that covers its first byte, in the table of the handshake and the labels that
were added to it.

Source: docs/protocol.md (formats 6.4).
"""

from __future__ import annotations

from pystore.epochs.table import EpochEntry, EpochTable
from pystore.errors import InvalidError, RemoteViolation

__all__ = ["BlockEpochs"]


class BlockEpochs:
    """
    The known epochs of one master.

    Args:
        epochs: the table of its handshake.
    """

    def __init__(self, epochs: EpochTable) -> None:
        self.epochs = epochs

    def epoch_of(self, offset: int, size: int, label: tuple[int, int]) -> EpochEntry:
        """
        Returns the epoch of a block's first byte.

        Args:
            offset: where the block begins.
            size: its bytes, at least one.
            label: (epoch, start offset) of its frame.

        Raises:
            RemoteViolation: an invalid label.
        """
        try:
            named = EpochEntry(*label)
            if named not in self.epochs.entries:
                self.epochs = self.epochs.append(*label)
        except InvalidError as error:  # the peer's numbers
            raise RemoteViolation(
                f"the label of the block at {offset}: {error}"
            ) from error
        if named.start_offset > offset and named.start_offset != offset + size:
            raise RemoteViolation(
                f"the block from {offset} to {offset + size} is labelled epoch "
                f"{named.epoch} from {named.start_offset}: a label is the epoch of "
                "the block or the one that follows it"
            )
        epoch = self.epochs.find(offset)
        if epoch is None:
            raise RemoteViolation(
                f"the block at {offset} belongs to no epoch: the master's first "
                f"begins at offset {self.epochs.entries[0].start_offset}"
            )
        if named.start_offset <= offset and named != epoch:
            raise RemoteViolation(
                f"the block at {offset} is labelled epoch {named.epoch}, and epoch "
                f"{epoch.epoch} began before it, at {epoch.start_offset}"
            )
        return epoch
