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
from collections.abc import Callable
from dataclasses import dataclass

from pystore.errors import LocalViolation
from pystore.ha.insync.ack import Ack, Settled
from pystore.ha.insync.in_sync import InSync
from pystore.ha.insync.member import AgreedSet, SetChange
from pystore.ha.master.bell import Bell
from pystore.ha.master.effects import Acked, Left, Opened
from pystore.ha.master.terms import Incarnation, Roster
from pystore.handle import LogHandle

__all__ = ["Ask", "Judge", "SetRefusal"]

PACE_MS = 2
"""The time-keeping thread looks at the log at most so often."""


@dataclass(frozen=True, slots=True)
class SetRefusal:
    """
    The controller will never take a change.

    Attributes:
        broker_ids: whom it does not want; none: it is about something else.
    """

    broker_ids: frozenset[int] = frozenset()


Ask = Callable[[SetChange], AgreedSet | SetRefusal | None]
"""Asks the controller for a change; ``None``: no answer came. Takes its time."""


class Judge:
    """
    `InSync` behind a lock, with the log that it moves. Any thread.

    Args:
        in_sync: of this mastership; nobody else uses it from here on.
        log: the master's, for its ends and its confirm offset.
        broker_ids: whom the controller knows, at any moment.
        now_ms: a clock that never steps back.
        lease_ms: until when `leader` may be acknowledged; ``None``: no leases.

    Attributes:
        bell: rings when the log grew, or somebody has to look again.
    """

    def __init__(
        self,
        in_sync: InSync,
        log: LogHandle,
        broker_ids: Callable[[], frozenset[int]],
        now_ms: Callable[[], int],
        lease_ms: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.bell = Bell()
        self._in_sync = in_sync
        self._log = log
        self._broker_ids = broker_ids
        self._now_ms = now_ms
        self._lease_ms = lease_ms
        self._lock = threading.Lock()
        self._live: dict[int, tuple[int, Incarnation | None]] = {}
        self._waits: dict[int, _Wait] = {}
        self._confirmed = log.ends().confirm_offset
        self._over = threading.Event()

    # -- what links say ------------------------------------------------------

    def opened(self, fact: Opened) -> int | None:
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
        self.bell.ring()
        return closing

    def acked(self, fact: Acked) -> None:
        """
        A slave said what it holds.

        Raises:
            RemoteViolation: what it cannot hold: close the link.
        """
        with self._lock:
            end_offset = self._log.ends().published_end
            self._in_sync.acked(fact, end_offset, self._now_ms())
            self._settle()
            is_outside = self._in_sync.may_suspend(fact.broker_id)
        if is_outside:
            # It may be about to come in (R82): whoever asks the controller looks.
            self.bell.ring()

    def left(self, fact: Left) -> None:
        """
        A session is over.
        """
        with self._lock:
            self._in_sync.left(fact, self._now_ms())
            live = self._live.get(fact.broker_id)
            if live is not None and live[0] == fact.session_id:
                del self._live[fact.broker_id]
            self._settle()
        self.bell.ring()

    def step_down(self, newer_epoch: int) -> None:
        """
        Somebody knows a newer epoch: nothing is acknowledged any more.
        """
        with self._lock:
            self._in_sync.step_down(newer_epoch)
            self._settle()

    def roster(self, *, is_master: bool = True, is_busy: bool = False) -> Roster:
        """
        Returns who is known, who counts and who is here.
        """
        known = self._broker_ids()
        with self._lock:
            judge = self._in_sync
            counting = {one for one in known if not judge.may_suspend(one)}
            candidates = {one.broker_id for one in judge.set_now.candidates}
            return Roster(
                broker_ids=known,
                members=frozenset(counting - candidates),
                candidates=frozenset(candidates),
                sessions={one: live[1] for one, live in self._live.items()},
                is_master=is_master,
                is_busy=is_busy,
            )

    # -- what appenders want -------------------------------------------------

    def appended(self) -> None:
        """
        The log grew. To be called after each append; cheap while nobody waits.
        """
        self.bell.ring()

    def wait(self, ack: Ack, end_offset: int, timeout_ms: int) -> Settled:
        """
        Waits until an append has its ack, and answers how that ended.

        Args:
            ack: which.
            end_offset: where the append ends.
            timeout_ms: how long it may take.

        Raises:
            LocalViolation: this mastership was closed.
            PoisonedError: our own disk failed, and the ack wants it.
        """
        if ack.is_synced:
            self._log.sync(end_offset)
        self.bell.ring()
        wait = _Wait()
        with self._lock:
            if self._over.is_set():
                raise LocalViolation("this mastership is over")
            now_ms = self._now_ms()
            self._grew(now_ms)
            ticket = self._in_sync.promises.wait(ack, end_offset, now_ms + timeout_ms)
            self._waits[ticket] = wait
            self._settle()
        left_ms = timeout_ms
        while not wait.is_over.wait(max(left_ms, 1) / 1000):
            with self._lock:
                self._settle()
            left_ms = now_ms + timeout_ms - self._now_ms()
        assert wait.settled is not None
        return wait.settled

    def refusal(self, ack: Ack) -> str | None:
        """
        Returns why an append with this ack would not be kept, before it is made
        (R206).
        """
        with self._lock:
            refusal = self._in_sync.promises.refusal(ack)
        return None if refusal is None else refusal.text

    # -- time, and the controller --------------------------------------------

    def keep_time(self, ask: Ask | None = None) -> None:
        """
        Lets time pass until `close`, in a thread of its own.

        Args:
            ask: the controller; without one the set stays as it is.
        """
        while not self._over.is_set():
            rings = self.bell.rings
            change = self.tick()
            if change is not None and ask is not None:
                self.answered(change, ask(change))
                continue
            with self._lock:
                wait_ms = self._in_sync.next_deadline() - self._now_ms()
            # At most so often, however often somebody appends.
            self._over.wait(PACE_MS / 1000)
            self.bell.wait(rings, wait_ms - PACE_MS)

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
        self.bell.ring()

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

    @property
    def is_waited_on(self) -> bool:
        """
        Whether an append waits for its ack.
        """
        return bool(self._waits)

    def close(self) -> None:
        """
        The mastership is over: waits end as fenced.
        """
        with self._lock:
            self._over.set()
            self._in_sync.step_down(2**63 - 1)
            self._settle()
        self.bell.ring()

    def _grew(self, now_ms: int) -> None:
        ends = self._log.ends()
        if ends.poisoned:
            self._in_sync.poisoned(now_ms)
        self._in_sync.grew(ends.published_end, ends.synced_end, now_ms)

    def _settle(self) -> None:
        confirm = self._in_sync.confirm_offset
        if confirm > self._confirmed:
            self._log.confirm(confirm)
            self._confirmed = confirm
        settled = self._in_sync.promises.settle(self._now_ms(), self._lease_ms())
        for one in settled:
            wait = self._waits.pop(one.ticket)
            wait.settled = one
            wait.is_over.set()


class _Wait:
    def __init__(self) -> None:
        self.is_over = threading.Event()
        self.settled: Settled | None = None
