"""
The in-sync decisions of one mastership, for many threads.

Links bring facts, appenders wait for acks, one thread keeps the time and requests
changes. All use one lock, and no thread waits while it holds that lock. The monitor
carries decisions out: it moves the log's confirm offset, ends waits, and names the
session that a newer one replaced.

Source: docs/in-sync.md, docs/replication.md; RMQ-R95, RMQ-R128, RMQ-R217 to RMQ-R219.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from pystore.core.log_writer import LogHandle
from pystore.events.node_events import SyncStateSetChanged, SyncStateSetShrank
from pystore.events.node_teller import Tell, untold
from pystore.ha.insync.ack import Ack, AckResult
from pystore.ha.insync.facts import SessionAcked, SessionEnded, SessionOpened
from pystore.ha.insync.in_sync import InSync
from pystore.ha.insync.set_change import SetChange, change_reason
from pystore.ha.master.config import SetView
from pystore.ha.master.effects import MasterLog
from pystore.ha.master.notifier import Notifier
from pystore.ha.master.pending_appends import PendingAppends
from pystore.rates.latency_samples import LatencySamples
from pystore.replicaset import AgreedSet, Incarnation, ids_of

__all__ = ["InSyncMonitor", "RequestSetChange", "SetRefusal"]

_ENDS_MAX = 4096

PACE_MS = 2
"""The least time between two checks of the log by the thread that keeps the time."""


@dataclass(frozen=True, slots=True)
class SetRefusal:
    """
    The controller will never commit a change.

    A refusal settles the attempt that it answers, but no earlier one without an answer,
    which may be the cause of this refusal. So a controller that would refuse without
    ids (another version or epoch) must answer with its current set instead. Otherwise
    the earlier attempt is never settled, and the old and the new set both count.

    Attributes:
        broker_ids: of the replicas that it refuses; none: the reason is another.
    """

    broker_ids: frozenset[int] = frozenset()


RequestSetChange = Callable[[SetChange], AgreedSet | SetRefusal | None]
"""
Requests a change from the controller; ``None``: no answer came. May take seconds.

