"""
A master at work: it listens, serves slaves, and knows what the set holds.

One service is one mastership: of one epoch, over one open log. Who appends to the
log says so with `appended`, and waits for replicas with `wait`. Another epoch is
another service; the old one is closed first, so every slave begins anew (K.3).

The protocols have neither encryption nor passwords: whoever reaches the port reads
the log and may acknowledge it. So it listens on this machine only, unless told
otherwise, and then warns.

Rules: docs/replication.md, docs/in-sync.md; K.3, R95, R194, R217.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pystore.clocks import clock_ms
from pystore.errors import InvalidError, StorageError
from pystore.ha.insync.ack import Ack, AckResult
from pystore.ha.insync.config import SetRules
from pystore.ha.insync.in_sync import InSync
from pystore.ha.insync.member import AgreedSet, Member
from pystore.ha.master.append_future import AppendFuture, wait_all
from pystore.ha.master.config import MasterConfig, SetView
from pystore.ha.master.connection import LinkOwner, SlaveConnectionThreads
from pystore.ha.master.effects import MasterLog
from pystore.ha.master.insync_monitor import InSyncMonitor, RequestSetChange
from pystore.ha.master.set_change_requests import SetChangeRequests
from pystore.ha.master.transport import SlaveSocket, listen
from pystore.message.message import form_of
from pystore.net.address import exposure_warning

if TYPE_CHECKING:
    from types import TracebackType

    from pystore.core.results import Appended
    from pystore.message.message import Message
    from pystore.store.commit_log import CommitLog

__all__ = ["MasterService", "Mastership"]


@dataclass(frozen=True, slots=True)
class Mastership:
    """
    What makes a broker the master, and under which rules it serves.

    Attributes:
        config: of the sessions; names the epoch, which the log has begun.
        me: this broker and its incarnation.
        agreed: the set as the controller committed it with the election.
        broker_ids: whom the controller knows, at any moment.
        rules: the numbers of the set.
        ask: asks the controller for a change of the set; ``None``: it stays.
        lease_ms: until when `leader` may be acknowledged, on the service's clock;
            ``None``: no leases.
        step_down: is told of a newer epoch, in the thread of a link.
        resign: is told once why this mastership should end, in the thread that keeps
            time (B9).
        say: one line for people.
        host: where to listen.
        port: 0: any that is free.
        bytes_per_second: to one slave; 0: as many as there are.
        links_max: open at once, all slaves together.
    """

    config: MasterConfig
    me: Member
    agreed: AgreedSet
    broker_ids: Callable[[], frozenset[int]]
    rules: SetRules | None = None
    ask: RequestSetChange | None = None
    lease_ms: Callable[[], int | None] = lambda: None
    step_down: Callable[[int], object] = bool
    resign: Callable[[str], object] = bool
    say: Callable[[str], object] = bool
    host: str = "127.0.0.1"
    port: int = 0
    bytes_per_second: int = 0
    links_max: int = 64


class MasterService:
    """
    Serves slaves until it is closed. A context manager; any thread.

    Args:
        log: open for writing; stays its owner's, who closes it after the service.
        mastership: who is master of what.
        now_ms: a clock that never steps back.

    Attributes:
        monitor: what the set holds; appenders wait there.
        address: host and port where it listens.

    Raises:
        InvalidError: the log has not begun the epoch of the terms, or has segments
            of another size.
        StorageError: the address cannot be had.
    """

    def __init__(
        self,
        log: CommitLog,
        mastership: Mastership,
        now_ms: Callable[[], int] = clock_ms,
    ) -> None:
        self._ship = ship = mastership
        self._handle = handle = log.writer.log
        self._now_ms = now_ms
        self._epochs = log.epochs
        _check(self._epochs.last_epoch, handle.ends().segment_size, ship.config)
        ends = handle.ends()
        self.monitor = InSyncMonitor(
            InSync(
                ship.me,
                ship.config.epoch,
                self._epochs.entries[-1].start_offset,
                ship.agreed,
                flushed_offset=ends.synced_end,
                confirm_offset=ends.confirm_offset,
                now_ms=now_ms(),
                rules=ship.rules,
            ),
            handle,
            ship.broker_ids,
            now_ms,
            ship.lease_ms,
        )
        self._lock = threading.Lock()
        self._links: dict[int, SlaveConnectionThreads] = {}
        self._threads: list[threading.Thread] = []
        self._is_closing = False
        self._owner: LinkOwner | None = self._make_owner()
        self._listener = self._listen()
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._start("accept", self._keep_accepting)
        self._asking: SetChangeRequests | None = None
        if ship.ask is not None:
            self._asking = SetChangeRequests(ship.ask, self.monitor.answered, ship.say)
        self._start("time", self._keep_time)

    def _make_owner(self) -> LinkOwner:
        ship, monitor = self._ship, self.monitor
        wall_ms = time.time_ns() // 1_000_000 - self._now_ms()
        return LinkOwner(
            config=replace(ship.config, wall_ms=wall_ms),
            set_view=self._set_view,
            log=self._log_now,
            acquire=self._handle.acquire,
            now_ms=self._now_ms,
            notifier=monitor.notifier,
            opened=monitor.opened,
            acked=monitor.acked,
            left=monitor.left,
            step_down=self._step_down,
            close=self.close_session,
            say=ship.say,
            bytes_per_second=ship.bytes_per_second,
        )

    def _listen(self) -> socket.socket:
        host, port = self._ship.host, self._ship.port
        try:
            listener = listen(host, port)
        except OSError as error:  # taken, or no address of ours
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
        if warning is not None:
            self._ship.say(warning)
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
        Appends, all or none, and waits for the ack; see `Appends.append`.
        """
        return self.monitor.appends.append(form_of(messages), ack, timeout_ms)

    def submit(self, messages: Message | Iterable[Message], ack: Ack) -> AppendFuture:
        """
        Appends as `append` does, and waits for nothing; see `Appends.submit`.
        """
        return self.monitor.appends.submit(form_of(messages), ack)

    def wait(self, ack: Ack, end_offset: int, timeout_ms: int = 3_000) -> AckResult:
        """
        Waits until an append has its ack; see `Appends.wait`.
        """
        return self.monitor.appends.wait(ack, end_offset, timeout_ms)

    def wait_all(
        self, futures: Sequence[AppendFuture], timeout_ms: int = 3_000
    ) -> list[AckResult]:
        """
        Waits for tickets; see `pystore.ha.master.append_future.wait_all`.
        """
        return wait_all(futures, timeout_ms, self._now_ms)

    # -- operators -----------------------------------------------------------

    def links(self) -> list[SlaveConnectionThreads]:
        """
        Returns the links that are open now.
        """
        with self._lock:
            return list(self._links.values())

    def close_session(self, session_id: int, reason: str) -> None:
        """
        Ends a link; nothing, if it is gone.
        """
        with self._lock:
            link = self._links.get(session_id)
        if link is not None:
            link.close(reason)

    # -- the end -------------------------------------------------------------

    def close(self, drain_ms: int = 0) -> None:
        """
        Serves no more; again is fine. Nobody appends any longer.

        Args:
            drain_ms: how long slaves may take to get and acknowledge the rest.
        """
        with self._lock:
            if self._is_closing:
                return
            self._is_closing = True
        try:
            # Wakes the accepting thread, which `close` alone does not on Linux.
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            # Elsewhere a listener cannot be shut down, and `close` does wake it.
            self._listener.close()
        self._drain(drain_ms)
        for link in self.links():
            link.shutdown()
        self.monitor.close()
        if self._asking is not None:
            self._asking.close()
        while self._threads:
            thread = self._threads.pop()
            if thread is not threading.current_thread():
                thread.join()
        self._listener.close()
        self.monitor.notifier.close()
        # What links were given leads back here: no knot of objects is to outlive
        # this call, since the log is to be freed by whoever lets go of it last.
        self._owner = None

    def _drain(self, drain_ms: int) -> None:
        until_ms = self._now_ms() + drain_ms
        while (left_ms := until_ms - self._now_ms()) > 0:
            end_offset = self._handle.ends().published_end
            if all(link.acked_offset in (None, end_offset) for link in self.links()):
                return
            self.monitor.rest(min(left_ms, 10))

    # -- threads -------------------------------------------------------------

    def _start(self, what: str, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, name=f"pystore-ha-{what}", daemon=True)
        with self._lock:
            self._threads = [one for one in self._threads if one.is_alive()]
            self._threads.append(thread)
            thread.start()

    def _keep_time(self) -> None:
        offer = None if self._asking is None else self._asking.offer
        self.monitor.keep_time(offer, self._ship.resign)

    def _keep_accepting(self) -> None:
        while not self._is_closing:
            try:
                connected, _ = self._listener.accept()
            except OSError as error:
                # Closing says so by this; else too many files are open, or the
                # slave has gone already: the next one is not to suffer.
                if not self._is_closing:
                    self._ship.say(f"a link was not accepted: {error.strerror}")
                    self.monitor.rest(100)
                continue
            self._take_in(connected)

    def _take_in(self, connected: socket.socket) -> None:
        try:
            wire = SlaveSocket(connected, self._ship.config.housekeeping_ms)
        except OSError as error:
            # It has gone already.
            connected.close()
            self._ship.say(f"a link was not accepted: {error.strerror}")
            return
        link = self._enter(wire)
        if link is None:
            wire.close()
            self._ship.say(f"{wire.peer}: turned away, {self._ship.links_max} links")
            return
        try:
            self._start(f"from-{link.peer}", lambda: self._serve(link))
        except RuntimeError as error:
            # No thread more: the slave tries again, and those that are here go on.
            self._forget(link)
            wire.close()
            self._ship.say(f"{link.peer}: turned away: {error}")

    def _enter(self, wire: SlaveSocket) -> SlaveConnectionThreads | None:
        with self._lock:
            is_full = len(self._links) >= self._ship.links_max
            if is_full or self._is_closing or self._owner is None:
                return None
            link = SlaveConnectionThreads(
                self._owner, wire, secrets.randbelow(2**63 - 1) + 1
            )
            self._links[link.session_id] = link
            return link

    def _serve(self, link: SlaveConnectionThreads) -> None:
        try:
            link.serve()
        finally:
            self._forget(link)

    def _forget(self, link: SlaveConnectionThreads) -> None:
        with self._lock:
            del self._links[link.session_id]

    # -- what links ask ------------------------------------------------------

    def _log_now(self) -> MasterLog:
        ends = self._handle.ends()
        self.monitor.sent(ends.published_end)
        return MasterLog(
            min_offset=ends.min_offset,
            end_offset=ends.published_end,
            flushed_offset=ends.synced_end,
            confirm_offset=ends.confirm_offset,
            epochs=self._epochs,
            segment_size=ends.segment_size,
            wants_flush=self.monitor.appends.wants_disks,
        )

    def _set_view(self) -> SetView:
        return self.monitor.set_view(is_busy=self._is_closing)

    def _step_down(self, newer_epoch: int) -> None:
        self.monitor.step_down(newer_epoch)
        self._ship.say(f"epoch {newer_epoch} is known: nothing is acknowledged here")
        self._ship.step_down(newer_epoch)


def _check(epoch: int, segment_size: int, config: MasterConfig) -> None:
    if epoch != config.epoch:
        raise InvalidError(
            f"a mastership of epoch {config.epoch} over a log of epoch {epoch}: begin "
            "the epoch first"
        )
    if segment_size != config.segment_size:
        raise InvalidError(
            f"terms for segments of {config.segment_size} bytes over a log of "
            f"{segment_size}"
        )
