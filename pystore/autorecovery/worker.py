"""
The worker: takes segments that lack a good copy, and has them repaired.

It decides nothing from a mark: each copy is looked at again. It keeps no state but its
claims, so another worker finishes what one has begun, after whatever end.

Source: AR-R8 to AR-R11, AR-R13, AR-R17, AR-R18, AR-R21; BK-A60, BK-A62 to BK-A74;
docs/autorecovery.md, *The worker*.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from pystore.autorecovery.claim import Claim
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.repair_counts import RepairCounts
from pystore.autorecovery.repair_verdict import RepairVerdict, VerdictKind
from pystore.autorecovery.replica_peers import Controllers, ReplicaPeers
from pystore.autorecovery.segment_repair import SegmentRepair
from pystore.autorecovery.segment_rest import SegmentRest
from pystore.autorecovery.worker_slot import WorkerSlot
from pystore.autorecovery.worker_status import StatusRecord
from pystore.errors import (
    ClosedError,
    ForkedError,
    FormatError,
    PystoreError,
    SessionLostError,
)
from pystore.rates.shared_rate import SharedRate
from pystore.records.record_store import RecordStore

__all__ = ["ReplicationWorker", "WorkerTurn"]

_SETTINGS_MS = 60_000
_HELD_MS = 5_000  # the lock is read so often while jobs run
_ORDER_MS = 1_000  # and is seen so shortly before an order that changes a copy
_RETRY_MS = 1_000
_TAKE_MS = 1_000
_POLL_LEAST_MS, _POLL_MOST_MS = 20, 1_000


@dataclass(frozen=True, slots=True)
class WorkerTurn:
    """
    What one turn of a slot came to.

    Attributes:
        wait_ms: after which the next one is due; 0: at once.
        is_idle: there was nothing to take: wait for it
            (`pystore.autorecovery.idle_wait`).
    """

    wait_ms: int = 0
    is_idle: bool = False


@dataclass(slots=True)
class _Turning:
    """
    One slot and what it has in work. One thread.

    Attributes:
        slot: its place in the queue.
        status: its record.
        controllers: of its thread.
        repair: that runs; ``None``: none.
        verdict: of it, not committed yet.
        begun_ms: when the repair began.
        held_ms: when the claim was seen held last.
    """

    slot: WorkerSlot
    status: StatusRecord
    controllers: Controllers
    repair: SegmentRepair | None = None
    verdict: RepairVerdict | None = None
    begun_ms: int = 0
    held_ms: int = 0


class ReplicationWorker:
    """
    A worker with several slots (AR-R13). Each slot is for one thread; different slots
    may be in different threads.

    Args:
        store: the session with the record store; claims are valid as long as it is.
        name: of the process, such as ``host-7:4711``; that of a slot ends in its
            number.
        controllers: returns a client of the controllers for one thread.
        peers: the replicas.
        clock_ms: Unix time.
        now_ms: a clock that never steps back.
        chance: returns numbers from 0 up to 1, such as `random.Random.random`.
        slots: their number; ``None``: as the settings say.
        counts: get what it does; ``None``: its own.

    Attributes:
        slots: their number.

    Raises:
        PystoreError: the settings cannot be read.
    """

    def __init__(
        self,
        store: RecordStore,
        name: str,
        *,
        controllers: Callable[[], Controllers],
        peers: ReplicaPeers,
        clock_ms: Callable[[], int],
        now_ms: Callable[[], int],
        chance: Callable[[], float],
        slots: int | None = None,
        counts: RepairCounts | None = None,
    ) -> None:
        self._counts = counts or RepairCounts()
        self._queue = UnderReplicationQueue(store, clock_ms)
        self._clock_ms = clock_ms
        self._peers = peers
        self._now_ms = now_ms
        self._settings = self._queue.settings()
        self._read_ms = now_ms()
        self._takes = SharedRate(self._settings.take_rate, now_ms)
        self.slots = self._settings.worker_slots if slots is None else slots
        self._turnings = [
            _Turning(
                self._queue.slot(f"{name}/{number}", chance),
                StatusRecord(store, f"{name}/{number}", clock_ms, now_ms),
                controllers(),
            )
            for number in range(self.slots)
        ]

    def step(self, number: int) -> WorkerTurn:
        """
        One turn of a slot: takes a segment, or goes on with the one that it has.

        While the record store is unreachable the slot keeps what it has, and tries
        again.

        Args:
            number: of the slot, from 0 on.

        Raises:
            SessionLostError: the claim is gone, and its jobs were told to stop: begin
                again with another store.
            ClosedError: the same.
        """
        one = self._turnings[number]
        try:
            return self._turn(one)
        except (ClosedError, ForkedError, SessionLostError):
            # Another worker may have the segment already.
            self._drop(one)
            raise
        except PystoreError as error:
            # Of the record store: nothing was changed, and the session may live on.
            one.status.note(f"waits for the record store: {error}")
            return WorkerTurn(_RETRY_MS)

    def glance(self, number: int) -> bool:
        """
        Returns whether a slot that found nothing may find something now: one request.

        Raises:
            PystoreError: of the record store.
        """
        return self._queue.glance(self._turnings[number].slot)

    def end(self, number: int) -> None:
        """
        Ends what a slot has in work: stops its jobs, and gives its segment back.

        Raises:
            PystoreError: of the record store; closing it gives the segment back, too.
        """
        one = self._turnings[number]
        claim = self._drop(one)
        if claim is not None:
            self._queue.release(claim)
        one.status.remove()

    def failed(self, number: int, why: str) -> bool:
        """
        Ends what a slot has in work after a defect: its segment rests.

        Returns:
            Whether that is written; if not, close the store.
        """
        claim = self._drop(self._turnings[number])
        try:
            return claim is None or self._queue.back_off(claim, SegmentRest(why))
        except PystoreError:
            # The end of the session gives the segment back.
            return False

    def claim(self, number: int) -> Claim | None:
        """
        Returns what a slot has in work.
        """
        repair = self._turnings[number].repair
        return None if repair is None else repair.claim

    def _drop(self, one: _Turning) -> Claim | None:
        repair, one.repair, one.verdict = one.repair, None, None
        if repair is None:
            return None
        repair.stop()
        self._counts.add(None, repair.repaired_copies, repair.moved_bytes)
        return repair.claim

    def _turn(self, one: _Turning) -> WorkerTurn:
        if one.repair is None:
            self._read_settings()
            wait_ms = self._takes.wait_ms()
            if wait_ms:
                rate = self._settings.take_rate
                one.status.tell(f"waits: take_rate allows {rate} segments a second")
                # Another rate may count by then.
                return WorkerTurn(min(wait_ms, _TAKE_MS))
            claim = self._queue.take(one.slot)
            if claim is None:
                why = "disabled" if one.slot.is_disabled else "no segment is due"
                one.status.tell(f"waits: {why}")
                return WorkerTurn(is_idle=True)
            self._takes.spend(1)
            self._begin(one, claim)
        repair = one.repair
        assert repair is not None
        if one.verdict is None:
            if not self._is_held(one, repair.claim, _HELD_MS):
                self._drop(one)
                return WorkerTurn()
            one.verdict = repair.step()
        if one.verdict is None:
            one.status.tell(repair.doing, repair.claim.key.text)
            took_ms = self._now_ms() - one.begun_ms
            return WorkerTurn(max(_POLL_LEAST_MS, min(took_ms // 8, _POLL_MOST_MS)))
        self._end(one, repair, one.verdict)
        return WorkerTurn()

    def _read_settings(self) -> None:
        now_ms = self._now_ms()
        if now_ms - self._read_ms < _SETTINGS_MS:
            return
        self._read_ms = now_ms
        # Those that are known hold until they can be read again.
        with suppress(FormatError):
            self._settings = self._queue.settings()
        if self._settings.take_rate != self._takes.bytes_per_second:
            self._takes.change(self._settings.take_rate)

    def _begin(self, one: _Turning, claim: Claim) -> None:
        one.begun_ms = one.held_ms = self._now_ms()
        # Known since the segment was taken.
        pauses = one.slot.pauses.at(self._clock_ms())
        one.repair = SegmentRepair(
            claim,
            self._settings,
            controllers=one.controllers,
            peers=self._peers,
            now_ms=self._now_ms,
            is_held=lambda: self._is_held(one, claim, _ORDER_MS),
            is_paused=pauses.stops_host,
        )

    def _is_held(self, one: _Turning, claim: Claim, age_ms: int) -> bool:
        """
        Whether the claim has not ended, as seen within the last milliseconds.
        """
        now_ms = self._now_ms()
        if now_ms - one.held_ms < age_ms:
            return True
        is_held = self._queue.is_held(claim)
        one.held_ms = now_ms
        return is_held

    def _end(
        self, one: _Turning, repair: SegmentRepair, verdict: RepairVerdict
    ) -> None:
        queue, claim = self._queue, repair.claim
        found = {broker_id: look.text for broker_id, look in repair.looks.items()}
        match verdict.kind:
            case VerdictKind.DONE:
                is_ended = queue.done(claim)
            case VerdictKind.BURY:
                asked = {
                    broker_id: look.incarnation
                    for broker_id, look in repair.looks.items()
                    if look.incarnation
                }
                evidence = "; ".join([verdict.why, *found.values()])
                is_ended = queue.bury(claim, evidence, asked)
            case VerdictKind.ABANDON:
                is_ended = True
            case _:
                for_ms = verdict.for_ms if verdict.kind is VerdictKind.REST else None
                rest = SegmentRest(verdict.why, found, for_ms, verdict.is_without_copy)
                is_ended = queue.back_off(claim, rest)
                if for_ms is not None:
                    until_ms = self._clock_ms() + for_ms
                    one.slot.search.met_rest(claim.key.text, until_ms)
        self._counts.add(verdict.kind, repair.repaired_copies, repair.moved_bytes)
        if not is_ended:
            # It was marked since the claim began: the next look sees the new facts.
            queue.release(claim)
        one.repair, one.verdict = None, None
        last = f"{claim.key.text}: {verdict.kind.value}: {verdict.why}"
        one.status.tell("looks for a segment", last=last, found=found)
