"""
A set whose replicas are a few numbers in memory, for random schedules: thousands of
repairs a second.

A segment has some blocks. Each copy of a block is right, rotten, or of a fork: whole,
with other bytes than the right ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from pystore.autorecovery.replica_peers import ClusterView, ReplicaAddress
from pystore.controller.model.log_end import LogBegin
from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
)
from pystore.errors import UnavailableError
from pystore.seals import BLOCK_BYTES
from pystore.segments.order import (
    OrderAction,
    OrderOutcome,
    OrderProgress,
    ReplicaStat,
    SegmentOrder,
    segment_digest,
)

__all__ = ["BLOCKS", "RIGHT", "ROTTEN", "ModelReplica", "ModelSet", "base_of"]

BLOCKS = 4
RIGHT, ROTTEN = 0, -1
_SIZE = BLOCKS * BLOCK_BYTES
_WHOLE = [RIGHT] * BLOCKS
_RUNNING = OrderProgress(OrderOutcome.RUNNING)


def base_of(segment: int) -> int:
    """
    The first offset of a segment.
    """
    return segment * _SIZE


@dataclass(slots=True)
class _ModelJob:
    """
    A job and its next block.
    """

    order: SegmentOrder
    block: int = 0
    changed: bool = False


@dataclass(slots=True)
class ModelReplica:
    """
    One replica.

    Attributes:
        copies: the blocks of its segments; a segment without a file has none.
        starts: of its process.
        is_alive: the controller says so.
        is_silent: it gives no answer.
        fork: the number of the other bytes that its seals tell, by segment.
        jobs: that run, by claim.
    """

    copies: list[list[int]]
    starts: int = 1
    is_alive: bool = True
    is_silent: bool = False
    fork: dict[int, int] = field(default_factory=dict)
    jobs: dict[str, _ModelJob] = field(default_factory=dict)

    @property
    def incarnation(self) -> str:
        """
        Of its process.
        """
        return f"{self.starts}-{'0' * 32}"

    def is_good(self, segment: int) -> bool:
        """
        Whether its copy of a segment has the right bytes.
        """
        return self.copies[segment] == _WHOLE

    def sealed(self, segment: int) -> int:
        """
        What its seal tells of each block.
        """
        return self.fork.get(segment, RIGHT)


class ModelSet:
    """
    The controllers and the replicas.

    Args:
        brokers: their number.
        segments: that each of them has.

    Attributes:
        replicas: by broker id.
        no_controller: no controller answers.
        may_replace: the controller knows who is dead.
        before: called before each call.
    """

    def __init__(self, brokers: int, segments: int) -> None:
        self.replicas = {
            one: ModelReplica([[RIGHT] * BLOCKS for _ in range(segments)])
            for one in range(1, brokers + 1)
        }
        self.no_controller, self.may_replace = False, True
        self.before: Callable[[str], object] = lambda _call: None
        self._segments = segments

    def good_copies(self) -> set[tuple[int, int]]:
        """
        Segment and broker of the copies with the right bytes.
        """
        return {
            (segment, one)
            for one, it in self.replicas.items()
            for segment, copy in enumerate(it.copies)
            if copy == _WHOLE
        }

    def all_sets(self) -> ClusterView:
        """
        As of `Controllers`.
        """
        one = self._described("cluster", "set")
        sets = {(one.cluster, one.name): one}
        return ClusterView(sets, (), 3_600_000, self.may_replace, at_ms=0)

    def one_set(self, cluster: str, name: str) -> SetDescription | None:
        """
        As of `Controllers`.
        """
        self.before("one_set")
        if not self.may_replace:
            raise UnavailableError("the controller has led for too short a time")
        return self._described(cluster, name)

    def _described(self, cluster: str, name: str) -> SetDescription:
        if self.no_controller:
            raise UnavailableError("no controller leads")
        brokers = tuple(
            _broker(one, it.incarnation, is_alive=it.is_alive)
            for one, it in self.replicas.items()
        )
        return SetDescription(
            cluster, name, master_id=1, wanted_copies=len(brokers), brokers=brokers
        )

    def stat(self, replica: ReplicaAddress) -> ReplicaStat:
        """
        As of `ReplicaPeers`.
        """
        it, end = self._asked("stat", replica), base_of(self._segments)
        missing = {
            base_of(n): "the file is missing"
            for n, blocks in enumerate(it.copies)
            if not blocks
        }
        address = str(replica.broker_id)
        return ReplicaStat(it.incarnation, 0, end, end, _SIZE, address, missing)

    def order(self, replica: ReplicaAddress, order: SegmentOrder) -> OrderProgress:
        """
        As of `ReplicaPeers`.
        """
        it = self._asked("order", replica)
        it.jobs.setdefault(order.claim, _ModelJob(order))
        return self._progress(it, order.claim)

    def progress(self, replica: ReplicaAddress, claim: str) -> OrderProgress:
        """
        As of `ReplicaPeers`.
        """
        return self._progress(self._asked("progress", replica), claim)

    def stop(self, replica: ReplicaAddress, claim: str) -> None:
        """
        As of `ReplicaPeers`.
        """
        self._asked("stop", replica).jobs.pop(claim, None)

    def _asked(self, call: str, replica: ReplicaAddress) -> ModelReplica:
        it = self.replicas[replica.broker_id]
        self.before(call)
        if it.is_silent or not it.is_alive:
            raise UnavailableError(f"{replica.text}: timed out")
        return it

    def _progress(self, it: ModelReplica, claim: str) -> OrderProgress:
        job = it.jobs.get(claim)
        if job is None:
            return OrderProgress(OrderOutcome.FAILED, "there is no such job")
        segment = job.order.base // _SIZE
        if job.order.action is OrderAction.CHECK:
            return _checked(it, segment, job.order.blocks or tuple(range(BLOCKS)))
        if not it.copies[segment]:
            # As the file is put in its place as a whole.
            return self._installed(it, segment, job)
        if job.order.replaces and job.order.replaces == _digest(it.copies[segment]):
            it.fork.pop(segment, None)
            return self._installed(it, segment, job)
        while job.block < BLOCKS:
            block, job.block = job.block, job.block + 1
            if it.copies[segment][block] != it.sealed(segment):
                job.changed = True
                return self._patched(it, segment, block, job)
        outcome = OrderOutcome.REPAIRED if job.changed else OrderOutcome.WHOLE
        return OrderProgress(outcome)

    def _sources(self, job: _ModelJob) -> tuple[list[ModelReplica], OrderProgress]:
        """
        Those that answer, and how the job ends if none of them has the bytes.
        """
        found = [self.replicas[int(one)] for one in job.order.sources]
        answering = [one for one in found if one.is_alive and not one.is_silent]
        is_known = len(answering) == len(found)
        outcome = OrderOutcome.UNMENDED if is_known else OrderOutcome.FAILED
        return answering, OrderProgress(outcome, "no source has its bytes")

    def _patched(
        self, it: ModelReplica, segment: int, block: int, job: _ModelJob
    ) -> OrderProgress:
        sources, none = self._sources(job)
        for source in sources:
            blocks = source.copies[segment]
            if blocks and blocks[block] == it.sealed(segment):
                it.copies[segment][block] = blocks[block]
                return _RUNNING
        return none

    def _installed(
        self, it: ModelReplica, segment: int, job: _ModelJob
    ) -> OrderProgress:
        sources, none = self._sources(job)
        for source in sources:
            blocks = source.copies[segment]
            if blocks == [it.sealed(segment)] * BLOCKS:
                it.copies[segment] = list(blocks)
                return OrderProgress(OrderOutcome.REPAIRED)
        return none


@lru_cache
def _broker(broker_id: int, incarnation: str, *, is_alive: bool) -> BrokerDescription:
    return BrokerDescription(
        broker_id,
        f"127.0.0.1:{broker_id}",
        is_alive=is_alive,
        since_ms=1,
        incarnation=incarnation,
        begin=LogBegin(0),
    )


def _checked(it: ModelReplica, segment: int, chosen: tuple[int, ...]) -> OrderProgress:
    blocks = it.copies[segment]
    if not blocks:
        return OrderProgress(OrderOutcome.DAMAGED, "the file is missing")
    bad = [one for one in chosen if blocks[one] != it.sealed(segment)]
    if bad:
        return OrderProgress(OrderOutcome.DAMAGED, bad_blocks=bad)
    digest = _digest([it.sealed(segment)] * BLOCKS)
    return OrderProgress(OrderOutcome.WHOLE, digest=digest, is_sealed=True)


def _digest(blocks: list[int]) -> str:
    return segment_digest([one + 1 for one in blocks])
