"""
Explains why a replica is not in the SyncStateSet, for people. Pure.

Source: B1 to B7; RMQ-R271.
"""

from __future__ import annotations

from pystore.controller.model.facts import Facts
from pystore.controller.model.replica import LogStanding, RegisteredBroker
from pystore.controller.model.state import SetState
from pystore.controller.model.views import living_leadership

__all__ = ["why_barred", "why_missing"]

_STANDING = {
    LogStanding.RESTARTED: "its restart may have lost the end of its log; the master "
    "admits it once it has caught up",
    LogStanding.LOSSY: "it cut bytes that it had acknowledged; the master admits it "
    "once it has caught up",
    LogStanding.COPIED: "its store is a copy or was restored: use readmitBroker if a "
    "master may fill it again",
    LogStanding.WIPED: "its store held bytes before and is empty: use readmitBroker if "
    "a master may fill it again",
}


def why_barred(standing: LogStanding | None) -> str:
    """
    Returns why no master may admit a broker until an operator decides, one line; empty:
    a master may.

    Args:
        standing: of its log; ``None``: unknown, as from controllers of RocketMQ.
    """
    if standing is None or not standing.needs_operator:
        return ""
    return _STANDING[standing]


def why_missing(state: SetState, facts: Facts, replica: RegisteredBroker) -> str:
    """
    Returns one line; empty for a member.
    """
    if not replica.address:
        return "it did not register since the record of the set was rebuilt"
    if replica.member in state.agreed.members:
        return ""
    if replica.is_learner:
        return "it is a learner"
    if not facts.is_alive(replica):
        return _why_dead(facts, replica)
    if replica.standing.needs_operator:
        return _STANDING[replica.standing]
    return _why_not_admitted(state, facts, replica)


def _why_dead(facts: Facts, replica: RegisteredBroker) -> str:
    if replica.broker_id in facts.last_heartbeats:
        return "another process of it sends heartbeats and has not registered"
    return "its heartbeats do not arrive"


def _why_not_admitted(state: SetState, facts: Facts, replica: RegisteredBroker) -> str:
    leadership = living_leadership(state, facts)
    if leadership is None:
        return "there is no live master to admit it"
    master = state.replica(leadership.master.broker_id)
    assert master is not None
    end, own = facts.position(master), facts.position(replica)
    if own < end and own.end < end.end:
        return f"it is {end.end - own.end:,} bytes behind the master"
    if own.epoch < end.epoch:
        return (
            f"its log ends in epoch {own.epoch}, the master's log in epoch {end.epoch}"
        )
    return _STANDING.get(
        replica.standing, "the master has not requested its admission yet"
    )
