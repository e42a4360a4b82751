"""
Appends that wait for replicas: in the core, and without a lock of the judgement.

The judgement shows after each fact what it means for those who wait: how far each
ack is, and who holds how much. A wait that was reached is told from that picture
alone; one that was not is decided by the judgement, which alone knows why.

Source: docs/in-sync.md; R206, R211, R217 to R219.
"""

from __future__ import annotations

from collections.abc import Callable

from pystore._seam import Ack as Wish
from pystore.errors import LocalViolation
from pystore.ha.insync.ack import Ack, Outcome, Settled
from pystore.ha.insync.in_sync import InSync
from pystore.ha.master.bell import Bell
from pystore.handle import LogHandle
from pystore.results import Appended
from pystore.waits import WaitOutcome, Waits

__all__ = ["Appends"]

_MARKS = {Ack.ALL: 0, Ack.ALL_SYNCED: 1}
_DISKS_MS = 1_000
# What replicas vouch for needs no lease of the master's.
_WISHES = {
    Ack.LEADER: Wish.LEADER,
    Ack.LEADER_SYNCED: Wish.SYNCED,
    Ack.ALL: Wish.SHARED,
    Ack.ALL_SYNCED: Wish.SHARED,
}


class Appends:
    """
    The waits of one mastership. Any thread may append and wait.

    Args:
        log: the master's.
        bell: rings for who sends; see `Bell.hurry`.
        now_ms: a clock that never steps back.
        look: lets the judgement look at the log, after which it calls `show`.
        decide: looks, and says what became of an ack with that end.
    """

    def __init__(
        self,
        log: LogHandle,
        bell: Bell,
        now_ms: Callable[[], int],
        look: Callable[[], None],
        decide: Callable[[Ack, int], Settled],
    ) -> None:
        self._log = log
        self._bell = bell
        self._now_ms = now_ms
        self._look = look
        self._decide = decide
        self._waits = Waits(len(_MARKS))
        self._raised = [0] * len(_MARKS)
        self._is_over = False
        self._disks_until_ms = 0

    def show(self, in_sync: InSync) -> None:
        """
        What the judgement says now. Under its lock; read without it, so each is
        replaced as a whole, and who wakes up finds the copies that its ack means.
        """
        promises = in_sync.promises
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
        if ack is Ack.ALL_SYNCED:
            self._disks_until_ms = self._now_ms() + _DISKS_MS

    def append(
        self, form: bytes, ack: Ack, timeout_ms: int
    ) -> tuple[Appended, Settled]:
        """
        Appends messages and waits until they have their ack.

        Args:
            form: of the messages, back to back.
            ack: which.
            timeout_ms: how long the ack may take.

        Raises:
            LocalViolation: this mastership was closed; nothing is appended.
            PystoreError: as `LogHandle.append`.
        """
        self._check()
        self.expect(ack)
        if not ack.is_shared or self._is_alone:
            appended = self._log.append(form, _WISHES[ack])
            return appended, self.wait(ack, appended.end, timeout_ms)
        if not self._waits.waiting:
            appended = self._waits.append_quietly(self._log, form)
            self._bell.hurry()
            return appended, self.wait(ack, appended.end, timeout_ms)
        if ack.is_synced:
            appended = self._log.append(form, _WISHES[ack])
            return appended, self.wait(ack, appended.end, timeout_ms)
        # Where many wait, one thread sends for them all.
        appended, outcome = self._waits.append(self._log, form, _MARKS[ack], timeout_ms)
        return appended, self._ended(ack, appended.end, outcome)

    def wait(self, ack: Ack, end_offset: int, timeout_ms: int) -> Settled:
        """
        Waits until an append has its ack, and answers how that ended. What ends
        below has the ack too, so one wait does for many appends.

        Args:
            ack: which.
            end_offset: where the append ends.
            timeout_ms: how long it may take.

        Raises:
            LocalViolation: this mastership was closed.
            PoisonedError: our own disk failed, and the ack wants it.
        """
        self.expect(ack)
        if ack.is_synced:
            self._log.sync(end_offset)
        self._check()
        mark = _MARKS.get(ack)
        if mark is None:
            return self._decide(ack, end_offset)
        if self._is_alone or (ack.is_synced and self._flushed < end_offset):
            # No ack of a slave will tell of these bytes, or not of our disk.
            self._look()
        outcome = self._waits.wait(mark, end_offset, timeout_ms)
        return self._ended(ack, end_offset, outcome)

    def _check(self) -> None:
        if self._is_over:
            raise LocalViolation("this mastership is over")

    def _ended(self, ack: Ack, end_offset: int, outcome: WaitOutcome) -> Settled:
        if outcome is WaitOutcome.REACHED:
            return self._copies.settled(ack, end_offset, Outcome.REACHED)
        return self._decide(ack, end_offset)
