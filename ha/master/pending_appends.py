"""
Appends that wait for replicas: in the core, and without a lock of the judgement.

The judgement shows after each fact what it means for those who wait: how far each
ack is, and who holds how much. A wait that was reached is told from that picture
alone; one that was not is decided by the judgement, which alone knows why.

Source: docs/in-sync.md; R206, R211, R217 to R219.
"""

from __future__ import annotations

from collections.abc import Callable

from pystore.bindings.ffi import LocalAck
from pystore.core.log_writer import LogHandle
from pystore.core.results import Appended
from pystore.core.waits import OffsetWaiters, WaitOutcome
from pystore.errors import (
    ClosedError,
    FencedError,
    OffsetOutOfRange,
    UnavailableError,
)
from pystore.ha.insync.ack import Ack, AckOutcome, AckResult, RefusalReason
from pystore.ha.insync.in_sync import InSync
from pystore.ha.master.append_future import AppendFuture
from pystore.ha.master.notifier import Notifier

__all__ = ["PendingAppends"]

_MARKS = {Ack.ALL: 0, Ack.ALL_SYNCED: 1}
_DISKS_MS = 1_000
# To look a member up in its class takes as long as a call.
_ALL_SYNCED = Ack.ALL_SYNCED
_REACHED = AckOutcome.REACHED
# What replicas vouch for needs no lease of the master's.
_WISHES = {
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
        notifier: rings for who sends; see `Notifier.hurry`.
        now_ms: a clock that never steps back.
        look: lets the judgement look at the log, after which it calls `show`.
        decide: looks, and says what became of an ack with that end.
    """

    def __init__(
        self,
        log: LogHandle,
        notifier: Notifier,
        now_ms: Callable[[], int],
        look: Callable[[], None],
        decide: Callable[[Ack, int], AckResult],
    ) -> None:
        self._log = log
        self._notifier = notifier
        self._now_ms = now_ms
        self._look = look
        self._decide = decide
        self._waits = OffsetWaiters(len(_MARKS))
        self._raised = [0] * len(_MARKS)
        self._is_over = False
        self._disks_until_ms = 0

    def show(self, in_sync: InSync) -> None:
        """
        What the judgement says now. Under its lock; read without it, so each is
        replaced as a whole, and who wakes up finds the copies that its ack means.
        """
        promises = in_sync.promises
        self._refusals = in_sync.refusals
        self._is_alone, self._flushed = in_sync.is_alone, in_sync.flushed_offset
        self._copies = promises.copies()
        for ack, mark in _MARKS.items():
            offset = promises.completed(ack)
            if offset > self._raised[mark]:
                self._raised[mark] = offset
                self._waits.raise_to(mark, offset)

    def fence(self) -> None:
        """
        Nobody waits any more: the judgement decides at once.
        """
        self._waits.end()

    def close(self) -> None:
        """
        The mastership is over: who comes from now on is refused.
        """
        self._is_over = True
        self._waits.end()

    @property
    def waiting(self) -> int:
        """
        How many threads wait now.
        """
        return self._waits.waiting

    @property
    def wants_disks(self) -> bool:
        """
        Whether slaves should sync what they get: somebody waits for their disks, or
        did a moment ago.
        """
        return self._now_ms() < self._disks_until_ms

    def expect(self, ack: Ack) -> None:
        """
        Appends with that ack are about to come.
        """
        if ack is _ALL_SYNCED:
            self._disks_until_ms = self._now_ms() + _DISKS_MS

    def check(self, ack: Ack) -> None:
        """
        To be called before an append: what could not be promised is refused (R206).

        Raises:
            FencedError: this mastership is over, or a newer epoch is known.
            UnavailableError: the promise could not be kept.
        """
        if ack is _ALL_SYNCED:  # a call less for the others
            self.expect(ack)
        if self._is_over:
            raise FencedError("this mastership is over: append to its successor")
        # Without the judgement's lock: what it says is as good a moment later, since
        # the ack is decided by what is true then.
        refusal = self._refusals[ack]
        if refusal is not None:
            is_fenced = refusal.reason is RefusalReason.FENCED
            raise (FencedError if is_fenced else UnavailableError)(refusal.text)

    def append(
        self, form: bytes, ack: Ack, timeout_ms: int
    ) -> tuple[Appended, AckResult]:
        """
        Appends messages and waits until they have their ack.

        Args:
            form: of the messages, back to back.
            ack: which.
            timeout_ms: how long the ack may take.

        Raises:
            PystoreError: as `check` and `LogHandle.append`; nothing is appended, but
                for what that says.
        """
        self.check(ack)
        if not ack.is_shared or self._is_alone:
            appended = self._log.append(form, _WISHES[ack])
            return appended, self.wait(ack, appended.end, timeout_ms)
        if not self._waits.waiting:
            appended = self._waits.append_quietly(self._log, form)
            self._notifier.hurry()
            return appended, self.wait(ack, appended.end, timeout_ms)
        if ack.is_synced:
            appended = self._log.append(form, _WISHES[ack])
            return appended, self.wait(ack, appended.end, timeout_ms)
        # Where many wait, one thread sends for them all.
        appended, outcome = self._waits.append(self._log, form, _MARKS[ack], timeout_ms)
        return appended, self._ended(ack, appended.end, outcome)

    def submit(self, form: bytes, ack: Ack) -> AppendFuture:
        """
        Appends messages and waits for nothing, neither for replicas nor for a disk.

        Args:
            form: of the messages, back to back.
            ack: what the ticket is to be asked for.

        Raises:
            PystoreError: as `append`.
        """
        self.check(ack)
        wish = LocalAck.SHARED if ack.is_shared else LocalAck.LEADER
        return self.future(self._log.append(form, wish), ack)

    def future(self, appended: Appended, ack: Ack) -> AppendFuture:
        """
        Returns the ticket of an append that was checked and made.
        """
        # What was made behind the end of a mastership may lie where its own bytes
        # were cut away: nothing that it reached says anything of them.
        return AppendFuture(appended, ack, self._fenced if self._is_over else self.wait)

    def wait(self, ack: Ack, end_offset: int, timeout_ms: int) -> AckResult:
        """
        Waits until an append has its ack, and answers how that ended. What ends
        below has the ack too, so one wait does for many appends.

        Args:
            ack: which.
            end_offset: where the append ends.
            timeout_ms: how long it may take.

        Raises:
            PoisonedError: our own disk failed, and the ack wants it.
        """
        mark = _MARKS.get(ack)
        if mark is not None and end_offset <= self._raised[mark]:
            return self._copies.settled(ack, end_offset, _REACHED)
        self.expect(ack)
        if ack.is_synced:
            self._sync(end_offset)
        if mark is None:
            return self._decide(ack, end_offset)
        if self._is_alone or (ack.is_synced and self._flushed < end_offset):
            # No ack of a slave will tell of these bytes, or not of our disk.
            self._look()
        outcome = self._waits.wait(mark, end_offset, timeout_ms)
        return self._ended(ack, end_offset, outcome)

    def _sync(self, end_offset: int) -> None:
        try:
            self._log.sync(end_offset)
        except (ClosedError, OffsetOutOfRange):
            # Behind the end of a mastership its owner closes the log, or cuts it.
            if not self._is_over:
                raise

    def _fenced(self, ack: Ack, end_offset: int, _timeout_ms: int) -> AckResult:
        return self._copies.settled(ack, end_offset, AckOutcome.FENCED)

    def _ended(self, ack: Ack, end_offset: int, outcome: WaitOutcome) -> AckResult:
        if outcome is WaitOutcome.REACHED:
            return self._copies.settled(ack, end_offset, _REACHED)
        return self._decide(ack, end_offset)
