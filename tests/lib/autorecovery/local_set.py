"""
The replicas of one set as stores of this process: what a broker does with an order is
done with the same parts, without its ports.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from pystore.autorecovery.replica_peers import ClusterView, ReplicaAddress
from pystore.controller.model.log_end import LogBegin
from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
)
from pystore.errors import PystoreError, UnavailableError
from pystore.segments.copy import LogCopy, block_count
from pystore.segments.mend_plan import plan_mending
from pystore.segments.mending import (
    MendProgress,
    fill_store,
    kept_directory,
    mend_closed,
    mend_open,
)
from pystore.segments.open_copies import open_copies
from pystore.segments.order import (
    OrderAction,
    OrderOutcome,
    OrderProgress,
    ReplicaStat,
    SegmentOrder,
    segment_digest,
)
from pystore.segments.outvoted import OutvotedCopy, remove_seal, whole_digest
from pystore.segments.store_copy import StoreCopy
from pystore.store.store import Store

__all__ = ["LocalReplica", "LocalSet"]

_RUNNING = OrderProgress(OrderOutcome.RUNNING)


@dataclass(slots=True)
class LocalReplica:
    """
    One replica.

    Attributes:
        root: of its store.
        store: while it is open for writing.
        starts: of its process.
        is_alive: the controller says so.
        is_silent: it gives no answer.
        is_java: a broker of RocketMQ.
        is_filling: its history is not whole.
        polls: a job runs for as many questions.
        orders: that it was given, in their order.
        jobs: that run, with the polls that are left.
    """

    root: Path
    store: Store | None = None
    starts: int = 1
    is_alive: bool = True
    is_silent: bool = False
    is_java: bool = False
    is_filling: bool = False
    polls: int = 0
    orders: list[SegmentOrder] = field(default_factory=list)
    jobs: dict[str, tuple[int, SegmentOrder]] = field(default_factory=dict)

    @property
    def incarnation(self) -> str:
        """
        Of its process.
        """
        return f"{self.starts}-{'0' * 32}"

    def restart(self) -> None:
        """
        Another process; jobs are forgotten.
        """
        self.starts += 1
        self.jobs.clear()
        self.is_alive, self.is_silent = True, False


class LocalSet:
    """
    One set: the controllers that know it, and its replicas.

    Args:
        roots: of the stores, of broker 1 on.

    Attributes:
        replicas: by broker id.
        wanted_copies: of the set.
        exists: the controllers know it.
        no_controller: no controller answers.
        before: called before each call, with its name and the broker id, or 0.
        stopped: the claims of the jobs that were told to stop.
    """

    def __init__(self, *roots: Path) -> None:
        self.replicas = {one: LocalReplica(root) for one, root in enumerate(roots, 1)}
        self.wanted_copies = len(roots)
        self.exists = True
        self.no_controller = False
        self.before: Callable[[str, int], object] = lambda _call, _broker_id: None
        self.stopped: list[str] = []

    # -- controllers -----------------------------------------------------------

    def all_sets(self) -> ClusterView:
        """
        As of `Controllers`.
        """
        one = self.one_set("cluster", "set")
        sets = {} if one is None else {("cluster", "set"): one}
        return ClusterView(sets, (), 60_000, may_replace=True, at_ms=1)

    def one_set(self, cluster: str, name: str) -> SetDescription | None:
        """
        As of `Controllers`.
        """
        self.before("one_set", 0)
        if self.no_controller:
            raise UnavailableError("no controller leads")
        if not self.exists:
            return None
        brokers = tuple(
            BrokerDescription(
                one,
                f"127.0.0.1:{one}",
                is_alive=it.is_alive,
                since_ms=60_000,
                incarnation=None if it.is_java else it.incarnation,
                begin=LogBegin(0, it.is_filling),
            )
            for one, it in self.replicas.items()
        )
        return SetDescription(
            cluster,
            name,
            master_id=min(self.replicas, default=None),
            wanted_copies=self.wanted_copies,
            brokers=brokers,
        )

    # -- replicas --------------------------------------------------------------

    def stat(self, replica: ReplicaAddress) -> ReplicaStat:
        """
        As of `ReplicaPeers`.
        """
        it = self._asked("stat", replica)
        copy = StoreCopy(it.root)
        facts = copy.facts
        problems = {base: copy.problem(base) for base in facts.bases()}
        return ReplicaStat(
            it.incarnation,
            facts.begin,
            facts.end,
            facts.settled_end,
            facts.segment_size,
            str(it.root),
            {base: text for base, text in problems.items() if text},
        )

    def order(self, replica: ReplicaAddress, order: SegmentOrder) -> OrderProgress:
        """
        As of `ReplicaPeers`.
        """
        it = self._asked("order", replica)
        if order.claim not in it.jobs:
            it.orders.append(order)
            it.jobs[order.claim] = (it.polls, order)
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
        it = self._asked("stop", replica)
        it.jobs.pop(claim, None)
        self.stopped.append(claim)

    def _asked(self, call: str, replica: ReplicaAddress) -> LocalReplica:
        it = self.replicas[replica.broker_id]
        assert not it.is_java
        self.before(call, replica.broker_id)
        if it.is_silent or not it.is_alive:
            raise UnavailableError(f"{replica.text}: timed out")
        return it

    def _progress(self, it: LocalReplica, claim: str) -> OrderProgress:
        if claim not in it.jobs:
            return OrderProgress(OrderOutcome.FAILED, "there is no such job")
        left, order = it.jobs[claim]
        if left:
            it.jobs[claim] = (left - 1, order)
            return _RUNNING
        try:
            if order.action is OrderAction.CHECK:
                return _checked(it.root, order)
            return _mended(it, order)
        except PystoreError as error:
            # As of a broker: the job has ended.
            return OrderProgress(OrderOutcome.FAILED, str(error))


def _checked(root: Path, order: SegmentOrder) -> OrderProgress:
    copy, base = StoreCopy(root), order.base
    if not copy.facts.has(base):
        return OrderProgress(OrderOutcome.GONE)
    if problem := copy.problem(base):
        return OrderProgress(OrderOutcome.DAMAGED, problem)
    count, seal = block_count(copy.facts.segment_size), copy.seal(base)
    found = copy.digests(base, order.blocks or range(count))
    damaged = copy.damaged_blocks(base) if seal is None else set()
    bad = [
        index
        for index, one in found.items()
        if one is None
        or index in damaged
        or (seal is not None and one != seal.block_digests[index])
    ]
    if bad:
        return OrderProgress(OrderOutcome.DAMAGED, bad_blocks=bad)
    digest = ""
    if seal is not None:
        digest = segment_digest(seal.block_digests)
    elif len(found) == count:
        digest = segment_digest([one for one in found.values() if one is not None])
    whole = OrderProgress(OrderOutcome.WHOLE)
    return replace(whole, digest=digest, is_sealed=seal is not None)


def _mended(it: LocalReplica, order: SegmentOrder) -> OrderProgress:
    own = StoreCopy(it.root)
    size, base = own.facts.segment_size, order.base
    if order.action is OrderAction.FILL:
        if base >= own.facts.begin:
            return OrderProgress(OrderOutcome.WHOLE)
        if base + size != own.facts.begin:
            return replace(_RUNNING, detail="the segment above it is not there yet")
    elif not own.facts.has(base):
        return OrderProgress(OrderOutcome.GONE)
    with open_copies(order.sources) as sources:
        kept = kept_directory(it.root)
        progress = MendProgress()
        if it.store is None:
            mend_closed(it.root, sources, kept, base, progress)
        else:
            copy: LogCopy = own
            if order.replaces and order.replaces == whole_digest(own, base):
                copy = OutvotedCopy(own, base)
                remove_seal(it.root, base)
            progress.begin(plan_mending(copy, sources, base))
            fill = fill_store(it.store, nullcontext())
            mend_open(it.store, fill, progress.plan.steps, kept, progress)
    for left in progress.unmended:
        detail = f"{left.reason}: {'; '.join(left.refusals)}"
        is_whole = left.reason.startswith("whole here")
        outcome = OrderOutcome.DIVERGENT if is_whole else OrderOutcome.UNMENDED
        return OrderProgress(outcome, detail)
    outcome = OrderOutcome.REPAIRED if progress.done else OrderOutcome.WHOLE
    return OrderProgress(outcome, moved_bytes=progress.moved_bytes)
