"""
The records of sets whose controllers are lost, rebuilt from what stores know. Pure.

A store knows its broker's id, its starts, its epochs and the UUID of the record store.
It does not know who was in sync. So every broker is listed, as one that may have lost
its end, and none is elected before all have registered, and told how far their logs go:
then the one with the longest log has every record that `all` acknowledged (B3). A
broker that is lost for good has to be cleaned by an operator first.

Source: docs/operations.md, *All controllers are lost*; B2, B3, C3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.replica import LogStanding, RegisteredBroker
from pystore.controller.model.state import SetKey, SetState
from pystore.errors import InvalidError
from pystore.replicaset import NO_SET, AgreedSet, Incarnation, Member

__all__ = ["StoredBroker", "rebuilt_sets"]

_SET_EPOCHS = 100_000
_EPOCH_MAX = 20_000


@dataclass(frozen=True, slots=True)
class StoredBroker:
    """
    What a store knows of its broker and of its set.

    Attributes:
        where: the store, for messages.
        cluster: name of the cluster.
        name: of the set.
        broker_id: of the broker.
        epoch: the highest that its log has, or that it promised; 0: none.
        incarnation: of its last start; ``None``: a Java broker.
        cluster_id: the UUID of the record store; empty: it knows none.
    """

    where: str
    cluster: str
    name: str
    broker_id: int
    epoch: int = 0
    incarnation: Incarnation | None = None
    cluster_id: str = ""


def rebuilt_sets(
    stores: Sequence[StoredBroker], next_id: int = 1
) -> tuple[str, list[SetState]]:
    """
    Returns the UUID of the record store (empty: no store knows one) and the sets.

    Args:
        stores: of all brokers of each set.
        next_id: of each set, if it is above the next one after the given ids.

    Raises:
        InvalidError: two stores have the same id, or belong to two record stores.
    """
    cluster_ids = {one.cluster_id: one.where for one in stores if one.cluster_id}
    if len(cluster_ids) > 1:
        told = " and ".join(f"{where} to {one}" for one, where in cluster_ids.items())
        raise InvalidError(
            f"the stores belong to different record stores, {told}: name those of one"
        )
    sets: dict[SetKey, dict[int, StoredBroker]] = {}
    for one in stores:
        brokers = sets.setdefault((one.cluster, one.name), {})
        other = brokers.setdefault(one.broker_id, one)
        if other is not one:
            raise InvalidError(
                f"{other.where} and {one.where} both are broker {one.broker_id} of set "
                f"{one.name}: one is a copy: name the other one only"
            )
    states = [
        replace(one, next_id=max(one.next_id, next_id))
        for one in (_rebuilt(key, some.values()) for key, some in sorted(sets.items()))
    ]
    return next(iter(cluster_ids), ""), states


def _rebuilt(key: SetKey, stores: Iterable[StoredBroker]) -> SetState:
    brokers = sorted(stores, key=lambda one: one.broker_id)
    epoch = max(one.epoch for one in brokers)
    members = frozenset(Member(one.broker_id, None) for one in brokers)
    # Java compares SyncStateSet epochs alone, so it has to be above the lost ones.
    set_epoch = min(epoch, _EPOCH_MAX) * _SET_EPOCHS
    return SetState(
        *key,
        version=1,
        next_id=brokers[-1].broker_id + 1,
        replicas=tuple(_replica(one, has_past=epoch > 0) for one in brokers),
        is_founded=epoch > 0,
        epoch=epoch,
        agreed=AgreedSet(members, set_epoch) if epoch else NO_SET,
        # Any of them may have a lease of the lost controllers (C3).
        unreleased=frozenset(
            Member(one.broker_id, one.incarnation)
            for one in brokers
            if one.incarnation is not None and epoch
        ),
    )


def _replica(store: StoredBroker, *, has_past: bool) -> RegisteredBroker:
    """
    Returns a broker that has no address: it has to register before it counts.
    """
    process = store.incarnation
    bits = "" if process is None else process.text
    return RegisteredBroker(
        store.broker_id,
        # The code of its application is lost; it applies for no id again.
        f";rebuilt;{bits}",
        "",
        # The process that opened the store last may still run, and registers again.
        counter_max=0 if process is None else max(process.counter - 1, 0),
        standing=LogStanding.RESTARTED if has_past else LogStanding.SOUND,
        seen=LogEnd(store.epoch, -1),
    )
