"""
What the copies of a set are worth for one segment: which are good, which fill, which
are short. Pure.

A copy of a broker of RocketMQ counts, unverified: nothing is read from it or written
to it while it runs.

Source: AR-R5; decision D1 and D7 of docs/autorecovery.md, *The Auditor*.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pystore.autorecovery.mark import Priority
from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
)

__all__ = [
    "FillPlan",
    "broker_of",
    "fill_plan",
    "good_copies",
    "is_short",
    "priority_of",
    "set_floor",
]


@dataclass(frozen=True, slots=True)
class FillPlan:
    """
    What a filling replica needs next.

    Attributes:
        bases: of its highest missing segments, falling.
        left: how many segments it lacks in all; -1: unknown.
        why: why nothing can be offered, one line; empty: `bases` can.
    """

    bases: tuple[int, ...] = ()
    left: int = -1
    why: str = ""


def broker_of(one: SetDescription, broker_id: int) -> BrokerDescription | None:
    """
    Returns a broker of a set; ``None``: the set has no such broker.
    """
    found = (each for each in one.brokers if each.broker_id == broker_id)
    return next(found, None)


def set_floor(one: SetDescription) -> int:
    """
    Returns where the log of a set begins, which is the begin of its master's; -1: not
    known.
    """
    for broker in one.brokers:
        if broker.broker_id == one.master_id:
            return broker.begin.offset
    return -1


def is_short(one: SetDescription, broker: BrokerDescription) -> bool:
    """
    Returns whether a replica begins above the floor by its own retention: it is shown,
    and not filled again.
    """
    floor = set_floor(one)
    begin = broker.begin
    return not begin.is_filling and 0 <= floor < begin.offset


def fill_plan(
    one: SetDescription, broker: BrokerDescription, segment_size: int, count: int
) -> FillPlan:
    """
    Returns what a filling replica needs next.

    Args:
        one: its set.
        broker: the replica.
        segment_size: of its log, in bytes; 0: not known yet.
        count: the most segments that are offered at once.
    """
    floor, begin = set_floor(one), broker.begin.offset
    if begin < 0:
        return FillPlan(why="its log cannot be filled: it lacks its queue offsets")
    if floor < 0:
        return FillPlan(why="the floor is unknown: the master does not tell its begin")
    if segment_size <= 0:
        return FillPlan(why="it has not told the size of its segments yet")
    top = begin - begin % segment_size
    bottom = floor - floor % segment_size
    bases = range(top - segment_size, bottom - 1, -segment_size)
    return FillPlan(tuple(bases[:count]), len(bases))


def good_copies(
    one: SetDescription, base: int, bad: Collection[int] = ()
) -> tuple[int, ...]:
    """
    Returns the broker ids whose copies of a segment are good as far as is known.

    Args:
        one: the set.
        base: the first offset of the segment.
        bad: broker ids of which something else is known.
    """
    return tuple(
        broker.broker_id
        for broker in one.brokers
        if broker.is_alive
        and broker.broker_id not in bad
        # A broker of RocketMQ tells no begin, and has the history of its master.
        and (broker.begin.offset <= base or broker.incarnation is None)
        and (broker.begin.offset >= 0 or broker.incarnation is None)
    )


def priority_of(one: SetDescription, good: int) -> Priority:
    """
    Returns how urgent a repair is with so many good copies. An acknowledgement needs
    the SyncStateSet.
    """
    if good <= 1:
        return Priority.LAST_COPY
    if good < sum(broker.is_in_sync for broker in one.brokers):
        return Priority.FEWER_THAN_ACKS
    return Priority.FEWER_THAN_WANTED
