"""
The state of a master's link, in either protocol. Pure.

States, times and the end of the session are the same in both. The frames are in
`pystore.ha.master.protocol_v3` and `pystore.ha.master.protocol_legacy`.

Source: docs/protocol.md (RMQ-K.3, formats 6.5), RMQ-R182, RMQ-R194.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from pystore.errors import LocalViolation, RemoteViolation
from pystore.ha.insync.facts import SessionEnded, SessionOpened
from pystore.ha.master.config import MasterConfig, SetView
from pystore.ha.master.effects import CloseLink, MasterEffect, MasterLog, SendBlock
from pystore.ha.master.proofs import SlaveProofs
from pystore.ha.master.resume_point import resync_text
from pystore.ha.master.send_times import SendTimes
from pystore.ha.wire.blocks import BlockRange, next_block
from pystore.ha.wire.codes import State
from pystore.ha.wire.link_state import MASTER, LinkEvent, next_state

__all__ = ["CONFIRM_MS", "CONFIRM_MS_MAX", "AcceptedLink"]

CONFIRM_MS = 20
"""
How long after a frame the master sends a moved confirm offset to a slave.
If blocks go more often than that, they carry it and no frame is added.
"""

CONFIRM_MS_MAX = 320
"""If it has not moved, the next check comes after twice as long, up to this."""


class AcceptedLink(ABC):
    """
    One accepted link; `pystore.ha.master.effects.MasterProtocol` says how it is used.

    Attributes:
        config: of the mastership.
        session_id: of this link.

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
        self.config = config
        self._proofs = proofs or SlaveProofs()
        self._accepted_ms = now_ms
        self.session_id = session_id
        self._set_view = set_view
        self._state = next_state(MASTER, State.READY, LinkEvent.ACCEPTED)
        self._effects: list[MasterEffect] = []
        self._is_over = False
        self._opened_id: int | None = None
        self._heard_ms = now_ms
        self._beat_ms = now_ms
        self._confirm_told = 0
        self._confirm_pause_ms = CONFIRM_MS
        self._confirm_ms: int | None = None
        self._is_to_suspend = False
        self._times = SendTimes()
        self._offset: int | None = None
        self._acked = 0

    @property
    def state(self) -> State:
        """
        Of the link.
        """
        return self._state

    def receive(self, data: memoryview, log: MasterLog, now_ms: int) -> int:
        """
        Takes at most one frame; a violation of the peer closes the link (RMQ-R182).
        """
        if self._is_over or self._is_ended_by(log):
            return 0
        try:
            size = self._take(data, log, now_ms)
        except RemoteViolation as error:  # the peer's: none of its frames counts now
            self._close(str(error))
            return 0
        if size:
            self._heard_ms = now_ms
        return size

    def next_block(
        self, log: MasterLog, bytes_max: int, now_ms: int
    ) -> SendBlock | None:
        """
        Returns the next bytes of the log; closes the link if the log cannot serve
        them.
        """
        if self._state is not State.TRANSFER or self._is_ended_by(log):
            return None
        if self._offset is None:
            self._offset = self._first_offset(log)
        if self._offset is None or not self._is_servable(self._offset, log, now_ms):
            return None
        bytes_max = min(bytes_max, self._block_bytes_max)
        block = next_block(log, self._offset, bytes_max)
        return None if block is None else self._block(block, log, now_ms)

    def tick(self, log: MasterLog, now_ms: int) -> None:
        """
        Closes the link of a silent peer. Sends a heartbeat if nothing else was sent,
        or if the confirm offset has moved.
        """
        if self._is_over or self._is_ended_by(log):
            return
        silent_ms = now_ms - self._heard_ms
        if silent_ms >= self._patience_ms:
            self._close(f"the slave sent nothing for {silent_ms} ms")
            return
        if not self._is_open:
            if now_ms >= self._handshake_ms:
                self._close("the handshake took too long")
            return
        if self._proofs.problem:
            # Proofs are required by now: the slave connects again.
            self._close(self._proofs.problem)
        elif now_ms >= self._beat_ms:
            self._heartbeat(log, now_ms)
        elif self._confirm_ms is not None and now_ms >= self._confirm_ms:
            self._check_confirm(log, now_ms)

    def lost(self, reason: str) -> None:
        """
        The socket is closed, so the session ends.
        """
        del reason  # the owner reports it
        self._end(LinkEvent.LOST, is_graceful=False)

    def suspend(self, now_ms: int) -> None:
        """
        Pauses blocks: the next `tick` is due at once and announces it to the slave.
        Before the slave has named its offset, the suspension is kept for later.

        Raises:
            LocalViolation: acks wait for this slave: it must leave the set first
                (RMQ-K.3).
        """
        if self._counts():
            raise LocalViolation(
                f"broker {self._opened_id} is in the SyncStateSet: remove it before it "
                "is suspended"
            )
        self._state = next_state(MASTER, self._state, LinkEvent.SUSPEND)
        self._is_to_suspend = not self._is_open
        self._beat_ms = now_ms

    def resume(self, now_ms: int) -> None:
        """
        Sends blocks again, from the offset of the slave.
        """
        self._state = next_state(MASTER, self._state, LinkEvent.RESUME)
        self._is_to_suspend = False
        self._beat_ms = now_ms

    def shutdown(self, now_ms: int) -> None:
        """
        Ends the session from the master's side.
        """
        del now_ms  # no deadline begins
        if not self._is_over:
            self._close("the master shuts down", LinkEvent.SHUTDOWN)
        self._state = State.SHUTDOWN

    def effects(self) -> list[MasterEffect]:
        """
        Returns each effect once, in order.
        """
        effects, self._effects = self._effects, []
        return effects

    def next_deadline(self) -> int | None:
        """
        Returns when `tick` is due at the latest; ``None`` after the end.
        """
        if self._is_over:
            return None
        silence_ms = self._heard_ms + self._patience_ms
        if not self._is_open:
            return min(silence_ms, self._handshake_ms)
        due_ms = min(silence_ms, self._beat_ms)
        return due_ms if self._confirm_ms is None else min(due_ms, self._confirm_ms)

    @property
    @abstractmethod
    def _block_bytes_max(self) -> int:
        """
        The longest block of the session.
        """

    @abstractmethod
    def _take(self, data: memoryview, log: MasterLog, now_ms: int) -> int:
        """
        Takes at most one frame and returns its bytes.
        """

    @abstractmethod
    def _block(self, block: BlockRange, log: MasterLog, now_ms: int) -> SendBlock:
        """
        Returns the frame of a block, and records that it is sent.
        """

    @abstractmethod
    def _heartbeat(self, log: MasterLog, now_ms: int) -> None:
        """
        Sends a frame without a block.
        """

    @abstractmethod
    def _first_offset(self, log: MasterLog) -> int | None:
        """
        Returns where a slave begins that lets the master choose; ``None``: not known
        yet.
        """

    @property
    def _is_open(self) -> bool:
        return self._state in (State.TRANSFER, State.SUSPEND)

    @property
    def _handshake_ms(self) -> int:
        """
        When a handshake has to be over, whatever is said in it.
        """
        config, is_proven = self.config, self._proofs.is_proven
        # A slave that has proven itself may have to cut a long log.
        return self._accepted_ms + (
            config.housekeeping_ms if is_proven else config.handshake_ms
        )

    @property
    def _patience_ms(self) -> int:
        return self.config.housekeeping_ms if self._is_open else self.config.reply_ms

    def _open(self, opened: SessionOpened, now_ms: int) -> None:
        self._opened_id = opened.broker_id
        self._effects.append(opened)
        self._beat_ms = now_ms
        if self._is_to_suspend and not self._counts():
            self._state = next_state(MASTER, self._state, LinkEvent.SUSPEND)

    def _sent(self, log: MasterLog, now_ms: int) -> None:
        self._beat_ms = now_ms + self.config.heartbeat_ms
        self._times.sent(log.end_offset, now_ms)
        self._confirm_told = log.confirm_offset
        self._confirm_pause_ms = CONFIRM_MS
        has_all = self._offset == log.end_offset and self._state is State.TRANSFER
        is_to_come = has_all and log.confirm_offset < log.end_offset
        self._confirm_ms = now_ms + CONFIRM_MS if is_to_come else None

    def _check_confirm(self, log: MasterLog, now_ms: int) -> None:
        # A slave that lacks bytes gets it with the next block.
        has_all = self._offset == log.end_offset
        if has_all and log.confirm_offset > self._confirm_told:
            self._heartbeat(log, now_ms)
            return
        self._confirm_pause_ms = min(2 * self._confirm_pause_ms, CONFIRM_MS_MAX)
        self._confirm_ms = now_ms + self._confirm_pause_ms

    def _counts(self) -> bool:
        return self._opened_id is not None and self._set_view().counts(self._opened_id)

    def _is_ended_by(self, log: MasterLog) -> bool:
        """
        Returns whether the session is over because the epoch is (RMQ-K.3.4).
        """
        last = log.epochs.last_epoch
        if not self._is_over and last != self.config.epoch:
            self._close(
                f"stale epoch {self.config.epoch} of the session: the log is at epoch "
                f"{last}"
            )
        return self._is_over

    def _is_servable(self, offset: int, log: MasterLog, now_ms: int) -> bool:
        if offset < log.min_offset:
            reason = resync_text(f"the slave resumes at offset {offset}", log)
            self._refuse_session(reason, log, now_ms)
        elif offset > log.end_offset:
            self._close(
                f"bytes up to offset {offset} were sent, and the log ends at offset "
                f"{log.end_offset}"
            )
        elif offset < log.epochs.entries[0].start_offset:
            reason = f"no epoch covers offset {offset}"
            self._refuse_session(reason, log, now_ms)
        return not self._is_over

    def _check_ack(self, received: int) -> None:
        """
        Raises:
            RemoteViolation: the slave acks bytes that were never sent to it (RMQ-R130),
                or less than before.
        """
        sent = self._offset or 0
        if received > sent:
            raise RemoteViolation(f"an ack of offset {received}, above the sent {sent}")
        if received < self._acked:
            raise RemoteViolation(
                f"an ack of offset {received} after an ack of offset {self._acked}: "
                "acks never fall"
            )
        self._acked = received

    def _refuse_session(self, reason: str, log: MasterLog, now_ms: int) -> None:
        """
        Ends the session, with the reason if the protocol can carry it.
        """
        del log, now_ms  # the legacy protocol has no refusal
        self._close(reason)

    def _close(self, reason: str, event: LinkEvent = LinkEvent.LOST) -> None:
        self._end(event, is_graceful=False)
        self._effects.append(CloseLink(reason))

    def _end(self, event: LinkEvent, *, is_graceful: bool) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._state = next_state(MASTER, self._state, event)
        if self._opened_id is not None:
            self._effects.append(
                SessionEnded(self._opened_id, self.session_id, is_graceful)
            )
