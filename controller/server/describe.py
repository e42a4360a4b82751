"""
The details of a set, as the answer to 7101. Pure.

Source: RMQ-R271; docs/operations.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pystore.controller.decide.election_policy import is_filling
from pystore.controller.model.explain import why_missing
from pystore.controller.model.facts import Facts
from pystore.controller.model.replica import RegisteredBroker
from pystore.controller.model.state import NotedRefusal, SetState
from pystore.remoting.json_body import render_body
from pystore.replicaset import Member, ids_of

__all__ = ["set_details"]


def set_details(
    state: SetState,
    facts: Facts,
    *,
    lease_left_ms: Callable[[Member], int],
    refusal: NotedRefusal | None,
    pending: Iterable[str],
    history: Iterable[Mapping[str, object]],
) -> bytes:
    """
    Returns the body.

    Args:
        state: of the set.
        facts: at this moment.
        lease_left_ms: how long the lease of a member may still run; 0: it has none.
        refusal: the last one.
        pending: the commands that are not committed yet.
        history: the last decisions.
    """
    master = state.master
    return render_body(
        {
            "clusterName": state.cluster,
            "brokerName": state.name,
            "version": state.version,
            "masterBrokerId": master and master.broker_id,
            "masterEpoch": state.epoch,
            "masterAlive": bool(
                master and facts.is_alive(state.replica(master.broker_id))
            ),
            "leaseMillis": lease_left_ms(master) if master else 0,
            "formerLeases": [
                {"brokerId": one.broker_id, "leaseMillis": lease_left_ms(one)}
                for one in sorted(state.unreleased, key=lambda one: one.broker_id)
            ],
            "syncStateSet": sorted(ids_of(state.agreed.members)),
            "syncStateSetEpoch": state.agreed.set_epoch,
            "candidates": sorted(ids_of(state.agreed.candidates)),
            "pending": list(pending),
            "preferredBrokerId": state.preferred_id or 0,
            "allowElectMaster": state.is_automatic,
            "mayReplaceMaster": facts.may_replace,
            "nextBrokerId": state.next_id,
            "lastRefusal": refusal
            and {
                "code": int(refusal.code),
                "reason": refusal.reason,
                "brokerId": refusal.broker_id,
            },
            "losses": [
                {
                    "epoch": one.epoch,
                    "startOffset": one.start,
                    "endOffset": one.end,
                    "cause": one.cause,
                }
                for one in state.losses
            ],
            "brokers": [_broker(state, facts, one) for one in state.replicas],
            "history": list(history),
        }
    )


def _broker(state: SetState, facts: Facts, one: RegisteredBroker) -> dict[str, object]:
    position = facts.position(one)
    return {
        "brokerId": one.broker_id,
        "brokerAddress": one.address,
        "haAddress": one.ha_address,
        "alive": facts.is_alive(one),
        "inSync": one.member in state.agreed.members,
        "standing": one.standing.value,
        "learner": one.is_learner,
        "priority": one.priority,
        "epoch": position.epoch,
        "beginOffset": facts.begin(one).offset,
        "endOffset": position.end,
        "filling": is_filling(state, facts, one),
        "reason": why_missing(state, facts, one),
    }
