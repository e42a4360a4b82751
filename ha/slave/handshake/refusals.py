"""
What a slave does about a master's refusal. Pure.

Source: docs/protocol.md (K.3, CheckResult).
"""

from __future__ import annotations

from pystore.ha.codes import CheckResult
from pystore.ha.slave.effects import Close, Retry
from pystore.ha.wire.frames import HandshakeMaster

__all__ = ["close_for"]

_ANSWERS = {
    CheckResult.REJECTED: ("the master rejects us", Retry.SOON),
    CheckResult.CLUSTER_NAME: (
        "the master is of another cluster: check the cluster name",
        Retry.OPERATOR,
    ),
    CheckResult.BROKER_NAME: (
        "the master is of another broker set: check the broker name",
        Retry.OPERATOR,
    ),
    CheckResult.BROKER_ID: (
        "the master does not take our broker id: check the identity of the store",
        Retry.OPERATOR,
    ),
    CheckResult.PROTOCOL: (
        "no common version of the protocol: upgrade the older side",
        Retry.OPERATOR,
    ),
    CheckResult.APP_VERSION: (
        "the master does not take our version: upgrade the older side",
        Retry.OPERATOR,
    ),
    CheckResult.NOT_MASTER: ("the peer is no master", Retry.ASK_CONTROLLER),
    CheckResult.STALE_EPOCH: (
        "our epoch is behind the master's",
        Retry.ASK_CONTROLLER,
    ),
    CheckResult.FUTURE_EPOCH: (
        "the master's epoch is behind ours",
        Retry.ASK_CONTROLLER,
    ),
    CheckResult.STORE_LAYOUT: (
        "the segments of the master have another size: copy its store settings",
        Retry.OPERATOR,
    ),
    CheckResult.BUSY: ("the master is busy", Retry.SOON),
    CheckResult.DUPLICATE: (
        "a newer incarnation of this broker follows already: stop one of the two",
        Retry.SOON,
    ),
}


def close_for(refusal: HandshakeMaster) -> Close:
    """
    Returns the end of the link that a refusal means.

    Args:
        refusal: anything but SUCCESS.
    """
    text, retry = _ANSWERS[refusal.result]
    reason = f"{refusal.result.name}: {text}"
    if refusal.reason:
        # One line for people, whatever the peer wrote.
        reason += f" ({' '.join(refusal.reason.split())[:200]})"
    is_elsewhere = refusal.result is CheckResult.NOT_MASTER
    return Close(reason, retry, refusal.redirect if is_elsewhere else "")
