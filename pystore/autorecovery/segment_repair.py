"""
The repair of one claimed segment, turn by turn: every copy is looked at, what is bad is
repaired on the same replica, and the claim gets its verdict.

Jobs of replicas are asked about, never waited for. After a crash between any two turns
another worker begins anew: each order may be given again, and a job that still runs
writes only what it has verified.

Source: AR-R6, AR-R8, AR-R13; BK-A64, BK-A65, BK-A72, BK-A85, BK-A103;
docs/autorecovery.md, *The worker*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pystore.autorecovery.claim import Claim
from pystore.autorecovery.copy_look import (
    CopyLook,
    CopyState,
    checked,
    first_look,
    told,
)
from pystore.autorecovery.mark import Reason
from pystore.autorecovery.repair_verdict import (
    RepairVerdict,
    VerdictKind,
    compared,
    next_repair,
    verdict,
)
from pystore.autorecovery.replica_peers import (
    Controllers,
    ReplicaAddress,
    ReplicaPeers,
)
from pystore.autorecovery.settings import RecoverySettings
from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
)
from pystore.errors import FormatError, PystoreError, UnavailableError
from pystore.segments.order import (
    OrderAction,
    OrderOutcome,
    OrderProgress,
    SegmentOrder,
)
from pystore.segments.sampling import sample_blocks

__all__ = ["SILENT_MS", "SegmentRepair"]

SILENT_MS = 15_000
"""How long a replica may give no definite answer about a job."""

_WAITED_MS = 1_000  # a fill that has its bytes waits for the segment above it
_STALLED_MS = 5_000  # one of which its replica does not tell that
_STUCK_MS = 600_000  # any other job without progress

_ASK_AGAIN_MS = 2_000  # a silent replica may be in the set no more

_EVERY_BLOCK = (Reason.ABSENT, Reason.CORRUPT, Reason.DIVERGENT)


@dataclass(slots=True)
class _RepairJob:
    """
    A job that a replica has.

    Attributes:
        look: of the copy before.
        order: as given.
        heard_ms: when the replica answered last.
        moved_ms: when there was progress last.
        is_known: the replica has answered the order.
        moved: what it told of its progress.
    """

    look: CopyLook
    order: SegmentOrder
    heard_ms: int
    moved_ms: int
    is_known: bool = False
    moved: tuple[int, int] = (0, 0)


class SegmentRepair:
    """
    One repair. One thread.

    Args:
        claim: of the segment.
        settings: of the cluster.
        controllers: say who is in the set, and alive.
        peers: the replicas.
        now_ms: a clock that never steps back.
        is_held: whether the claim has not ended.
        is_paused: whether a host is paused: its replicas are not asked, so they are
            neither sources nor targets.

    Attributes:
        claim: as given.
        looks: what was found at each copy, by broker id.
        repaired_copies: how many it made right.
        moved_bytes: of blocks, into all copies.
    """

    def __init__(
        self,
        claim: Claim,
        settings: RecoverySettings,
        *,
        controllers: Controllers,
        peers: ReplicaPeers,
        now_ms: Callable[[], int],
        is_held: Callable[[], bool],
        is_paused: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.claim = claim
        self.looks: dict[int, CopyLook] = {}
        self.repaired_copies = self.moved_bytes = 0
        self._settings = settings
        self._controllers = controllers
        self._peers = peers
        self._now_ms = now_ms
        self._is_held = is_held
        self._is_paused = is_paused
        self._set: SetDescription | None = None
        self._jobs: dict[int, _RepairJob] = {}
        self._orders = 0
        self._is_read_whole = False
        self._asked_ms = now_ms()
        self._is_outdated = False

    @property
    def doing(self) -> str:
        """
        What it waits for now, one line.
        """
        jobs = self._jobs.values()
        return "; ".join(
            f"{job.order.action.value} on {job.look.replica.text}" for job in jobs
        )

    def step(self) -> RepairVerdict | None:
        """
        Does what can be done without waiting; asks each replica at most twice.

        Returns:
            The verdict; ``None``: jobs run, call again.

        Raises:
            PystoreError: of the record store, if the claim cannot be read; call again.
        """
        if self._set is None:
            if (early := self._look()) is not None:
                return early
        else:
            self._ask_jobs()
            if self._is_outdated:
                self._begin_anew()
                return None
        return None if self._jobs else self._next()

    def stop(self) -> None:
        """
        Stops the jobs that run, as far as the replicas answer.
        """
        for job in self._jobs.values():
            self._stop(job)
        self._jobs.clear()

    def _begin_anew(self) -> None:
        """
        The set is another one than was looked at.
        """
        self.stop()
        self.looks.clear()
        self._set, self._is_outdated, self._is_read_whole = None, False, False

    # -- looking ---------------------------------------------------------------

    def _look(self) -> RepairVerdict | None:
        key, rest_ms = self.claim.key, 1000 * self._settings.backoff_s
        try:
            found = self._controllers.one_set(key.cluster, key.set_name)
        except UnavailableError as error:
            # Who is alive is not known: nothing is.
            why = f"no controller tells the set: {error}"
            return RepairVerdict(VerdictKind.REST, why, rest_ms)
        except FormatError as error:
            # An operator has to mend the record.
            return RepairVerdict(VerdictKind.BACK_OFF, str(error))
        if found is None:
            return RepairVerdict(VerdictKind.DONE, "there is no such set")
        self._set = found
        for broker in found.brokers:
            self._look_at(found, broker)
        return None

    def _look_at(self, found: SetDescription, broker: BrokerDescription) -> None:
        one, base = broker.broker_id, self.claim.key.start
        replica = ReplicaAddress(found.cluster, found.name, one, broker.address)
        look = first_look(replica, broker, is_master=one == found.master_id)
        if look.state is CopyState.UNCHECKED and self._is_paused(broker.host):
            look = look.unknown(f"host {broker.host} is paused")
        if look.state is CopyState.UNCHECKED:
            is_mixed = any(
                it.incarnation is None and not it.is_ill for it in found.brokers
            )
            try:
                stat = self._peers.stat(replica)
                look = told(look, broker, stat, base, is_mixed=is_mixed)
            except PystoreError as error:
                # No answer, or a refusal: neither says anything about the copy.
                look = look.unknown(str(error))
        self.looks[one] = look
        if look.state is CopyState.UNCHECKED:
            self._check(look, is_whole=self._is_suspect(one))

    def _is_suspect(self, broker_id: int) -> bool:
        """
        Whether all blocks of a copy have to be read.
        """
        fact = self.claim.mark.missing.get(broker_id)
        return fact is not None and fact.reason in _EVERY_BLOCK

    def _check(self, look: CopyLook, *, is_whole: bool) -> None:
        blocks: tuple[int, ...] = ()
        if not is_whole:
            percent, base = self._settings.worker_check_percent, self.claim.key.start
            # Another choice with each claim.
            blocks = sample_blocks(base, look.blocks, percent, self.claim.lock)
            blocks = () if len(blocks) == look.blocks else blocks
        self._begin(look, OrderAction.CHECK, blocks=blocks)

    # -- deciding --------------------------------------------------------------

    def _next(self) -> RepairVerdict | None:
        divergent = [
            one
            for one, fact in self.claim.mark.missing.items()
            if fact.reason is Reason.DIVERGENT
        ]
        looks = compared(self.looks, divergent)
        if looks is None:
            self._compare()
            return None
        self.looks = looks
        repair = next_repair(self.looks, self.claim.mark)
        if repair is None:
            mark, wanted = self.claim.mark, self._set.wanted_copies if self._set else 0
            return verdict(self.looks, mark, self._settings, wanted)
        if not self._is_held():
            return RepairVerdict(VerdictKind.ABANDON, "the claim has ended")
        look, sources = repair
        is_fill = look.state is CopyState.LACKING
        self._begin(
            look,
            OrderAction.FILL if is_fill else OrderAction.REPAIR,
            sources=tuple(it.address for it in sources),
            replaces=look.digest if look.state is CopyState.OUTVOTED else "",
        )
        return None if self._jobs else self._next()

    def _compare(self) -> None:
        """
        Has the whole copies read, so that they can be compared; a copy that tells no
        digest of them is unknown.
        """
        whole = [it for it in self.looks.values() if it.state is CopyState.GOOD]
        for look in whole:
            if not self._is_read_whole:
                self._check(look, is_whole=True)
            elif not look.digest:
                self._seen(look.unknown("it tells no digest to compare"))
        self._is_read_whole = True

    # -- jobs ------------------------------------------------------------------

    def _begin(
        self,
        look: CopyLook,
        action: OrderAction,
        *,
        sources: tuple[str, ...] = (),
        blocks: tuple[int, ...] = (),
        replaces: str = "",
    ) -> None:
        self._orders += 1
        key, now_ms = self.claim.key, self._now_ms()
        order = SegmentOrder(
            f"{key.text}@{self.claim.lock}.{self._orders}",
            key.start,
            action,
            sources,
            blocks,
            self._settings.repair_bytes_per_s,
            replaces,
            self._settings.serve_bytes_per_s,
        )
        job = _RepairJob(look, order, now_ms, now_ms)
        self._jobs[look.replica.broker_id] = job
        self._ask(job)

    def _ask_jobs(self) -> None:
        for job in list(self._jobs.values()):
            self._ask(job)

    def _ask(self, job: _RepairJob) -> None:
        replica, order, now_ms = job.look.replica, job.order, self._now_ms()
        try:
            if job.is_known:
                progress = self._peers.progress(replica, order.claim)
            else:
                # Again, if the answer was lost: it is the same job.
                progress = self._peers.order(replica, order)
        except UnavailableError as error:
            # A time-out alone is no end: the job may run.
            if self._has_left(job, now_ms):
                self._is_outdated = True
            elif now_ms - job.heard_ms >= SILENT_MS:
                self._stop(job)
                self._ended(job, OrderProgress(OrderOutcome.FAILED, str(error)))
            return
        except PystoreError as error:
            # It refused: the same again would be refused, too.
            self._ended(job, OrderProgress(OrderOutcome.FAILED, str(error)))
            return
        job.heard_ms, job.is_known = now_ms, True
        if progress.outcome is not OrderOutcome.RUNNING:
            self._ended(job, progress)
            return
        moved = (progress.moved_bytes, len(progress.bad_blocks))
        if moved != job.moved:
            job.moved, job.moved_ms = moved, now_ms
        is_fill = order.action is OrderAction.FILL and not job.look.is_next
        still_ms = now_ms - job.moved_ms
        if is_fill and progress.detail and still_ms >= _WAITED_MS:
            # Its replica goes on as soon as it can, without a worker.
            self._stalled(job, is_fill=True, why=progress.detail)
        elif still_ms >= (_STALLED_MS if is_fill else _STUCK_MS):
            self._stop(job)
            self._stalled(job, is_fill=is_fill, why=progress.detail)

    def _has_left(self, job: _RepairJob, now_ms: int) -> bool:
        """
        Whether a silent replica is in the set no more, or is another process: then its
        job is gone, and there is nothing to wait for. The controllers are asked now and
        then.
        """
        silent_ms = min(now_ms - job.heard_ms, now_ms - self._asked_ms)
        if silent_ms < _ASK_AGAIN_MS:
            return False
        self._asked_ms, key = now_ms, self.claim.key
        try:
            found = self._controllers.one_set(key.cluster, key.set_name)
        except PystoreError:
            # It is not known: the job may run.
            return False
        brokers = found.brokers if found else ()
        there = {one.broker_id: one.incarnation for one in brokers}
        one = job.look.replica.broker_id
        incarnation = there.get(one)
        return one not in there or (
            incarnation is not None and incarnation != job.look.incarnation
        )

    def _stop(self, job: _RepairJob) -> None:
        try:
            self._peers.stop(job.look.replica, job.order.claim)
        except PystoreError:
            # It ends by itself, and writes only what is right.
            return

    def _stalled(self, job: _RepairJob, *, is_fill: bool, why: str) -> None:
        if is_fill:
            # What was pulled stays there; the segment above may wait for this slot.
            why = why or "the segment above it is not there yet"
            self._seen(replace(job.look, why=why, is_tried=True, is_waiting=True))
        else:
            self._ended(job, OrderProgress(OrderOutcome.FAILED, why or "no progress"))

    def _ended(self, job: _RepairJob, progress: OrderProgress) -> None:
        look = checked(job.look, progress)
        if job.order.action is not OrderAction.CHECK:
            self.repaired_copies += progress.outcome is OrderOutcome.REPAIRED
            self.moved_bytes += max(progress.moved_bytes, job.moved[0])
            look = replace(look, is_tried=look.state is not CopyState.GOOD)
            if progress.outcome in (OrderOutcome.UNMENDED, OrderOutcome.DAMAGED):
                # A definite answer: none of the sources has its bytes.
                why = progress.detail or "no source has its bytes"
                look = replace(job.look, why=why, is_tried=True)
        self._seen(look)
        if job.order.replaces and look.state is CopyState.GOOD:
            self._check(look, is_whole=True)

    def _seen(self, look: CopyLook) -> None:
        one = look.replica.broker_id
        self.looks[one] = look
        self._jobs.pop(one, None)
