"""
Frames of the v3 protocol to bytes and back. Pure.

A body may be longer than this version knows: the rest is ignored. A shorter body, or an
undefined number, is the peer's violation.

Source: docs/protocol.md (RMQ-K.3).
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
    Challenge,
    ConfirmTruncate,
    Frame,
    HandshakeMaster,
    HandshakeSlave,
    LinkProof,
    QueryEpoch,
    QueryQueues,
    ReturnEpoch,
    ReturnQueues,
    TransferAck,
    TransferData,
)
from pystore.ha.wire.proof import CHALLENGE_BYTES
from pystore.ha.wire.proof_frames import (
    decode_challenge,
    decode_proof,
    encode_challenge,
    encode_proof,
)
from pystore.ha.wire.queue_frames import (
    decode_query,
    decode_return,
    encode_query,
    encode_return,
)

_Number = TypeVar("_Number", bound=IntEnum)
_Flags = TypeVar("_Flags", bound=IntFlag)

__all__ = [
    "ACK_BYTES",
    "ACK_FRAME",
    "DATA_BYTES_MIN",
    "DATA_HEAD",
    "EPOCH_BYTES",
    "RETURN_BYTES_MIN",
    "data_head",
    "decode_body",
    "encode",
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

DATA_HEAD = struct.Struct(_HEADER.format + _DATA.format[1:])
"""
What stands before the block of a TRANSFER_DATA frame: length, type, send time, epoch of
the session, then epoch and start of the block, confirm offset, offset of the block, end
of the log, session id, block size, CRC-32, flags, 0.
"""

DATA_BYTES_MIN = DATA_HEAD.size
"""Bytes of a TRANSFER_DATA frame without its block."""

ACK_FRAME = struct.Struct(_HEADER.format + _ACK.format[1:])
"""
A whole TRANSFER_ACK: length, type, send time, epoch of the session, then session id,
received, flushed and confirm offset, echo of the send time and of the end, status,
flags.
"""

ACK_BYTES = ACK_FRAME.size
"""Bytes of a TRANSFER_ACK of this version."""

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
    if isinstance(body, TransferData):
        return _data_bytes(frame, body)
    if isinstance(body, TransferAck):
        return _ack_bytes(frame, body)
    kind, encoder = _ENCODERS[type(body)]
    try:
        payload = encoder(body)
        length = HEADER_BYTES + len(payload)
        return _HEADER.pack(length, kind, frame.sent_ms, frame.epoch) + payload
    except struct.error as error:  # out of range
        raise InvalidError(f"{type(body).__name__}: {error}") from error


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
    crc: int = 0,
) -> bytes:
    """
    Returns what stands before the block of a TRANSFER_DATA frame.

    Args:
        epoch: of the session.
        sent_ms: the sender's clock.
        label: the epoch of the block's first byte, and where that epoch begins.
        confirm_offset: the master's.
        block: its offset and its size in bytes.
        end_offset: of the master's log.
        session_id: of the handshake.
        flags: of the block.
        crc: CRC-32 of the block; 0: the session has none, or it is put in later.

    Raises:
        InvalidError: a value that its field cannot hold.
    """
    offset, size = block
    try:
        return DATA_HEAD.pack(
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
            crc,
            flags,
            0,
        )
    except struct.error as error:  # out of range
        raise InvalidError(f"a block of {size} bytes at {offset}: {error}") from error


def decode_body(kind: FrameType, payload: memoryview) -> Body:
    """
    Returns the body of a frame.

    Args:
        kind: its type.
        payload: the bytes after its header. The block of a TRANSFER_DATA is a
            view into it.

    Raises:
        RemoteViolation: too short, or an undefined number.
    """
    try:
        return _DECODERS[kind](payload)
    except struct.error as error:  # fewer bytes than the type needs
        raise RemoteViolation(
            f"{kind.name}: {len(payload)} bytes are too few: {error}"
        ) from error


def _text_bytes(text: str) -> bytes:
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:  # names are compared, so none may be changed
        raise InvalidError(f"a text cannot be UTF-8: {error}") from error
    if len(raw) > _TEXT_BYTES_MAX:
        raise InvalidError(f"text of {len(raw)} bytes: at most {_TEXT_BYTES_MAX} fit")
    return _TEXT.pack(len(raw)) + raw


def _texts(payload: memoryview, at: int, count: int) -> tuple[list[str], int]:
    """
    Returns texts, and where the last one ends.
    """
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
        except (
            UnicodeDecodeError
        ) as error:  # names are compared, so none may be changed
            raise RemoteViolation(f"a text is not UTF-8: {error}") from error
    return found, at


def _member_of(kind: type[_Number], value: int) -> _Number:
    # A look-up in the table takes a fifth of a call of the type.
    found = kind._value2member_map_.get(value)
    if found is None:  # not defined in any version
        raise RemoteViolation(f"the unknown {kind.__name__} {value}")
    return cast("_Number", found)


@lru_cache(maxsize=64)  # the same few values come with every frame
def _known_flags(kind: type[_Flags], value: int) -> _Flags:
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
    if len(body.challenge) != (CHALLENGE_BYTES if _proves(body.flags) else 0):
        raise InvalidError(f"a challenge has {CHALLENGE_BYTES} bytes and a flag")
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
    return head + b"".join(_text_bytes(name) for name in names) + body.challenge


def _proves(flags: int) -> bool:
    return bool(flags & SlaveFlag.PROVES)


def _slave(payload: memoryview) -> HandshakeSlave:
    *numbers, flags, bits = _SLAVE.unpack_from(payload)
    texts, end = _texts(payload, _SLAVE.size, 4)
    challenge = b""
    if _proves(flags):
        challenge = bytes(payload[end : end + CHALLENGE_BYTES])
        if len(challenge) < CHALLENGE_BYTES:
            raise RemoteViolation(f"a challenge of {len(challenge)} bytes")
    values: list[Any] = [*numbers, _known_flags(SlaveFlag, flags), bits, *texts]
    values.append(challenge)
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
    # The refusal must be sent, even if its reason cannot be encoded.
    reason = body.reason.encode("utf-8", "replace")[:_REASON_BYTES_MAX]
    text = reason.decode("utf-8", "ignore")
    return head + _text_bytes(body.redirect) + _text_bytes(text)


def _master(payload: memoryview) -> HandshakeMaster:
    result, *numbers, flags = _MASTER.unpack_from(payload)
    texts, _ = _texts(payload, _MASTER.size, 2)
    values: list[Any] = [_member_of(CheckResult, result), *numbers]
    values += [_known_flags(MasterFlag, flags), *texts]
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
        raise RemoteViolation(
            f"RETURN_EPOCH has {count} entries by its count, and room for {room}"
        )
    raw = payload[_RETURN.size : _RETURN.size + count * _ENTRY.size]
    if zlib.crc32(raw) != crc:
        raise RemoteViolation("RETURN_EPOCH: the checksum of its entries differs")
    entries = tuple(_ENTRY.iter_unpack(raw))
    flags = _known_flags(EpochsFlag, flags)
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
    values: list[Any] = [*numbers, _member_of(TruncateOutcome, outcome)]
    values.append(_known_flags(TruncateFlag, flags))
    return ConfirmTruncate(*values)


def _data_bytes(frame: Frame, body: TransferData) -> bytes:
    head = data_head(
        epoch=frame.epoch,
        sent_ms=frame.sent_ms,
        label=(body.epoch, body.epoch_start),
        confirm_offset=body.confirm_offset,
        block=(body.offset, len(body.block)),
        end_offset=body.end_offset,
        session_id=body.session_id,
        flags=body.flags,
        crc=body.crc,
    )
    return head + bytes(body.block)


def _data(payload: memoryview) -> TransferData:
    epoch, start, confirm, offset, end, session, size, crc, flags, _ = (
        _DATA.unpack_from(payload)
    )
    block = payload[_DATA.size :]
    if size != len(block):
        raise RemoteViolation(f"a block of {size} bytes in a frame with {len(block)}")
    known = _known_flags(DataFlag, flags)
    return TransferData(epoch, start, confirm, offset, end, session, crc, known, block)


def _ack_bytes(frame: Frame, body: TransferAck) -> bytes:
    # One call for the whole frame: an `all` waits for it.
    kind = FrameType.TRANSFER_ACK
    try:
        return ACK_FRAME.pack(ACK_BYTES, kind, frame.sent_ms, frame.epoch, *body)
    except struct.error as error:  # out of range
        raise InvalidError(f"TransferAck: {error}") from error


def _ack(payload: memoryview) -> TransferAck:
    *numbers, status, flags = _ACK.unpack_from(payload)
    values: list[Any] = [
        *numbers,
        _member_of(AckStatus, status),
        _known_flags(AckFlag, flags),
    ]
    return TransferAck(*values)


_ENCODERS: dict[type[Any], tuple[FrameType, Callable[[Any], bytes]]] = {
    HandshakeSlave: (FrameType.HANDSHAKE_SLAVE, _slave_bytes),
    HandshakeMaster: (FrameType.HANDSHAKE_MASTER, _master_bytes),
    Challenge: (FrameType.CHALLENGE, encode_challenge),
    LinkProof: (FrameType.PROOF, encode_proof),
    QueryEpoch: (FrameType.QUERY_EPOCH, _query_bytes),
    ReturnEpoch: (FrameType.RETURN_EPOCH, _return_bytes),
    QueryQueues: (FrameType.QUERY_QUEUES, encode_query),
    ReturnQueues: (FrameType.RETURN_QUEUES, encode_return),
    ConfirmTruncate: (FrameType.CONFIRM_TRUNCATE, _truncate_bytes),
}
_DECODERS: dict[FrameType, Callable[[memoryview], Body]] = {
    FrameType.HANDSHAKE_SLAVE: _slave,
    FrameType.HANDSHAKE_MASTER: _master,
    FrameType.CHALLENGE: decode_challenge,
    FrameType.PROOF: decode_proof,
    FrameType.QUERY_EPOCH: _query,
    FrameType.RETURN_EPOCH: _return,
    FrameType.QUERY_QUEUES: decode_query,
    FrameType.RETURN_QUEUES: decode_return,
    FrameType.CONFIRM_TRUNCATE: _truncate,
    FrameType.TRANSFER_DATA: _data,
    FrameType.TRANSFER_ACK: _ack,
}
