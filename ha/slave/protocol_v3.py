"""
The slave's end of a v3 connection. Pure.

The handshake learns the master's epoch, then queries its epoch table page by page. Then
the log is cut to the consistent point. Only when the cut is durable, the slave confirms
where the data must begin (RMQ-R274). From the first block on, the slave appends the
bytes, and its acks report what the log holds.

Source: docs/protocol.md (RMQ-K.3).
"""

from __future__ import annotations

from pystore.core.frame_step import FrameLabel, SteppedFrame
from pystore.errors import LocalViolation, RemoteViolation
from pystore.ha.slave.acks import (
    Echo,
    label_of,
    may_delay_ack,
    next_confirm_offset,
    status_of,
    transfer_ack,
)
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.consistent_point import ConsistentPoint, find_consistent_point
from pystore.ha.slave.effects import (
    Append,
    Begin,
    Confirm,
    Cut,
    ReachFloor,
    Retry,
    SlaveEffect,
    SlaveLog,
    Wipe,
)
from pystore.ha.slave.epoch_query import EpochPages
from pystore.ha.slave.epoch_start import new_epoch_of_block
from pystore.ha.slave.frame_checks import LinkPhase, check_place, expect
from pystore.ha.slave.handshake import event_of, refusal_effect, slave_handshake
from pystore.ha.slave.proofs import MasterProofs
from pystore.ha.slave.protocol import MasterLink
from pystore.ha.slave.queue_query import QueuePages
from pystore.ha.slave.timers import REPLY_MS
from pystore.ha.wire.checksum import is_block_sound
from pystore.ha.wire.codes import (
    FRAME_BYTES_UNSETTLED,
    AckFlag,
    AckStatus,
    DataFlag,
    MasterFlag,
    State,
    TruncateFlag,
    TruncateOutcome,
)
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.effects import Promise
from pystore.ha.wire.frames import (
    Body,
    Challenge,
    Frame,
    HandshakeMaster,
    QueryEpoch,
    QueryQueues,
    ReturnEpoch,
    ReturnQueues,
    TransferData,
)
from pystore.ha.wire.link_state import LinkEvent
from pystore.ha.wire.proof import CHALLENGE_BYTES
from pystore.ha.wire.runs import ROOM_BYTES, FrameRun, join_run
from pystore.ha.wire.v3 import encode

__all__ = ["V3SlaveProtocol"]

# Flags as enums cost more than the rest of a frame.
_SUSPENDED, _ACK_NOW = int(DataFlag.SUSPENDED), int(DataFlag.ACK_NOW)
_NO_FLAG = AckFlag(0)


