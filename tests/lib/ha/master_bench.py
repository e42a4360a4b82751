"""
A master's log, a set of brokers, and slaves' frames, for tests of `pystore.ha.master`.
"""

from __future__ import annotations

from typing import Any

from lib.values import replace
from pystore.epochs.table import EpochTable
from pystore.ha.master.config import MasterConfig, SetView
from pystore.ha.master.effects import CloseLink, MasterEffect, MasterLog, SendBlock
from pystore.ha.master.proofs import SlaveProofs
from pystore.ha.master.protocol_legacy import LegacyMasterProtocol
from pystore.ha.master.protocol_v3 import V3MasterProtocol
from pystore.ha.wire.codes import (
    AckFlag,
    AckStatus,
    SlaveFlag,
    TruncateFlag,
    TruncateOutcome,
)
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.effects import Send
from pystore.ha.wire.frames import (
    Body,
    ConfirmTruncate,
    Frame,
    HandshakeMaster,
    HandshakeSlave,
    QueryEpoch,
    TransferAck,
    TransferData,
)
from pystore.ha.wire.legacy import (
    LegacyAck,
    LegacyData,
    LegacyEpochs,
    LegacyHandshake,
    decode_from_master,
    encode_legacy,
)
from pystore.ha.wire.v3 import encode

__all__ = [
    "BITS",
    "EMPTY",
    "EPOCH",
    "LOG",
    "ROSTER",
    "SESSION",
    "TERMS",
    "Bench",
    "LegacyBench",
    "ack",
    "answer",
    "confirmed",
    "content",
    "data_of",
    "frame_of",
    "frames_in",
    "legacy_of",
    "reason_of",
    "shake",
]

EPOCH = 4
SESSION = 77
BITS = bytes(range(16))

LOG = MasterLog(
    min_offset=0,
    end_offset=3000,
    flushed_offset=2900,
    confirm_offset=2800,
    epochs=EpochTable.of([(1, 0), (2, 1000), (EPOCH, 2500)]),
    segment_size=2048,
)
"""Three epochs; the first segment ends in the second one."""

