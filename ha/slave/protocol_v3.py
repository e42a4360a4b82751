"""
The slave's end of a v3 connection. Pure.

The handshake asks, one reply at a time: who is master under which epoch, then its
epoch table, page by page. Then the log is cut to the consistent point, and only
when the cut is durable the master is told where to begin (R274). From its first
block on, bytes are appended, and acks say what the log holds, nothing else.

Source: docs/protocol.md (K.3).
"""

from __future__ import annotations

from enum import Enum

from pystore.errors import LocalViolation, RemoteViolation
from pystore.ha.slave.acks import Echo, confirmable, health, may_rest, transfer_ack
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.consistent_point import ConsistentPoint, meet
from pystore.ha.slave.effects import (
    Append,
    Confirm,
    Cut,
    Retry,
    SlaveEffect,
    SlaveLog,
    Wipe,
)
from pystore.ha.slave.epoch_query import EpochPages
from pystore.ha.slave.epoch_start import beginning_with
from pystore.ha.slave.handshake import greeting, meaning, objection
from pystore.ha.slave.protocol import MasterLink
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
    ConfirmTruncate,
    Frame,
    HandshakeMaster,
    QueryEpoch,
    ReturnEpoch,
    TransferData,
)
from pystore.ha.wire.link_state import LinkEvent
from pystore.ha.wire.runs import ROOM_BYTES, FrameRun, join_run
from pystore.ha.wire.v3 import encode

__all__ = ["V3SlaveProtocol"]

# Words of flags cost more than the rest of a frame.
_SUSPENDED, _ACK_NOW = int(DataFlag.SUSPENDED), int(DataFlag.ACK_NOW)
_NO_WISH = AckFlag(0)


class _Phase(Enum):
    # What is awaited: of the master, or of our own log.
    HANDSHAKE = "the answer to the handshake"
    PROMISE = "the promised epoch on disk"
    EPOCHS = "a page of epochs"
    CUT = "the cut on disk"
    DATA = "data"


