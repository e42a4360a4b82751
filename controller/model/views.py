"""
The views of a set for answers. Pure.

Source: formats 4.3, 4.5, 4.7; RMQ-R39, RMQ-R40, RMQ-R247, RMQ-R248.
"""

from __future__ import annotations

from pystore.controller.model.facts import Facts, LastHeartbeat
from pystore.controller.model.replica import RegisteredBroker
from pystore.controller.model.replies import (
    BrokerView,
    MasterRecord,
    ReplicaInfo,
    SyncState,
)
from pystore.controller.model.state import SetState
from pystore.replicaset import ids_of

__all__ = [
    "knows_more",
    "leadership_of",
    "living_leadership",
    "replica_info",
    "sync_state",
]


def leadership_of(state: SetState) -> MasterRecord | None:
    """
    Returns the recorded master, alive or not.
    """
    if state.master is None:
        return None
    replica = state.replica(state.master.broker_id)
    return MasterRecord(
        state.master,
        replica.address if replica is not None else "",
        state.epoch,
        bool(state.unreleased),
        replica.ha_address if replica is not None else "",
    )


def knows_more(state: SetState, heard: LastHeartbeat) -> bool:
    """
    Returns whether a broker knows a newer decision than the record.
    """
    return heard.told_epoch > state.epoch or (
        heard.known_epoch == state.epoch
        and heard.known_set_epoch > state.agreed.set_epoch
    )


def living_leadership(state: SetState, facts: Facts) -> MasterRecord | None:
    """
    Returns the recorded master, if it is alive. One that knows a newer decision than
    the record is none: the record is older than the set.
    """
    replica = None if state.master is None else state.replica(state.master.broker_id)
    heard = None if replica is None else facts.last_heartbeat(replica)
    if heard is None or knows_more(state, heard):
        return None
    return leadership_of(state)


def replica_info(state: SetState) -> ReplicaInfo:
    """
    Returns the answer to 1004 for a set that exists.
    """
    return ReplicaInfo(leadership_of(state), state.epoch, state.agreed)


def sync_state(state: SetState, facts: Facts) -> SyncState:
    """
    Returns one set of the answer to 1006.
    """
    ids = ids_of(state.agreed.members)
    return SyncState(
        replica_info(state),
        tuple(_view(one, facts) for one in state.replicas if one.broker_id in ids),
        tuple(_view(one, facts) for one in state.replicas if one.broker_id not in ids),
    )


def _view(replica: RegisteredBroker, facts: Facts) -> BrokerView:
    return BrokerView(replica.broker_id, replica.address, facts.is_alive(replica))
