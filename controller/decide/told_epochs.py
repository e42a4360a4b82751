"""
Epochs that brokers tell, compared with those of the record. Pure.

A broker knows no epoch above that of its record, so one that does proves that the
record is older than its set: it was restored from an earlier copy, or the set comes
from other controllers. The next epoch is above every told one, so none is given twice.
Only brokers that have an id of the record count, and only to `EPOCH_JUMP_MAX` above it:
one false number would use up the epochs.

Source: docs/controller.md, *Elections*; RMQ-R254.
"""

from __future__ import annotations

from collections.abc import Iterator

from pystore.controller.model.facts import Facts, LastHeartbeat
from pystore.controller.model.log_end import NOWHERE, LogEnd
from pystore.controller.model.state import SetState
from pystore.controller.model.views import knows_more
from pystore.replicaset import Member

__all__ = [
    "EPOCH_JUMP_MAX",
    "furthest_above",
    "is_believed",
    "jump_of",
    "leases_above",
    "told_epoch",
]

EPOCH_JUMP_MAX = 1000
"""How far above the record's epoch a told one may be."""


def is_believed(state: SetState, epoch: int) -> bool:
    """
    Returns whether a told epoch may be true: it is not far above the record's.
    """
    return epoch <= state.epoch + EPOCH_JUMP_MAX


def told_epoch(state: SetState, facts: Facts) -> int:
    """
    Returns the highest epoch that the record, heartbeats or tombstones tell.
    """
    return max((state.epoch, *(epoch for _, epoch in _epochs(state, facts))))


def jump_of(state: SetState, facts: Facts) -> tuple[int, int] | None:
    """
    Returns id and epoch of a broker that tells an epoch far above the record's;
    ``None``: there is none.
    """
    jumps = ((epoch, one) for one, epoch in _epochs(state, facts))
    epoch, broker_id = max(jumps, default=(state.epoch, 0))
    return None if is_believed(state, epoch) else (broker_id, epoch)


def furthest_above(state: SetState, facts: Facts) -> tuple[int, LogEnd] | None:
    """
    Returns id and log end of the broker whose log goes furthest, if brokers know more
    than the record; ``None``: they do not. If they only know a newer SyncStateSet of
    the record's epoch, any log of that epoch may be the furthest one.
    """
    end, broker_id = max(
        ((end, one) for one, end in _ends(state, facts)), default=(NOWHERE, 0)
    )
    is_older = any(knows_more(state, heard) for _, heard in _heard(state, facts))
    lowest = state.epoch if is_older else state.epoch + 1
    return (broker_id, end) if end.epoch >= lowest else None


def leases_above(state: SetState, facts: Facts) -> frozenset[Member]:
    """
    Returns the processes that may have a lease that the record does not know of. Java
    brokers have no leases.
    """
    return frozenset(
        Member(broker_id, heard.incarnation)
        for broker_id, heard in _heard(state, facts)
        if heard.incarnation is not None and knows_more(state, heard)
    )


def _heard(state: SetState, facts: Facts) -> Iterator[tuple[int, LastHeartbeat]]:
    """
    Yields id and last heartbeat of each broker of the record, of whichever process.
    """
    for one in state.replicas:
        for some in (facts.last_heartbeats, facts.former_heartbeats):
            heard = some.get(one.broker_id)
            if heard is not None:
                yield one.broker_id, heard


def _epochs(state: SetState, facts: Facts) -> Iterator[tuple[int, int]]:
    yield from ((one, end.epoch) for one, end in _ends(state, facts))
    yield from ((one, heard.known_epoch) for one, heard in _heard(state, facts))


def _ends(state: SetState, facts: Facts) -> Iterator[tuple[int, LogEnd]]:
    """
    Yields each known log end, of any process of a broker.
    """
    yield from ((one.broker_id, one.seen) for one in state.tombstones)
    for one in state.replicas:
        yield one.broker_id, one.recovered
        yield one.broker_id, one.seen
    yield from ((one, heard.position) for one, heard in _heard(state, facts))
