"""
A v3 master that says what a test wants, and the slave that listens to it.

Its log is ``BYTES``: epoch 1 up to 16, then epoch 3.
"""

from __future__ import annotations

from typing import Any

from lib.ha.slave_owner import Owner, ShortLog
from lib.values import replace
from pystore.epochs.table import EpochTable
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.effects import LeaveMaster
from pystore.ha.slave.protocol_v3 import V3SlaveProtocol
from pystore.ha.wire.codes import CheckResult, DataFlag, EpochsFlag, MasterFlag, State
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.frames import (
    Body,
    Frame,
    HandshakeMaster,
    ReturnEpoch,
    TransferData,
)
from pystore.ha.wire.v3 import encode

SESSION = 0x5E55
TERMS = SlaveConfig("cluster", "broker", 2, epoch=3, incarnation=7)
SHAKE = HandshakeMaster(
    result=CheckResult.SUCCESS,
    protocol=3,
    broker_id=1,
    session_id=SESSION,
    epoch_start=16,
    min_offset=0,
    end_offset=24,
    confirm_offset=16,
    segment_size=1 << 10,
    frame_bytes_max=1 << 20,
    heartbeat_ms=5_000,
    housekeeping_ms=20_000,
    flags=MasterFlag(0),
    redirect="",
    reason="",
)
EPOCHS = ReturnEpoch(SESSION, 0, 24, 2, EpochsFlag(0), ((1, 0, 16), (3, 16, 24)))
DATA = TransferData(
    epoch=3,
    epoch_start=16,
    confirm_offset=0,
    offset=0,
    end_offset=24,
    session_id=SESSION,
    crc=0,
    flags=DataFlag(0),
)
BYTES = b"one.one.two.two.3333.333"


def data(offset: int, size: int = 8, **changes: Any) -> TransferData:
    """A block of the master's log, labelled as its table says."""
    label = {"epoch": 1, "epoch_start": 0} if offset < 16 else {}
    block = BYTES[offset : offset + size]
    return replace(DATA, **{"offset": offset, "block": block, **label, **changes})


def history(*pairs: tuple[int, int]) -> EpochTable:
    """An epoch table."""
    return EpochTable.of(pairs)


class Master:
    """
    A master as the test has it, and the slave that listens to it.
    """

    def __init__(
        self, log: ShortLog | None = None, config: SlaveConfig = TERMS
    ) -> None:
        self.log = log if log is not None else ShortLog()
        self.owner = Owner(V3SlaveProtocol(config), self.log)
        self.owner.connect()

    def say(self, *bodies: Body, epoch: int = 3, sent_ms: int = 77) -> None:
        """Sends frames, each on its own."""
        for body in bodies:
            self.owner.feed(encode(Frame(epoch, sent_ms, body)))

    def say_at_once(self, *bodies: Body) -> None:
        """Sends frames in one piece."""
        self.owner.feed(b"".join(encode(Frame(3, 77, body)) for body in bodies))

    def heard(self) -> list[Frame]:
        """Every frame of the slave."""
        frames = []
        for sent in self.owner.sent:
            frame, size = take_frame(memoryview(sent))
            assert frame is not None
            assert len(sent) == size
            frames.append(frame)
        return frames

    def last(self) -> Any:
        """What the slave said last."""
        return self.heard()[-1].body

    @property
    def state(self) -> State:
        """Of the slave."""
        return self.owner.connection.state

    @property
    def closed(self) -> LeaveMaster:
        """How the link ended."""
        assert self.owner.closed is not None
        return self.owner.closed


def flowing(log: ShortLog | None = None, config: SlaveConfig = TERMS) -> Master:
    """A link in TRANSFER: the first heartbeat came."""
    master = Master(log, config)
    master.say(SHAKE, EPOCHS)
    end = len(master.log.data)
    master.say(replace(DATA, offset=end))
    assert master.state is State.TRANSFER
    return master