class V3SlaveProtocol(MasterLink):
    """
    One v3 link to a master. Satisfies `pystore.ha.slave.effects.SlaveProtocol`.

    Args:
        config: of the slave.
        challenge: random bytes of the link, for proofs.
    """

    def __init__(
        self, config: SlaveConfig, challenge: bytes = bytes(CHALLENGE_BYTES)
    ) -> None:
        super().__init__(config)
        self._challenge = challenge
        self._proofs = MasterProofs(config, challenge)
        self._phase = LinkPhase.HANDSHAKE
        self._epoch = config.known_epoch
        self._session: HandshakeMaster | None = None
        self._has_crc = False
        self._pages, self._queues = EpochPages(), QueuePages()
        self._consistent_point = ConsistentPoint(TruncateOutcome.NOTHING_TO_CUT)
        self._last_data: TransferData | None = None
        self._echo, self._acked_offset = Echo(), 0
        self._acked_flush = (-1, False)
        self._is_suspended, self._wanted_flag = config.is_suspended, _NO_FLAG
        self._room = memoryview(bytearray(ROOM_BYTES))
        self._label: FrameLabel | None = None

    # -- the handshake -----------------------------------------------------

    def _start_handshake(self, now_ms: int) -> None:
        self._phase, self._session, self._last_data = LinkPhase.HANDSHAKE, None, None
        self._epoch = self._config.known_epoch
        self._pages, self._queues = EpochPages(), QueuePages()
        self._echo, self._acked_offset, self._acked_flush = Echo(), 0, (-1, False)
        self._label = None
        self._proofs = proofs = MasterProofs(self._config, self._challenge)
        if proofs.lacks_secret:
            self._close(
                "links have to be proven, and no controller has given a secret for "
                f"epoch {self._epoch} yet",
                Retry.ASK_CONTROLLER,
            )
            return
        handshake = slave_handshake(
            self._config,
            self._log,
            is_suspended=self._is_suspended,
            challenge=proofs.challenge,
        )
        frame = encode(Frame(self._epoch, now_ms, handshake))
        proofs.began(frame)
        self._send(frame, now_ms)

    def _take(self, data: memoryview, now_ms: int) -> int:
        session = self._session
        limit = session.frame_bytes_max if session else FRAME_BYTES_UNSETTLED
        frame, size = take_frame(data, limit)
        if frame is None:
            return size
        body = frame.body
        if isinstance(body, TransferData):
            if not self._is_fenced(frame, body):
                is_sound = not self._has_crc or is_block_sound(data[:size])
                run = FrameRun(frame, body, size)
                if self._is_flowing and not self._has_crc:
                    run = join_run(data, run, self._room, limit)
                self._take_data(run, now_ms, is_sound=is_sound)
                size = run.size
        elif isinstance(body, HandshakeMaster):
            self._take_handshake(frame, body, now_ms)
        elif isinstance(body, Challenge):
            self._take_challenge(body, now_ms)
        elif not isinstance(body, ReturnEpoch | ReturnQueues):
            raise RemoteViolation(f"a {type(body).__name__} from a master")
        elif self._is_fenced(frame, body):
            pass
        elif isinstance(body, ReturnEpoch):
            self._take_epochs(body, now_ms)
        else:
            self._take_queues(body, now_ms)
        return size

    def _is_fenced(
        self, frame: Frame, body: ReturnEpoch | ReturnQueues | TransferData
    ) -> bool:
        # A frame of another epoch or session changes nothing (RMQ-R273).
        if self._session is None:
            raise RemoteViolation(f"{type(body).__name__} before the handshake")
        if frame.epoch != self._epoch:
            self._close(
                f"a frame of epoch {frame.epoch} in a session of epoch {self._epoch}",
                Retry.ASK_CONTROLLER,
            )
            return True
        if body.session_id != self._session.session_id:
            raise RemoteViolation(
                f"a frame of session {body.session_id:x} in session "
                f"{self._session.session_id:x}"
            )
        return False

    def _take_challenge(self, body: Challenge, now_ms: int) -> None:
        self._move(LinkEvent.RECEIVED_CHALLENGE)
        proof = self._proofs.answer(body)
        if proof is None:
            self._close(
                f"the peer is not the master of epoch {self._epoch}: its proof was "
                "made with another secret",
                Retry.ASK_CONTROLLER,
            )
            return
        self._send_frame(proof, now_ms)
        self._await_reply(now_ms)

    def _take_handshake(self, frame: Frame, body: HandshakeMaster, now_ms: int) -> None:
        self._move(event_of(body))
        if self._proofs.problem:
            # A refusal of a stranger tells nothing that counts.
            self._close(self._proofs.problem, Retry.ASK_CONTROLLER)
            return
        self._proofs.check(body)
        refusal = refusal_effect(self._config, self._log, frame, body)
        if refusal is not None:
            self._close(refusal.reason, refusal.retry, refusal.redirect)
            return
        expect(self._phase, LinkPhase.HANDSHAKE, "a handshake")
        if frame.epoch < self._highest_epoch:
            self._stale(frame.epoch)
            return
        self._session, self._epoch = body, frame.epoch
        self._has_crc = MasterFlag.BLOCK_CRC in body.flags
        self._master_end = body.end_offset
        self._clocks.heartbeat_ms = body.heartbeat_ms
        self._clocks.housekeeping_ms = body.housekeeping_ms
        self._phase = LinkPhase.PROMISE
        if not self._promise(frame.epoch):
            self._query(now_ms)

    def _query(self, now_ms: int) -> None:
        self._phase = LinkPhase.EPOCHS
        self._send_frame(QueryEpoch(self._session_id, self._pages.next_epoch), now_ms)
        self._await_reply(now_ms)

    def _take_epochs(self, body: ReturnEpoch, now_ms: int) -> None:
        self._move(LinkEvent.RECEIVED_EPOCHS)
        expect(self._phase, LinkPhase.EPOCHS, "epochs")
        self._pages.add(body)
        if not self._pages.is_whole:
            self._query(now_ms)
            return
        self._phase = LinkPhase.CUT
        history = self._pages.history(self._epoch)
        self._consistent_point = find_consistent_point(
            self._log, history, may_wipe=self._config.may_wipe()
        )
        if self._consistent_point.is_wiped:
            self._add_effect(Wipe())
        elif self._consistent_point.cut is not None:
            self._add_effect(Cut(self._consistent_point.cut))
        else:
            self._cut_is_done(now_ms)

    def _cut_is_done(self, now_ms: int) -> None:
        log = self._log
        is_whole = not log.is_empty and log.min_offset <= self._pages.min_offset
        if log.is_filling and is_whole:
            self._add_effect(ReachFloor())
        is_empty = self._consistent_point.outcome is TruncateOutcome.EMPTY
        # A log from 0 on gets each number with its records.
        begins_at_0 = not (
            self._log.received_offset
            or self._pages.min_offset
            or self._config.is_from_last_file
        )
        if is_empty and not begins_at_0:
            self._query_queues(now_ms)
        else:
            self._confirm_truncate(now_ms)

    def _query_queues(self, now_ms: int) -> None:
        self._phase = LinkPhase.QUEUES
        self._send_frame(QueryQueues(self._session_id, self._queues.first), now_ms)
        self._await_reply(now_ms)

    def _take_queues(self, body: ReturnQueues, now_ms: int) -> None:
        self._move(LinkEvent.RECEIVED_QUEUES)
        expect(self._phase, LinkPhase.QUEUES, "queue offsets")
        self._queues.add(body, self._log.segment_size)
        if self._queues.is_whole:
            self._phase = LinkPhase.BEGIN
            self._add_effect(self._queues.begin())
        else:
            self._query_queues(now_ms)

    def _confirm_truncate(self, now_ms: int) -> None:
        found, end = self._consistent_point, self._log.received_offset
        flags = self._config.truncate_flags & ~TruncateFlag.START_SUSPENDED
        flags |= TruncateFlag.START_SUSPENDED if self._is_suspended else TruncateFlag(0)
        self._send_frame(found.confirmed(self._session_id, end, flags), now_ms)
        if found.is_placed:
            self._phase = LinkPhase.DATA
            self._await_reply(now_ms, max(REPLY_MS, self._clocks.heartbeat_ms))
        else:
            self._close(found.reason, Retry.OPERATOR)

    # -- data --------------------------------------------------------------

    def _take_data(self, run: FrameRun, now_ms: int, *, is_sound: bool) -> None:
        frame, body = run.frame, run.body
        expect(self._phase, LinkPhase.DATA, "data")
        if self._is_flowing:
            self._move(LinkEvent.RECEIVED_DATA)
        else:
            check_place(self._log, body)  # it must begin at the confirmed offset
            self._begin_flow(now_ms)
        self._apply_suspension(body)
        if not is_sound:
            self._report_and_close(
                f"the block at offset {body.offset} does not match its checksum",
                Retry.SOON,
                AckStatus.BAD_CRC,
                now_ms,
            )
            return
        try:
            check_place(self._log, body)
            has_bytes, entry = len(body.block) > 0, None
            if has_bytes:
                entry = new_epoch_of_block(self._log, body, self._epoch)
        except RemoteViolation as error:  # RMQ-K.3 has a status for it: send it first
            self._report_and_close(str(error), Retry.SOON, AckStatus.GAP, now_ms)
            return
        self._last_data, self._is_ack_due = body, True
        self._master_end = body.end_offset
        self._echo = Echo(frame.sent_ms, body.end_offset)
        if has_bytes:
            self._add_effect(Append(body.offset, body.block, entry, run.more))
            self._set_label(frame, body)
        else:
            self._ack_if_asked(now_ms)

    def _apply_suspension(self, body: TransferData) -> None:
        is_suspended, size = bool(int(body.flags) & _SUSPENDED), len(body.block)
        if is_suspended and size:
            raise RemoteViolation(f"a block of {size} bytes in a suspended session")
        if is_suspended and self._state is State.TRANSFER:
            self._move(LinkEvent.SUSPEND)
        elif not is_suspended and self._state is State.SUSPEND:
            self._move(LinkEvent.RESUME)
        if self._wanted_flag is (AckFlag.SUSPEND if is_suspended else AckFlag.RESUME):
            self._wanted_flag = _NO_FLAG

    # -- frames in step ----------------------------------------------------

    @property
    def label(self) -> FrameLabel | None:
        """
        What the next frame has if the link is in step.
        """
        is_open = self._is_open and self._state is State.TRANSFER
        return self._label if is_open and not self._wanted_flag else None

    def _set_label(self, frame: Frame, body: TransferData) -> None:
        session = self._session
        # The acks of a learner have a flag.
        if session is None or self._has_crc or self._config.is_learner:
            return
        label = label_of(frame, body, session.frame_bytes_max)
        if label != self._label:
            self._label = label

    def stepped(self, frame: SteppedFrame, log: SlaveLog, now_ms: int) -> None:
        """
        A frame in step was appended and acked.
        """
        self._known, self._pending = log, 0
        self._clocks.received_ms = self._clocks.sent_ms = now_ms
        self._note_ack()
        self._master_end = frame.end_offset
        self._echo = Echo(frame.sent_ms, frame.end_offset)
        self._last_data = None
        self._apply_confirm(frame.confirm_offset)

    def _apply_confirm(self, confirm_offset: int) -> None:
        target = next_confirm_offset(self._log, confirm_offset)
        if target is not None:
            self._add_effect(Confirm(target))

    def drained(self, now_ms: int) -> None:
        """
        All received frames were processed: one ack may be due. The confirm offset moves
        after it, since appends of the master wait for the ack alone.
        """
        newest = self._last_data
        if newest is None or not self._is_flowing or self._may_delay_ack():
            return
        if self._is_ack_due:
            self._ack(now_ms)
        self._apply_confirm(newest.confirm_offset)

    def _ack_if_asked(self, now_ms: int) -> None:
        newest = self._last_data
        if newest and int(newest.flags) & _ACK_NOW and self._is_ack_due:
            self._ack(now_ms)

    def tick(self, now_ms: int) -> None:
        """
        Time passed: heartbeats, peers that say nothing, and proofs that are required
        by now.
        """
        if self._is_flowing and self._proofs.problem:
            self._close(self._proofs.problem, Retry.ASK_CONTROLLER)
        super().tick(now_ms)

    # -- results of effects ------------------------------------------------

    def _completed(self, effect: SlaveEffect, now_ms: int) -> None:
        if isinstance(effect, Append):  # by far the most
            self._move(LinkEvent.LOG_APPENDED)
            self._ack_if_asked(now_ms)
        elif isinstance(effect, Promise):
            self._query(now_ms)
        elif isinstance(effect, Cut | Wipe):
            self._move(LinkEvent.LOG_CUT)
            self._cut_is_done(now_ms)
        elif isinstance(effect, Begin):
            self._confirm_truncate(now_ms)

    def _effect_failed(
        self, effect: SlaveEffect, reason: str, status: AckStatus, now_ms: int
    ) -> None:
        if self._is_flowing:
            # A full disk may recover; bad bytes and a bad disk do not.
            retry = Retry.SOON if status is AckStatus.DISK_FULL else Retry.OPERATOR
            self._report_and_close(
                f"{type(effect).__name__}: {reason}", retry, status, now_ms
            )
            return
        if isinstance(effect, Cut | Wipe):
            self._consistent_point = self._consistent_point.refused(reason)
            self._confirm_truncate(now_ms)
            return
        self._close(f"{type(effect).__name__}: {reason}", Retry.OPERATOR)

    def _report_and_close(
        self, reason: str, retry: Retry, status: AckStatus, now_ms: int
    ) -> None:
        self._send_ack(now_ms, status, self._wanted_flag)
        self._close(reason, retry)

    # -- acks --------------------------------------------------------------

    @property
    def wants_flush(self) -> bool:
        """
        Whether the master requested an ack of bytes that are not durable yet.
        """
        newest, log = self._last_data, self._log
        is_asked = newest is not None and int(newest.flags) & _ACK_NOW
        return bool(is_asked) and log.flushed_offset < log.end_offset

    def _may_delay_ack(self) -> bool:
        newest, received = self._last_data, self._log.received_offset
        return newest is not None and may_delay_ack(
            newest, received, self._acked_offset
        )

    def flushed(self, log: SlaveLog, now_ms: int) -> None:
        """
        More of the log is durable, or never will be: the slave acks that (B9).
        """
        super().flushed(log, now_ms)
        if self._is_flowing and self._flush != self._acked_flush:
            self._ack(now_ms)

    def suspend(self, now_ms: int) -> None:
        """
        Requests a suspension; until the master confirms it, bytes are taken.
        """
        self._is_suspended, self._wanted_flag = True, AckFlag.SUSPEND
        if self._is_flowing and self._state is State.TRANSFER:
            self._ack(now_ms)

    def resume(self, now_ms: int) -> None:
        """
        Requests the end of the suspension.
        """
        self._is_suspended, self._wanted_flag = False, AckFlag.RESUME
        if self._is_flowing and self._state is State.SUSPEND:
            self._ack(now_ms)

    def _ack(self, now_ms: int) -> None:
        self._send_ack(now_ms, status_of(self._log), self._wanted_flag)

    def _send_last_ack(self, now_ms: int) -> None:
        self._send_ack(now_ms, AckStatus.SHUTTING_DOWN, AckFlag.LEAVING)

    def _send_ack(self, now_ms: int, status: AckStatus, flags: AckFlag) -> None:
        if self._config.is_learner:
            flags |= AckFlag.LEARNER
        self._note_ack()
        ack = transfer_ack(self._log, self._session_id, self._echo, status, flags)
        self._send_frame(ack, now_ms)

    def _note_ack(self) -> None:
        self._is_ack_due, self._acked_flush = False, self._flush
        self._acked_offset = self._log.received_offset

    @property
    def _flush(self) -> tuple[int, bool]:
        return self._log.flushed_offset, self._log.is_poisoned

    # -- frames ------------------------------------------------------------

    @property
    def _session_id(self) -> int:
        if self._session is None:
            raise LocalViolation("there is no session yet")
        return self._session.session_id

    def _send_frame(self, body: Body, now_ms: int) -> None:
        self._send(encode(Frame(self._epoch, now_ms, body)), now_ms)
