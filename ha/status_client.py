"""
What a master says of itself when it is asked, by either protocol.

A v3 master answers a handshake and a query for epochs, and begins no session until
it is told where to begin (K.3), so nobody is replaced and nothing is counted. A
legacy master says its minimum and its confirm offset only with the first block: for
that the question reports an end of 0, as a learner of an id that nobody has, and
hangs up.

Source: docs/protocol.md (K.3; formats 6.5).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pystore.epochs.table import NO_EPOCH, EpochTable
from pystore.errors import RemoteViolation
from pystore.ha.slave.epoch_query import EpochPages
from pystore.ha.slave.transport import MasterStream, StreamLost, connect, parse_address
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

__all__ = ["LEARNER_ID", "MasterStatus", "StatusQuery", "ask_legacy", "ask_v3"]

LEARNER_ID = 2**31 - 1
"""Above every id that a controller gives away."""

# Newer than any process, so that a live session of this id is no objection.
_INCARNATION = 2**63 - 1
_SEGMENT_UNKNOWN = 1

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class StatusQuery:
    """
    Whom to ask, and who asks.

    Attributes:
        address: ``HOST:PORT`` of the master's HA listener.
        cluster: name of the cluster (v3).
        broker_name: name of the broker set (v3).
        broker_id: one that the controller knows (v3).
        timeout_ms: how long all of it may take.
    """

    address: str
    cluster: str = "DefaultCluster"
    broker_name: str = "broker-a"
    broker_id: int = LEARNER_ID
    timeout_ms: int = 10_000


@dataclass(frozen=True, slots=True)
class MasterStatus:
    """
    What a master said. What its protocol does not say is ``None``.

    Attributes:
        protocol: v3 or legacy.
        result: name of a CheckResult; SUCCESS with legacy.
        reason: of a refusal, one line.
        redirect: where the master is, if it is known to be elsewhere.
        broker_id: the master's.
        epoch: of its mastership; legacy: of the last entry, -1 if there is none.
        min_offset: of its log.
        end_offset: of its log.
        confirm_offset: below it the set holds every byte.
        segment_size: bytes of one file of its log.
        epochs: its table; empty after a refusal.
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
        Returns epoch, start and end of each, oldest first.
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


class _Link:
    # One question's connection: frame by frame, until its time is over.

    def __init__(self, stream: MasterStream, deadline_ms: int) -> None:
        self._stream = stream
        self._deadline_ms = deadline_ms

    def say(self, data: bytes) -> None:
        self._stream.send(data)

    def hear(self, take: Callable[[memoryview], tuple[_Answer | None, int]]) -> _Answer:
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
                raise StreamLost("it does not answer in time")
            self._stream.wait(left_ms)


def _connect(question: StatusQuery) -> MasterStream:
    host, port = parse_address(question.address)
    return connect(host, port, lambda: False, _now_ms)


def ask_v3(question: StatusQuery) -> MasterStatus:
    """
    Asks a master that speaks v3.

    A slave has to have the master's segment size, which nobody has to know here: the
    first refusal tells it, and a second link goes on.

    Raises:
        InvalidError: a name that fits into no frame; nobody was asked.
        StreamLost: nobody there, or no answer in time.
        RemoteViolation: an answer that is none.
    """
    deadline_ms = _now_ms() + question.timeout_ms
    found = _ask_with_segments(question, _SEGMENT_UNKNOWN, deadline_ms)
    if found.result == CheckResult.STORE_LAYOUT.name:
        found = _ask_with_segments(question, found.segment_size or 0, deadline_ms)
    return found


def _ask_with_segments(
    question: StatusQuery, segment_size: int, deadline_ms: int
) -> MasterStatus:
    greeting = encode(Frame(NO_EPOCH, 0, _greeting(question, segment_size)))
    with _connect(question) as stream:
        link = _Link(stream, deadline_ms)
        link.say(greeting)
        frame = link.hear(lambda data: take_frame(data, FRAME_BYTES_UNSETTLED))
        body = frame.body
        if not isinstance(body, HandshakeMaster):
            raise RemoteViolation(f"{type(body).__name__} answers a handshake")
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
        return _with_epochs(found, link, body)


def _greeting(question: StatusQuery, segment_size: int) -> HandshakeSlave:
    return HandshakeSlave(
        protocol_min=PROTOCOL_V3,
        protocol_max=PROTOCOL_V3,
        broker_id=question.broker_id,
        incarnation=_INCARNATION,
        last_epoch=NO_EPOCH,
        min_offset=0,
        end_offset=0,
        flushed_offset=0,
        segment_size=segment_size,
        frame_bytes_max=FRAME_BYTES_UNSETTLED,
        flags=SlaveFlag.LEARNER | SlaveFlag.START_SUSPENDED,
        incarnation_bits=bytes(16),
        cluster=question.cluster,
        broker_name=question.broker_name,
        address="",
        version="",
    )


def _with_epochs(
    found: MasterStatus, link: _Link, session: HandshakeMaster
) -> MasterStatus:
    pages = EpochPages()
    while not pages.is_whole:
        query = QueryEpoch(session.session_id, pages.next_epoch)
        link.say(encode(Frame(found.epoch, 0, query)))
        frame = link.hear(lambda data: take_frame(data, FRAME_BYTES_UNSETTLED))
        if not isinstance(frame.body, ReturnEpoch):
            raise RemoteViolation(f"{type(frame.body).__name__} instead of epochs")
        pages.add(frame.body)
    history = pages.history(found.epoch)
    assert history.min_offset is not None  # a page says it
    # The log may have grown since the handshake, and its front may have gone.
    return replace(
        found,
        epochs=history.epochs,
        min_offset=history.min_offset,
        end_offset=history.end_offset,
    )


def ask_legacy(question: StatusQuery) -> MasterStatus:
    """
    Asks a master that speaks RocketMQ's protocol.

    Raises:
        StreamLost: nobody there, or no answer in time.
        RemoteViolation: an answer that is none.
    """
    with _connect(question) as stream:
        link = _Link(stream, _now_ms() + question.timeout_ms)
        link.say(encode_legacy(LegacyHandshake(LEARNER_ID, is_learner=True)))
        answer = link.hear(_take_legacy)
        if not isinstance(answer, LegacyEpochs):
            raise RemoteViolation(f"{type(answer).__name__} answers a handshake")
        link.say(encode_legacy(LegacyAck(0)))
        data = link.hear(_take_legacy)
        if not isinstance(data, LegacyData):
            raise RemoteViolation(f"{type(data).__name__} instead of data")
    return MasterStatus(
        protocol="legacy",
        epoch=answer.last_epoch,
        # -1: the master has no byte.
        min_offset=answer.end_offset if data.offset < 0 else data.offset,
        end_offset=answer.end_offset,
        confirm_offset=data.confirm_offset,
        epochs=table_of_legacy(answer),
    )


def _take_legacy(
    data: memoryview,
) -> tuple[LegacyEpochs | LegacyData | None, int]:
    return decode_from_master(data, LEGACY_FRAME_BYTES_MAX) or (None, 0)
