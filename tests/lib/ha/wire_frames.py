"""
Frames of the v3 protocol: each type as a value and as bytes that were written by
hand from the tables of docs/protocol.md, and any frame at all.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Any

from hypothesis import strategies as st

from lib.values import replace
from pystore.ha.wire.codes import (
    AckFlag,
    AckStatus,
    CheckResult,
    DataFlag,
    EpochsFlag,
    FrameType,
    MasterFlag,
    QueuesFlag,
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
    NextQueueOffset,
    QueryEpoch,
    QueryQueues,
    ReturnEpoch,
    ReturnQueues,
    TransferAck,
    TransferData,
)

__all__ = ["EXAMPLES", "MINIMUM", "bytes_of", "frames"]

MINIMUM = {
    FrameType.HANDSHAKE_SLAVE: 88 + 4 * 2,
    FrameType.HANDSHAKE_MASTER: 80 + 2 * 2,
    FrameType.QUERY_EPOCH: 20,
    FrameType.RETURN_EPOCH: 40,
    FrameType.CONFIRM_TRUNCATE: 56,
    FrameType.TRANSFER_DATA: 64,
    FrameType.TRANSFER_ACK: 56,
    FrameType.QUERY_QUEUES: 16,
    FrameType.RETURN_QUEUES: 52,
    FrameType.CHALLENGE: 56,
    FrameType.PROOF: 40,
}
"""Bytes of the shortest body of each type, its strings empty."""

_SLAVE = """
00000095 00000001 0000018bcfe56800 0000000000000009  length 149, type, time, epoch
00000002 00000003                                    protocols 2 to 3
0000000000000007 0000000000000005 0000000000000004   id, incarnation, last epoch
0000000000001000 0000000000002000 0000000000001800   min, max, flushed
0000000040000000 01000000 00000009                   segment, frame, bits 0 and 3
000102030405060708090a0b0c0d0e0f                     incarnation, random part
0001 63  0005 7365742d61                             c, set-a
000e 31302e302e302e373a3130393132                    10.0.0.7:10912
0009 707973746f72652031                              pystore 1
"""
_MASTER = """
0000006c 00000002 0000018bcfe56800 0000000000000009  length 108, type, time, epoch
00000000 00000003                                    success, protocol 3
0000000000000001 123456789abcdef0 0000000000001400   id, session, epoch start
0000000000000400 0000000000002800 0000000000002000   min, max, confirm
0000000040000000 00100000                            segment, frame
00001388 00004e20 00000002                           5000, 20000 ms, bit 1
0000 0000                                            no redirect, no reason
"""
_REFUSAL = """
0000007e 00000002 0000018bcfe56800 0000000000000009  length 126, type, time, epoch
fffffff9 00000000                                    -7 not master, no protocol
0000000000000003 0000000000000000 0000000000000000   id, no session
0000000000000000 0000000000000000 0000000000000000
0000000000000000 00000000
00000000 00000000 00000001                           bit 0
0006 683a39313231                                    h:9121
000c 6120736c617665 20c3bc21 0a                      a slave ü! and a line end
"""
_CHALLENGE = """
00000050 0000000a 0000018bcfe56800 0000000000000009  length 80, type, time, epoch
123456789abcdef0                                     session
a0a1a2a3a4a5a6a7a8a9aaabacadaeaf                     random bytes
0f0e0d0c0b0a090807060504030201000f0e0d0c0b0a09080706050403020100
"""
_PROOF = """
00000040 0000000b 0000018bcfe56800 0000000000000009  length 64, type, time, epoch
123456789abcdef0                                     session
0f0e0d0c0b0a090807060504030201000f0e0d0c0b0a09080706050403020100
"""
_QUERY = """
0000002c 00000003 0000018bcfe56800 0000000000000009  length 44, type, time, epoch
123456789abcdef0 0000000000000002 00000064           session, from 2, at most 100
"""
_RETURN = """
00000070 00000004 0000018bcfe56800 0000000000000009  length 112, type, time, epoch
123456789abcdef0 0000000000000400 0000000000002800   session, min, max
00000003 00000002 00000001 b62e63d7                  total, here, more, CRC-32
0000000000000001 0000000000000000 000000000000062c   1: 0 to 1580
0000000000000002 000000000000062c 0000000000000942   2: 1580 to 2370
"""
_QUERY_QUEUES = """
00000028 00000008 0000018bcfe56800 0000000000000009  length 40, type, time, epoch
123456789abcdef0 0000000000000001                    session, from 1
"""
_RETURN_QUEUES = """
0000006a 00000009 0000018bcfe56800 0000000000000009  length 106, type, time, epoch
123456789abcdef0 0000000000000400 0000000000000800   session, min, start
0000000000000003 0000000000000001                    total, first
00000002 00000001 b54c6063                           here, more, CRC-32
0001 74 00000000 0000000000000007                    t, queue 0, next 7
0001 75 00000002 0000000000000009                    u, queue 2, next 9
"""
_TRUNCATE = """
00000050 00000005 0000018bcfe56800 0000000000000009  length 80, type, time, epoch
123456789abcdef0 0000000000000004 0000000000000942   session, epoch, point
0000000000000942 00000000000000ce ffffffffffffffff   max, bytes cut, start -1
00000001 00000002                                    cut, learner
"""
_DATA = """
0000005b 00000006 0000018bcfe56800 0000000000000009  length 91, type, time, epoch
0000000000000004 0000000000000942 0000000000000900   block epoch, start, confirm
0000000000000942 0000000000002800 123456789abcdef0   offset, max, session
00000003 352441c2 00000006 00000000                  3 bytes, CRC-32, bits 1 and 2
616263                                               abc
"""
_ACK = """
00000050 00000007 0000018bcfe56801 0000000000000009  length 80, type, time, epoch
123456789abcdef0 0000000000002800 0000000000002400   session, received, flushed
0000000000002000 0000018bcfe56800 0000000000002800   confirm, echoes
00000002 0000000c                                    disk full, resume and leaving
"""

_SESSION = 0x123456789ABCDEF0
_MS = 0x18BCFE56800


def bytes_of(rows: str) -> bytes:
    """
    Returns the bytes of rows of hexadecimal digits; a row ends at three blanks or
    where a remark begins.
    """
    return b"".join(
        bytes.fromhex(row.split("   ")[0].partition("  length")[0])
        for row in rows.strip().splitlines()
    )


EXAMPLES: dict[str, tuple[Frame, bytes]] = {
    name: (Frame(9, sent_ms, body), bytes_of(rows))
    for name, rows, sent_ms, body in (
        (
            "handshake of a slave",
            _SLAVE,
            _MS,
            HandshakeSlave(
                protocol_min=2,
                protocol_max=3,
                broker_id=7,
                incarnation=5,
                last_epoch=4,
                min_offset=0x1000,
                end_offset=0x2000,
                flushed_offset=0x1800,
                segment_size=1 << 30,
                frame_bytes_max=16 << 20,
                flags=SlaveFlag.SYNC_FROM_LAST_FILE | SlaveFlag.BLOCK_CRC,
                incarnation_bits=bytes(range(16)),
                cluster="c",
                broker_name="set-a",
                address="10.0.0.7:10912",
                version="pystore 1",
            ),
        ),
        (
            "challenge",
            _CHALLENGE,
            _MS,
            Challenge(_SESSION, bytes(range(0xA0, 0xB0)), bytes(range(15, -1, -1)) * 2),
        ),
        ("proof", _PROOF, _MS, LinkProof(_SESSION, bytes(range(15, -1, -1)) * 2)),
        (
            "handshake of a master",
            _MASTER,
            _MS,
            HandshakeMaster(
                result=CheckResult.SUCCESS,
                protocol=3,
                broker_id=1,
                session_id=_SESSION,
                epoch_start=0x1400,
                min_offset=0x400,
                end_offset=0x2800,
                confirm_offset=0x2000,
                segment_size=1 << 30,
                frame_bytes_max=1 << 20,
                heartbeat_ms=5000,
                housekeeping_ms=20000,
                flags=MasterFlag.BLOCK_CRC,
                redirect="",
                reason="",
            ),
        ),
        (
            "refusal",
            _REFUSAL,
            _MS,
            HandshakeMaster(
                result=CheckResult.NOT_MASTER,
                protocol=0,
                broker_id=3,
                session_id=0,
                epoch_start=0,
                min_offset=0,
                end_offset=0,
                confirm_offset=0,
                segment_size=0,
                frame_bytes_max=0,
                heartbeat_ms=0,
                housekeeping_ms=0,
                flags=MasterFlag.SUSPENDED,
                redirect="h:9121",
                reason="a slave ü!\n",
            ),
        ),
        ("query", _QUERY, _MS, QueryEpoch(_SESSION, 2, 100)),
        (
            "epochs",
            _RETURN,
            _MS,
            ReturnEpoch(
                session_id=_SESSION,
                min_offset=0x400,
                end_offset=0x2800,
                entries_total=3,
                flags=EpochsFlag.MORE,
                entries=((1, 0, 1580), (2, 1580, 2370)),
            ),
        ),
        ("query for queues", _QUERY_QUEUES, _MS, QueryQueues(_SESSION, 1)),
        (
            "queues",
            _RETURN_QUEUES,
            _MS,
            ReturnQueues(
                session_id=_SESSION,
                min_offset=0x400,
                start_offset=0x800,
                entries_total=3,
                first=1,
                flags=QueuesFlag.MORE,
                entries=(NextQueueOffset("t", 0, 7), NextQueueOffset("u", 2, 9)),
            ),
        ),
        (
            "confirmed cut",
            _TRUNCATE,
            _MS,
            ConfirmTruncate(
                session_id=_SESSION,
                epoch=4,
                point=2370,
                end_offset=2370,
                bytes_cut=206,
                start_offset=-1,
                outcome=TruncateOutcome.CUT,
                flags=TruncateFlag.LEARNER,
            ),
        ),
        (
            "data",
            _DATA,
            _MS,
            TransferData(
                epoch=4,
                epoch_start=2370,
                confirm_offset=0x900,
                offset=2370,
                end_offset=0x2800,
                session_id=_SESSION,
                crc=0x352441C2,
                flags=DataFlag.EPOCH_BEGINS | DataFlag.ACK_NOW,
                block=b"abc",
            ),
        ),
        (
            "ack",
            _ACK,
            _MS + 1,
            TransferAck(
                session_id=_SESSION,
                received_offset=0x2800,
                flushed_offset=0x2400,
                confirm_offset=0x2000,
                echo_ms=_MS,
                echo_end_offset=0x2800,
                status=AckStatus.DISK_FULL,
                flags=AckFlag.RESUME | AckFlag.LEAVING,
            ),
        ),
    )
}

_i32 = st.integers(-(2**31), 2**31 - 1)
_i64 = st.integers(-(2**63), 2**63 - 1)
_u32 = st.integers(0, 2**32 - 1)
_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def _flags(kind: type[IntFlag]) -> st.SearchStrategy[Any]:
    return st.integers(0, sum(kind)).map(lambda bits: kind(bits & sum(kind)))


_bits = st.binary(min_size=16, max_size=16)


def _challenging(body: HandshakeSlave) -> st.SearchStrategy[HandshakeSlave]:
    proves = bool(body.flags & SlaveFlag.PROVES)
    found = _bits if proves else st.just(b"")
    return found.map(lambda challenge: replace(body, challenge=challenge))


_data = st.builds(
    TransferData, *(_i64,) * 6, _u32, _flags(DataFlag), st.binary(max_size=200)
)

_bodies: tuple[st.SearchStrategy[Body], ...] = (
    st.builds(
        HandshakeSlave,
        *(_i32,) * 2,
        *(_i64,) * 7,
        _i32,
        _flags(SlaveFlag),
        _bits,
        *(_text,) * 4,
    ).flatmap(_challenging),
    st.builds(Challenge, _i64, _bits, st.binary(min_size=32, max_size=32)),
    st.builds(LinkProof, _i64, st.binary(min_size=32, max_size=32)),
    st.builds(
        HandshakeMaster,
        st.sampled_from(CheckResult),
        _i32,
        *(_i64,) * 7,
        *(_i32,) * 3,
        _flags(MasterFlag),
        *(_text,) * 2,
    ),
    st.builds(QueryEpoch, _i64, _i64, _i32),
    st.builds(
        ReturnEpoch,
        *(_i64,) * 3,
        _i32,
        _flags(EpochsFlag),
        st.lists(st.tuples(_i64, _i64, _i64), max_size=5).map(tuple),
    ),
    st.builds(QueryQueues, _i64, _i64),
    st.builds(
        ReturnQueues,
        *(_i64,) * 5,
        _flags(QueuesFlag),
        st.lists(st.builds(NextQueueOffset, _text, _i32, _i64), max_size=5).map(tuple),
    ),
    st.builds(
        ConfirmTruncate,
        *(_i64,) * 6,
        st.sampled_from(TruncateOutcome),
        _flags(TruncateFlag),
    ),
    _data,
    st.builds(TransferAck, *(_i64,) * 6, st.sampled_from(AckStatus), _flags(AckFlag)),
)

frames = st.builds(Frame, _i64, _i64, st.one_of(_bodies))
"""Any frame that the fields can hold."""

data_frames = st.builds(Frame, _i64, _i64, _data)
"""Any TRANSFER_DATA."""

ack_frames = st.builds(
    Frame,
    _i64,
    _i64,
    st.builds(
        TransferAck,
        *(_i64,) * 6,
        st.sampled_from((AckStatus.OK, AckStatus.OK, AckStatus.POISONED)),
        st.sampled_from((AckFlag(0), AckFlag(0), AckFlag.RESUME)),
    ),
)
"""Acks, most of them with status OK and no flag."""
