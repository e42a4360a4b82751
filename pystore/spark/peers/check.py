"""
One task: the copies of one broker, checked one after another. Runs on an executor.

A copy is checked by its broker, which reads its own disk (push-down): some hundred
bytes travel. A stated share of the copies is read directly, too: the task pulls the
bytes and digests them itself, so a broker that tells digests which are not those of its
bytes is found. A task writes nothing; again, it joins the jobs that it has begun.

Source: AR-R6; docs/spark.md, *Running replicas*.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field

from pystore.autorecovery.peer_client import RemotePeers
from pystore.autorecovery.replica_peers import ReplicaAddress, ReplicaPeers
from pystore.clocks import clock_ms
from pystore.errors import PystoreError, UnavailableError
from pystore.seals import block_digest
from pystore.segments.copy import LogCopy, block_count
from pystore.segments.order import (
    OrderAction,
    OrderOutcome,
    OrderProgress,
    SegmentOrder,
    segment_digest,
)
from pystore.segments.peer_copy import PeerCopy
from pystore.spark.peers.access import BrokerAccess

__all__ = [
    "BrokerTask",
    "CopyCheck",
    "CopyTask",
    "DirectRead",
    "check_broker",
    "check_copies",
    "run_check",
]

_SILENT_MS = 15_000
"""After which a broker that gives no answer about a job has given none."""

_LEAST_S, _MOST_S = 0.01, 0.5
_READS = 2
"""Of a block whose bytes are not what its broker tells: perhaps the network was it."""


@dataclass(frozen=True, slots=True)
class CopyTask:
    """
    One copy of one segment.

    Attributes:
        base: first offset of the segment.
        size_bytes: of what is read.
        blocks: their indexes, ascending; empty: all.
        is_direct: the task reads the bytes itself, too.
    """

    base: int
    size_bytes: int
    blocks: tuple[int, ...] = ()
    is_direct: bool = False


@dataclass(frozen=True, slots=True)
class BrokerTask:
    """
    The copies of one broker that are checked one after another, so that its disk has
    one reader of this job.

    Attributes:
        access: how it is reached.
        replica: of the broker.
        segments_address: where it serves its segments; empty: nowhere.
        claim: of all jobs, with the base; the same again joins them.
        copies: what is checked.
    """

    access: BrokerAccess
    replica: ReplicaAddress
    segments_address: str
    claim: str
    copies: tuple[CopyTask, ...]


@dataclass(frozen=True, slots=True)
class DirectRead:
    """
    What the bytes are that a broker serves.

    Attributes:
        digests: XXH3-64 of the blocks that were read, by index.
        differing: the blocks whose digest is another one than the broker tells, rising.
        problem: what else does not fit, or why nothing was read, one line.
        is_lie: the bytes are not what the broker tells.
    """

    digests: dict[int, int] = field(default_factory=dict)
    differing: tuple[int, ...] = ()
    problem: str = ""
    is_lie: bool = False


@dataclass(frozen=True, slots=True)
class CopyCheck:
    """
    The result for one copy.

    Attributes:
        replica: whose copy it is.
        task: as it was given.
        progress: the end of the broker's own check.
        direct: of a copy that was read directly, too.
        seconds: that both took.
    """

    replica: ReplicaAddress
    task: CopyTask
    progress: OrderProgress
    direct: DirectRead | None = None
    seconds: float = 0.0


def check_broker(task: BrokerTask) -> list[CopyCheck]:
    """
    Checks the copies of a task, over the network. That a broker gives no answer is part
    of the result.

    Raises:
        PystoreError, OSError: a file of `BrokerAccess` is wrong here.
    """
    tls = task.access.tls()
    with RemotePeers(signs=task.access.signs(), tls=tls) as peers:
        return check_copies(
            task, peers, lambda address: closing(PeerCopy(address, tls))
        )


def check_copies(
    task: BrokerTask,
    peers: ReplicaPeers,
    open_copy: Callable[[str], AbstractContextManager[LogCopy]],
) -> list[CopyCheck]:
    """
    Checks the copies of a task.

    Args:
        task: of one broker.
        peers: answers for it.
        open_copy: opens what it serves at an address; raises `PystoreError`.
    """
    found = []
    for copy in task.copies:
        began_ms = clock_ms()
        order = SegmentOrder(
            f"{task.claim}/{copy.base}",
            copy.base,
            OrderAction.CHECK,
            blocks=copy.blocks,
        )
        progress, direct = run_check(peers, task.replica, order), None
        if copy.is_direct and progress.outcome is OrderOutcome.WHOLE:
            direct = _read_at(task.segments_address, copy, progress, open_copy)
        seconds = (clock_ms() - began_ms) / 1000
        found.append(CopyCheck(task.replica, copy, progress, direct, seconds))
    return found


def run_check(
    peers: ReplicaPeers,
    replica: ReplicaAddress,
    order: SegmentOrder,
    now_ms: Callable[[], int] = clock_ms,
    pause: Callable[[float], object] = time.sleep,
) -> OrderProgress:
    """
    Orders a job, waits for its end, and returns it; `OrderOutcome.FAILED` if the broker
    refuses, or gives no answer for 15 s: then nothing is known of its copy (AR-R6).

    Args:
        peers: of the broker.
        replica: the same.
        order: a check.
        now_ms: a clock that never steps back.
        pause: waits for so many seconds.
    """
    heard_ms, wait_s, is_known = now_ms(), _LEAST_S, False
    while True:
        try:
            if is_known:
                found = peers.progress(replica, order.claim)
            else:
                found = peers.order(replica, order)
            heard_ms, is_known = now_ms(), True
            if found.outcome is not OrderOutcome.RUNNING:
                return found
        except UnavailableError as error:
            # It is busy, starts, or is away for a moment.
            if now_ms() - heard_ms >= _SILENT_MS:
                return OrderProgress(OrderOutcome.FAILED, str(error))
        except PystoreError as error:
            # A refusal says nothing about the copy.
            return OrderProgress(OrderOutcome.FAILED, str(error))
        pause(wait_s)
        wait_s = min(2 * wait_s, _MOST_S)


def _read_at(
    address: str,
    copy: CopyTask,
    told: OrderProgress,
    open_copy: Callable[[str], AbstractContextManager[LogCopy]],
) -> DirectRead:
    if not address:
        return DirectRead(problem="not read directly: it serves no segments")
    try:
        with open_copy(address) as source:
            return _read(source, copy, told)
    except PystoreError as error:
        # That it serves no bytes now says nothing about its copy.
        return DirectRead(problem=f"not read directly: {error}")


def _read(source: LogCopy, copy: CopyTask, told: OrderProgress) -> DirectRead:
    """
    Compares the bytes that a broker serves with what it tells of them.
    """
    count = block_count(source.facts.segment_size)
    wanted = copy.blocks or tuple(range(count))
    seal = source.seal(copy.base)
    if seal is not None:
        said: dict[int, int | None] = dict(enumerate(seal.block_digests))
    else:
        said = source.digests(copy.base, wanted)
    digests: dict[int, int] = {}
    left: Iterable[int] = wanted
    for _ in range(_READS):
        digests |= {i: block_digest([source.block(copy.base, i)]) for i in left}
        left = [i for i in wanted if digests[i] != said.get(i)]
    problem = ""
    whole = list(seal.block_digests) if seal is not None else None
    if whole is None and len(wanted) == count:
        whole = [digests[i] for i in wanted]
    if whole is not None and told.digest not in ("", segment_digest(whole)):
        problem = (
            f"it tells the digest {told.digest}, and serves bytes or a seal with "
            f"{segment_digest(whole)}"
        )
    return DirectRead(digests, tuple(left), problem, bool(left) or bool(problem))
