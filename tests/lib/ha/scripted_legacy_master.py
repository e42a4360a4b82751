"""
A Java master that says what a test wants, and the slave that listens to it.

Its log is ``BYTES``: epoch 1 up to 16, then epoch 3.
"""

from __future__ import annotations

from lib.ha.slave_owner import Owner, ShortLog
from pystore.epochs.table import EpochTable
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.effects import LeaveMaster
from pystore.ha.slave.protocol_legacy import LegacySlaveProtocol
from pystore.ha.wire.legacy import (
    LegacyData,
    LegacyEpochs,
    LegacyFrame,
    decode_ack,
    encode_legacy,
)

TERMS = SlaveConfig("cluster", "broker", 2)
BYTES = b"one.one.two.two.3333.333"
EPOCHS = LegacyEpochs(24, 3, ((1, 0), (3, 16)))


def data(
    offset: int, size: int = 8, label: tuple[int, int] | None = None
) -> LegacyData:
    """
    A block of the master's log; the last chunk of epoch 1 is labelled 3 (RMQ-R191).
    """
    block = BYTES[offset : offset + size]
    if label is None:
        label = (1, 0) if offset + size < 16 else (3, 16)
    return LegacyData(offset, *label, 24, block)


def history(*pairs: tuple[int, int]) -> EpochTable:
    """An epoch table."""
    return EpochTable.of(pairs)


class Master:
    """
    A Java master as the test has it, and the slave that listens to it.
    """

    def __init__(
        self, log: ShortLog | None = None, config: SlaveConfig = TERMS
    ) -> None:
        self.log = log if log is not None else ShortLog()
        self.owner = Owner(LegacySlaveProtocol(config), self.log)
        self.owner.connect()

    def say(self, *frames: LegacyFrame) -> None:
        """Sends frames, each on its own."""
        for frame in frames:
            self.owner.feed(encode_legacy(frame))

    def reports(self) -> list[int]:
        """What the slave reported."""
        acks = [decode_ack(memoryview(sent)) for sent in self.owner.sent[1:]]
        return [ack[0].offset for ack in acks if ack]

    def effects(self, kind: type) -> list[object]:
        """The effects of one kind."""
        return [effect for effect in self.owner.done if isinstance(effect, kind)]

    @property
    def closed(self) -> LeaveMaster:
        """How the link ended."""
        assert self.owner.closed is not None
        return self.owner.closed
