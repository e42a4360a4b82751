"""
The common part of both protocols at the slave's end: state, timers, effects. Pure.

An input changes the state and adds effects. Every violation of the peer ends the link
(RMQ-R182). Inputs after the end change nothing.
"""

from __future__ import annotations

from pystore.core.frame_step import FrameLabel, SteppedFrame
from pystore.errors import LocalViolation, RemoteViolation
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.consistent_point import epochs_of_log
from pystore.ha.slave.effects import Compare, LeaveMaster, Retry, SlaveEffect, SlaveLog
from pystore.ha.slave.timers import REPLY_MS, LinkTimers
from pystore.ha.wire.codes import AckStatus, State
from pystore.ha.wire.effects import Promise, Send
from pystore.ha.wire.link_state import SLAVE, LinkEvent, next_state

__all__ = ["MasterLink"]

_FLOWING = (State.TRANSFER, State.SUSPEND)


class MasterLink:
    """
    The base of both connections; a protocol adds the methods that raise here.

    Args:
        config: of the slave.
    """

    def __init__(self, config: SlaveConfig) -> None:
        self._config = config
        self._state = State.READY
        self._effects: list[SlaveEffect] = []
        self._clocks = LinkTimers(config.heartbeat_ms, config.housekeeping_ms, 0, 0)
        self._known: SlaveLog | None = None
        self._is_open = False
        self._is_ack_due = False
        self._master_end: int | None = None
        self._pending = 0

    # -- what a protocol adds -----------------------------------------------

    def _start_handshake(self, now_ms: int) -> None:
        raise NotImplementedError

    def _take(self, data: memoryview, now_ms: int) -> int:
        raise NotImplementedError

    def _completed(self, effect: SlaveEffect, now_ms: int) -> None:
        raise NotImplementedError

    def _effect_failed(
        self, effect: SlaveEffect, reason: str, status: AckStatus, now_ms: int
    ) -> None:
        raise NotImplementedError

    def _ack(self, now_ms: int) -> None:
        raise NotImplementedError

    def _may_delay_ack(self) -> bool:
        # Whether an ack that is due may wait for more bytes.
        return False

    def _send_last_ack(self, now_ms: int) -> None:
        raise NotImplementedError

    # -- inputs, as `pystore.ha.slave.effects.SlaveProtocol` has them ------------

    @property
    def state(self) -> State:
        """
        Where it stands.
        """
        return self._state

    @property
    def master_end(self) -> int | None:
        """
        The end of the master's log in its newest frame.
        """
        return self._master_end

    @property
    def wants_flush(self) -> bool:
        """
        Whether the master waits for our disk: it cannot say so on a legacy link.
        """
        return False

    def connected(self, log: SlaveLog, now_ms: int) -> None:
        """
        The socket is open: the handshake begins.
        """
        self._known = log
        self._move(LinkEvent.CONNECTED)
        if self._state is State.SHUTDOWN:
            self._add_effect(LeaveMaster("we shut down", Retry.NEVER))
            return
        self._is_open, self._is_ack_due, self._pending = True, False, 0
        self._clocks = LinkTimers(
            self._config.heartbeat_ms, self._config.housekeeping_ms, now_ms, now_ms
        )
        self._clocks.ask(now_ms)
        if self._config.epoch is not None and self._config.epoch < self._highest_epoch:
            self._stale(self._config.epoch)
            return
        self._start_handshake(now_ms)

    def receive(self, data: memoryview, now_ms: int) -> int:
        """
        Takes one frame from the front of what was received, or a run of them.
        """
        if not self._is_open:
            return len(data)
        try:
            taken = self._take(data, now_ms)
        except RemoteViolation as error:  # nothing after it can be trusted (RMQ-R182)
            self._close(str(error), Retry.SOON)
            return len(data)
        if taken or len(data) != self._pending:  # a part of a long frame is a word
            self._clocks.received_ms = now_ms
        self._pending = len(data) - taken
        return taken

    @property
    def label(self) -> FrameLabel | None:
        """
        What the next frame has if the link is in step: a legacy link never is.
        """
        return None

    def stepped(self, frame: SteppedFrame, log: SlaveLog, now_ms: int) -> None:
        """
        A frame in step was appended and acked.
        """
        del log, now_ms
        raise LocalViolation(f"this link is not in step at {frame.offset}")

    def drained(self, now_ms: int) -> None:
        """
        Every frame that was received is dealt with: the time for one ack.
        """
        if self._is_flowing and self._is_ack_due and not self._may_delay_ack():
            self._ack(now_ms)

    def did(self, effect: SlaveEffect, log: SlaveLog, now_ms: int) -> None:
        """
        The effect was carried out, and the log stands so.
        """
        self._known = log
        if not self._is_open:
            return
        try:
            self._completed(effect, now_ms)
        except RemoteViolation as error:  # found once a part was done (RMQ-R182)
            self._close(str(error), Retry.SOON)

    def failed(
        self,
        effect: SlaveEffect,
        reason: str,
        now_ms: int,
        status: AckStatus = AckStatus.GAP,
    ) -> None:
        """
        The log refused an effect.
        """
        if self._is_open:
            self._effect_failed(effect, reason, status, now_ms)

    def differs(self, effect: Compare, offset: int, log: SlaveLog, now_ms: int) -> None:
        """
        `Compare` found other bytes: only a legacy link compares.
        """
        del log, now_ms
        raise LocalViolation(
            f"this link compared nothing at {effect.offset}, or {offset}"
        )

    def flushed(self, log: SlaveLog, now_ms: int) -> None:
        """
        More of the log is durable, or never will be.
        """
        del now_ms  # v3 overrides this, and acks
        self._known = log

    def tick(self, now_ms: int) -> None:
        """
        Time passed: heartbeats, and peers that say nothing.
        """
        if not self._is_open:
            return
        overdue = self._clocks.overdue(now_ms)
        if overdue:
            self._close(overdue, Retry.SOON)
        elif self._is_flowing and self._clocks.is_heartbeat_due(now_ms):
            self._ack(now_ms)

    def lost(self, reason: str) -> None:
        """
        The socket is gone.
        """
        del reason  # its owner has logged it
        self._end()

    def shutdown(self, now_ms: int) -> None:
        """
        The last ack, then the end.
        """
        was_open = self._is_open
        if self._is_flowing:
            self._send_last_ack(now_ms)
        self._move(LinkEvent.SHUTDOWN)
        self._is_open = False
        if was_open:
            self._effects.append(LeaveMaster("we shut down", Retry.NEVER))

    def effects(self) -> list[SlaveEffect]:
        """
        Returns what is to be done now, in order, once.
        """
        effects, self._effects = self._effects, []
        return effects

    def next_deadline(self) -> int | None:
        """
        Returns when `tick` is due at the latest.
        """
        return self._clocks.next_ms() if self._is_open else None

    # -- for the protocols ----------------------------------------------------

    @property
    def _log(self) -> SlaveLog:
        if self._known is None:
            raise LocalViolation("a link that was never connected knows no log")
        return self._known

    @property
    def _is_flowing(self) -> bool:
        # Whether acks mean anything to the master.
        return self._is_open and self._state in _FLOWING

    @property
    def _highest_epoch(self) -> int:
        # No master of a lower epoch is followed (B6).
        return max(self._log.promised_epoch, epochs_of_log(self._log).last_epoch)

    def _move(self, event: LinkEvent) -> None:
        self._state = next_state(SLAVE, self._state, event)

    def _add_effect(self, effect: SlaveEffect) -> None:
        self._effects.append(effect)

    def _send(self, data: bytes, now_ms: int) -> None:
        self._clocks.sent_ms = now_ms
        self._add_effect(Send(data))

    def _await_reply(self, now_ms: int, wait_ms: int = REPLY_MS) -> None:
        self._clocks.ask(now_ms, wait_ms)

    def _begin_flow(self, now_ms: int) -> None:
        self._clocks.settle()
        self._clocks.received_ms = now_ms
        self._move(LinkEvent.AGREED)

    def _close(self, reason: str, retry: Retry, redirect: str = "") -> None:
        self._add_effect(LeaveMaster(reason, retry, redirect))
        self._end()

    def _end(self) -> None:
        self._is_open = False
        self._move(LinkEvent.LOST)

    def _stale(self, epoch: int) -> None:
        self._close(
            f"a master of epoch {epoch} is none any more: epoch {self._highest_epoch} "
            "was accepted before",
            Retry.ASK_CONTROLLER,
        )

    def _promise(self, epoch: int) -> bool:
        # Whether the epoch has to become durable before anything else.
        if epoch <= self._log.promised_epoch:
            return False
        self._add_effect(Promise(epoch))
        return True
