"""
The frames of the v3 protocol as values. Pure.

A header of each frame names the sender's clock and the epoch of the session; a
body is one of the classes here. Offsets are bytes of the log, ends are exclusive,
times are milliseconds.

Source: docs/protocol.md (RMQ-K.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pystore.ha.wire.codes import (
    AckFlag,
    AckStatus,
    CheckResult,
    DataFlag,
    EpochsFlag,
    MasterFlag,
    QueuesFlag,
    SlaveFlag,
    TruncateFlag,
    TruncateOutcome,
)

__all__ = [
    "Body",
    "Challenge",
    "ConfirmTruncate",
    "Frame",
    "HandshakeMaster",
    "HandshakeSlave",
    "LinkProof",
    "QueryEpoch",
    "ReturnEpoch",
    "TransferAck",
    "TransferData",
]


@dataclass(frozen=True, slots=True)
class HandshakeSlave:
    """
    Type 1: identity and log of the slave.

    Attributes:
        protocol_min: oldest version that it speaks.
        protocol_max: newest one.
        broker_id: persistent, from 1 on.
        incarnation: counter of the process start.
        last_epoch: of its table, -1 if that is empty.
        min_offset: 0 if the log is empty.
        end_offset: of the log, by whole records.
        flushed_offset: durable below.
        segment_size: bytes of one file of its log.
        frame_bytes_max: the longest frame that it takes.
        flags: its requests.
        incarnation_bits: 16 random bytes of the process start (B1).
        cluster: name of the cluster.
        broker_name: name of the broker set.
        address: where it is reached.
        version: of its software.
        challenge: its random bytes, with the flag PROVES; else empty.
    """

    protocol_min: int
    protocol_max: int
    broker_id: int
    incarnation: int
    last_epoch: int
    min_offset: int
    end_offset: int
    flushed_offset: int
    segment_size: int
    frame_bytes_max: int
    flags: SlaveFlag
    incarnation_bits: bytes
    cluster: str
    broker_name: str
    address: str
    version: str
    challenge: bytes = b""


@dataclass(frozen=True, slots=True)
class HandshakeMaster:
    """
    Type 2: the answer to the handshake, and the settings of the session.

    Attributes:
        result: success, or the kind of refusal.
        protocol: version of the session; 0 on refusal.
        broker_id: the master's.
        session_id: random, not 0 on success.
        epoch_start: where the current epoch begins.
        min_offset: of the master's log.
        end_offset: of the master's log.
        confirm_offset: below it the set holds every byte.
        segment_size: bytes of one file of its log.
        frame_bytes_max: of this session.
        heartbeat_ms: how often each side sends at least one frame.
        housekeeping_ms: how long a side waits for a frame.
        flags: of the session.
        redirect: HA address of the master, if it is another broker.
        reason: of a refusal, for people; at most 1,024 bytes are sent.
    """

    result: CheckResult
    protocol: int
    broker_id: int
    session_id: int
    epoch_start: int
    min_offset: int
    end_offset: int
    confirm_offset: int
    segment_size: int
    frame_bytes_max: int
    heartbeat_ms: int
    housekeeping_ms: int
    flags: MasterFlag
    redirect: str
    reason: str


@dataclass(frozen=True, slots=True)
class Challenge:
    """
    Type 10: the master's proof, and its challenge.

    Attributes:
        session_id: of the session that begins; random, not 0.
        challenge: random bytes.
        proof: of the master.
    """

    session_id: int
    challenge: bytes
    proof: bytes


@dataclass(frozen=True, slots=True)
class LinkProof:
    """
    Type 11: the slave's proof.

    Attributes:
        session_id: of the challenge.
        proof: of the slave.
    """

    session_id: int
    proof: bytes


@dataclass(frozen=True, slots=True)
class QueryEpoch:
    """
    Type 3: a query for a page of the epoch table.

    Attributes:
        session_id: of the handshake.
        first_epoch: entries from this epoch on.
        entries_max: 0: as many as fit.
    """

    session_id: int
    first_epoch: int = 0
    entries_max: int = 0


@dataclass(frozen=True, slots=True)
class ReturnEpoch:
    """
    Type 4: a page of the master's epoch table.

    Attributes:
        session_id: of the handshake.
        min_offset: of the master's log when the table was taken.
        end_offset: likewise; the end of the last entry.
        entries_total: of the whole table.
        flags: whether more follow.
        entries: (epoch, start offset, end offset), ascending.
    """

    session_id: int
    min_offset: int
    end_offset: int
    entries_total: int
    flags: EpochsFlag
    entries: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class QueryQueues:
    """
    Type 8: an empty slave's query for a page of the next queue offsets. The first one
    asks the master for a new snapshot.

    Attributes:
        session_id: of the handshake.
        first: the number of entries that the slave has.
    """

    session_id: int
    first: int = 0


class NextQueueOffset(NamedTuple):
    """
    The next queue offset of one queue.
    """

    topic: str
    queue_id: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class ReturnQueues:
    """
    Type 9: a page of the next queue offsets as of the first byte that the slave gets.

    Attributes:
        session_id: of the handshake.
        min_offset: of the master's log when the table was taken.
        start_offset: of that byte.
        entries_total: of the whole table.
        first: the number of entries before this page.
        flags: whether more follow.
        entries: a part of the table.
    """

    session_id: int
    min_offset: int
    start_offset: int
    entries_total: int
    first: int
    flags: QueuesFlag
    entries: tuple[NextQueueOffset, ...]


@dataclass(frozen=True, slots=True)
class ConfirmTruncate:
    """
    Type 5: the slave's cut is durable, and where it resumes.

    Attributes:
        session_id: of the handshake.
        epoch: of the consistent point, -1 if there is none.
        point: the consistent point, -1 if there is none.
        end_offset: of the slave's log after the cut.
        bytes_cut: how many bytes were cut.
        start_offset: where the data must begin; -1: there is no consistent point.
        outcome: of the cut.
        flags: requests of the slave.
    """

    session_id: int
    epoch: int
    point: int
    end_offset: int
    bytes_cut: int
    start_offset: int
    outcome: TruncateOutcome
    flags: TruncateFlag


class TransferData(NamedTuple):
    """
    Type 6: a block of the log, or a heartbeat without one.

    Attributes:
        epoch: of the block's first byte; without a block, of the session.
        epoch_start: where that epoch begins.
        confirm_offset: the master's.
        offset: where the block begins.
        end_offset: of the master's log when this was encoded.
        session_id: of the handshake.
        crc: CRC-32 of the block; 0 if the session has none.
        flags: of the block.
        block: bytes of the log.
    """

    epoch: int
    epoch_start: int
    confirm_offset: int
    offset: int
    end_offset: int
    session_id: int
    crc: int
    flags: DataFlag
    block: bytes | memoryview = b""


class TransferAck(NamedTuple):
    """
    Type 7: the end of the bytes that the slave holds.

    Attributes:
        session_id: of the handshake.
        received_offset: end of the bytes that it holds.
        flushed_offset: durable below.
        confirm_offset: that it applied.
        echo_ms: write timestamp of the newest frame from the master.
        echo_end_offset: the newest end of the master's log that it received.
        status: of the slave's log.
        flags: requests of the slave.
    """

    session_id: int
    received_offset: int
    flushed_offset: int
    confirm_offset: int
    echo_ms: int
    echo_end_offset: int
    status: AckStatus
    flags: AckFlag


Body = (
    HandshakeSlave
    | HandshakeMaster
    | Challenge
    | LinkProof
    | QueryEpoch
    | ReturnEpoch
    | QueryQueues
    | ReturnQueues
    | ConfirmTruncate
    | TransferData
    | TransferAck
)


class Frame(NamedTuple):
    """
    One frame.

    Attributes:
        epoch: of the sender's session.
        sent_ms: the sender's clock; for people and for lag, never for safety.
        body: its fields.
    """

    epoch: int
    sent_ms: int
    body: Body
