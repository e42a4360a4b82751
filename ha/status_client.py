"""
Asks a master for its state, by either protocol.

A v3 master answers a handshake and a query for epochs. It begins no session before it
knows the start offset (RMQ-K.3), so the query replaces no session and is not counted. A
legacy master sends its min offset and its confirm offset only with the first block: to
get that block, the client reports an end of 0 as a learner with an unused id, and then
disconnects.

Source: docs/protocol.md (RMQ-K.3; formats 6.5).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pystore.epochs.table import NO_EPOCH, EpochTable
from pystore.errors import RemoteViolation
from pystore.ha.slave.epoch_query import EpochPages
from pystore.ha.slave.transport import MasterStream, StreamLost, connect
from pystore.ha.wire.codes import (
    FRAME_BYTES_UNSETTLED,
    PROTOCOL_V3,
    CheckResult,
    SlaveFlag,
)
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.frames import (
    Frame,
    HandshakeMaster,
    HandshakeSlave,
    QueryEpoch,
    ReturnEpoch,
)
from pystore.ha.wire.legacy import (
    LEGACY_FRAME_BYTES_MAX,
    LegacyAck,
    LegacyData,
    LegacyEpochs,
    LegacyHandshake,
    decode_from_master,
    encode_legacy,
    table_of_legacy,
)
from pystore.ha.wire.v3 import encode
from pystore.net.address import parse_address

__all__ = ["LEARNER_ID", "MasterStatus", "StatusQuery", "ask_legacy", "ask_v3"]

LEARNER_ID = 2**31 - 1
"""Higher than every id that a controller assigns."""

# Newer than any process, so that the master does not refuse because of a live session
# of the same id.
_INCARNATION = 2**63 - 1
_SEGMENT_UNKNOWN = 1

_Reply = TypeVar("_Reply")


@dataclass(frozen=True, slots=True)
class StatusQuery:
    """
    The master to ask, and the identity to ask it with.

    Attributes:
        address: ``HOST:PORT`` of the master's HA listener.
        cluster: the name of the cluster (v3).
        broker_name: the name of the broker set (v3).
        broker_id: an id that the controller knows (v3).
        timeout_ms: the time limit for the whole query.
    """

    address: str
    cluster: str = "DefaultCluster"
    broker_name: str = "broker-a"
    broker_id: int = LEARNER_ID
    timeout_ms: int = 10_000


@dataclass(frozen=True, slots=True)
class MasterStatus:
    """
    The state of a master. Values that its protocol does not send are ``None``.

    Attributes:
        protocol: v3 or legacy.
        result: the name of a CheckResult; SUCCESS with legacy.
        reason: the reason of a refusal, one line.
        redirect: the address of the master, if this broker is not the master.
        broker_id: the id of the master.
        epoch: the epoch of its mastership; legacy: of the last entry, -1 if there is
            none.
        min_offset: the start of its log.
        end_offset: the end of its log.
        confirm_offset: the SyncStateSet holds every byte below it.
        segment_size: the bytes of one segment of its log.
        epochs: its epoch table; empty after a refusal.
    """

    protocol: str
    epoch: int
    min_offset: int
    end_offset: int
    confirm_offset: int
    result: str = CheckResult.SUCCESS.name
    reason: str = ""
    redirect: str = ""
    broker_id: int | None = None
    segment_size: int | None = None
    epochs: EpochTable = field(default_factory=EpochTable)

    def rows(self) -> list[tuple[int, int, int]]:
        """
        Returns epoch, start and end of each epoch, oldest first.
        """
        return [
            (
                entry.epoch,
                entry.start_offset,
                min(self.epochs.end_of(entry), self.end_offset),
            )
            for entry in self.epochs.entries
        ]


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class _Connection:
    # The connection of one query: sends and receives frames until the deadline.

    def __init__(self, stream: MasterStream, deadline_ms: int) -> None:
        self._stream = stream
        self._deadline_ms = deadline_ms

    def send(self, data: bytes) -> None:
        self._stream.send(data)

    def receive(
        self, take: Callable[[memoryview], tuple[_Reply | None, int]]
    ) -> _Reply:
        # Raises: StreamLost, or RemoteViolation from *take*.
        while True:
            answer, size = take(self._stream.data)
            self._stream.take(size)
            if answer is not None:
                return answer
            if size:
                continue
            left_ms = self._deadline_ms - _now_ms()
            if left_ms <= 0:
                raise StreamLost("it did not answer in time")
            self._stream.wait(left_ms)


def _connect(query: StatusQuery) -> MasterStream:
    host, port = parse_address(query.address)
    return connect(host, port, lambda: False, _now_ms)


def ask_v3(query: StatusQuery) -> MasterStatus:
    """
    Asks a master that speaks v3.

    A slave must have the segment size of its master. The caller need not know it: the
    first refusal contains it, and the query is repeated with it.

    Raises:
        InvalidError: a name is too long for a frame; no connection was made.
        StreamLost: no connection, or no answer in time.
        RemoteViolation: the answer breaks the protocol.
    """
    deadline_ms = _now_ms() + query.timeout_ms
    found = _ask_with_segments(query, _SEGMENT_UNKNOWN, deadline_ms)
    if found.result == CheckResult.STORE_LAYOUT.name:
        found = _ask_with_segments(query, found.segment_size or 0, deadline_ms)
    return found


def _ask_with_segments(
    query: StatusQuery, segment_size: int, deadline_ms: int
) -> MasterStatus:
    handshake = encode(Frame(NO_EPOCH, 0, _handshake(query, segment_size)))
    with _connect(query) as stream:
        connection = _Connection(stream, deadline_ms)
        connection.send(handshake)
        frame = connection.receive(lambda data: take_frame(data, FRAME_BYTES_UNSETTLED))
        body = frame.body
        if not isinstance(body, HandshakeMaster):
            raise RemoteViolation(
                f"the master answered a handshake with {type(body).__name__}"
            )
        found = MasterStatus(
            protocol="v3",
            result=body.result.name,
            reason=" ".join(body.reason.split()),
            redirect=body.redirect,
            broker_id=body.broker_id,
            epoch=frame.epoch,
            min_offset=body.min_offset,
            end_offset=body.end_offset,
            confirm_offset=body.confirm_offset,
            segment_size=body.segment_size,
        )
        if body.result is not CheckResult.SUCCESS:
            return found
        return _with_epochs(found, connection, body)


def _handshake(query: StatusQuery, segment_size: int) -> HandshakeSlave:
    return HandshakeSlave(
        protocol_min=PROTOCOL_V3,
        protocol_max=PROTOCOL_V3,
        broker_id=query.broker_id,
        incarnation=_INCARNATION,
        last_epoch=NO_EPOCH,
        min_offset=0,
        end_offset=0,
        flushed_offset=0,
        segment_size=segment_size,
        frame_bytes_max=FRAME_BYTES_UNSETTLED,
        flags=SlaveFlag.LEARNER | SlaveFlag.START_SUSPENDED,
        incarnation_bits=bytes(16),
        cluster=query.cluster,
        broker_name=query.broker_name,
        address="",
        version="",
    )


def _with_epochs(
    found: MasterStatus, connection: _Connection, session: HandshakeMaster
) -> MasterStatus:
    pages = EpochPages()
    while not pages.is_whole:
        query = QueryEpoch(session.session_id, pages.next_epoch)
        connection.send(encode(Frame(found.epoch, 0, query)))
        frame = connection.receive(lambda data: take_frame(data, FRAME_BYTES_UNSETTLED))
        if not isinstance(frame.body, ReturnEpoch):
            raise RemoteViolation(
                f"the master sent {type(frame.body).__name__} instead of epochs"
            )
        pages.add(frame.body)
    history = pages.history(found.epoch)
    assert history.min_offset is not None  # a page contains it
    # Since the handshake the log may have grown at its end and lost its first segments.
    return replace(
        found,
        epochs=history.epochs,
        min_offset=history.min_offset,
        end_offset=history.end_offset,
    )


def ask_legacy(query: StatusQuery) -> MasterStatus:
    """
    Asks a master that speaks RocketMQ's protocol.

    Raises:
        StreamLost: no connection, or no answer in time.
        RemoteViolation: the answer breaks the protocol.
    """
    with _connect(query) as stream:
        connection = _Connection(stream, _now_ms() + query.timeout_ms)
        connection.send(encode_legacy(LegacyHandshake(LEARNER_ID, is_learner=True)))
        answer = connection.receive(_take_legacy)
        if not isinstance(answer, LegacyEpochs):
            raise RemoteViolation(
                f"the master answered a handshake with {type(answer).__name__}"
            )
        connection.send(encode_legacy(LegacyAck(0)))
        data = connection.receive(_take_legacy)
        if not isinstance(data, LegacyData):
            raise RemoteViolation(
                f"the master sent {type(data).__name__} instead of data"
            )
    return MasterStatus(
        protocol="legacy",
        epoch=answer.last_epoch,
        # -1: the log of the master is empty.
        min_offset=answer.end_offset if data.offset < 0 else data.offset,
        end_offset=answer.end_offset,
        confirm_offset=data.confirm_offset,
        epochs=table_of_legacy(answer),
    )


def _take_legacy(
    data: memoryview,
) -> tuple[LegacyEpochs | LegacyData | None, int]:
    return decode_from_master(data, LEGACY_FRAME_BYTES_MAX) or (None, 0)
