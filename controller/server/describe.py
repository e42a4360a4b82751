"""
The details of a set, as the answers to 7101 and 7107. Pure.

Source: RMQ-R271; docs/operations.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pystore.controller.decide.election_policy import is_filling
from pystore.controller.model.events import MasterElected
from pystore.controller.model.explain import why_missing
from pystore.controller.model.facts import Facts
from pystore.controller.model.replica import RegisteredBroker
from pystore.controller.model.state import LossRange, NotedRefusal, SetState
from pystore.records.record_store import StoreSpace
from pystore.remoting.json_body import render_body
from pystore.replicaset import Member, ids_of

__all__ = ["set_details", "unclean_details"]


def set_details(
    state: SetState,
    facts: Facts,
    *,
    lease_left_ms: Callable[[Member], int],
    refusal: NotedRefusal | None,
    space: StoreSpace | None,
    pending: Iterable[str],
) -> bytes:
    """
    Returns the body.

    Args:
        state: of the set.
        facts: at this moment.
        lease_left_ms: how long the lease of a member may still run; 0: it has none.
        refusal: the last one.
        space: of the record store; ``None``: it has no largest size.
        pending: the commands that are not committed yet.
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
            "copies": state.copies,
            "wantedCopies": state.wanted_copies,
            "nextBrokerId": state.next_id,
            "recordBytes": space and space.used,
            "recordBytesMax": space and space.size,
            "lastRefusal": refusal
            and {
                "code": int(refusal.code),
                "reason": refusal.reason,
                "brokerId": refusal.broker_id,
            },
            "losses": _losses(state.losses),
            "brokers": [_broker(state, facts, one) for one in state.replicas],
        }
    )


def unclean_details(
    state: SetState, facts: Facts, elected: MasterElected, *, is_done: bool
) -> bytes:
    """
    Returns the answer to 7107: what an election loses, and the log end of each broker
    that the set has or had.

    Args:
        state: of the set before the election.
        facts: before it.
        elected: the election.
        is_done: it is committed.
    """
    return render_body(
        {
            "clusterName": state.cluster,
            "brokerName": state.name,
            "brokerId": elected.master.broker_id,
            "elected": is_done,
            "losses": _losses(elected.losses),
            "ends": [
                {
                    "brokerId": one.broker_id,
                    "role": _role(state, one),
                    "alive": facts.is_alive(one),
                    "epoch": (end := facts.largest_end(one)).epoch,
                    "endOffset": end.end,
                }
                for one in state.replicas
            ]
            + [
                {
                    "brokerId": one.broker_id,
                    "role": "cleaned",
                    "alive": False,
                    "epoch": one.seen.epoch,
                    "endOffset": one.seen.end,
                }
                for one in state.tombstones
            ],
        }
    )


def _role(state: SetState, one: RegisteredBroker) -> str:
    if one.broker_id in ids_of(state.agreed.members):
        return "member"
    if one.broker_id in ids_of(state.agreed.candidates):
        return "candidate"
    return "learner" if one.is_learner else "not in sync"


def _losses(losses: Iterable[LossRange]) -> list[dict[str, object]]:
    return [
        {
            "epoch": one.epoch,
            "startOffset": one.start,
            "endOffset": one.end,
            "cause": one.cause,
        }
        for one in losses
    ]


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
