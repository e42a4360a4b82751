"""
Frames of the legacy protocol: RocketMQ's AutoSwitchHA since 5.1.1. Pure.

Frames have neither a type nor a common length: the state at their front and their
direction define them.

Source: docs/protocol.md (formats 6.3, 6.4).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from pystore.epochs.table import NO_EPOCH, EpochTable
from pystore.errors import InvalidError, RemoteViolation
from pystore.ha.wire.codes import LEGACY_EPOCH_MAX, State

__all__ = [
    "LEGACY_EPOCHS_MAX",
    "LEGACY_FRAME_BYTES_MAX",
    "LEGACY_HEAD_BYTES",
    "LegacyAck",
    "LegacyData",
    "LegacyEpochs",
    "LegacyFrame",
    "LegacyHandshake",
    "decode_ack",
    "decode_data",
    "decode_epochs",
    "decode_from_master",
    "decode_from_slave",
    "decode_handshake",
    "encode_legacy",
    "encode_legacy_head",
    "epochs_in_legacy",
    "is_legacy",
    "table_of_legacy",
]

_STATE = struct.Struct(">i")
_HANDSHAKE = struct.Struct(">ihhq")
_ACK = struct.Struct(">iq")
_EPOCHS = struct.Struct(">iiqi")
_ENTRY = struct.Struct(">iq")
_DATA = struct.Struct(">iiqiqq")

LEGACY_FRAME_BYTES_MAX = 4 << 20
"""The longest frame that a Java slave reads; for a longer one it waits for ever."""

LEGACY_EPOCHS_MAX = (LEGACY_FRAME_BYTES_MAX - _EPOCHS.size) // _ENTRY.size
"""Entries that fit into one answer. A Java master fails above 1,000 (RMQ-R198)."""

LEGACY_HEAD_BYTES = _DATA.size
"""What stands before the block of a transfer frame."""


@dataclass(frozen=True, slots=True)
class LegacyHandshake:
    """
    Slave to master, 16 bytes, in one write (RMQ-R197).

    Attributes:
        broker_id: persistent.
        is_from_last_file: an empty slave wants the last segment only.
        is_learner: it never counts.
    """

    broker_id: int
    is_from_last_file: bool = False
    is_learner: bool = False


@dataclass(frozen=True, slots=True)
class LegacyAck:
    """
    Slave to master, 12 bytes; also its heartbeat.

    Attributes:
        offset: end of what the slave holds.
    """

    offset: int


@dataclass(frozen=True, slots=True)
class LegacyEpochs:
    """
    Master to slave: the answer to a handshake.

    Attributes:
        end_offset: of the master's log.
        last_epoch: -1 if there is none.
        entries: (epoch, start offset), in the order received.
    """

    end_offset: int
    last_epoch: int
    entries: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class LegacyData:
    """
    Master to slave: bytes of the log, or a heartbeat without any.

    Attributes:
        offset: where the block begins; -1 while the master has no log.
        epoch: label of the block; formats 6.4 says what a Java master puts here.
        epoch_start: where that epoch begins.
        confirm_offset: the master's.
        block: bytes of the log.
    """

    offset: int
    epoch: int
    epoch_start: int
    confirm_offset: int
    block: bytes | memoryview = b""


LegacyFrame = LegacyHandshake | LegacyAck | LegacyEpochs | LegacyData


def encode_legacy(frame: LegacyFrame) -> bytes:
    """
    Returns the bytes of a frame, its block included.

    Raises:
        InvalidError: a value that its field cannot hold.
    """
    block = frame.block if isinstance(frame, LegacyData) else b""
    return encode_legacy_head(frame, len(block)) + bytes(block)


def encode_legacy_head(frame: LegacyFrame, block_bytes: int) -> bytes:
    """
    Returns the bytes of a frame but for its block, which is sent behind them.

    Args:
        frame: the frame; its own block is left out.
        block_bytes: length of the block; 0 for every other frame.

    Raises:
        InvalidError: a value that its field cannot hold.
    """
    try:
        return _encode(frame, block_bytes)
    except struct.error as error:  # the one way in which it says "out of range"
        raise InvalidError(f"{type(frame).__name__}: {error}") from error


def _encode(frame: LegacyFrame, block_bytes: int) -> bytes:
    if isinstance(frame, LegacyHandshake):
        wants = (frame.is_from_last_file, frame.is_learner)
        return _HANDSHAKE.pack(State.HANDSHAKE, *wants, frame.broker_id)
    if isinstance(frame, LegacyAck):
        return _ACK.pack(State.TRANSFER, frame.offset)
    if isinstance(frame, LegacyEpochs):
        entries = b"".join(_ENTRY.pack(*entry) for entry in frame.entries)
        if len(frame.entries) > LEGACY_EPOCHS_MAX:
            raise InvalidError(
                f"{len(frame.entries)} epochs: a legacy frame holds at most "
                f"{LEGACY_EPOCHS_MAX}"
            )
        head = (len(entries), frame.end_offset, frame.last_epoch)
        return _EPOCHS.pack(State.HANDSHAKE, *head) + entries
    return _DATA.pack(
        State.TRANSFER,
        block_bytes,
        frame.offset,
        frame.epoch,
        frame.epoch_start,
        frame.confirm_offset,
    )


def is_legacy(data: memoryview) -> bool | None:
    """
    Returns whether a new connection speaks this protocol: its first number is the
    state, which no v3 frame has for a length. ``None``: more bytes are needed.
    """
    if len(data) < _STATE.size:
        return None
    return bool(_STATE.unpack_from(data)[0] == State.HANDSHAKE)


def decode_from_slave(
    data: memoryview,
) -> tuple[LegacyHandshake | LegacyAck, int] | None:
    """
    Returns a slave's next frame and its size; ``None``: more bytes are needed.

    Raises:
        RemoteViolation: no frame of a slave.
    """
    if len(data) < _STATE.size:
        return None
    (state,) = _STATE.unpack_from(data)
    return decode_handshake(data) if state == State.HANDSHAKE else decode_ack(data)


def decode_from_master(
    data: memoryview, block_bytes_max: int
) -> tuple[LegacyEpochs | LegacyData, int] | None:
    """
    Returns a master's next frame and its size; ``None``: more bytes are needed.

    Args:
        data: from the frame's front on; a block is a view into it.
        block_bytes_max: the longest block that is taken.

    Raises:
        RemoteViolation: no frame of a master.
    """
    if len(data) < _STATE.size:
        return None
    (state,) = _STATE.unpack_from(data)
    if state == State.HANDSHAKE:
        return decode_epochs(data)
    return decode_data(data, block_bytes_max)


def _expect(data: memoryview, state: State, what: str) -> None:
    # Checked at once: bytes that can be no frame are not waited for.
    if len(data) >= _STATE.size and _STATE.unpack_from(data)[0] != state:
        (found,) = _STATE.unpack_from(data)
        raise RemoteViolation(f"no {what}: state {found}")


def decode_handshake(data: memoryview) -> tuple[LegacyHandshake, int] | None:
    """
    Returns a slave's handshake and its size; ``None``: more bytes are needed.

    Raises:
        RemoteViolation: no handshake.
    """
    _expect(data, State.HANDSHAKE, "handshake of a slave")
    if len(data) < _HANDSHAKE.size:
        return None
    _, last_file, learner, broker_id = _HANDSHAKE.unpack_from(data)
    if broker_id < 1 or not {last_file, learner} <= {0, 1}:
        raise RemoteViolation(
            f"no handshake of a slave: flags {last_file} and {learner}, "
            f"broker id {broker_id}"
        )
    shake = LegacyHandshake(broker_id, bool(last_file), bool(learner))
    return shake, _HANDSHAKE.size


def decode_ack(data: memoryview) -> tuple[LegacyAck, int] | None:
    """
    Returns a slave's ack and its size; ``None``: more bytes are needed.

    Raises:
        RemoteViolation: no ack.
    """
    _expect(data, State.TRANSFER, "ack of a slave")
    if len(data) < _ACK.size:
        return None
    _, offset = _ACK.unpack_from(data)
    if offset < 0:
        raise RemoteViolation(f"no ack of a slave: offset {offset}")
    return LegacyAck(offset), _ACK.size


def decode_epochs(data: memoryview) -> tuple[LegacyEpochs, int] | None:
    """
    Returns a master's answer and its size; ``None``: more bytes are needed.

    Raises:
        RemoteViolation: no answer to a handshake.
    """
    _expect(data, State.HANDSHAKE, "answer of a master")
    if len(data) < _EPOCHS.size:
        return None
    _, size, end, last = _EPOCHS.unpack_from(data)
    is_whole = size % _ENTRY.size == 0 and 0 <= size <= LEGACY_EPOCHS_MAX * _ENTRY.size
    if not is_whole or last < NO_EPOCH:
        raise RemoteViolation(f"no answer of a master: {size} bytes, last epoch {last}")
    if len(data) < _EPOCHS.size + size:
        return None
    raw = data[_EPOCHS.size : _EPOCHS.size + size]
    entries = tuple(_ENTRY.iter_unpack(raw))
    return LegacyEpochs(end, last, entries), _EPOCHS.size + size


def decode_data(
    data: memoryview, block_bytes_max: int
) -> tuple[LegacyData, int] | None:
    """
    Returns a transfer frame and its size; ``None``: more bytes are needed.

    Args:
        data: from the frame's front on; the block is a view into it.
        block_bytes_max: the longest block that is taken.

    Raises:
        RemoteViolation: no transfer frame, or a block too long or negative (RMQ-R188).
    """
    _expect(data, State.TRANSFER, "transfer frame of a master")
    if len(data) < _DATA.size:
        return None
    _, size, offset, epoch, epoch_start, confirm = _DATA.unpack_from(data)
    if not 0 <= size <= block_bytes_max:
        raise RemoteViolation(
            f"a block of {size} bytes at {offset}: 0 to {block_bytes_max} are taken"
        )
    whole = _DATA.size + size
    if len(data) < whole:
        return None
    block = data[_DATA.size : whole]
    return LegacyData(offset, epoch, epoch_start, confirm, block), whole


def table_of_legacy(frame: LegacyEpochs) -> EpochTable:
    """
    Returns the table that a master sent.

    Entries above the master's end stay: `EpochTable.consistent_point` leaves them
    out of the comparison (RMQ-R144).

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
    except InvalidError as error:  # the peer's mistake
        raise RemoteViolation(f"the master's epochs: {error}") from error


def epochs_in_legacy(epochs: EpochTable, end_offset: int) -> LegacyEpochs:
    """
    Returns the answer to a legacy handshake.

    Args:
        epochs: the master's table. Entries above its end are left out (RMQ-R144).
        end_offset: of the master's log.

    Raises:
        InvalidError: an epoch that no legacy frame can carry; a set with a Java
            member must never reach it.
    """
    if epochs.last_epoch > LEGACY_EPOCH_MAX:
        raise InvalidError(
            f"epoch {epochs.last_epoch}: legacy frames have epochs up to "
            f"{LEGACY_EPOCH_MAX}"
        )
    sent = epochs.drop_above(end_offset)
    return LegacyEpochs(end_offset, sent.last_epoch, tuple(sent.pairs()))
