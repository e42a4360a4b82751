"""
What the answer of a replica proves about segments of its set. Pure.

Only settled segments are judged, and holes with which a store does not open. What a
replica says about its own file is evidence against its copy; what a slave says about
bytes that its master sent is evidence against the master's copy.

Source: AR-R6, AR-R9; decisions D4, D5 and D7; docs/autorecovery.md, *The Auditor*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pystore.autorecovery.dead_segment import DeadSegment
from pystore.autorecovery.mark import Missing, Reason
from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
)
from pystore.seals import BLOCK_BYTES
from pystore.segments.order import ReplicaStat

__all__ = [
    "CopyFinding",
    "file_findings",
    "is_whole_at",
    "reports_copy",
    "source_findings",
]

_WITHOUT_FILE = {Reason.ABSENT, Reason.FILL}


@dataclass(frozen=True, slots=True)
class CopyFinding:
    """
    A fact about one copy of one segment.

    Attributes:
        base: the first offset of the segment.
        broker_id: whose copy it is.
        fact: why it counts as missing.
    """

    base: int
    broker_id: int
    fact: Missing


def file_findings(broker_id: int, stat: ReplicaStat) -> list[CopyFinding]:
    """
    Returns what a replica says about its own files; of one that cannot be opened also
    what is missing above its settled end.
    """
    settled = {
        base: why
        for base, why in stat.problems.items()
        if stat.begin <= base and base + stat.segment_size <= stat.settled_end
    }
    return [
        CopyFinding(
            base, broker_id, Missing(Reason.ABSENT, f"broker {broker_id}: {why}")
        )
        for base, why in sorted({**settled, **stat.holes}.items())
    ]


def source_findings(
    one: SetDescription,
    reporter: BrokerDescription,
    stat: ReplicaStat,
    stats: Mapping[int, ReplicaStat],
) -> tuple[list[CopyFinding], list[int]]:
    """
    Returns what a slave says about the copies of its masters.

    Args:
        one: the set.
        reporter: the slave.
        stat: its answer.
        stats: the last answers of the replicas, by broker id.

    Returns:
        What is proven, and the broker ids of sources that have to be asked first: what
        they have settled is not known.
    """
    found: list[CopyFinding] = []
    unasked: list[int] = []
    brokers = {broker.broker_id: broker for broker in one.brokers}
    for bad in stat.bad_sources:
        source = brokers.get(bad.broker_id)
        if source is None or not source.is_alive or source.incarnation is None:
            continue
        told = stats.get(bad.broker_id)
        if told is None:
            unasked.append(bad.broker_id)
            continue
        size = told.segment_size
        base = bad.offset - bad.offset % size if size > 0 else -1
        if not told.begin <= base or base + size > told.settled_end:
            continue
        fact = Missing(
            Reason.CORRUPT,
            f"broker {reporter.broker_id} got bytes at {bad.offset} that do not prove "
            "themselves",
            blocks=((bad.offset - base) // BLOCK_BYTES,),
        )
        found.append(CopyFinding(base, bad.broker_id, fact))
    return found, unasked


def is_whole_at(stat: ReplicaStat, base: int) -> bool:
    """
    Returns whether a replica reports a segment: in its log, settled, the file readable.
    """
    end = base + stat.segment_size
    is_inside = stat.begin <= base and end <= stat.settled_end
    return is_inside and base not in stat.problems


def reports_copy(
    dead: DeadSegment, base: int, broker_id: int, stat: ReplicaStat
) -> bool:
    """
    Returns whether the answer of a replica brings a dead segment back (AR-R9): it was
    not asked before the burial, is another process since, or has the file now.

    Args:
        dead: its record; ``asked`` of it names the incarnations that were asked, by
            broker id.
        base: the first offset of the segment.
        broker_id: of the replica.
        stat: its answer, given after the burial.
    """
    if not is_whole_at(stat, base):
        return False
    asked = dead.more.get("asked")
    known = asked if isinstance(asked, Mapping) else {}
    if known.get(str(broker_id)) != stat.incarnation:
        return True
    fact = dead.mark.missing.get(broker_id)
    return fact is not None and fact.reason in _WITHOUT_FILE
