"""
The master's end of a v3 connection: bytes and times in, effects out. Pure.

A slave sends its handshake, queries the epochs, cuts its log to the master's history,
and confirms where it resumes. Then blocks go to the slave and acks come back. Every
number of a slave is checked against what this session sent to it.

Source: docs/protocol.md (RMQ-K.3), docs/replication.md.
"""

from __future__ import annotations

from collections.abc import Callable

from pystore.errors import RemoteViolation
from pystore.ha.insync.facts import SessionAcked, SessionOpened
from pystore.ha.master.config import MasterConfig, SetView
from pystore.ha.master.effects import CloseLink, MasterLog, NewerEpochSeen, SendBlock
from pystore.ha.master.handshake import HandshakeDecision, admit
from pystore.ha.master.proofs import UNPROVEN, SlaveProofs, stranger_refusal
from pystore.ha.master.protocol import AcceptedLink
from pystore.ha.master.resume_point import (
    ResumePoint,
    begin_of_empty,
    find_resume_point,
    refusal_of_empty,
    refusal_of_member,
)
from pystore.ha.wire.blocks import BlockRange
from pystore.ha.wire.codes import (
    FRAME_BYTES_UNSETTLED,
    PROTOCOL_V3,
    AckFlag,
    AckStatus,
    CheckResult,
    DataFlag,
    MasterFlag,
    SlaveFlag,
    State,
    TruncateFlag,
)
from pystore.ha.wire.decoder import plain_ack, take_frame
from pystore.ha.wire.effects import Send
from pystore.ha.wire.epoch_pages import EpochSnapshot, page_of
from pystore.ha.wire.frames import (
    Body,
    ConfirmTruncate,
    Frame,
    HandshakeMaster,
    HandshakeSlave,
    LinkProof,
    QueryEpoch,
    QueryQueues,
    TransferAck,
    TransferData,
)
from pystore.ha.wire.link_state import MASTER, LinkEvent, next_state
from pystore.ha.wire.queue_frames import QueueSnapshot, queue_page
from pystore.ha.wire.v3 import ACK_BYTES, DATA_BYTES_MIN, data_head, encode
from pystore.replicaset import Incarnation

__all__ = ["V3MasterProtocol"]

_ENDING = (AckStatus.GAP, AckStatus.DISK_FULL, AckStatus.BAD_CRC)
"""The slave did not take the bytes that were sent."""

_EPOCH_BEGINS, _ACK_NOW = int(DataFlag.EPOCH_BEGINS), int(DataFlag.ACK_NOW)
_CRC_AT = DATA_BYTES_MIN - 12
"""Where the head of a block has the checksum: before its flags."""


