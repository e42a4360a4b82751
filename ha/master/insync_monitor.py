"""
The in-sync judgement of one mastership, for many threads.

Links bring facts, appenders wait for acks, one thread lets time pass and asks the
controller; all of them go through one lock, which nobody holds while anything waits.
What the judgement says is carried out here: the log's confirm offset moves, waits
end, and the session that a newer one replaced is named to be closed.

Source: docs/in-sync.md, docs/replication.md; R95, R128, R217 to R219.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from pystore.core.log_writer import LogHandle
from pystore.ha.insync.ack import Ack, AckResult
from pystore.ha.insync.facts import SessionAcked, SessionEnded, SessionOpened
from pystore.ha.insync.in_sync import InSync
from pystore.ha.insync.set_change import SetChange
from pystore.ha.master.config import SetView
from pystore.ha.master.notifier import Notifier
from pystore.ha.master.pending_appends import PendingAppends
from pystore.replicaset import AgreedSet, Incarnation

__all__ = ["InSyncMonitor", "RequestSetChange", "SetRefusal"]

_ENDS_MAX = 4096

PACE_MS = 2
"""The time-keeping thread looks at the log at most so often."""


@dataclass(frozen=True, slots=True)
class SetRefusal:
    """
    The controller will never take a change.

    It settles the attempt that it answers and no earlier one, whose answer was lost
    and which may be why this one is refused. So a controller that would refuse without
    ids (another version or epoch) has to answer with its current set instead, or a
    lost answer is never settled: the old set and the new one go on to count both.

    Attributes:
        broker_ids: whom it does not want; none: it is about something else.
    """

    broker_ids: frozenset[int] = frozenset()


RequestSetChange = Callable[[SetChange], AgreedSet | SetRefusal | None]
"""
Asks the controller for a change; ``None``: no answer came. Takes its time.