class V3SlaveProtocol(MasterLink):
    """
    One v3 link to a master. Satisfies `pystore.ha.slave.effects.SlaveProtocol`.

    Args:
        config: who we are and what we know.
    """

    def __init__(self, config: SlaveConfig) -> None:
        super().__init__(config)
        self._phase = _Phase.HANDSHAKE
        self._epoch = config.known_epoch
        self._session: HandshakeMaster | None = None
        self._has_crc = False
        self._pages = EpochPages()
        self._meeting = ConsistentPoint(TruncateOutcome.NOTHING_TO_CUT)
        self._told: TransferData | None = None
        self._echo, self._acked_offset = Echo(), 0
        self._acked_flush = (-1, False)
        self._is_suspended, self._wish = config.is_suspended, _NO_WISH
        self._room = memoryview(bytearray(ROOM_BYTES))

    # -- the handshake -----------------------------------------------------

    def _greet(self, now_ms: int) -> None:
        self._phase, self._session, self._told = _Phase.HANDSHAKE, None, None
        self._epoch, self._pages = self._config.known_epoch, EpochPages()
        self._echo, self._acked_offset, self._acked_flush = Echo(), 0, (-1, False)
        hello = greeting(self._config, self._log, is_suspended=self._is_suspended)
        self._say(hello, now_ms)

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
                self._hear_data(run, now_ms, is_sound=is_sound)
                size = run.size
        elif isinstance(body, HandshakeMaster):
            self._hear_handshake(frame, body, now_ms)
        elif not isinstance(body, ReturnEpoch):
            raise RemoteViolation(f"a master that sends {type(body).__name__}")
        elif not self._is_fenced(frame, body):
            self._hear_epochs(body, now_ms)
        return size

    def _is_fenced(self, frame: Frame, body: ReturnEpoch | TransferData) -> bool:
        # A frame of another epoch or session changes nothing (R273).
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

    def _hear_handshake(self, frame: Frame, body: HandshakeMaster, now_ms: int) -> None:
        self._move(meaning(body))
        refusal = objection(self._config, self._log, frame, body)
        if refusal is not None:
            self._close(refusal.reason, refusal.retry, refusal.redirect)
            return
        if self._phase is not _Phase.HANDSHAKE:
            raise RemoteViolation(f"a handshake instead of {self._phase.value}")
        if frame.epoch < self._highest_epoch:
            self._stale(frame.epoch)
            return
        self._session, self._epoch = body, frame.epoch
        self._has_crc = MasterFlag.BLOCK_CRC in body.flags
        self._master_end = body.end_offset
        self._clocks.heartbeat_ms = body.heartbeat_ms
        self._clocks.housekeeping_ms = body.housekeeping_ms
        self._phase = _Phase.PROMISE
        if not self._promise(frame.epoch):
            self._query(now_ms)

    def _query(self, now_ms: int) -> None:
        self._phase = _Phase.EPOCHS
        self._say(QueryEpoch(self._session_id, self._pages.next_epoch), now_ms)
        self._await_reply(now_ms)

    def _hear_epochs(self, body: ReturnEpoch, now_ms: int) -> None:
        self._move(LinkEvent.HEARD_EPOCHS)
        if self._phase is not _Phase.EPOCHS:
            raise RemoteViolation(f"epochs instead of {self._phase.value}")
        self._pages.add(body)
        if not self._pages.is_whole:
            self._query(now_ms)
            return
        self._phase = _Phase.CUT
        history = self._pages.history(self._epoch)
        self._meeting = meet(self._log, history, may_wipe=self._config.may_wipe)
        if self._meeting.is_wiped:
            self._do(Wipe())
        elif self._meeting.cut is not None:
            self._do(Cut(self._meeting.cut))
        else:
            self._confirm_truncate(now_ms)

    def _confirm_truncate(self, now_ms: int) -> None:
        met, end = self._meeting, self._log.received_offset
        is_placed = met.outcome in (TruncateOutcome.NOTHING_TO_CUT, TruncateOutcome.CUT)
        flags = self._config.truncate_flags & ~TruncateFlag.START_SUSPENDED
        flags |= TruncateFlag.START_SUSPENDED if self._is_suspended else TruncateFlag(0)
        body = ConfirmTruncate(
            session_id=self._session_id,
            epoch=met.epoch,
            point=met.point,
            end_offset=end,
            bytes_cut=met.bytes_cut,
            start_offset=end if is_placed else -1,
            outcome=met.outcome,
            flags=flags,
        )
        self._say(body, now_ms)
        if is_placed or met.outcome is TruncateOutcome.EMPTY:
            self._phase = _Phase.DATA
            self._await_reply(now_ms, max(REPLY_MS, self._clocks.heartbeat_ms))
        else:
            self._close(met.reason, Retry.OPERATOR)

    # -- data --------------------------------------------------------------

    def _hear_data(self, run: FrameRun, now_ms: int, *, is_sound: bool) -> None:
        frame, body = run.frame, run.body
        if self._phase is not _Phase.DATA:
            raise RemoteViolation(f"data instead of {self._phase.value}")
        if self._is_flowing:
            self._move(LinkEvent.HEARD_DATA)
        else:
            self._check_place(body)  # the agreed offset, or this is no answer
            self._begin_flow(now_ms)
        self._follow_suspension(body)
        if not is_sound:
            self._give_up(
                f"the block at {body.offset} has another checksum than its frame says",
                Retry.SOON,
                AckStatus.BAD_CRC,
                now_ms,
            )
            return
        try:
            self._check_place(body)
            has_bytes, entry = len(body.block) > 0, None
            if has_bytes:
                entry = beginning_with(self._log, body, self._epoch)
        except RemoteViolation as error:  # K.3 has a word for it: say it, then go
            self._give_up(str(error), Retry.SOON, AckStatus.GAP, now_ms)
            return
        self._told, self._is_ack_due = body, True
        self._master_end = body.end_offset
        self._echo = Echo(frame.sent_ms, body.end_offset)
        if has_bytes:
            self._do(Append(body.offset, body.block, entry, run.more))
        else:
            self._apply_confirm(now_ms)

    def _check_place(self, body: TransferData) -> None:
        log = self._log
        if body.offset + len(body.block) > body.end_offset:
            raise RemoteViolation(
                f"a block from {body.offset} to {body.offset + len(body.block)} of a "
                f"log that ends at {body.end_offset}"
            )
        is_chosen = self._meeting.outcome is TruncateOutcome.EMPTY and log.is_empty
        if is_chosen and body.offset >= 0 and body.offset % log.segment_size == 0:
            return  # the master chose where we begin
        if body.offset != log.received_offset:
            raise RemoteViolation(
                f"the block begins at {body.offset}, our log goes on at "
                f"{log.received_offset}"
            )

    def _follow_suspension(self, body: TransferData) -> None:
        is_suspended = bool(int(body.flags) & _SUSPENDED)
        if is_suspended and len(body.block):
            raise RemoteViolation(
                f"a block of {len(body.block)} bytes from a master that suspended us"
            )
        if is_suspended and self._state is State.TRANSFER:
            self._move(LinkEvent.SUSPEND)
        elif not is_suspended and self._state is State.SUSPEND:
            self._move(LinkEvent.RESUME)
        if self._wish is (AckFlag.SUSPEND if is_suspended else AckFlag.RESUME):
            self._wish = _NO_WISH

    def _apply_confirm(self, now_ms: int) -> None:
        if self._told is None:
            return
        target = confirmable(self._log, self._told.confirm_offset)
        if target is not None:
            self._do(Confirm(target))
        else:
            self._ack_if_asked(now_ms)

    def _ack_if_asked(self, now_ms: int) -> None:
        told = self._told
        if told and int(told.flags) & _ACK_NOW and self._is_ack_due:
            self._ack(now_ms)

    # -- what became of effects --------------------------------------------

    def _carried_out(self, effect: SlaveEffect, now_ms: int) -> None:
        if isinstance(effect, Promise):
            self._query(now_ms)
        elif isinstance(effect, Cut | Wipe):
            self._move(LinkEvent.LOG_CUT)
            self._confirm_truncate(now_ms)
        elif isinstance(effect, Append):
            self._move(LinkEvent.LOG_APPENDED)
            if not self._may_rest():
                self._apply_confirm(now_ms)
        elif isinstance(effect, Confirm):
            self._ack_if_asked(now_ms)

    def _refused(
        self, effect: SlaveEffect, reason: str, status: AckStatus, now_ms: int
    ) -> None:
        if self._is_flowing:
            # Space may come back by itself; bad bytes and a bad disk do not.
            retry = Retry.SOON if status is AckStatus.DISK_FULL else Retry.OPERATOR
            self._give_up(f"{type(effect).__name__}: {reason}", retry, status, now_ms)
            return
        if isinstance(effect, Cut | Wipe):
            met = self._meeting
            self._meeting = ConsistentPoint(
                TruncateOutcome.REFUSED,
                met.epoch,
                met.point,
                reason=f"the log is not cut at {met.cut}: {reason}"
                if isinstance(effect, Cut)
                else f"the log is not wiped: {reason}",
            )
            self._confirm_truncate(now_ms)
            return
        self._close(f"{type(effect).__name__}: {reason}", Retry.OPERATOR)

    def _give_up(
        self, reason: str, retry: Retry, status: AckStatus, now_ms: int
    ) -> None:
        self._send_ack(now_ms, status, self._wish)
        self._close(reason, retry)

    # -- acks --------------------------------------------------------------

    @property
    def wants_flush(self) -> bool:
        """
        Whether the master asked for an ack of bytes that are not durable yet.
        """
        told, log = self._told, self._log
        is_asked = told is not None and int(told.flags) & _ACK_NOW
        return bool(is_asked) and log.flushed_offset < log.end_offset

    def _may_rest(self) -> bool:
        told, received = self._told, self._log.received_offset
        return told is not None and may_rest(told, received, self._acked_offset)

    def flushed(self, log: SlaveLog, now_ms: int) -> None:
        """
        More of the log is durable, or never will be: the master wants to know (B9).
        """
        super().flushed(log, now_ms)
        if self._is_flowing and self._flush != self._acked_flush:
            self._ack(now_ms)

    def suspend(self, now_ms: int) -> None:
        """
        Asks the master for no more bytes; until it agrees they are taken.
        """
        self._is_suspended, self._wish = True, AckFlag.SUSPEND
        if self._is_flowing and self._state is State.TRANSFER:
            self._ack(now_ms)

    def resume(self, now_ms: int) -> None:
        """
        Asks the master for bytes again.
        """
        self._is_suspended, self._wish = False, AckFlag.RESUME
        if self._is_flowing and self._state is State.SUSPEND:
            self._ack(now_ms)

    def _ack(self, now_ms: int) -> None:
        self._send_ack(now_ms, health(self._log), self._wish)

    def _say_goodbye(self, now_ms: int) -> None:
        self._send_ack(now_ms, AckStatus.SHUTTING_DOWN, AckFlag.LEAVING)

    def _send_ack(self, now_ms: int, status: AckStatus, flags: AckFlag) -> None:
        if self._config.is_learner:
            flags |= AckFlag.LEARNER
        self._is_ack_due, self._acked_flush = False, self._flush
        self._acked_offset = self._log.received_offset
        ack = transfer_ack(self._log, self._session_id, self._echo, status, flags)
        self._say(ack, now_ms)

    @property
    def _flush(self) -> tuple[int, bool]:
        return self._log.flushed_offset, self._log.is_poisoned

    # -- words -------------------------------------------------------------

    @property
    def _session_id(self) -> int:
        if self._session is None:
            raise LocalViolation("no session yet")
        return self._session.session_id

    def _say(self, body: Body, now_ms: int) -> None:
        self._send(encode(Frame(self._epoch, now_ms, body)), now_ms)
