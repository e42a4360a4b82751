"""
Follows a master: one link after the other, until it is stopped.

One thread reads the socket, passes frames to the protocol object one at a time, and
carries out its effects before the next frame. Each new reason why there is no link is
told once. An error of the slave's own disk is never taken for a lost link: the ack
reports it to the master, and a poisoned log ends the follower.

Clock, waiting and socket are arguments, so that tests supply their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pystore.errors import (
    CorruptError,
    PoisonedError,
    ProtocolViolation,
    PystoreError,
    StorageError,
    UnavailableError,
)
from pystore.events.node_events import (
    CutOrdered,
    LinkClosed,
    LinkFailed,
    LinkOpened,
)
from pystore.events.node_teller import Tell, untold
from pystore.ha.slave.backoff import MOST_MS, BackOff
from pystore.ha.slave.effects import (
    Append,
    Compare,
    Cut,
    LeaveMaster,
    Retry,
    SlaveEffect,
    SlaveLog,
    SlaveProtocol,
    Wipe,
)
from pystore.ha.slave.replica_log import LogEffect, ReplicaLog, ack_status
from pystore.ha.slave.sync_thread import SyncThread
from pystore.ha.slave.transport import SLICE_MS, StreamLost
from pystore.ha.wire.codes import State
from pystore.ha.wire.effects import Send
from pystore.ha.wire.v3 import DATA_BYTES_MIN
from pystore.rates.backlog_rate import TAIL_BYTES, BacklogRate
from pystore.rates.host_rates import HostRates
from pystore.rates.latency_samples import LatencyKind

__all__ = ["Follower", "FollowerEnvironment", "FollowerStatus", "FollowerStream"]

# A union that is made for each effect costs more than the check.
_CUTS = (Cut, Wipe)

_SYNC_MS = 1
"""How often a sync that the master waits for is looked after."""


class FollowerStream(Protocol):
    """
    What a follower needs of a `pystore.ha.slave.transport.MasterStream`.
    """

    received: int

    @property
    def data(self) -> memoryview:
        """
        What was received and not taken.
        """
        ...

    def take(self, size: int) -> None:
        """
        Drops the first *size* bytes: they were processed.
        """

    def wait(self, timeout_ms: int) -> int:
        """
        Waits for bytes, and returns how many were received.
        """
        ...

    def send(self, data: bytes) -> None:
        """
        Sends now, or during `wait`.
        """

    def close(self) -> None:
        """
        Closes the socket.
        """


@dataclass(frozen=True, slots=True)
class FollowerEnvironment:
    """
    What a follower needs from outside.

    Attributes:
        dial: opens a link; raises `StreamLost`.
        make: makes the protocol object of a link.
        now_ms: a clock that never steps back.
        pause: waits so many ms, at most `SLICE_MS`.
        is_stopping: whether to stop; called at least every `SLICE_MS`.
        tell: takes the events of the link, and adds the master's name to them.
        turn: called in every turn of the loop, at least every `SLICE_MS`.
        rates: of the host.
        is_waited_for: whether acknowledgements may wait for this replica, as far as it
            knows: no rate holds it back.
        came_damaged: takes the offset of each record that came damaged.
        outdated: returns what has changed of what `make` made last says of this
            replica: the link ends, and the next one says it; empty: nothing.
    """

    dial: Callable[[], FollowerStream]
    make: Callable[[], SlaveProtocol]
    now_ms: Callable[[], int]
    pause: Callable[[int], None]
    is_stopping: Callable[[], bool]
    tell: Tell = untold
    turn: Callable[[], None] = lambda: None
    outdated: Callable[[], str] = str
    rates: HostRates = field(default_factory=HostRates)
    is_waited_for: Callable[[], bool] = bool
    came_damaged: Callable[[int], object] = bool


@dataclass(frozen=True, slots=True)
class FollowerStatus:
    """
    The status of a follower.

    Attributes:
        state: of its link.
        reason: why it has none, or why the last one ended; empty: none ended yet.
        links: how many were opened.
        appended_bytes: since the start.
        received_bytes: since the start, of all frames.
        master_end: end of the master's log in its newest frame; ``None`` before it.
        behind_ms: since when the master's log has been longer than ours; 0: it is
            not. Of the last link, if there is none now.
        heard_ms: since the last bytes of a master; ``None``: there were none.
    """

    state: State = State.READY
    reason: str = ""
    links: int = 0
    appended_bytes: int = 0
    received_bytes: int = 0
    master_end: int | None = None
    behind_ms: int = 0
    heard_ms: int | None = None

    @property
    def is_linked(self) -> bool:
        """
        Whether the master's log flows: what is known of its end is of now.
        """
        return self.state is State.TRANSFER


class Follower:
    """
    Makes a replica follow its master. One thread.

    Args:
        log: of the replica; its owner closes it.
        environment: see `FollowerEnvironment`.
        back_off: the waits between two links.
    """

    def __init__(
        self, log: ReplicaLog, environment: FollowerEnvironment, back_off: BackOff
    ) -> None:
        self._log = log
        self._environment = environment
        self._back_off = back_off
        self._reason = ""
        self._closed: LeaveMaster | None = None
        self._newest: SlaveLog
        self._state = State.READY
        self._is_open = self._is_barren = False
        self._opened = 0, 0
        self._links = self._appended = self._received = 0
        self._master_end: int | None = None
        self._behind_since_ms: int | None = None
        self._heard_at_ms: int | None = None
        self._is_hurried = False
        self._backlog = BacklogRate(environment.rates.inward)
        self._has_caught_up = False

    def status(self) -> FollowerStatus:
        """
        Returns the status now.
        """
        now_ms, behind, heard = self._environment.now_ms(), 0, None
        if self._behind_since_ms is not None:
            behind = now_ms - self._behind_since_ms
        if self._heard_at_ms is not None:
            heard = now_ms - self._heard_at_ms
        return FollowerStatus(
            self._state,
            self._reason,
            self._links,
            self._appended,
            self._received,
            self._master_end,
            behind,
            heard,
        )

    def run(self) -> None:
        """
        Follows until it is stopped.

        Raises:
            PoisonedError: a write-back failed: no more bytes become durable.
            UnavailableError: the link ended for good.
            PystoreError: the store cannot be used.
        """
        while not self._environment.is_stopping():
            retry = self._follow_once()
            self._state = State.READY
            if retry is Retry.NEVER and not self._environment.is_stopping():
                raise UnavailableError(self._reason)
            self._wait()
        self._state = State.SHUTDOWN

    def hurry(self) -> None:
        """
        Begins the back-off anew: the controller decided something new, so what ended
        the last link may be over. Any thread; wake up `FollowerEnvironment.pause`.
        """
        self._is_hurried = True

    def _wait(self) -> None:
        until_ms = self._environment.now_ms() + self._back_off.wait_ms()
        while not self._environment.is_stopping():
            if self._is_hurried:
                self._is_hurried = False
                self._back_off.reset()
                return
            left_ms = until_ms - self._environment.now_ms()
            if left_ms <= 0:
                return
            self._environment.turn()
            self._environment.pause(min(left_ms, SLICE_MS))

    def _follow_once(self) -> Retry:
        try:
            self._log.mend()
            link = self._environment.dial()
        except PoisonedError:
            raise  # nothing gets durable any more in this process
        except StorageError as error:
            # A full disk may recover.
            return self._ended(
                f"the store of this replica cannot be used now: {error}", Retry.SOON
            )
        except StreamLost as error:
            # The master may come back, or another one may be elected.
            return self._ended(str(error), Retry.SOON)
        connection = self._environment.make()
        self._links += 1
        self._opened = self._environment.now_ms(), self._appended
        was_flowing = False
        self._closed = None
        try:
            with SyncThread(self._sync) as syncer:
                was_flowing = self._serve(link, connection, syncer)
        except StreamLost as error:
            # All received frames were processed.
            connection.lost(str(error))
            self._closed = self._closed or LeaveMaster(str(error), Retry.SOON)
        except ProtocolViolation as error:
            # After a violation the session is over (RMQ-R182).
            self._closed = LeaveMaster(str(error), Retry.SOON)
        finally:
            link.close()
            self._received += link.received
        lived_ms = self._environment.now_ms() - self._opened[0]
        has_lasted = was_flowing and lived_ms >= MOST_MS
        self._is_barren = self._appended == self._opened[1] and not has_lasted
        if not self._is_barren:
            self._back_off.worked(lived_ms)
        assert self._closed is not None
        return self._ended(self._closed.reason, self._closed.retry)

    @property
    def _has_worked(self) -> bool:
        """
        Whether this link has brought bytes, or has lasted.
        """
        since_ms, before = self._opened
        lived_ms = self._environment.now_ms() - since_ms
        return self._appended > before or lived_ms >= MOST_MS

    def _ended(self, reason: str, retry: Retry) -> Retry:
        """
        A link ended, or none could be made: tells each new reason once.
        """
        was_open, self._is_open = self._is_open, False
        if self._environment.is_stopping():
            return retry
        if was_open:
            self._environment.tell(LinkClosed, reason=reason)
        elif reason != self._reason:
            self._environment.tell(LinkFailed, reason=reason)
        self._reason = reason
        return retry

    # -- one link --------------------------------------------------------------

    def _serve(
        self, link: FollowerStream, connection: SlaveProtocol, syncer: SyncThread
    ) -> bool:
        """
        Serves a link until it is closed; returns whether it reached the transfer.
        """
        environment = self._environment
        was_flowing = False
        connection.connected(self._read_log(), environment.now_ms())
        self._carry_out(link, connection)
        reported = self._read_log()
        while self._closed is None:
            if environment.is_stopping():
                connection.shutdown(environment.now_ms())
                self._carry_out(link, connection)
                self._closed = self._closed or LeaveMaster("stopped", Retry.NEVER)
                break
            if outdated := environment.outdated():
                connection.lost(outdated)
                self._closed = LeaveMaster(outdated, Retry.SOON)
                break
            patience_ms = self._patience_ms(connection)
            self._take_in(link, _SYNC_MS if syncer.is_busy else patience_ms)
            before = self._newest
            self._process_received(link, connection)
            if self._newest is before:
                self._read_log()
            reported = self._report_flushed(link, connection, reported)
            if connection.wants_flush:
                syncer.ask()
            deadline_ms = connection.next_deadline()
            if deadline_ms is not None and environment.now_ms() >= deadline_ms:
                connection.tick(environment.now_ms())
                self._carry_out(link, connection)
            self._update_status(connection)
            was_flowing |= connection.state is State.TRANSFER
            environment.turn()
        return was_flowing

    def _take_in(self, link: FollowerStream, patience_ms: int) -> None:
        """
        Waits for bytes, and counts those of a backlog; if the host has brought in too
        many, it lets some time pass first, in which the master fills its buffers.
        """
        has_rate = self._environment.rates.inward.bytes_per_second
        is_behind = has_rate != 0 and self._lags()
        wait_ms = self._backlog.wait_ms() if is_behind else 0
        if wait_ms:
            self._environment.pause(min(wait_ms, patience_ms, SLICE_MS))
            patience_ms = 0
        if not wait_ms or not self._backlog.wait_ms():
            size = link.wait(patience_ms)
            if is_behind:
                self._backlog.spend(size)

    def _lags(self) -> bool:
        """
        Whether this replica catches up, and no acknowledgement may wait for it. One
        that has reached the end of the master's log may be counted, before it hears of
        that.
        """
        end = self._master_end
        if end is None or self._has_caught_up or self._environment.is_waited_for():
            return False
        backlog = end - self._newest.received_offset
        self._backlog.grown(end, backlog)
        self._has_caught_up = backlog <= TAIL_BYTES
        return not self._has_caught_up

    def _sync(self) -> None:
        latency = self._environment.rates.latency
        began_ns = latency.begin()
        self._log.sync()
        latency.end(LatencyKind.SYNC, began_ns)

    def _patience_ms(self, connection: SlaveProtocol) -> int:
        deadline_ms = connection.next_deadline()
        if deadline_ms is None:
            return SLICE_MS
        return max(0, min(SLICE_MS, deadline_ms - self._environment.now_ms()))

    def _process_received(
        self, link: FollowerStream, connection: SlaveProtocol
    ) -> None:
        """
        Processes every whole frame that was received.
        """
        is_dealt_with = False
        while self._closed is None:
            data = link.data
            if not len(data):
                break
            self._heard_at_ms = now_ms = self._environment.now_ms()
            if self._step(link, connection, data, now_ms):
                continue
            taken = connection.receive(data, now_ms)
            self._carry_out(link, connection)
            if not taken:
                break
            link.take(taken)
            is_dealt_with = True
            if self._environment.is_stopping() or self._environment.outdated():
                break
        if is_dealt_with and self._closed is None:
            connection.drained(self._environment.now_ms())
            self._carry_out(link, connection)

    def _step(
        self,
        link: FollowerStream,
        connection: SlaveProtocol,
        data: memoryview,
        now_ms: int,
    ) -> bool:
        """
        Appends and acks a frame in one call of the core, if the link is in step.
        """
        label = connection.label
        if label is None:
            return False
        try:
            ack = self._log.append_frame(data, label, now_ms)
        except PystoreError as error:
            # As in `_carry_out_log`.
            effect = Append(self._newest.received_offset, data[DATA_BYTES_MIN:])
            self._refused(link, connection, effect, error)
            self._carry_out(link, connection)
            return True
        if ack is None:
            return False
        link.send(ack)
        frame, self._newest = self._log.stepped()
        self._appended += frame.block_size
        connection.stepped(frame, self._newest, now_ms)
        self._carry_out(link, connection)
        link.take(len(data))
        return True

    def _read_log(self) -> SlaveLog:
        """
        Reads the state of the log, which costs more than the rest of a turn.
        """
        self._newest = self._log.log()
        return self._newest

    def _report_flushed(
        self, link: FollowerStream, connection: SlaveProtocol, reported: SlaveLog
    ) -> SlaveLog:
        log = self._newest
        if self._closed is not None:
            return reported
        if log.flushed_offset != reported.flushed_offset or log.is_poisoned:
            connection.flushed(log, self._environment.now_ms())
            self._carry_out(link, connection)
        if log.is_poisoned:
            raise PoisonedError(
                "a write-back failed while the replica was written: nothing above "
                f"offset {log.flushed_offset} is proven to be on disk: check the disk, "
                "then start again, which checks the log",
                offset=log.flushed_offset,
            )
        return log

    def _update_status(self, connection: SlaveProtocol) -> None:
        self._state = connection.state
        is_flowing = self._state is State.TRANSFER and not self._is_open
        # After a link that brought nothing the next one may end in the same way.
        if is_flowing and (not self._is_barren or self._has_worked):
            self._is_open = True
            self._environment.tell(LinkOpened)
        master_end = connection.master_end
        if master_end is not None:
            self._master_end = master_end
        is_behind = (self._master_end or 0) > self._newest.received_offset
        if not is_behind:
            self._behind_since_ms = None
        elif self._behind_since_ms is None:
            self._behind_since_ms = self._environment.now_ms()

    # -- effects ---------------------------------------------------------------

    def _carry_out(self, link: FollowerStream, connection: SlaveProtocol) -> None:
        """
        Carries out all effects, in order. Effects that follow from one come before the
        next one. After `LeaveMaster` no effect counts.
        """
        for effect in connection.effects():
            if isinstance(effect, Send):
                link.send(effect.data)
            elif isinstance(effect, LeaveMaster):
                self._closed = effect
                return
            else:
                self._carry_out_log(link, connection, effect)
                self._carry_out(link, connection)
                if self._closed is not None:
                    return

    def _carry_out_log(
        self, link: FollowerStream, connection: SlaveProtocol, effect: LogEffect
    ) -> None:
        now_ms = self._environment.now_ms
        if isinstance(effect, _CUTS):
            self._tell_cut(effect)
        try:
            equal_to = self._log.carry_out(effect)
        except PystoreError as error:
            # The slave's own disk, or bad bytes: not a lost link.
            self._refused(link, connection, effect, error)
            return
        if equal_to is not None and isinstance(effect, Compare):
            connection.differs(effect, equal_to, self._read_log(), now_ms())
            return
        if isinstance(effect, Append):
            self._appended += effect.size
        connection.did(effect, self._read_log(), now_ms())

    def _refused(
        self,
        link: FollowerStream,
        connection: SlaveProtocol,
        effect: LogEffect,
        error: PystoreError,
    ) -> None:
        now_ms = self._environment.now_ms()
        connection.failed(effect, str(error), now_ms, ack_status(error))
        is_of_master = isinstance(error, CorruptError) and isinstance(effect, Append)
        if is_of_master and error.offset is not None:
            self._environment.came_damaged(error.offset)
        if isinstance(error, PoisonedError):
            self._send_last(link, connection.effects())
            raise error

    def _tell_cut(self, effect: Cut | Wipe) -> None:
        end = self._read_log().received_offset
        if isinstance(effect, Cut):
            to, reason = effect.offset, "the master's log has other bytes there"
        else:
            to, reason = 0, "the master's log has another history: it is emptied"
        if to < end:
            self._environment.tell(
                CutOrdered, from_offset=end, to_offset=to, reason=reason
            )

    def _send_last(self, link: FollowerStream, effects: list[SlaveEffect]) -> None:
        # Sends the reason to the master, if the link still works.
        for effect in effects:
            if isinstance(effect, Send):
                link.send(effect.data)