An `AgreedSet` is the controller's current set, whether it committed the change or not:
only that settles earlier changes without an answer.
"""


class InSyncMonitor:
    """
    `InSync` behind a lock, with the log that it moves. Any thread.

    Args:
        in_sync: of this mastership; only the monitor uses it from here on.
        log: the master's, for its ends and its confirm offset.
        broker_ids: returns the ids of all brokers that the controller knows.
        now_ms: a clock that never steps back.
        lease_ms: returns until when `leader` may be acknowledged; ``None``: the
            controller gives no leases.
        tell: takes changes of the set.
        latency: takes how long synced acks wait for the disk.

    Attributes:
        appends: appends that wait for replicas.
        notifier: notifies when the log grew or the in-sync state changed.
    """

    def __init__(
        self,
        in_sync: InSync,
        log: LogHandle,
        broker_ids: Callable[[], frozenset[int]],
        now_ms: Callable[[], int],
        lease_ms: Callable[[], int | None] = lambda: None,
        *,
        tell: Tell = untold,
        latency: LatencySamples | None = None,
    ) -> None:
        self.notifier = Notifier(log)
        self._in_sync = in_sync
        self._log = log
        self._broker_ids = broker_ids
        self._now_ms = now_ms
        self._lease_ms = lease_ms
        self._tell = tell
        self._asked: SetChange | None = None
        self._lock = threading.Lock()
        self._live: dict[int, tuple[int, Incarnation | None]] = {}
        self._sent: deque[int] = deque(maxlen=_ENDS_MAX)
        self._confirmed = log.ends().confirm_offset
        self._over = threading.Event()
        self.appends = PendingAppends(
            log,
            self.notifier,
            now_ms,
            self._refresh,
            self._decide,
            refused=self._append_refused,
            epoch=in_sync.ack_policy.epoch,
            latency=latency,
        )
        self._refresh()

    # -- facts of links ------------------------------------------------------

    def opened(self, fact: SessionOpened) -> int | None:
        """
        Adds a session and removes the older one of the same slave in one step, so no
        ack is counted twice (RMQ-R217).

        Returns:
            the session to close; maybe this one.
        """
        with self._lock:
            closing = self._in_sync.opened(fact, self._now_ms())
            if closing != fact.session_id:
                self._live[fact.broker_id] = fact.session_id, fact.incarnation
            self._publish()
        self.notifier.notify()
        return closing

    def acked(self, fact: SessionAcked, log: MasterLog) -> None:
        """
        A slave acked.

        Args:
            fact: the ack.
            log: its state, read after the ack arrived.

        Raises:
            RemoteViolation: it cannot hold what it acks: close the link.
        """
        in_sync = self._in_sync
        with self._lock:
            now_ms = self._now_ms()
            self._note_sent()
            if log.is_poisoned:
                in_sync.poisoned(now_ms)
            in_sync.grew(log.end_offset, log.flushed_offset, now_ms)
            in_sync.acked(fact, log.end_offset, now_ms)
            self._publish()
            is_waiting = in_sync.may_join(fact.broker_id)
        if is_waiting:
            # It may be about to join (RMQ-R82): wake the thread that requests changes.
            self.notifier.notify()

    def left(self, fact: SessionEnded) -> None:
        """
        A session ended.
        """
        with self._lock:
            now_ms = self._now_ms()
            self._in_sync.left(fact, now_ms)
            live = self._live.get(fact.broker_id)
            if live is not None and live[0] == fact.session_id:
                del self._live[fact.broker_id]
            self._grew(now_ms)
            self._publish()
        self.notifier.notify()

    def sent(self, end_offset: int) -> None:
        """
        The log ended here when a block was sent. The next ack is most likely this
        end, so the confirm offset can move exactly there.
        """
        self._sent.append(end_offset)

    def set_view(self, *, is_master: bool = True, is_busy: bool = False) -> SetView:
        """
        Returns the known brokers, the members, and the live sessions.
        """
        known = self._broker_ids()
        with self._lock:
            monitor = self._in_sync
            counting = {one for one in known if not monitor.may_suspend(one)}
            candidates = {one.broker_id for one in monitor.set_now.candidates}
            return SetView(
                broker_ids=known,
                members=frozenset(counting - candidates),
                candidates=frozenset(candidates),
                sessions={one: live[1] for one, live in self._live.items()},
                is_master=is_master,
                is_busy=is_busy,
            )

    def is_waited_for(self, broker_id: int) -> bool:
        """
        Returns whether acknowledgements wait for a slave, or may soon.
        """
        with self._lock:
            return not self._in_sync.may_suspend(broker_id)

    # -- appenders -----------------------------------------------------------

    def _append_refused(self, error: str) -> None:
        """
        The system refused an append, such as for a full disk.
        """
        with self._lock:
            if self._over.is_set():
                return
            now_ms = self._now_ms()
            end_offset = self._grew(now_ms)
            was_well = not self._in_sync.problem(now_ms)
            self._in_sync.append_refused(error, end_offset, now_ms)
        if was_well:
            # The thread that keeps the time has a new deadline.
            self.notifier.notify()

    @property
    def problem(self) -> str:
        """
        What keeps the master from serving now, one line; empty: nothing.
        """
        with self._lock:
            self._catch_up()
            return self._in_sync.problem(self._now_ms())

    def _decide(self, ack: Ack, end_offset: int) -> AckResult:
        """
        Returns the result of an ack that was not reached before its wait ended.
        """
        with self._lock:
            self._catch_up()
            policy = self._in_sync.ack_policy
            outcome = policy.outcome(ack, end_offset, self._is_leased)
            if outcome is None:
                outcome = policy.expired(ack, end_offset)
            return policy.holders().settled(ack, end_offset, outcome)

    # -- time, and the controller --------------------------------------------

    def keep_time(
        self,
        offer: Callable[[SetChange], object] | None = None,
        resign: Callable[[str], object] | None = None,
    ) -> None:
        """
        Ticks until `close`, in the calling thread.

        Args:
            offer: takes each change to request, and returns at once; `answered`
                follows. Without it the set stays as it is.
            resign: is called once, with the reason, if this mastership should end
                (B9, B13).
        """
        while not self._over.is_set():
            seen = self.notifier.count
            change = self.tick()
            if change is not None and offer is not None:
                offer(change)
            if resign is not None and self.must_resign():
                resign(f"{self.problem}; another member is well")
                resign = None
            with self._lock:
                now_ms = self._now_ms()
                wait_ms = self._in_sync.next_deadline() - now_ms
                due_ms = self._in_sync.resign_due_ms(now_ms)
            if due_ms is not None and due_ms > now_ms:
                wait_ms = min(wait_ms, due_ms - now_ms)
            # Limits the checks, however many appends there are.
            self._over.wait(PACE_MS / 1000)
            self.notifier.wait(seen, wait_ms - PACE_MS)

    def rest(self, rest_ms: int) -> None:
        """
        Waits so long, or until `close`.
        """
        self._over.wait(rest_ms / 1000)

    def tick(self) -> SetChange | None:
        """
        Checks the time and the log once.

        Returns:
            the change of the set to request; `answered` must follow.
        """
        with self._lock:
            now_ms = self._now_ms()
            self._grew(now_ms)
            lease_ms = self._lease_ms()
            # By a later clock: the end of no lease is the moment at which it is asked.
            if lease_ms is not None and self._now_ms() <= lease_ms:
                self._in_sync.leased()
            if now_ms >= self._in_sync.next_deadline():
                self._in_sync.tick(now_ms)
            change = self._in_sync.proposal(now_ms)
            self._asked = change or self._asked
            self._publish()
            return change

    def must_resign(self) -> bool:
        """
        Whether the master could not append or sync for too long, and another member is
        well (B9, B13).
        """
        with self._lock:
            return self._in_sync.must_resign(self._now_ms())

    def answered(
        self, change: SetChange, answer: AgreedSet | SetRefusal | None
    ) -> None:
        """
        Takes the controller's answer to a change; ``None``: none came.
        """
        with self._lock:
            now_ms, before = self._now_ms(), self._in_sync.set_now
            if answer is None:
                self._in_sync.unknown(change, now_ms)
            elif isinstance(answer, SetRefusal):
                self._in_sync.refused(change, answer.broker_ids, now_ms)
            else:
                self._in_sync.agreed(answer, now_ms)
            self._publish()
            after, asked = self._in_sync.set_now, self._asked
        self.notifier.notify()
        self._tell_set(before, after, asked)

    def agreed(self, agreed: AgreedSet) -> None:
        """
        Takes the controller's set, from a poll.
        """
        with self._lock:
            before = self._in_sync.set_now
            self._in_sync.agreed(agreed, self._now_ms())
            self._publish()
            after, asked = self._in_sync.set_now, self._asked
        self._tell_set(before, after, asked)

    def _tell_set(
        self, before: AgreedSet, after: AgreedSet, asked: SetChange | None
    ) -> None:
        old, new = ids_of(before.members), ids_of(after.members)
        reason = change_reason(before, after, asked)
        if not reason:
            return
        self._tell(
            SyncStateSetShrank if old - new else SyncStateSetChanged,
            master_epoch=self._in_sync.ack_policy.epoch,
            set_epoch=after.set_epoch,
            members=tuple(sorted(new)),
            candidates=tuple(sorted(ids_of(after.candidates))),
            joined=tuple(sorted(new - old)),
            left=tuple(sorted(old - new)),
            reason=reason,
        )

    def received_by(self, broker_id: int) -> int | None:
        """
        Returns the end of the bytes that a slave with a session holds; ``None``: it has
        none, or has not acked.
        """
        with self._lock:
            return self._in_sync.received_by(broker_id)

    @property
    def set_now(self) -> AgreedSet:
        """
        The set as the controller committed it last.
        """
        with self._lock:
            return self._in_sync.set_now

    @property
    def confirm_offset(self) -> int:
        """
        Every replica that may be elected holds everything below.
        """
        return self._confirmed

    def close(self) -> None:
        """
        The mastership is over: waits end as fenced.
        """
        with self._lock:
            self._over.set()
            # First: no later append may be refused with an epoch that does not exist.
            self.appends.close()
            self._in_sync.step_down(2**63 - 1)
            self._publish()
        self.notifier.notify()

    @property
    def _is_leased(self) -> bool:
        lease_ms = self._lease_ms()
        return lease_ms is None or self._now_ms() <= lease_ms

    def _refresh(self) -> None:
        with self._lock:
            self._catch_up()

    def _catch_up(self) -> None:
        # After its end the log may be closed, or hold bytes of another master.
        if not self._over.is_set():
            self._grew(self._now_ms())
            self._publish()

    def _note_sent(self) -> None:
        while self._sent:
            self._in_sync.ended(self._sent.popleft())

    def _grew(self, now_ms: int) -> int:
        in_sync = self._in_sync
        self._note_sent()
        ends = self._log.ends()
        if ends.poisoned:
            in_sync.poisoned(now_ms)
        in_sync.grew(ends.published_end, ends.synced_end, now_ms)
        return ends.published_end

    def _publish(self) -> None:
        """
        Publishes the results. The confirm offset moves first, so a waiter that wakes
        up finds it where its ack implies.
        """
        confirm = self._in_sync.confirm_offset
        if confirm > self._confirmed:
            self._log.confirm(confirm)
            self._confirmed = confirm
        self.appends.update(self._in_sync)
