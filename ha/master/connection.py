"""
One accepted link: a thread that receives, and a thread that sends.

Both spend their time in calls of the system, which run without the interpreter's
lock. They share the pure protocol object under one lock, and no thread waits while it
holds that lock. Frames leave in the order in which the protocol made them: one thread
at a time takes them and sends them (`pystore.ha.master.sender`).

Rules: docs/replication.md; RMQ-R182, RMQ-R194, RMQ-R217.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pystore.errors import RemoteViolation
from pystore.events.node_events import LinkClosed, LinkFailed, LinkOpened, PeerEvent
from pystore.ha.insync.facts import SessionAcked, SessionEnded, SessionOpened
from pystore.ha.master.effects import (
    CloseLink,
    MasterLog,
    MasterProtocol,
    NewerEpochSeen,
    SendBlock,
)
from pystore.ha.master.proofs import SlaveProofs
from pystore.ha.master.protocol_legacy import LegacyMasterProtocol
from pystore.ha.master.protocol_v3 import V3MasterProtocol
from pystore.ha.master.sender import Output, Sender
from pystore.ha.master.transport import (
    GATHER_FRAMES,
    Acquire,
    LinkBroken,
    LinkLost,
    SlaveSocket,
)
from pystore.ha.wire.codes import State
from pystore.ha.wire.effects import Send
from pystore.ha.wire.legacy import is_legacy
from pystore.ha.wire.proof import CHALLENGE_BYTES, OPEN, LinkGuard
from pystore.net.rate_limit import RateLimit
from pystore.net.tls_channel import TLS_FIRST_BYTE
from pystore.rates.backlog_rate import TAIL_BYTES, BacklogRate
from pystore.rates.shared_rate import SharedRate

if TYPE_CHECKING:
    from pystore.events.node_teller import NodeTeller
    from pystore.ha.master.config import MasterConfig, SetView
    from pystore.ha.master.notifier import Notifier
    from pystore.net.tls import ServerTls

__all__ = ["LinkOwner", "SlaveConnectionThreads"]

FAREWELL_MS = 1_000
"""How long a refused slave may take to read the reason."""


@dataclass(frozen=True, slots=True)
class LinkOwner:
    """
    What a link needs from the service.

    Attributes:
        config: of the mastership.
        set_view: returns the set as it is known now.
        log: returns the state of the log now.
        acquire: returns bytes of the log.
        now_ms: a clock that never steps back.
        notifier: notifies when the log grew.
        opened: takes a new session; returns the id of the session to close.
        acked: takes an ack, and the state of the log after it arrived.
        left: takes the end of a session.
        newer_epoch: takes a newer epoch that the slave told.
        close: ends the link of a session.
        tell: takes the events of a link.
        guard: returns what this master knows about proofs.
        tls: of the port; ``None``: plain bytes only.
        bytes_per_second: to one slave; 0: no limit.
        outward: the rate of the host for what catches up.
        is_waited_for: returns whether acknowledgements wait for a broker: no rate
            holds it back.
    """

    config: MasterConfig
    set_view: Callable[[], SetView]
    log: Callable[[], MasterLog]
    acquire: Acquire
    now_ms: Callable[[], int]
    notifier: Notifier
    opened: Callable[[SessionOpened], int | None]
    acked: Callable[[SessionAcked, MasterLog], None]
    left: Callable[[SessionEnded], None]
    newer_epoch: Callable[[int], object]
    close: Callable[[int, str], None]
    tell: NodeTeller
    guard: Callable[[], LinkGuard] = lambda: OPEN
    tls: ServerTls | None = None
    bytes_per_second: int = 0
    outward: SharedRate = field(default_factory=SharedRate)
    is_waited_for: Callable[[int], bool] = lambda _: False


class SlaveConnectionThreads:
    """
    A slave's link, until it ends.

    Args:
        owner: the service.
        wire: the socket; the link closes it.
        session_id: random, not 0.
        challenge: random bytes, for proofs.

    Attributes:
        session_id: of this link.
        reason: why it ended; empty while it is open.
        acked_offset: of the slave's last ack; ``None`` before the first one.
    """

    def __init__(
        self,
        owner: LinkOwner,
        wire: SlaveSocket,
        session_id: int,
        challenge: bytes = bytes(CHALLENGE_BYTES),
    ) -> None:
        self.session_id = session_id
        self._proofs = SlaveProofs(owner.guard, challenge, wire.host)
        self.reason = ""
        self.acked_offset: int | None = None
        self._owner = owner
        self._wire = wire
        self._lock = threading.Lock()
        self._connection: MasterProtocol | None = None
        self._unsent: list[bytes | SendBlock] = []
        self._broker_id: int | None = None
        self._is_closing = False
        self._is_read = threading.Event()
        self._flow = RateLimit(owner.bytes_per_second, owner.now_ms())
        self._backlog = BacklogRate(owner.outward)
        self._sent_end = 0
        self._is_behind = False

    @property
    def peer(self) -> str:
        """
        Address of the slave, for messages.
        """
        return self._wire.peer

    @property
    def host(self) -> str:
        """
        Host address of the slave.
        """
        return self._wire.host

    @property
    def is_proven(self) -> bool:
        """
        Whether the slave has proven who it is.
        """
        return self._proofs.is_proven

    @property
    def is_open(self) -> bool:
        """
        Whether its session has begun.
        """
        return self._broker_id is not None

    @property
    def state(self) -> State:
        """
        State of the protocol.
        """
        with self._lock:
            connection = self._connection
            return State.READY if connection is None else connection.state

    def serve(self) -> None:
        """
        Serves the slave until the link ends. The calling thread receives.
        """
        with self._wire:
            if self._detect_protocol():
                sender = threading.Thread(
                    target=self._keep_sending,
                    name=f"pystore-ha-to-{self.peer}",
                    daemon=True,
                )
                sender.start()
                self._keep_receiving()
                sender.join()
        kind = LinkFailed if self._broker_id is None else LinkClosed
        self._tell(kind, reason=self.reason)

    def _tell(self, kind: type[PeerEvent], **fields: object) -> None:
        self._owner.tell.of_peer("slave", self._broker_id, self.peer)(kind, **fields)

    def close(self, reason: str) -> None:
        """
        Ends the link at once. Any thread.
        """
        self._ended(reason)
        self._wire.hang_up()

    def shutdown(self) -> None:
        """
        Ends the session after the bytes that are under way. Any thread.
        """
        with self._lock:
            if self._connection is not None:
                self._connection.shutdown(self._owner.now_ms())
                self._carry_out(self._connection)
        self._owner.notifier.notify()
        if self._connection is None:
            self.close("the master shuts down")

    def suspend(self, *, is_suspended: bool) -> None:
        """
        Pauses or resumes blocks of the log. Any thread.

        Raises:
            LocalViolation: acknowledgements wait for this slave (RMQ-K.3).
        """
        with self._lock:
            connection, now_ms = self._connection, self._owner.now_ms()
            if connection is not None and is_suspended:
                connection.suspend(now_ms)
            elif connection is not None:
                connection.resume(now_ms)
        self._owner.notifier.notify()

    def _ended(self, reason: str) -> None:
        # Keep the first reason: later ones follow from it.
        self.reason = self.reason or reason

    # -- receiving -----------------------------------------------------------

    def _detect_protocol(self) -> bool:
        """
        Waits for the first bytes, which show the protocol of the slave.
        """
        owner, wire = self._owner, self._wire
        try:
            if owner.tls is not None:
                may_lack = owner.guard().may_lack(wire.host)
                wire.begin_tls(owner.tls, owner.config.reply_ms, may_lack=may_lack)
            wire.patience_ms(owner.config.reply_ms)
            while True:
                wire.receive()
                with wire.data as data:
                    if owner.tls is None and data[:1] == TLS_FIRST_BYTE:
                        raise LinkLost(
                            "the slave speaks TLS, and this port does not: tlsMode"
                        )
                    is_old = is_legacy(data)
                if is_old is not None:
                    break
            wire.patience_ms(0)
        except (LinkLost, OSError) as error:
            # No session has begun, so there is none to end.
            self._ended(str(error))
            return False
        if is_old and self._proofs.problem:
            # A legacy frame has no room for a proof, nor for a refusal.
            self._ended(self._proofs.problem)
            return False
        kind = LegacyMasterProtocol if is_old else V3MasterProtocol
        with self._lock:
            self._connection = kind(
                owner.config,
                owner.set_view,
                self.session_id,
                owner.now_ms(),
                self._proofs,
            )
        return True

    def _keep_receiving(self) -> None:
        try:
            while True:
                self._process_received()
                self._wire.receive()
        except LinkLost as error:
            # All received frames were processed.
            self._lose(str(error))
        except Exception as error:
            # Any error: a frame that was processed by half ends the session, and the
            # thread must not end with the session open (RMQ-R182).
            self._lose(f"{type(error).__name__}: {error}")
        finally:
            self._is_read.set()

    def _process_received(self) -> None:
        """
        Processes every whole frame that was received. Bytes after the end of the
        session are read, too: otherwise the system would drop our last frames.
        """
        connection, wire = self._connection, self._wire
        assert connection is not None
        with self._lock:
            before = connection.state
            log, now_ms = self._owner.log(), self._owner.now_ms()
            taken = 1
            while taken and wire.held and not self._is_closing:
                with wire.data as data:
                    taken = connection.receive(data, log, now_ms)
                wire.take(taken)
                self._carry_out(connection, log)
                if len(self._unsent) > GATHER_FRAMES:
                    raise LinkLost(
                        "the slave sends queries and does not read the answers"
                    )
            if self._is_closing:
                wire.take_all()
            is_news = self._unsent or self._is_closing or before != connection.state
        if is_news:
            self._owner.notifier.notify()

    def _lose(self, reason: str) -> None:
        self._ended(reason)
        with self._lock:
            if self._connection is not None:
                self._connection.lost(reason)
                self._carry_out(self._connection)
            self._is_closing = True
            self._unsent.clear()
        self._wire.hang_up()
        self._owner.notifier.notify()

    # -- sending -------------------------------------------------------------

    def _keep_sending(self) -> None:
        owner = self._owner
        sender = Sender(
            self._wire, owner.notifier, owner.acquire, owner.now_ms, self._next_output
        )
        try:
            sender.run()
            self._wire.finish()
            self._is_read.wait(FAREWELL_MS / 1000)
            self._wire.hang_up()
        except LinkBroken as error:
            # The slave may have sent why: the receiver reads that, and ends the link.
            self._is_read.wait(FAREWELL_MS / 1000)
            self._lose(str(error))
        except LinkLost as error:
            # The receiver gets the same error, or the end of the connection.
            self._lose(str(error))
        except Exception as error:
            # Any error: no other thread would end the session (RMQ-R182).
            self._lose(f"{type(error).__name__}: {error}")

    def _next_output(self, bytes_max: int, *, is_patient: bool) -> Output | None:
        # An appender or another link may be the caller: it must not wait.
        if not self._lock.acquire(blocking=is_patient):
            return None
        try:
            return self._next_output_locked(bytes_max)
        finally:
            self._lock.release()

    def _next_output_locked(self, bytes_max: int) -> Output:
        connection, owner = self._connection, self._owner
        assert connection is not None
        log, now_ms = owner.log(), owner.now_ms()
        deadline_ms = connection.next_deadline()
        if deadline_ms is not None and now_ms >= deadline_ms:
            connection.tick(log, now_ms)
            self._carry_out(connection)
        is_all = self._add_blocks(connection, log, now_ms, bytes_max)
        frames, self._unsent = self._unsent, []
        deadline_ms = connection.next_deadline()
        if self._is_closing or deadline_ms is None or not is_all:
            return Output(frames, 0, self._is_closing and not frames)
        flow_ms = self._flow.wait_ms()
        if self._is_behind:
            flow_ms = max(flow_ms, self._backlog.wait_ms())
        if flow_ms:
            deadline_ms = min(deadline_ms, now_ms + flow_ms)
        return Output(frames, deadline_ms, is_over=False)

    def _add_blocks(
        self, connection: MasterProtocol, log: MasterLog, now_ms: int, bytes_max: int
    ) -> bool:
        """
        Returns whether no more blocks are there, or flow control allows no more.
        """
        gathered = 0
        # Without a limit, which is the default, nothing else is looked at.
        has_rate = self._owner.outward.bytes_per_second
        self._is_behind = has_rate != 0 and self._lags(log)
        while gathered < bytes_max and len(self._unsent) < GATHER_FRAMES:
            if self._is_closing:
                return True
            allowed = self._flow.allowed(now_ms, bytes_max - gathered)
            if self._is_behind:
                allowed = self._backlog.allowed(allowed)
            block = connection.next_block(log, allowed, now_ms)
            if block is None:
                self._carry_out(connection)  # may have ended the session
                return True
            self._unsent.append(block)
            self._flow.spend(block.size)
            if self._is_behind:
                self._backlog.spend(block.size)
            self._sent_end = block.offset + block.size
            if block.offset + block.size == log.end_offset:
                return True
            gathered += block.size + len(block.head)
        return False

    def _lags(self, log: MasterLog) -> bool:
        """
        Whether the slave catches up, and no acknowledgement waits for it.
        """
        # Before the first block it is not known how much it lacks.
        backlog = log.end_offset - self._sent_end
        self._backlog.grown(log.end_offset, backlog)
        if backlog <= TAIL_BYTES or self._broker_id is None:
            return False
        return not self._owner.is_waited_for(self._broker_id)

    # -- effects -------------------------------------------------------------

    def _carry_out(
        self, connection: MasterProtocol, log: MasterLog | None = None
    ) -> None:
        """
        Carries out all effects, in order, with the lock held. After `CloseLink` no
        effect counts.
        """
        for effect in connection.effects():
            if isinstance(effect, SessionAcked):  # by far the most
                if not self._count(connection, effect, log or self._owner.log()):
                    return
            elif isinstance(effect, Send):
                self._unsent.append(effect.data)
            elif isinstance(effect, SendBlock):
                self._unsent.append(effect)
            elif isinstance(effect, CloseLink):
                self._ended(effect.reason)
                self._is_closing = True
                return
            elif isinstance(effect, NewerEpochSeen):
                self._owner.newer_epoch(effect.epoch)
            elif isinstance(effect, SessionOpened):
                replaced = self._owner.opened(effect)
                if replaced != self.session_id:
                    self._broker_id = effect.broker_id
                    self._tell(LinkOpened, is_unproven=self._proofs.is_unproven)
                if replaced is not None:
                    self._owner.close(
                        replaced,
                        f"replaced by a newer session of the slave, from {self.peer}",
                    )
            elif isinstance(effect, SessionEnded):
                self._owner.left(effect)

    def _count(
        self, connection: MasterProtocol, fact: SessionAcked, log: MasterLog
    ) -> bool:
        try:
            self._owner.acked(fact, log)
        except RemoteViolation as error:
            # The slave cannot hold what it acks: its session ends.
            self._ended(str(error))
            self._is_closing = True
            connection.lost(str(error))
            self._carry_out(connection)
            return False
        self.acked_offset = fact.received_offset
        return True