An `AgreedSet` is the controller's set as it is now, whether it took the change or not:
that alone settles earlier changes whose answers were lost.
"""


class InSyncMonitor:
    """
    `InSync` behind a lock, with the log that it moves. Any thread.

    Args:
        in_sync: of this mastership; nobody else uses it from here on.
        log: the master's, for its ends and its confirm offset.
        broker_ids: whom the controller knows, at any moment.
        now_ms: a clock that never steps back.
        lease_ms: until when `leader` may be acknowledged; ``None``: no leases.

    Attributes:
        appends: what waits for replicas.
        notifier: rings when the log grew, or somebody has to look again.
    """

    def __init__(
        self,
        in_sync: InSync,
        log: LogHandle,
        broker_ids: Callable[[], frozenset[int]],
        now_ms: Callable[[], int],
        lease_ms: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.notifier = Notifier(log)
        self._in_sync = in_sync
        self._log = log
        self._broker_ids = broker_ids
        self._now_ms = now_ms
        self._lease_ms = lease_ms
        self._lock = threading.Lock()
        self._live: dict[int, tuple[int, Incarnation | None]] = {}
        self._sent: deque[int] = deque(maxlen=_ENDS_MAX)
        self._confirmed = log.ends().confirm_offset
        self._over = threading.Event()
        self.appends = PendingAppends(
            log, self.notifier, now_ms, self._look, self._decide
        )
        self._look()

    # -- what links say ------------------------------------------------------

    def opened(self, fact: SessionOpened) -> int | None:
        """
        A session counts from now on, and one of the same slave no longer: in one
        step, so no ack is counted twice (R217).

        Returns:
            the session that is to be closed; maybe this one.
        """
        with self._lock:
            closing = self._in_sync.opened(fact, self._now_ms())
            if closing != fact.session_id:
                self._live[fact.broker_id] = fact.session_id, fact.incarnation
            self._settle()
        self.notifier.ring()
        return closing

    def acked(self, fact: SessionAcked) -> None:
        """
        A slave said what it holds.

        Raises:
            RemoteViolation: what it cannot hold: close the link.
        """
        with self._lock:
            now_ms = self._now_ms()
            end_offset = self._grew(now_ms)
            self._in_sync.acked(fact, end_offset, now_ms)
            self._settle()
            is_outside = self._in_sync.may_suspend(fact.broker_id)
            candidates = self._in_sync.set_now.candidates
        if is_outside or any(one.broker_id == fact.broker_id for one in candidates):
            # It may be about to come in (R82): whoever asks the controller looks.
            self.notifier.ring()

    def left(self, fact: SessionEnded) -> None:
        """
        A session is over.
        """
        with self._lock:
            now_ms = self._now_ms()
            self._in_sync.left(fact, now_ms)
            live = self._live.get(fact.broker_id)
            if live is not None and live[0] == fact.session_id:
                del self._live[fact.broker_id]
            self._grew(now_ms)
            self._settle()
        self.notifier.ring()

    def step_down(self, newer_epoch: int) -> None:
        """
        Somebody knows a newer epoch: nothing is acknowledged any more.
        """
        with self._lock:
            self._in_sync.step_down(newer_epoch)
            self._settle()
        self.appends.fence()

    def sent(self, end_offset: int) -> None:
        """
        The log ended here when bytes of it were sent: what a slave acks next is most
        likely this end, so the confirm offset can go exactly there.
        """
        self._sent.append(end_offset)

    def set_view(self, *, is_master: bool = True, is_busy: bool = False) -> SetView:
        """
        Returns who is known, who counts and who is here.
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

    # -- what appenders want -------------------------------------------------

    def _decide(self, ack: Ack, end_offset: int) -> AckResult:
        """
        What became of an ack that was not reached while somebody waited for it.
        """
        with self._lock:
            self._catch_up()
            promises = self._in_sync.promises
            outcome = promises.outcome(ack, end_offset, self._is_leased)
            if outcome is None:
                outcome = promises.expired(ack, end_offset)
            return promises.copies().settled(ack, end_offset, outcome)

    # -- time, and the controller --------------------------------------------

    def keep_time(
        self,
        offer: Callable[[SetChange], object] | None = None,
        resign: Callable[[str], object] | None = None,
    ) -> None:
        """
        Lets time pass until `close`, in a thread of its own.

        Args:
            offer: takes each change that is to be asked for, and returns at once;
                `answered` follows. Without it the set stays as it is.
            resign: is told once, with the reason, that this mastership should end
                (B9).
        """
        while not self._over.is_set():
            rings = self.notifier.rings
            change = self.tick()
            if change is not None and offer is not None:
                offer(change)
            if resign is not None and self.must_resign():
                resign("its disk has failed, and another member is well")
                resign = None
            with self._lock:
                wait_ms = self._in_sync.next_deadline() - self._now_ms()
            # At most so often, however often somebody appends.
            self._over.wait(PACE_MS / 1000)
            self.notifier.wait(rings, wait_ms - PACE_MS)

    def rest(self, rest_ms: int) -> None:
        """
        Lets so much time pass, or less if this is closed.
        """
        self._over.wait(rest_ms / 1000)

    def tick(self) -> SetChange | None:
        """
        Looks at the clock and at the log once.

        Returns:
            the change of the set that is to be asked for; `answered` has to follow.
        """
        with self._lock:
            now_ms = self._now_ms()
            self._grew(now_ms)
            if now_ms >= self._in_sync.next_deadline():
                self._in_sync.tick(now_ms)
            change = self._in_sync.proposal(now_ms)
            self._settle()
            return change

    def must_resign(self) -> bool:
        """
        Whether our disk has failed for too long and another member is well (B9).
        """
        with self._lock:
            return self._in_sync.must_resign(self._now_ms())

    def answered(
        self, change: SetChange, answer: AgreedSet | SetRefusal | None
    ) -> None:
        """
        What the controller said to a change.
        """
        with self._lock:
            now_ms = self._now_ms()
            if answer is None:
                self._in_sync.unknown(change, now_ms)
            elif isinstance(answer, SetRefusal):
                self._in_sync.refused(change, answer.broker_ids, now_ms)
            else:
                self._in_sync.agreed(answer, now_ms)
            self._settle()
        self.notifier.ring()

    def agreed(self, agreed: AgreedSet) -> None:
        """
        The controller's set, as it was polled.
        """
        with self._lock:
            self._in_sync.agreed(agreed, self._now_ms())
            self._settle()

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
        Everyone who may be elected holds everything below.
        """
        return self._confirmed

    def close(self) -> None:
        """
        The mastership is over: waits end as fenced.
        """
        with self._lock:
            self._over.set()
            # First, so nobody who comes now is told of an epoch that there is not.
            self.appends.close()
            self._in_sync.step_down(2**63 - 1)
            self._settle()
        self.notifier.ring()

    @property
    def _is_leased(self) -> bool:
        lease_ms = self._lease_ms()
        return lease_ms is None or self._now_ms() <= lease_ms

    def _look(self) -> None:
        with self._lock:
            self._catch_up()

    def _catch_up(self) -> None:
        # Behind its end the log may be closed, or have another master's bytes.
        if not self._over.is_set():
            self._grew(self._now_ms())
            self._settle()

    def _grew(self, now_ms: int) -> int:
        in_sync = self._in_sync
        while self._sent:
            in_sync.ended(self._sent.popleft())
        ends = self._log.ends()
        if ends.poisoned:
            in_sync.poisoned(now_ms)
        in_sync.grew(ends.published_end, ends.synced_end, now_ms)
        return ends.published_end

    def _settle(self) -> None:
        """
        Carries out what follows, in this order: who wakes up finds the confirm offset
        that its ack means.
        """
        confirm = self._in_sync.confirm_offset
        if confirm > self._confirmed:
            self._log.confirm(confirm)
            self._confirmed = confirm
        self.appends.show(self._in_sync)
