"""
The first frame of a v3 slave, and whether the answer makes a session. Pure.

Source: docs/protocol.md (K.3, HANDSHAKE_SLAVE and HANDSHAKE_MASTER).
"""

from __future__ import annotations

from pystore.errors import RemoteViolation
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.consistent_point import held_epochs
from pystore.ha.slave.effects import LeaveMaster, Retry, SlaveLog
from pystore.ha.wire.codes import PROTOCOL_V3, CheckResult, SlaveFlag
from pystore.ha.wire.frames import Frame, HandshakeMaster, HandshakeSlave
from pystore.ha.wire.link_state import LinkEvent
from pystore.ha.wire.v3 import DATA_BYTES_MIN

__all__ = ["close_for", "greeting", "meaning", "objection"]


def greeting(
    config: SlaveConfig, log: SlaveLog, *, is_suspended: bool
) -> HandshakeSlave:
    """
    Returns who we are and what we hold, by whole records.
    """
    flags = config.slave_flags & ~SlaveFlag.START_SUSPENDED
    return HandshakeSlave(
        protocol_min=PROTOCOL_V3,
        protocol_max=PROTOCOL_V3,
        broker_id=config.broker_id,
        incarnation=config.incarnation,
        last_epoch=held_epochs(log).last_epoch,
        min_offset=0 if log.is_empty else log.min_offset,
        end_offset=log.end_offset,
        flushed_offset=log.flushed_offset,
        segment_size=log.segment_size,
        frame_bytes_max=config.frame_bytes_max,
        flags=flags | SlaveFlag.START_SUSPENDED if is_suspended else flags,
        incarnation_bits=config.incarnation_bits,
        cluster=config.cluster,
        broker_name=config.broker_name,
        address=config.address,
        version=config.version,
    )


def meaning(body: HandshakeMaster) -> LinkEvent:
    """
    Returns what an answer is to the machine: a refusal comes in every state, since a
    master says why before it closes.
    """
    is_welcome = body.result is CheckResult.SUCCESS
    return LinkEvent.HEARD_HANDSHAKE if is_welcome else LinkEvent.HEARD_REFUSAL


def objection(
    config: SlaveConfig, log: SlaveLog, frame: Frame, body: HandshakeMaster
) -> LeaveMaster | None:
    """
    Returns why a master is not followed; ``None``: it is.

    Args:
        config: ours.
        log: ours.
        frame: its answer.
        body: of the frame.

    Raises:
        RemoteViolation: a session that cannot be.
    """
    if body.result is not CheckResult.SUCCESS:
        return close_for(body)
    _check(config, body)
    if body.segment_size != log.segment_size:
        return LeaveMaster(
            f"segments of {body.segment_size} bytes at the master, of "
            f"{log.segment_size} here: copy its store settings",
            Retry.OPERATOR,
        )
    if body.broker_id == config.broker_id:
        return LeaveMaster("the master is ourselves", Retry.ASK_CONTROLLER)
    if config.epoch not in (None, frame.epoch):
        return LeaveMaster(
            f"a master of epoch {frame.epoch}, and the controller said {config.epoch}",
            Retry.ASK_CONTROLLER,
        )
    return None


def _check(config: SlaveConfig, body: HandshakeMaster) -> None:
    if body.protocol != PROTOCOL_V3:
        raise RemoteViolation(f"a session of protocol {body.protocol}")
    if body.session_id == 0:
        raise RemoteViolation("a session without an id")
    if not DATA_BYTES_MIN < body.frame_bytes_max <= config.frame_bytes_max:
        raise RemoteViolation(
            f"frames of {body.frame_bytes_max} bytes: we take at most "
            f"{config.frame_bytes_max}"
        )
    if not 0 < body.heartbeat_ms < body.housekeeping_ms:
        raise RemoteViolation(
            f"heartbeat {body.heartbeat_ms} ms, housekeeping {body.housekeeping_ms} ms"
        )


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


def close_for(refusal: HandshakeMaster) -> LeaveMaster:
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
    return LeaveMaster(reason, retry, refusal.redirect if is_elsewhere else "")