TERMS = MasterConfig(
    cluster="c",
    broker_name="b",
    broker_id=1,
    epoch=EPOCH,
    segment_size=2048,
    legacy_block_bytes_max=700,
    wall_ms=1_000_000,
)
ROSTER = SetView(broker_ids=frozenset({1, 2, 3}), members=frozenset({1, 3}))
_PERIOD = bytes((n * 7 + n // 256) & 0xFF for n in range(1 << 16))


def content(offset: int, size: int) -> bytes:
    """
    Returns the bytes that a test's log holds there.
    """
    first = offset % len(_PERIOD)
    return (_PERIOD * ((first + size) // len(_PERIOD) + 1))[first : first + size]


def shake(**changes: Any) -> HandshakeSlave:
    """
    Returns the handshake of broker 2, which holds the log up to 1,500, but for
    *changes*.
    """
    honest = HandshakeSlave(
        protocol_min=3,
        protocol_max=3,
        broker_id=2,
        incarnation=5,
        last_epoch=2,
        min_offset=0,
        end_offset=1500,
        flushed_offset=1400,
        segment_size=2048,
        frame_bytes_max=1 << 20,
        flags=SlaveFlag(0),
        incarnation_bits=BITS,
        cluster="c",
        broker_name="b",
        address="127.0.0.1:10912",
        version="1.0",
    )
    return replace(honest, **changes)


def confirmed(**changes: Any) -> ConfirmTruncate:
    """
    Returns the confirmation of a slave that goes on at 1,500, but for *changes*.
    """
    honest = ConfirmTruncate(
        session_id=SESSION,
        epoch=2,
        point=1500,
        end_offset=1500,
        bytes_cut=0,
        start_offset=1500,
        outcome=TruncateOutcome.NOTHING_TO_CUT,
        flags=TruncateFlag(0),
    )
    return replace(honest, **changes)


EMPTY = confirmed(
    epoch=-1, point=-1, end_offset=0, start_offset=0, outcome=TruncateOutcome.EMPTY
)


def ack(received: int, flushed: int | None = None, **changes: Any) -> TransferAck:
    """
    Returns an ack that echoes the end of `LOG`, but for *changes*.
    """
    honest = TransferAck(
        session_id=SESSION,
        received_offset=received,
        flushed_offset=received if flushed is None else flushed,
        confirm_offset=0,
        echo_ms=0,
        echo_end_offset=LOG.end_offset,
        status=AckStatus.OK,
        flags=AckFlag(0),
    )
    return replace(honest, **changes)


class Bench:
    """
    A master's v3 connection, at hand for a test.

    Attributes:
        log: how the master's log stands.
        now_ms: the clock.
        set_view: what the connection finds when it asks.
        connection: the connection.
    """

    def __init__(
        self,
        config: MasterConfig = TERMS,
        set_view: SetView = ROSTER,
        proofs: SlaveProofs | None = None,
    ) -> None:
        self.proofs = proofs
        self.log = LOG
        self.now_ms = 0
        self.set_view = set_view
        self.connection = self._connect(config)

    def _connect(self, config: MasterConfig) -> V3MasterProtocol | LegacyMasterProtocol:
        return V3MasterProtocol(
            config, lambda: self.set_view, SESSION, self.now_ms, self.proofs
        )

    def hear(self, *bodies: Body, epoch: int = EPOCH) -> list[MasterEffect]:
        """
        Returns the effects of these frames.
        """
        raw = b"".join(encode(Frame(epoch, 0, body)) for body in bodies)
        return self.hear_bytes(raw)

    def hear_bytes(self, raw: bytes) -> list[MasterEffect]:
        """
        Returns the effects of bytes that came at once.
        """
        effects = []
        left = memoryview(raw)
        while taken := self.connection.receive(left, self.log, self.now_ms):
            left = left[taken:]
            effects += self.connection.effects()
        return effects + self.connection.effects()

    def opened(self, *bodies: Body) -> Bench:
        """
        Goes through the handshake, and returns itself.
        """
        self.hear(shake(), QueryEpoch(SESSION), *(bodies or (confirmed(),)))
        return self

    def blocks(self, bytes_max: int = 1 << 20) -> list[SendBlock]:
        """
        Returns everything that is sent now.
        """
        sent = []
        while block := self.connection.next_block(self.log, bytes_max, self.now_ms):
            sent.append(block)
        return sent

    def tick(self, after_ms: int = 0) -> list[MasterEffect]:
        """
        Lets time pass, and returns what follows.
        """
        self.now_ms += after_ms
        self.connection.tick(self.log, self.now_ms)
        return self.connection.effects()

    def grow(self, size: int) -> None:
        """
        Appends to the master's log.
        """
        self.log = replace(self.log, end_offset=self.log.end_offset + size)


class LegacyBench(Bench):
    """
    The same for a legacy connection.
    """

    def _connect(self, config: MasterConfig) -> LegacyMasterProtocol:
        return LegacyMasterProtocol(
            config, lambda: self.set_view, SESSION, self.now_ms, self.proofs
        )

    def say(self, *frames: LegacyHandshake | LegacyAck) -> list[MasterEffect]:
        """
        Returns the effects of these frames.
        """
        return self.hear_bytes(b"".join(encode_legacy(frame) for frame in frames))

    def following(self, offset: int = 1500) -> LegacyBench:
        """
        Goes through the handshake with a first report, and returns itself.
        """
        self.say(LegacyHandshake(2), LegacyAck(offset))
        return self


def frames_in(effects: list[MasterEffect]) -> list[Frame]:
    """
    Returns the v3 frames that effects send.
    """
    found = []
    for effect in effects:
        if isinstance(effect, Send):
            frame, _ = take_frame(memoryview(effect.data))
        elif isinstance(effect, SendBlock):
            frame = frame_of(effect)
        else:
            continue
        assert frame is not None
        found.append(frame)
    return found


def frame_of(block: SendBlock) -> Frame:
    """
    Returns the v3 frame that a block makes with the bytes of a test's log.
    """
    raw = block.head + content(block.offset, block.size)
    frame, size = take_frame(memoryview(raw))
    assert frame is not None
    assert size == len(raw)
    return frame


def data_of(block: SendBlock) -> TransferData:
    """
    Returns what that frame says.
    """
    body = frame_of(block).body
    assert isinstance(body, TransferData)
    return body


def legacy_of(effect: MasterEffect) -> LegacyData | LegacyEpochs:
    """
    Returns the legacy frame that an effect sends.
    """
    assert isinstance(effect, Send | SendBlock)
    raw = effect.data if isinstance(effect, Send) else effect.head
    if isinstance(effect, SendBlock) and effect.size:
        raw += content(effect.offset, effect.size)
    taken = decode_from_master(memoryview(raw), 4 << 20)
    assert taken is not None
    frame, size = taken
    assert size == len(raw)
    return frame


def answer(effects: list[MasterEffect]) -> HandshakeMaster:
    """
    Returns the HANDSHAKE_MASTER among effects.
    """
    (body,) = [
        frame.body
        for frame in frames_in(effects)
        if isinstance(frame.body, HandshakeMaster)
    ]
    return body


def reason_of(effects: list[MasterEffect]) -> str:
    """
    Returns why the last effect closes the link.
    """
    assert isinstance(effects[-1], CloseLink), effects
    return effects[-1].reason
