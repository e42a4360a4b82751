"""
Frames of the v3 protocol to bytes and back. Pure.

A body may be longer than this version knows: the rest is ignored. One that is
shorter, or a number that its field cannot mean, is the peer's violation.

Source: docs/protocol.md (K.3).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum, IntFlag
from functools import lru_cache
from typing import Any, TypeVar, cast

from pystore.errors import InvalidError, RemoteViolation
from pystore.ha.wire.codes import (
    HEADER_BYTES,
    AckFlag,
    AckStatus,
    CheckResult,
    DataFlag,
    EpochsFlag,
    FrameType,
    MasterFlag,
    SlaveFlag,
    TruncateFlag,
    TruncateOutcome,
)
from pystore.ha.wire.frames import (
    Body,
    ConfirmTruncate,
    Frame,
    HandshakeMaster,
    HandshakeSlave,
    QueryEpoch,
    ReturnEpoch,
    TransferAck,
    TransferData,
)

_HEAD = struct.Struct(">iiqqqqqqqqiIii")


def data_head(
    *,
    epoch: int,
    sent_ms: int,
    label: tuple[int, int],
    confirm_offset: int,
    block: tuple[int, int],
    end_offset: int,
    session_id: int,
    flags: int,
) -> bytes:
    """
    Returns what stands before a block, as `pystore.ha.wire.v3.encode_head` does.

    Args:
        epoch: of the session.
        sent_ms: the sender's clock.
        label: the epoch of the block's first byte, and where that begins.
        confirm_offset: the master's.
        block: where it begins, and its bytes.
        end_offset: of the master's log.
        session_id: of the handshake.
        flags: of the block; its checksum is 0.

    Raises:
        InvalidError: a value that its field cannot hold.
    """
    offset, size = block
    try:
        return _HEAD.pack(
            DATA_BYTES_MIN + size,
            FrameType.TRANSFER_DATA,
            sent_ms,
            epoch,
            *label,
            confirm_offset,
            offset,
            end_offset,
            session_id,
            size,
            0,
            flags,
            0,
        )
    except struct.error as error:  # the one way in which it says "out of range"
        raise InvalidError(f"a block of {size} bytes at {offset}: {error}") from error


_Number = TypeVar("_Number", bound=IntEnum)
_Flags = TypeVar("_Flags", bound=IntFlag)

__all__ = [
    "DATA_BYTES_MIN",
    "EPOCH_BYTES",
    "RETURN_BYTES_MIN",
    "data_head",
    "decode_body",
    "encode",
    "encode_head",
]

_HEADER = struct.Struct(">iiqq")
_SLAVE = struct.Struct(">iiqqqqqqqii16s")
_MASTER = struct.Struct(">iiqqqqqqqiiii")
_QUERY = struct.Struct(">qqi")
_RETURN = struct.Struct(">qqqiiiI")
_ENTRY = struct.Struct(">qqq")
_TRUNCATE = struct.Struct(">qqqqqqii")
_DATA = struct.Struct(">qqqqqqiIii")
_ACK = struct.Struct(">qqqqqqii")
_TEXT = struct.Struct(">H")
_TEXT_BYTES_MAX = 2**16 - 1
_REASON_BYTES_MAX = 1024
_FRAME_BYTES_MAX = 2**31 - 1

DATA_BYTES_MIN = HEADER_BYTES + _DATA.size
"""A TRANSFER_DATA frame without a block: what stands before a block."""

EPOCH_BYTES = _ENTRY.size
"""One entry of RETURN_EPOCH."""

RETURN_BYTES_MIN = _RETURN.size
"""The body of RETURN_EPOCH without entries."""


def encode(frame: Frame) -> bytes:
    """
    Returns the bytes of a frame, its block included.

    Raises:
        InvalidError: a value that its field cannot hold.
    """
    body = frame.body
    if not isinstance(body, TransferData):
        return encode_head(frame, 0)
    return encode_head(frame, len(body.block)) + bytes(body.block)


def encode_head(frame: Frame, block_bytes: int) -> bytes:
    """
    Returns the bytes of a frame but for its block, which is sent behind them.

    Args:
        frame: the frame; its own block is left out.
        block_bytes: length of the block; 0 for every other type.

    Raises:
        InvalidError: a value that its field cannot hold.
    """
    body = frame.body
    try:
        if isinstance(body, TransferData):
            kind, payload = FrameType.TRANSFER_DATA, _data_bytes(body, block_bytes)
        else:
            kind, encoder = _ENCODERS[type(body)]
            payload = encoder(body)
        length = HEADER_BYTES + len(payload) + block_bytes
        return _HEADER.pack(length, kind, frame.sent_ms, frame.epoch) + payload
    except struct.error as error:  # the one way in which it says "out of range"
        raise InvalidError(f"{type(body).__name__}: {error}") from error


def decode_body(kind: FrameType, payload: memoryview) -> Body:
    """
    Returns what a frame says.

    Args:
        kind: its type.
        payload: what stands behind its header. The block of a TRANSFER_DATA is a
            view into it.

    Raises:
        RemoteViolation: too short, or a number without a meaning.
    """
    try:
        return _DECODERS[kind](payload)
    except struct.error as error:  # fewer bytes than the type has at least
        raise RemoteViolation(
            f"{kind.name}: {len(payload)} bytes are too few: {error}"
        ) from error


def _text_bytes(text: str) -> bytes:
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:  # names are compared: none may be bent
        raise InvalidError(f"a text cannot be UTF-8: {error}") from error
    if len(raw) > _TEXT_BYTES_MAX:
        raise InvalidError(f"text of {len(raw)} bytes: at most {_TEXT_BYTES_MAX} fit")
    return _TEXT.pack(len(raw)) + raw


def _texts(payload: memoryview, at: int, count: int) -> list[str]:
    found = []
    for _ in range(count):
        (size,) = _TEXT.unpack_from(payload, at)
        at += _TEXT.size
        raw = bytes(payload[at : at + size])
        if len(raw) < size:
            raise RemoteViolation(f"a text of {size} bytes ends after {len(raw)}")
        at += size
        try:
            found.append(raw.decode())
        except UnicodeDecodeError as error:  # names are compared: none may be bent
            raise RemoteViolation(f"a text is not UTF-8: {error}") from error
    return found


def _meaning(kind: type[_Number], value: int) -> _Number:
    # A look into the table takes a fifth of a call of the type: there are many acks.
    found = kind._value2member_map_.get(value)
    if found is None:  # a number that no version has defined
        raise RemoteViolation(f"{kind.__name__} {value} has no meaning")
    return cast("_Number", found)


@lru_cache(maxsize=64)  # the same few come with every frame
def _known(kind: type[_Flags], value: int) -> _Flags:
    # Flags of a later version are ignored, as a longer body is.
    return kind(value & _MASKS[kind]) if value else cast("_Flags", _NONE[kind])


_FLAGS: tuple[type[IntFlag], ...] = (
    SlaveFlag,
    MasterFlag,
    EpochsFlag,
    TruncateFlag,
    DataFlag,
    AckFlag,
)
_MASKS: dict[type[Any], int] = {kind: sum(kind) for kind in _FLAGS}
_NONE: dict[type[Any], Any] = {kind: kind(0) for kind in _FLAGS}


def _slave_bytes(body: HandshakeSlave) -> bytes:
    if len(body.incarnation_bits) != 16:
        raise InvalidError("the random part of an incarnation has 16 bytes")
    head = _SLAVE.pack(
        body.protocol_min,
        body.protocol_max,
        body.broker_id,
        body.incarnation,
        body.last_epoch,
        body.min_offset,
        body.end_offset,
        body.flushed_offset,
        body.segment_size,
        body.frame_bytes_max,
        body.flags,
        body.incarnation_bits,
    )
    names = (body.cluster, body.broker_name, body.address, body.version)
    return head + b"".join(_text_bytes(name) for name in names)


def _slave(payload: memoryview) -> HandshakeSlave:
    *numbers, flags, bits = _SLAVE.unpack_from(payload)
    texts = _texts(payload, _SLAVE.size, 4)
    values: list[Any] = [*numbers, _known(SlaveFlag, flags), bits, *texts]
    return HandshakeSlave(*values)


def _master_bytes(body: HandshakeMaster) -> bytes:
    head = _MASTER.pack(
        body.result,
        body.protocol,
        body.broker_id,
        body.session_id,
        body.epoch_start,
        body.min_offset,
        body.end_offset,
        body.confirm_offset,
        body.segment_size,
        body.frame_bytes_max,
        body.heartbeat_ms,
        body.housekeeping_ms,
        body.flags,
    )
    # Whatever the reason is made of, the refusal has to leave.
    reason = body.reason.encode("utf-8", "replace")[:_REASON_BYTES_MAX]
    text = reason.decode("utf-8", "ignore")
    return head + _text_bytes(body.redirect) + _text_bytes(text)


def _master(payload: memoryview) -> HandshakeMaster:
    result, *numbers, flags = _MASTER.unpack_from(payload)
    texts = _texts(payload, _MASTER.size, 2)
    values: list[Any] = [_meaning(CheckResult, result), *numbers]
    values += [_known(MasterFlag, flags), *texts]
    return HandshakeMaster(*values)


def _query_bytes(body: QueryEpoch) -> bytes:
    return _QUERY.pack(body.session_id, body.first_epoch, body.entries_max)


def _query(payload: memoryview) -> QueryEpoch:
    if not payload:
        return QueryEpoch(0)  # the whole table, of the only session there is
    return QueryEpoch(*_QUERY.unpack_from(payload))


def _return_bytes(body: ReturnEpoch) -> bytes:
    entries = b"".join(_ENTRY.pack(*entry) for entry in body.entries)
    head = _RETURN.pack(
        body.session_id,
        body.min_offset,
        body.end_offset,
        body.entries_total,
        len(body.entries),
        body.flags,
        zlib.crc32(entries),
    )
    return head + entries


def _return(payload: memoryview) -> ReturnEpoch:
    session, minimum, end, total, count, flags, crc = _RETURN.unpack_from(payload)
    room = (len(payload) - _RETURN.size) // _ENTRY.size
    if not 0 <= count <= room:
        raise RemoteViolation(f"RETURN_EPOCH names {count} entries and holds {room}")
    raw = payload[_RETURN.size : _RETURN.size + count * _ENTRY.size]
    if zlib.crc32(raw) != crc:
        raise RemoteViolation("RETURN_EPOCH: the checksum of its entries differs")
    entries = tuple(_ENTRY.iter_unpack(raw))
    flags = _known(EpochsFlag, flags)
    return ReturnEpoch(session, minimum, end, total, flags, entries)


def _truncate_bytes(body: ConfirmTruncate) -> bytes:
    return _TRUNCATE.pack(
        body.session_id,
        body.epoch,
        body.point,
        body.end_offset,
        body.bytes_cut,
        body.start_offset,
        body.outcome,
        body.flags,
    )


def _truncate(payload: memoryview) -> ConfirmTruncate:
    *numbers, outcome, flags = _TRUNCATE.unpack_from(payload)
    values: list[Any] = [*numbers, _meaning(TruncateOutcome, outcome)]
    values.append(_known(TruncateFlag, flags))
    return ConfirmTruncate(*values)


def _data_bytes(body: TransferData, block_bytes: int) -> bytes:
    if block_bytes > _FRAME_BYTES_MAX - DATA_BYTES_MIN:
        raise InvalidError(f"a block of {block_bytes} bytes fits into no frame")
    return _DATA.pack(
        body.epoch,
        body.epoch_start,
        body.confirm_offset,
        body.offset,
        body.end_offset,
        body.session_id,
        block_bytes,
        body.crc,
        body.flags,
        0,
    )


def _data(payload: memoryview) -> TransferData:
    epoch, start, confirm, offset, end, session, size, crc, flags, _ = (
        _DATA.unpack_from(payload)
    )
    block = payload[_DATA.size :]
    if size != len(block):
        raise RemoteViolation(f"a block of {size} bytes in a frame with {len(block)}")
    known = _known(DataFlag, flags)
    return TransferData(epoch, start, confirm, offset, end, session, crc, known, block)


def _ack_bytes(body: TransferAck) -> bytes:
    return _ACK.pack(
        body.session_id,
        body.received_offset,
        body.flushed_offset,
        body.confirm_offset,
        body.echo_ms,
        body.echo_end_offset,
        body.status,
        body.flags,
    )


def _ack(payload: memoryview) -> TransferAck:
    *numbers, status, flags = _ACK.unpack_from(payload)
    values: list[Any] = [*numbers, _meaning(AckStatus, status), _known(AckFlag, flags)]
    return TransferAck(*values)


_ENCODERS: dict[type[Any], tuple[FrameType, Callable[[Any], bytes]]] = {
    HandshakeSlave: (FrameType.HANDSHAKE_SLAVE, _slave_bytes),
    HandshakeMaster: (FrameType.HANDSHAKE_MASTER, _master_bytes),
    QueryEpoch: (FrameType.QUERY_EPOCH, _query_bytes),
    ReturnEpoch: (FrameType.RETURN_EPOCH, _return_bytes),
    ConfirmTruncate: (FrameType.CONFIRM_TRUNCATE, _truncate_bytes),
    TransferAck: (FrameType.TRANSFER_ACK, _ack_bytes),
}
_DECODERS: dict[FrameType, Callable[[memoryview], Body]] = {
    FrameType.HANDSHAKE_SLAVE: _slave,
    FrameType.HANDSHAKE_MASTER: _master,
    FrameType.QUERY_EPOCH: _query,
    FrameType.RETURN_EPOCH: _return,
    FrameType.CONFIRM_TRUNCATE: _truncate,
    FrameType.TRANSFER_DATA: _data,
    FrameType.TRANSFER_ACK: _ack,
}
