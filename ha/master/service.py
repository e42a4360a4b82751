"""
The service of a master: it listens, serves slaves, and tracks what they hold.

One service is one mastership: one epoch, over one open log. Callers append with
`append` or `submit`, and wait for replicas with `wait`. Another epoch is another
service; the old one is closed first, so every slave starts a new session (RMQ-K.3).

Without TLS any host on the way can read what is sent. So the default is to listen on
this machine only; for any other address the service then logs a warning.

Rules: docs/replication.md, docs/in-sync.md; RMQ-K.3, RMQ-R95, RMQ-R194, RMQ-R217;
B13, B16.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from pystore.clocks import clock_ms
from pystore.errors import InvalidError, StorageError
from pystore.events.node_teller import NodeTeller
from pystore.ha.insync.ack import Ack, AckResult
from pystore.ha.insync.config import SetRules
from pystore.ha.insync.in_sync import InSync
from pystore.ha.master.append_future import AppendFuture, wait_all
from pystore.ha.master.config import MasterConfig, SetView
from pystore.ha.master.connection import LinkOwner, SlaveConnectionThreads
from pystore.ha.master.effects import MasterLog
from pystore.ha.master.insync_monitor import InSyncMonitor, RequestSetChange
from pystore.ha.master.set_change_requests import SetChangeRequests
from pystore.ha.master.transport import SlaveSocket, listen
from pystore.ha.wire.frames import NextQueueOffset
from pystore.ha.wire.proof import CHALLENGE_BYTES, OPEN, LinkGuard
from pystore.message.message import form_of
from pystore.net.address import exposure_warning
from pystore.net.busiest import oldest_of_busiest
from pystore.net.tls import ServerTls
from pystore.rates.latency_samples import LatencySamples
from pystore.rates.shared_rate import SharedRate
from pystore.replicaset import AgreedSet, Member
from pystore.store.queue_table import queues_at as counted_queues_at

if TYPE_CHECKING:
    from types import TracebackType

    from pystore.core.results import Appended
    from pystore.message.message import Message
    from pystore.store.commit_log import CommitLog

__all__ = ["END_MS", "MasterService", "Mastership"]

QueuesAt = Callable[[int], dict[tuple[str, int], int]]
"""(topic, queue id) -> next queue offset, as of an offset."""

END_MS = 500
"""
How long links may take to end after the drain; then all of them are hung up (B13).
"""


@dataclass(frozen=True, slots=True)
class Mastership:
    """
    One mastership of a broker, and the rules of its set.

    Attributes:
        config: of the sessions; it names the epoch, which the log has begun.
        me: this broker and its incarnation.
        agreed: the set as the controller committed it with the election.
        broker_ids: returns the ids of all brokers that the controller knows.
        rules: of the set.
        ask: requests a change of the set from the controller; ``None``: the set
            stays.
        lease_ms: returns until when `leader` may be acknowledged, on the service's
            clock; ``None``: no leases.
        newer_epoch: called with a newer epoch that a peer told, in the thread of a
            link: the controller may confirm it.
        resign: called once with the reason why this mastership should end, in the
            thread that keeps the time (B9).
        say: called with one line for the operator, of what is no event.
        tell: takes the events of the mastership; by default the logger
            ``pystore.broker`` has them.
        host: where to listen.
        port: 0: any free port.
        guard: returns what this broker knows about proofs of links.
        tls: of the port; ``None``: plain bytes only.
        bytes_per_second: to one slave; 0: no limit.
        outward: the rate of the host for all slaves that catch up.
        latency: takes how long synced acks wait for the disk.
        links_max: with a session, all slaves together.
        handshakes_max: without one yet. When there are more, the address with the most
            of them loses its oldest one: strangers take no place of a slave.
    """

    config: MasterConfig
    me: Member
    agreed: AgreedSet
    broker_ids: Callable[[], frozenset[int]]
    rules: SetRules | None = None
    ask: RequestSetChange | None = None
    lease_ms: Callable[[], int | None] = lambda: None
    newer_epoch: Callable[[int], object] = bool
    resign: Callable[[str], object] = bool
    say: Callable[[str], object] = bool
    tell: NodeTeller | None = None
    host: str = "127.0.0.1"
    port: int = 0
    guard: Callable[[], LinkGuard] = lambda: OPEN
    tls: ServerTls | None = None
    bytes_per_second: int = 0
    outward: SharedRate = field(default_factory=SharedRate)
    latency: LatencySamples = field(default_factory=LatencySamples)
    links_max: int = 64
    handshakes_max: int = 64

    @property
    def teller(self) -> NodeTeller:
        """
        Tells the events of the mastership.
        """
        own = self.config
        return self.tell or NodeTeller(own.cluster, own.broker_name, own.broker_id)


class MasterService:
    """
    Serves slaves until it is closed. A context manager; any thread.

    Args:
        log: open for writing; its owner closes it after the service.
        mastership: of this broker.
        now_ms: a clock that never steps back.
        queues_at: returns (topic, queue id) -> next queue offset as of an offset, for
            slaves that begin there; ``None``: counted in the log, which reads all of it
            from there on.

    Attributes:
        monitor: in-sync state of the set.
        address: host and port where it listens.

    Raises:
        InvalidError: the log has not begun the epoch of the configuration, or has
            segments of another size.
        StorageError: it cannot listen on the address.
    """

    def __init__(
        self,
        log: CommitLog,
        mastership: Mastership,
        now_ms: Callable[[], int] = clock_ms,
        *,
        queues_at: QueuesAt | None = None,
    ) -> None:
        self._mastership = mastership
        self._handle = handle = log.writer.log
        self._queues_at = queues_at or partial(counted_queues_at, log.writer)
        self._now_ms = now_ms
        self._log = log
        self._epochs = log.epochs
        self._begin = handle.ends().min_offset
        _check(self._epochs.last_epoch, handle.ends().segment_size, mastership.config)
        ends = handle.ends()
        self.monitor = InSyncMonitor(
            InSync(
                mastership.me,
                mastership.config.epoch,
                self._epochs.entries[-1].start_offset,
                mastership.agreed,
                flushed_offset=ends.synced_end,
                confirm_offset=ends.confirm_offset,
                now_ms=now_ms(),
                rules=mastership.rules,
            ),
            handle,
            mastership.broker_ids,
            now_ms,
            mastership.lease_ms,
            tell=mastership.teller,
            latency=mastership.latency,
        )
        self._lock = threading.Lock()
        self._link_ended = threading.Condition(self._lock)
        self._links: dict[int, SlaveConnectionThreads] = {}
        self._threads: list[threading.Thread] = []
        self._is_closing = False
        self._owner: LinkOwner | None = self._make_owner()
        self._listener = self._listen()
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._start("accept", self._keep_accepting)
        self._requests: SetChangeRequests | None = None
        if mastership.ask is not None:
            self._requests = SetChangeRequests(
                mastership.ask, self.monitor.answered, mastership.say
            )
        self._start("time", self._keep_time)

    def _make_owner(self) -> LinkOwner:
        mastership, monitor = self._mastership, self.monitor
        wall_ms = time.time_ns() // 1_000_000 - self._now_ms()
        return LinkOwner(
            config=replace(mastership.config, wall_ms=wall_ms),
            set_view=self._set_view,
            log=self._log_now,
            acquire=self._handle.acquire,
            now_ms=self._now_ms,
            notifier=monitor.notifier,
            opened=monitor.opened,
            acked=monitor.acked,
            left=monitor.left,
            newer_epoch=mastership.newer_epoch,
            close=self.close_session,
            tell=mastership.teller,
            guard=mastership.guard,
            tls=mastership.tls,
            bytes_per_second=mastership.bytes_per_second,
            outward=mastership.outward,
            is_waited_for=monitor.is_waited_for,
        )

    def _listen(self) -> socket.socket:
        host, port = self._mastership.host, self._mastership.port
        try:
            listener = listen(host, port)
        except OSError as error:  # in use, or not an address of this machine
            raise StorageError(
                f"cannot listen on {host}:{port}: {error.strerror or error}",
                errno=error.errno,
            ) from error
        warning = exposure_warning(
            host,
            listener.getsockname()[1],
            "replication",
            "a stranger can read the log and acknowledge it",
        )
        if warning is not None and self._mastership.tls is None:
            self._mastership.say(warning)
        return listener

    def __enter__(self) -> MasterService:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- appenders -----------------------------------------------------------

    def append(
        self,
        messages: Message | Iterable[Message],
        ack: Ack,
        timeout_ms: int = 3_000,
    ) -> tuple[Appended, AckResult]:
        """
        Appends, all or none, and waits for the ack; see
        `pystore.ha.master.pending_appends.PendingAppends.append`.
        """
        return self.monitor.appends.append(form_of(messages), ack, timeout_ms)

    def submit(self, messages: Message | Iterable[Message], ack: Ack) -> AppendFuture:
        """
        Appends as `append` does, without waiting; see
        `pystore.ha.master.pending_appends.PendingAppends.submit`.
        """
        return self.monitor.appends.submit(form_of(messages), ack)

    def wait(self, ack: Ack, end_offset: int, timeout_ms: int = 3_000) -> AckResult:
        """
        Waits until an append has its ack; see
        `pystore.ha.master.pending_appends.PendingAppends.wait`.
        """
        return self.monitor.appends.wait(ack, end_offset, timeout_ms)

    def wait_all(
        self, futures: Sequence[AppendFuture], timeout_ms: int = 3_000
    ) -> list[AckResult]:
        """
        Waits for futures; see `pystore.ha.master.append_future.wait_all`.
        """
        return wait_all(futures, timeout_ms, self._now_ms)

    # -- operators -----------------------------------------------------------

    @property
    def end_offset(self) -> int:
        """
        The published end of the log.
        """
        return self._handle.ends().published_end

    def received_by(self, broker_id: int) -> int | None:
        """
        Returns the end of the bytes that a slave acked last; ``None``: it has no link,
        or has not acked.
        """
        return self.monitor.received_by(broker_id)

    def links(self) -> list[SlaveConnectionThreads]:
        """
        Returns the links that are open now.
        """
        with self._lock:
            return list(self._links.values())

    def close_session(self, session_id: int, reason: str) -> None:
        """
        Ends a link, if it is still open.
        """
        with self._lock:
            link = self._links.get(session_id)
        if link is not None:
            link.close(reason)

    # -- the end -------------------------------------------------------------

    def close(self, drain_ms: int = 0) -> None:
        """
        Stops serving; may be called again. No caller may append any more. Returns
        twice `END_MS` after the drain at the latest, and what the threads need to end:
        links end, and then functions that are called for acks.

        Args:
            drain_ms: how long slaves may take to receive and ack the rest. A slave that
                takes nothing uses all of it.
        """
        with self._lock:
            if self._is_closing:
                return
            self._is_closing = True
        try:
            # Wakes the accepting thread, which `close` alone does not on Linux.
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            # Other systems cannot shut a listener down, but their `close` wakes it.
            self._listener.close()
        self._drain(drain_ms)
        if self._requests is not None:
            # Before the links end: their slaves stay in the set, for the next election.
            self._requests.close()
        for link in self.links():
            link.shutdown()
        self.monitor.close()
        self._hang_up_links()
        self.monitor.appends.join(END_MS)
        while self._threads:
            thread = self._threads.pop()
            if thread is not threading.current_thread():
                thread.join()
        self._listener.close()
        self.monitor.notifier.close()
        # Links refer to this object: without a cycle of references the log is freed
        # as soon as its last user releases it.
        self._owner = None

    def _drain(self, drain_ms: int) -> None:
        # Also what an event loop appended and has not sent yet.
        self.monitor.notifier.notify()
        until_ms = self._now_ms() + drain_ms
        while (left_ms := until_ms - self._now_ms()) > 0:
            end_offset = self._handle.ends().published_end
            if all(link.acked_offset in (None, end_offset) for link in self.links()):
                return
            self.monitor.rest(min(left_ms, 10))

    def _hang_up_links(self) -> None:
        """
        Waits until the links have ended by themselves, but not for long: a slave that
        takes no bytes holds a thread in a call of the system.
        """
        with self._link_ended:
            self._link_ended.wait_for(lambda: not self._links, END_MS / 1000)
        for link in self.links():
            link.close("the master shut down, and the slave did not end its link")

    # -- threads -------------------------------------------------------------

    def _start(self, what: str, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, name=f"pystore-ha-{what}", daemon=True)
        with self._lock:
            self._threads = [one for one in self._threads if one.is_alive()]
            self._threads.append(thread)
            thread.start()

    def _keep_time(self) -> None:
        offer = None if self._requests is None else self._requests.offer
        self.monitor.keep_time(offer, self._mastership.resign)

    def _keep_accepting(self) -> None:
        while not self._is_closing:
            try:
                connected, _ = self._listener.accept()
            except OSError as error:
                # `close` causes it; otherwise too many files are open, or the slave
                # has disconnected: go on with the next slave.
                if not self._is_closing:
                    self._mastership.say(
                        f"the connection of a slave was not accepted: {error.strerror}"
                    )
                    self.monitor.rest(100)
                continue
            self._accept(connected)

    def _accept(self, connected: socket.socket) -> None:
        try:
            wire = SlaveSocket(connected, self._mastership.config.housekeeping_ms)
        except OSError as error:
            # The slave has disconnected.
            connected.close()
            self._mastership.say(
                f"the connection of a slave was not accepted: {error.strerror}"
            )
            return
        link = self._add_link(wire)
        if link is None:
            # The service is closing.
            wire.close()
            return
        try:
            self._start(f"from-{link.peer}", lambda: self._serve(link))
        except RuntimeError as error:
            # No more threads: the slave tries again, other links continue.
            self._remove_link(link)
            wire.close()
            self._mastership.say(f"{link.peer}: connection refused: {error}")

    def _add_link(self, wire: SlaveSocket) -> SlaveConnectionThreads | None:
        with self._lock:
            if self._is_closing or self._owner is None:
                return None
            surplus = self._surplus_handshake()
            link = SlaveConnectionThreads(
                self._owner,
                wire,
                secrets.randbelow(2**63 - 1) + 1,
                secrets.token_bytes(CHALLENGE_BYTES),
            )
            self._links[link.session_id] = link
        if surplus is not None:
            surplus.close("too many handshakes at once")
        return link

    def _surplus_handshake(self) -> SlaveConnectionThreads | None:
        """
        Returns the handshake that has to end for the next one: the oldest of the
        address with the most of them. A slave that has proven itself stays.
        """
        waiting = {
            one: one.host
            for one in self._links.values()
            if not (one.is_open or one.is_proven or one.reason)
        }
        if len(waiting) < self._mastership.handshakes_max:
            return None
        return oldest_of_busiest(waiting)

    def _serve(self, link: SlaveConnectionThreads) -> None:
        try:
            link.serve()
        finally:
            self._remove_link(link)

    def _remove_link(self, link: SlaveConnectionThreads) -> None:
        with self._lock:
            del self._links[link.session_id]
            self._link_ended.notify_all()

    # -- called by links -----------------------------------------------------

    def _log_now(self) -> MasterLog:
        ends = self._handle.ends()
        self.monitor.sent(ends.published_end)
        if ends.min_offset < self._begin:
            # Filled downwards: the epochs of what is there now are needed to send it.
            self._begin, self._epochs = ends.min_offset, self._log.epochs
        return MasterLog(
            ends.min_offset,
            ends.published_end,
            ends.synced_end,
            ends.confirm_offset,
            self._epochs,
            ends.segment_size,
            self.monitor.appends.wants_flush,
            self._queue_offsets,
            ends.poisoned,
        )

    def _queue_offsets(self, offset: int) -> tuple[NextQueueOffset, ...]:
        return tuple(
            NextQueueOffset(topic, queue_id, number)
            for (topic, queue_id), number in self._queues_at(offset).items()
            if number
        )

    def _set_view(self) -> SetView:
        with self._lock:
            open_links = sum(one.is_open for one in self._links.values())
        is_full = open_links >= self._mastership.links_max
        return self.monitor.set_view(is_busy=is_full or self._is_closing)


def _check(epoch: int, segment_size: int, config: MasterConfig) -> None:
    if epoch != config.epoch:
        raise InvalidError(
            f"the mastership has epoch {config.epoch}, and the log is at epoch {epoch}:"
            " begin the epoch first"
        )
    if segment_size != config.segment_size:
        raise InvalidError(
            f"the configuration has segments of {config.segment_size} bytes, and the "
            f"log of {segment_size} bytes"
        )
