"""
What is checked: the settled segments of the replicas that run, as their brokers and the
leading controller tell them at one moment.

Source: AR-R6, AR-R24; docs/spark.md, *Running replicas*.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from math import ceil

import xxhash

from pystore.autorecovery.copy_look import CopyLook, CopyState, first_look, told
from pystore.autorecovery.pauses import Pauses
from pystore.autorecovery.replica_key import ReplicaKey
from pystore.autorecovery.replica_peers import ClusterView, ReplicaAddress
from pystore.autorecovery.segment_key import SegmentKey
from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
)
from pystore.errors import InvalidError, PystoreError
from pystore.seals import BLOCK_BYTES
from pystore.segments.copy import block_count
from pystore.segments.order import ReplicaStat
from pystore.segments.sampling import sample_blocks
from pystore.spark.verify.task import SegmentTask, StoreShare
from pystore.spark.verify.verdicts import ReplicaAtPlan

__all__ = ["PlannedSet", "direct_copies", "plan_sets", "segment_tasks", "waves_of"]

_ASKED_AT_ONCE = 16
_WAVE_BYTES = 4 << 30
"""That a broker reads between two looks at the pauses."""

CopyPlace = tuple[str, int]
"""A replica's text and the base offset of a segment."""


@dataclass(frozen=True, slots=True)
class PlannedSet:
    """
    One set, as it was told.

    Attributes:
        described: by the leading controller.
        looks: the first look at each replica, by broker id.
        stats: what the replicas answered that gave a definite answer, by broker id.
        planned_at: seconds since 1970.
    """

    described: SetDescription
    looks: Mapping[int, CopyLook]
    stats: Mapping[int, ReplicaStat] = field(default_factory=dict)
    planned_at: float = 0.0

    @property
    def text(self) -> str:
        """
        ``CLUSTER/SET``.
        """
        return SegmentKey(self.described.cluster, self.described.name, 0).set_text

    def key(self, broker_id: int) -> ReplicaKey:
        """
        Returns the key of a replica.
        """
        return ReplicaKey(self.described.cluster, self.described.name, broker_id)

    def at_plan(self, broker_id: int) -> ReplicaAtPlan:
        """
        Returns a replica that answered, for the rows about it.
        """
        stat = self.stats[broker_id]
        return ReplicaAtPlan(
            broker_id,
            stat.incarnation,
            stat.begin,
            stat.settled_end,
            stat.cut_generation,
            self.planned_at,
        )

    def bases(self) -> list[int]:
        """
        Returns the first offsets of the segments that any replica has settled.
        """
        found: set[int] = set()
        for stat in self.stats.values():
            size = stat.segment_size
            low = -(-stat.begin // size) * size
            found.update(range(low, stat.settled_end - size + 1, size))
        return sorted(found)

    def looks_at(self, base: int) -> dict[int, CopyLook]:
        """
        Returns what is known of the copies of a segment before their blocks are read:
        `CopyState.UNCHECKED` of those that have to be.
        """
        brokers = {one.broker_id: one for one in self.described.brokers}
        return {
            one: told(look, brokers[one], self.stats[one], base)
            if one in self.stats
            else look
            for one, look in self.looks.items()
        }


def plan_sets(
    view: ClusterView,
    stat: Callable[[ReplicaAddress], ReplicaStat],
    pauses: Pauses,
    only: Collection[tuple[str, str]] = (),
) -> list[PlannedSet]:
    """
    Asks all replicas how their copies stand. Those of sets and hosts that are paused
    are not asked.

    Args:
        view: of the leading controller.
        stat: asks a replica; from several threads.
        pauses: that are not over.
        only: cluster and name of the sets that are checked; empty: all.

    Raises:
        InvalidError: there is no such set.
    """
    if lacking := sorted(set(only) - view.sets.keys()):
        raise InvalidError(f"the controllers know no set {'/'.join(lacking[0])}")
    sets: list[tuple[SetDescription, dict[int, CopyLook]]] = []
    asked: list[ReplicaAddress] = []
    for place, one in view.sets.items():
        if (only and place not in only) or pauses.stops_set(*place):
            continue
        looks = {}
        for broker in one.brokers:
            look = _first(one, broker, view, pauses)
            if look.state is CopyState.UNCHECKED:
                asked.append(look.replica)
            looks[broker.broker_id] = look
        sets.append((one, looks))
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        told_now = pool.map(lambda it: _answer(stat, it), asked)
        answers = dict(zip(asked, told_now, strict=True))
    found = []
    for one, looks in sets:
        stats: dict[int, ReplicaStat] = {}
        for number, look in looks.items():
            answer = answers.get(look.replica)
            if isinstance(answer, ReplicaStat):
                stats[number] = answer
            elif answer is not None:
                looks[number] = look.unknown(answer)
        found.append(PlannedSet(one, looks, stats, view.at_ms / 1000))
    return found


def _first(
    one: SetDescription, broker: BrokerDescription, view: ClusterView, pauses: Pauses
) -> CopyLook:
    number = broker.broker_id
    replica = ReplicaAddress(one.cluster, one.name, number, broker.address)
    look = first_look(replica, broker, is_master=number == one.master_id)
    if look.state is CopyState.DEAD and not view.may_replace:
        return look.unknown(
            f"the leading controller has led for {view.led_ms // 1000} s: it does not "
            "know yet who is alive"
        )
    if look.state is CopyState.UNCHECKED and pauses.stops_host(broker.host):
        return look.unknown(f"host {broker.host} is paused")
    return look


def _answer(
    stat: Callable[[ReplicaAddress], ReplicaStat], replica: ReplicaAddress
) -> ReplicaStat | str:
    """
    The answer of a replica, or why there is none.
    """
    try:
        return stat(replica)
    except PystoreError as error:
        # No answer, or a refusal: neither says anything about its copies.
        return str(error)


def segment_tasks(
    sets: Iterable[PlannedSet],
    percent: int,
    number: int,
    past: Mapping[CopyPlace, Sequence[int]],
) -> list[SegmentTask]:
    """
    Returns a task for each copy whose blocks have to be read.

    Args:
        sets: that were planned.
        percent: of the blocks of each segment that are read.
        number: of the round; each round reads other blocks.
        past: blocks to read whatever the sample is, by replica and base offset.
    """
    tasks = []
    for one in sets:
        shares = {it: StoreShare(one.key(it).text, one.text) for it in one.stats}
        for base in one.bases():
            for it, look in one.looks_at(base).items():
                if look.state is not CopyState.UNCHECKED or it not in shares:
                    continue
                share, end = shares[it], base + one.stats[it].segment_size
                blocks: tuple[int, ...] | None = None
                if percent < 100:
                    chosen = {
                        *sample_blocks(base, look.blocks, percent, number),
                        *past.get((share.store, base), ()),
                    }
                    is_all = len(chosen) >= look.blocks
                    blocks = None if is_all else tuple(sorted(chosen))
                tasks.append(SegmentTask(share, base, end, base, blocks))
    return tasks


def direct_copies(
    tasks: Sequence[SegmentTask], share: float, number: int
) -> frozenset[CopyPlace]:
    """
    Returns the copies that are read directly, too: exactly this share of them, rounded
    up, others in each round.

    Args:
        tasks: of the round.
        share: 0 to 1.
        number: of the round.
    """
    wanted = ceil(share * len(tasks))
    places = [(one.share.store, one.base) for one in tasks]
    drawn = sorted(
        places,
        key=lambda it: xxhash.xxh3_64_intdigest(f"{number}/{it[0]}/{it[1]}".encode()),
    )
    return frozenset(drawn[:wanted])


def waves_of(
    tasks: Iterable[SegmentTask], wave_bytes: int = _WAVE_BYTES
) -> Iterator[list[SegmentTask]]:
    """
    Yields the tasks in parts: in each of them a broker reads at most so many bytes, and
    at least one segment. All copies of a segment are in the same part, so that they are
    compared as of one time.
    """
    sets: dict[str, dict[int, list[SegmentTask]]] = defaultdict(dict)
    for task in tasks:
        sets[task.share.group].setdefault(task.base, []).append(task)
    parts = [_parts(segments, wave_bytes) for segments in sets.values()]
    for _ in count():
        wave = [task for part in parts for task in next(part, ())]
        if not wave:
            return
        yield wave


def _parts(
    segments: Mapping[int, list[SegmentTask]], wave_bytes: int
) -> Iterator[list[SegmentTask]]:
    part: list[SegmentTask] = []
    read = 0
    for base in sorted(segments):
        size = max(bytes_of(task) for task in segments[base])
        if part and read + size > wave_bytes:
            yield part
            part, read = [], 0
        part += segments[base]
        read += size
    if part:
        yield part


def bytes_of(task: SegmentTask) -> int:
    """
    Returns the bytes that a task reads.
    """
    if task.blocks is None:
        return task.end - task.base
    last = block_count(task.end - task.base) - 1
    size = len(task.blocks) * BLOCK_BYTES
    if last in task.blocks:
        size -= (last + 1) * BLOCK_BYTES - (task.end - task.base)
    return size