class V3MasterProtocol(AcceptedLink):
    """
    One link to a slave that speaks v3. One thread.

    Args:
        config: of the mastership.
        set_view: returns the set as it is known now.
        session_id: random, not 0.
        now_ms: when the link was accepted.
        proofs: of the slave; by default none are required.
    """

    def __init__(
        self,
        config: MasterConfig,
        set_view: Callable[[], SetView],
        session_id: int,
        now_ms: int,
        proofs: SlaveProofs | None = None,
    ) -> None:
        super().__init__(config, set_view, session_id, now_ms, proofs)
        self._frame_bytes_max = FRAME_BYTES_UNSETTLED
        self._slave: HandshakeSlave | None = None
        self._has_crc = False
        self._is_learner = False
        self._flushed = 0
        self._begin_offset = 0
        self._empty_end: int | None = None
        self._queues: QueueSnapshot | None = None

    @property
    def _block_bytes_max(self) -> int:
        return self.config.block_bytes(self._frame_bytes_max)

    def _first_offset(self, log: MasterLog) -> int | None:
        del log
        return self._offset  # CONFIRM_TRUNCATE settled it

    def _take(self, data: memoryview, log: MasterLog, now_ms: int) -> int:
        slave = self._slave
        if slave is not None and self._state is State.TRANSFER:
            offsets = plain_ack(data, self.config.epoch, self.session_id)
            if offsets is not None:
                self._take_offsets(slave, *offsets, AckStatus.OK)
                return ACK_BYTES
        frame, size = take_frame(data, self._frame_bytes_max)
        if frame is None:
            return size
        body = frame.body
        if isinstance(body, HandshakeSlave):
            raw = bytes(data[:size])
            self._take_handshake(frame.epoch, body, raw, log, now_ms)
        elif isinstance(body, LinkProof):
            self._take_proof(body, log, now_ms)
        elif isinstance(body, QueryEpoch | QueryQueues | ConfirmTruncate | TransferAck):
            self._take_of_session(frame.epoch, body, log, now_ms)
        else:
            raise RemoteViolation(f"a {type(body).__name__} from a slave")
        return size

    def _take_handshake(
        self, epoch: int, body: HandshakeSlave, raw: bytes, log: MasterLog, now_ms: int
    ) -> None:
        self._receive_event(LinkEvent.RECEIVED_HANDSHAKE)
        if self._slave is not None:
            raise RemoteViolation("a second handshake on this link")
        own = self.config.epoch, self.session_id
        challenge = self._proofs.challenge(body, epoch, raw, own)
        if challenge is not None:
            self._send(challenge, now_ms)
        elif self._proofs.problem:
            self._refuse_stranger(now_ms)
        else:
            self._admit(epoch, body, log, now_ms)

    def _take_proof(self, body: LinkProof, log: MasterLog, now_ms: int) -> None:
        self._receive_event(LinkEvent.RECEIVED_PROOF)
        proven = self._proofs.take(body, self.session_id)
        if proven is None:
            self._refuse_stranger(now_ms)
        else:
            shake, epoch = proven
            self._admit(epoch, shake, log, now_ms)

    def _refuse_stranger(self, now_ms: int) -> None:
        frame = stranger_refusal(now_ms + self.config.wall_ms)
        self._effects.append(Send(encode(frame)))
        self._close(UNPROVEN)

    def _admit(
        self, epoch: int, body: HandshakeSlave, log: MasterLog, now_ms: int
    ) -> None:
        decision = admit(body, epoch, self.config, self._set_view())
        if decision.newer_epoch is not None:
            self._effects.append(NewerEpochSeen(decision.newer_epoch))
        if decision.result is not CheckResult.SUCCESS:
            self._refuse(decision, log, now_ms)
            return
        if self._set_view().counts(body.broker_id):
            reason = refusal_of_member(body, log)
            if reason is not None:
                self._refuse_session(reason, log, now_ms)
                return
        self._slave = body
        self._has_crc = self.config.has_block_crc and bool(
            body.flags & SlaveFlag.BLOCK_CRC
        )
        self._is_to_suspend |= bool(body.flags & SlaveFlag.START_SUSPENDED)
        answer = self._answer(HandshakeDecision(CheckResult.SUCCESS), log)
        self._frame_bytes_max = answer.frame_bytes_max
        self._send(answer, now_ms)

    def _refuse(self, decision: HandshakeDecision, log: MasterLog, now_ms: int) -> None:
        self._send(self._answer(decision, log), now_ms)
        self._close(f"{decision.result.name}: {decision.reason}")

    def _refuse_session(self, reason: str, log: MasterLog, now_ms: int) -> None:
        self._refuse(HandshakeDecision(CheckResult.REJECTED, reason), log, now_ms)

    def _answer(self, decision: HandshakeDecision, log: MasterLog) -> HandshakeMaster:
        config, slave = self.config, self._slave
        is_success = decision.result is CheckResult.SUCCESS
        flags = MasterFlag(0)
        if self._has_crc:
            flags |= MasterFlag.BLOCK_CRC
        if slave is not None and self._is_suspended_for(slave):
            flags |= MasterFlag.SUSPENDED
        is_elsewhere = decision.result is CheckResult.NOT_MASTER
        return HandshakeMaster(
            result=decision.result,
            protocol=PROTOCOL_V3 if is_success else 0,
            broker_id=config.broker_id,
            session_id=self.session_id if is_success else 0,
            epoch_start=log.epochs.entries[-1].start_offset,
            min_offset=log.min_offset,
            end_offset=log.end_offset,
            confirm_offset=log.confirm_offset,
            segment_size=log.segment_size,
            frame_bytes_max=config.frame_bytes(
                slave.frame_bytes_max if slave is not None else FRAME_BYTES_UNSETTLED
            ),
            heartbeat_ms=config.heartbeat_ms,
            housekeeping_ms=config.housekeeping_ms,
            flags=flags,
            redirect=self._set_view().redirect if is_elsewhere else "",
            reason=decision.reason,
        )

    def _is_suspended_for(self, slave: HandshakeSlave) -> bool:
        # A slave that acks wait for is never suspended (RMQ-K.3).
        return self._is_to_suspend and not self._set_view().counts(slave.broker_id)

    def _take_of_session(
        self,
        epoch: int,
        body: QueryEpoch | QueryQueues | ConfirmTruncate | TransferAck,
        log: MasterLog,
        now_ms: int,
    ) -> None:
        slave = self._slave
        if slave is None:
            raise RemoteViolation(f"{type(body).__name__} before a handshake")
        is_any = isinstance(body, QueryEpoch) and body.session_id == 0
        if body.session_id != self.session_id and not is_any:
            raise RemoteViolation(
                f"a frame of session {body.session_id}, not of this session"
            )
        if epoch > self.config.epoch:
            self._effects.append(NewerEpochSeen(epoch))
        if epoch != self.config.epoch:
            raise RemoteViolation(
                f"a frame of epoch {epoch} in a session of epoch {self.config.epoch}"
            )
        if isinstance(body, QueryEpoch):
            self._return_epochs(body, log, now_ms)
        elif isinstance(body, QueryQueues):
            self._return_queues(slave, body, log, now_ms)
        elif isinstance(body, ConfirmTruncate):
            self._begin(slave, body, log, now_ms)
        else:
            self._take_ack(slave, body, now_ms)

    def _return_epochs(self, body: QueryEpoch, log: MasterLog, now_ms: int) -> None:
        self._receive_event(LinkEvent.RECEIVED_QUERY)
        snapshot = EpochSnapshot(log.epochs, log.min_offset, log.end_offset)
        page = page_of(snapshot, body, self.session_id, self._frame_bytes_max)
        self._send(page, now_ms)

    def _return_queues(
        self, slave: HandshakeSlave, body: QueryQueues, log: MasterLog, now_ms: int
    ) -> None:
        self._receive_event(LinkEvent.RECEIVED_QUERY)
        is_member = slave.broker_id in self._set_view().members
        reason = refusal_of_empty(log, is_member=is_member)
        if reason is not None:
            # Before its log begins elsewhere.
            self._refuse_session(reason, log, now_ms)
            return
        if not body.first:
            start = begin_of_empty(slave, log)
            self._queues = QueueSnapshot(
                log.min_offset, start, log.queue_offsets(start) if start else ()
            )
        elif self._queues is None:
            raise RemoteViolation("a query for the rest of a table that was not begun")
        page = queue_page(
            self._queues, body.first, self.session_id, self._frame_bytes_max
        )
        self._send(page, now_ms)

    def _begin(
        self, slave: HandshakeSlave, body: ConfirmTruncate, log: MasterLog, now_ms: int
    ) -> None:
        state = next_state(MASTER, self._state, LinkEvent.RECEIVED_TRUNCATE)
        is_member = slave.broker_id in self._set_view().members
        begin = None if self._queues is None else self._queues.start_offset
        self._queues = None
        agreed = find_resume_point(body, log, begin, is_member=is_member)
        if not isinstance(agreed, ResumePoint):
            self._refuse_session(agreed, log, now_ms)
            return
        self._state = state
        self._offset = agreed.offset
        self._begin_offset = agreed.offset
        self._empty_end = agreed.empty_end
        self._acked = agreed.held
        self._is_learner = bool(
            slave.flags & SlaveFlag.LEARNER or body.flags & TruncateFlag.LEARNER
        )
        self._is_to_suspend |= bool(body.flags & TruncateFlag.START_SUSPENDED)
        # It begins in this session, so its handshake could not tell.
        is_late = agreed.empty_end is not None and agreed.offset > log.min_offset
        opened = SessionOpened(
            broker_id=slave.broker_id,
            incarnation=Incarnation(slave.incarnation, slave.incarnation_bits),
            session_id=self.session_id,
            offset=agreed.offset,
            is_learner=self._is_learner,
            is_legacy=False,
            is_filling=bool(slave.flags & SlaveFlag.FILLING) or is_late,
        )
        self._open(opened, now_ms)
        self._heartbeat(log, now_ms)

    def _take_ack(self, slave: HandshakeSlave, ack: TransferAck, now_ms: int) -> None:
        self._receive_event(LinkEvent.RECEIVED_ACK)
        if not self._is_learner and ack.flags and ack.flags & AckFlag.LEARNER:
            raise RemoteViolation("a learner's ack in a session that counts")
        self._take_offsets(
            slave,
            ack.received_offset,
            ack.flushed_offset,
            ack.echo_end_offset,
            ack.status,
        )
        if ack.flags or ack.status is not AckStatus.OK:
            self._apply_status(ack, now_ms)

    def _take_offsets(
        self,
        slave: HandshakeSlave,
        received: int,
        flushed: int,
        echo_end_offset: int,
        status: AckStatus,
    ) -> None:
        received, flushed = self._held(received, flushed)
        self._check_ack(received)
        if not self._flushed <= flushed <= received:
            raise RemoteViolation(
                f"an ack with flushed offset {flushed} after {self._flushed}, and "
                f"received offset {received}"
            )
        self._flushed = flushed
        self._effects.append(
            SessionAcked(
                slave.broker_id,
                self.session_id,
                received,
                flushed,
                self._times.held(min(received, echo_end_offset)),
                status,
            )
        )

    def _held(self, received: int, flushed: int) -> tuple[int, int]:
        """
        Returns the received and the flushed offset. An empty log may be anywhere:
        until it has bytes, its end does not count.

        Raises:
            RemoteViolation: the log is not empty, and does not begin at the resume
                point.
        """
        if self._empty_end is not None:
            if received == self._empty_end:
                return 0, 0
            if received < self._begin_offset:
                raise RemoteViolation(
                    f"an ack of offset {received} of a log that begins at offset "
                    f"{self._begin_offset}"
                )
            self._empty_end = None
        return received, flushed

    def _apply_status(self, ack: TransferAck, now_ms: int) -> None:
        if ack.flags & AckFlag.LEAVING:
            self._end(LinkEvent.LOST, is_graceful=True)
            self._effects.append(CloseLink("the slave ended the session"))
        elif ack.status in _ENDING:
            # After its next handshake the slave gets the lost bytes again.
            self._close(
                f"the slave reports {ack.status.name} at offset {ack.received_offset}"
            )
        elif ack.flags & AckFlag.RESUME and self._state is State.SUSPEND:
            self.resume(now_ms)
        elif self._state is not State.TRANSFER or self._counts():
            return  # a slave that acks wait for is never suspended (RMQ-K.3)
        elif ack.flags & AckFlag.SUSPEND:
            self.suspend(now_ms)

    def _block(self, block: BlockRange, log: MasterLog, now_ms: int) -> SendBlock:
        config = self.config
        flags = _EPOCH_BEGINS if block.is_epoch_begin else 0
        if log.wants_flush:
            flags |= _ACK_NOW
        head = data_head(
            epoch=config.epoch,
            sent_ms=now_ms + config.wall_ms,
            label=(block.epoch, block.epoch_start),
            confirm_offset=log.confirm_offset,
            block=(block.offset, block.size),
            end_offset=log.end_offset,
            session_id=self.session_id,
            flags=flags,
        )
        self._offset = block.end_offset
        self._sent(log, now_ms)
        crc_at = _CRC_AT if self._has_crc else None
        return SendBlock(head, block.offset, block.size, log.end_offset, crc_at)

    def _heartbeat(self, log: MasterLog, now_ms: int) -> None:
        assert self._offset is not None
        own = log.epochs.entries[-1]
        data = TransferData(
            epoch=own.epoch,
            epoch_start=own.start_offset,
            confirm_offset=log.confirm_offset,
            offset=self._offset,
            end_offset=log.end_offset,
            session_id=self.session_id,
            crc=0,
            flags=DataFlag(0),
        )
        if self._state is State.SUSPEND:
            data = data._replace(flags=DataFlag.SUSPENDED)
        self._sent(log, now_ms)
        head = encode(self._frame(data, now_ms))
        self._effects.append(SendBlock(head, self._offset, 0, log.end_offset))

    def _send(self, body: Body, now_ms: int) -> None:
        self._effects.append(Send(encode(self._frame(body, now_ms))))

    def _frame(self, body: Body, now_ms: int) -> Frame:
        return Frame(self.config.epoch, now_ms + self.config.wall_ms, body)

    def _receive_event(self, event: LinkEvent) -> None:
        self._state = next_state(MASTER, self._state, event)
