"""
Appends that wait for replicas, in the core and without the lock of the monitor.

After each fact the monitor publishes the offset of each ack and what each replica
holds. A wait whose ack was reached gets its result from that alone. For one that was
not reached, the monitor decides the outcome.

Source: docs/in-sync.md; RMQ-R206, RMQ-R211, RMQ-R217 to RMQ-R219.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from pystore.bindings.ffi import LocalAck
from pystore.core.log_writer import LogHandle
from pystore.core.results import Appended
from pystore.core.waits import OffsetWaiters, WaitOutcome
from pystore.errors import (
    ClosedError,
    FencedError,
    OffsetOutOfRange,
    StorageError,
    UnavailableError,
)
from pystore.ha.insync.ack import Ack, AckOutcome, AckResult, RefusalReason
from pystore.ha.insync.holders import HolderOffsets
from pystore.ha.insync.in_sync import InSync
from pystore.ha.master.ack_completer import AckCompleter, AckEnd
from pystore.ha.master.append_future import AppendFuture
from pystore.ha.master.notifier import Notifier
from pystore.rates.latency_samples import LatencyKind, LatencySamples

__all__ = ["PendingAppends"]

_MARKS = {Ack.ALL: 0, Ack.ALL_SYNCED: 1}
_DISKS_MS = 1_000
# An enum member as an attribute of its class costs as much as a call.
_ALL, _ALL_SYNCED = Ack.ALL, Ack.ALL_SYNCED
_LEADER_SYNCED = Ack.LEADER_SYNCED
_REACHED = AckOutcome.REACHED
# Acks of replicas need no lease of the master.
_LOCAL_ACKS = {
    Ack.LEADER: LocalAck.LEADER,
    Ack.LEADER_SYNCED: LocalAck.SYNCED,
    Ack.ALL: LocalAck.SHARED,
    Ack.ALL_SYNCED: LocalAck.SHARED,
}


class PendingAppends:
    """
    The waits of one mastership. Any thread may append and wait.

    Args:
        log: the master's.
        notifier: wakes senders; see `Notifier.run_helpers`.
        now_ms: a clock that never steps back.
        refresh: makes the monitor read the log and call `update`.
        decide: reads the log, and returns the result of an ack for an end offset.
        refused: takes the error of an append that the system refused.
        epoch: of the mastership.
        latency: takes how long synced acks wait for the disk.
    """

    def __init__(
        self,
        log: LogHandle,
        notifier: Notifier,
        now_ms: Callable[[], int],
        refresh: Callable[[], None],
        decide: Callable[[Ack, int], AckResult],
        *,
        refused: Callable[[str], object],
        epoch: int,
        latency: LatencySamples | None = None,
    ) -> None:
        self._log = log
        self._notifier = notifier
        self._now_ms = now_ms
        self._refresh = refresh
        self._decide = decide
        self._refused = refused
        self._epoch = epoch
        self._latency = latency or LatencySamples()
        self._waits = OffsetWaiters(len(_MARKS))
        self._raised = [0] * len(_MARKS)
        self._is_over = False
        self._disks_until_ms = 0
        self._completer = AckCompleter(
            self.ended, self._sync_and_refresh, notifier.run_helpers
        )

    def update(self, in_sync: InSync) -> None:
        """
        Takes the present state, under the lock of the monitor. Appenders read it
        without that lock, so each value is replaced as a whole. A waiter that wakes up
        finds the holders that its ack implies.
        """
        policy = in_sync.ack_policy
        self._refusals = in_sync.refusals
        self._is_alone, self._flushed = in_sync.is_alone, in_sync.flushed_offset
        self._holders = policy.holders()
        is_news = self._refusals[_ALL] is not None
        for ack, mark in _MARKS.items():
            offset = policy.completed(ack)
            if offset > self._raised[mark]:
                self._raised[mark] = offset
                self._waits.raise_to(mark, offset)
                is_news = True
        if is_news:
            self._completer.wake()

    def close(self) -> None:
        """
        The mastership is over: later appends are refused.
        """
        self._is_over = True
        self._waits.end()
        self._completer.close()

    def join(self, timeout_ms: int) -> None:
        """
        After `close`: waits until the futures of coroutines and of functions have
        ended, but not longer.
        """
        self._completer.join(timeout_ms)

    @property
    def waiting(self) -> int:
        """
        How many threads wait now.
        """
        return self._waits.waiting

    @property
    def wants_flush(self) -> bool:
        """
        Whether slaves should flush what they receive: a caller waits for their disks,
        or did a moment ago.
        """
        return self._now_ms() < self._disks_until_ms

    def expect(self, ack: Ack) -> None:
        """
        Appends with this ack are about to come.
        """
        if ack is _ALL_SYNCED:
            self._disks_until_ms = self._now_ms() + _DISKS_MS

    def check(self, ack: Ack) -> None:
        """
        Call it before an append: it refuses an ack that could not be reached
        (RMQ-R206).

        Raises:
            FencedError: this mastership is over, or a newer epoch is known.
            UnavailableError: the ack could not be reached.
        """
        if ack is _ALL_SYNCED:  # saves a call for the others
            self.expect(ack)
        if self._is_over:
            raise FencedError("this mastership is over: append to the new master")
        # Without the lock of the monitor: the ack is decided later anyway, by the
        # state at that time.
        refusal = self._refusals[ack]
        if refusal is not None:
            is_fenced = refusal.reason is RefusalReason.FENCED
            raise (FencedError if is_fenced else UnavailableError)(refusal.text)

    def refused(self, error: StorageError) -> None:
        """
        Notes that the system refused an append: a master that cannot append for too
        long resigns (B13).
        """
        self._refused(str(error))

    def append(
        self, form: bytes, ack: Ack, timeout_ms: int
    ) -> tuple[Appended, AckResult]:
        """
        Appends messages and waits until they have their ack.

        Args:
            form: of the messages, back to back.
            ack: that they ask for.
            timeout_ms: how long the ack may take.

        Raises:
            PystoreError: as `check` and `LogHandle.append`; nothing is appended,
                except as that says.
        """
        self.check(ack)
        try:
            return self._append(form, ack, timeout_ms)
        except StorageError as error:
            # Of the log, such as for a full disk: the caller learns it, too.
            self.refused(error)
            raise

    def _append(
        self, form: bytes, ack: Ack, timeout_ms: int
    ) -> tuple[Appended, AckResult]:
        if not ack.is_shared or self._is_alone:
            # With this ack the core waits for the disk.
            began_ns = self._latency.begin() if ack is _LEADER_SYNCED else 0
            appended = self._log.append(form, _LOCAL_ACKS[ack])
            self._latency.end(LatencyKind.SYNC, began_ns)
            return appended, self.wait(ack, appended.end, timeout_ms)
        if not self._waits.waiting:
            appended = self._waits.append_quietly(self._log, form)
            self._notifier.run_helpers()
            return appended, self.wait(ack, appended.end, timeout_ms)
        if ack.is_synced:
            appended = self._log.append(form, _LOCAL_ACKS[ack])
            return appended, self.wait(ack, appended.end, timeout_ms)
        # While many wait, one thread sends for all of them.
        appended, outcome = self._waits.append(self._log, form, _MARKS[ack], timeout_ms)
        return appended, self._ended(ack, appended.end, outcome)

    def submit(self, form: bytes, ack: Ack) -> AppendFuture:
        """
        Appends messages and waits for nothing, neither for replicas nor for a disk.

        Args:
            form: of the messages, back to back.
            ack: that the future waits for.

        Raises:
            PystoreError: as `append`.
        """
        self.check(ack)
        local_ack = LocalAck.SHARED if ack.is_shared else LocalAck.LEADER
        try:
            if self.is_sent_soon(ack):
                appended = self._waits.append_quietly(self._log, form)
            else:
                appended = self._log.append(form, local_ack)
        except StorageError as error:
            # As in `append`.
            self.refused(error)
            raise
        return self.future(appended, ack)

    def is_sent_soon(self, ack: Ack) -> bool:
        """
        Returns, before an append for `future`, whether it may leave the senders asleep:
        the event loop of this thread sends soon.
        """
        return ack.is_shared and self._completer.sends_soon()

    def future(self, appended: Appended, ack: Ack) -> AppendFuture:
        """
        Returns the future of an append that was checked and made.
        """
        # An append after the end of a mastership may lie where its bytes were cut
        # away: offsets that the mastership reached do not cover it.
        waits = _FencedWaits(self._holders) if self._is_over else self
        return AppendFuture(appended, ack, waits, self._epoch)

    def wait(self, ack: Ack, end_offset: int, timeout_ms: int) -> AckResult:
        """
        Waits until an append has its ack, and returns how that ended. Appends that
        end below have the ack, too, so one wait covers many appends.

        Args:
            ack: that the append asked for.
            end_offset: where the append ends.
            timeout_ms: how long it may take.

        Raises:
            PoisonedError: the master's disk failed, and the ack needs it.
        """
        mark = _MARKS.get(ack)
        if mark is not None and end_offset <= self._raised[mark]:
            return self._holders.settled(ack, end_offset, _REACHED)
        self.expect(ack)
        if ack.is_synced:
            self._sync(end_offset)
        if mark is None:
            return self._decide(ack, end_offset)
        if self._is_alone or (ack.is_synced and self._flushed < end_offset):
            # No ack of a slave will follow for these bytes or for the master's disk.
            self._refresh()
        if self._completer.has_unsent:
            # This thread may be that of the event loop that would send.
            self._notifier.notify()
        outcome = self._waits.wait(mark, end_offset, timeout_ms)
        return self._ended(ack, end_offset, outcome)

    def ended(self, ack: Ack, end_offset: int) -> AckResult | None:
        """
        Returns how an ack ended, without a wait; ``None``: it has not ended. Besides
        an ack that was reached or fenced, one has ended that all members gave while
        they are fewer than the minimum.
        """
        mark = _MARKS.get(ack)
        if mark is not None:
            if self._is_alone and end_offset > self._raised[mark]:
                # No ack of a slave will follow.
                self._refresh()
            if end_offset <= self._raised[mark]:
                return self._holders.settled(ack, end_offset, _REACHED)
        is_open = mark is not None or (ack.is_synced and end_offset > self._flushed)
        if is_open and not self._is_over and self._refusals[ack] is None:
            return None
        settled = self._decide(ack, end_offset)
        return None if settled.outcome is AckOutcome.TIMED_OUT else settled

    def until_ended(
        self, ack: Ack, end_offset: int
    ) -> Coroutine[object, object, AckResult]:
        """
        Waits in a coroutine until an append has its ack; see `AppendFuture.__await__`.

        Raises:
            PoisonedError: as `wait`.
        """
        self.expect(ack)
        return self._completer.wait(ack, end_offset)

    def call(self, ack: Ack, end_offset: int, told: Callable[[AckEnd], object]) -> None:
        """
        Calls a function when an append has its ack; see
        `AppendFuture.add_done_callback`.
        """
        self.expect(ack)
        self._completer.call(ack, end_offset, told)

    def _sync_and_refresh(self, end_offset: int) -> None:
        self._sync(end_offset)
        self._refresh()

    def _sync(self, end_offset: int) -> None:
        began_ns = self._latency.begin()
        try:
            self._log.sync(end_offset)
            self._latency.end(LatencyKind.SYNC, began_ns)
        except (ClosedError, OffsetOutOfRange):
            # After the end of a mastership its owner closes the log, or cuts it.
            if not self._is_over:
                raise

    def _ended(self, ack: Ack, end_offset: int, outcome: WaitOutcome) -> AckResult:
        if outcome is WaitOutcome.REACHED:
            return self._holders.settled(ack, end_offset, _REACHED)
        return self._decide(ack, end_offset)


@dataclass(frozen=True, slots=True)
class _FencedWaits:
    """
    The waits of an append that was made after the end of its mastership.
    """

    holders: HolderOffsets

    def wait(self, ack: Ack, end_offset: int, timeout_ms: int) -> AckResult:  # noqa: ARG002
        return self.ended(ack, end_offset)

    def ended(self, ack: Ack, end_offset: int) -> AckResult:
        return self.holders.settled(ack, end_offset, AckOutcome.FENCED)

    async def until_ended(self, ack: Ack, end_offset: int) -> AckResult:
        return self.ended(ack, end_offset)

    def call(self, ack: Ack, end_offset: int, told: Callable[[AckEnd], object]) -> None:
        told(self.ended(ack, end_offset))
