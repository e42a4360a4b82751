"""
The first frame of a v3 slave, and whether the answer makes a session. Pure.

Source: docs/protocol.md (RMQ-K.3, HANDSHAKE_SLAVE and HANDSHAKE_MASTER).
"""

from __future__ import annotations

from pystore.errors import RemoteViolation
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.consistent_point import epochs_of_log
from pystore.ha.slave.effects import LeaveMaster, Retry, SlaveLog
from pystore.ha.wire.codes import PROTOCOL_V3, CheckResult, SlaveFlag
from pystore.ha.wire.frames import Frame, HandshakeMaster, HandshakeSlave
from pystore.ha.wire.link_state import LinkEvent
from pystore.ha.wire.v3 import DATA_BYTES_MIN

__all__ = ["event_of", "leave_for_refusal", "refusal_effect", "slave_handshake"]


def slave_handshake(
    config: SlaveConfig, log: SlaveLog, *, is_suspended: bool, challenge: bytes = b""
) -> HandshakeSlave:
    """
    Returns the slave's handshake; it counts whole records only.

    Args:
        config: of the slave.
        log: of the slave.
        is_suspended: the session begins suspended.
        challenge: random bytes; empty: the slave can prove nothing.
    """
    flags = config.slave_flags & ~SlaveFlag.START_SUSPENDED
    if log.is_filling:
        flags |= SlaveFlag.FILLING
    if challenge:
        flags |= SlaveFlag.PROVES
    return HandshakeSlave(
        protocol_min=PROTOCOL_V3,
        protocol_max=PROTOCOL_V3,
        broker_id=config.broker_id,
        incarnation=config.incarnation,
        last_epoch=epochs_of_log(log).last_epoch,
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
        challenge=challenge,
    )


def event_of(body: HandshakeMaster) -> LinkEvent:
    """
    Returns the event of a master's answer. A refusal may come in every state, since a
    master sends the reason before it closes.
    """
    is_accepted = body.result is CheckResult.SUCCESS
    return LinkEvent.RECEIVED_HANDSHAKE if is_accepted else LinkEvent.RECEIVED_REFUSAL


def refusal_effect(
    config: SlaveConfig, log: SlaveLog, frame: Frame, body: HandshakeMaster
) -> LeaveMaster | None:
    """
    Returns why the slave leaves a master; ``None``: it follows.

    Args:
        config: of the slave.
        log: of the slave.
        frame: the master's answer.
        body: of the frame.

    Raises:
        RemoteViolation: an impossible session.
    """
    if body.result is not CheckResult.SUCCESS:
        return leave_for_refusal(body)
    _check(config, body)
    if body.segment_size != log.segment_size:
        return LeaveMaster(
            f"the master has segments of {body.segment_size} bytes, this replica of "
            f"{log.segment_size} bytes: copy the master's store settings",
            Retry.OPERATOR,
        )
    if body.broker_id == config.broker_id:
        return LeaveMaster(
            "the address of the master is this broker's own", Retry.ASK_CONTROLLER
        )
    if config.epoch not in (None, frame.epoch):
        return LeaveMaster(
            f"the master is at epoch {frame.epoch}, and the controller named epoch "
            f"{config.epoch}",
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
            f"frames of {body.frame_bytes_max} bytes: at most "
            f"{config.frame_bytes_max} are taken"
        )
    if not 0 < body.heartbeat_ms < body.housekeeping_ms:
        raise RemoteViolation(
            f"heartbeat {body.heartbeat_ms} ms, housekeeping {body.housekeeping_ms} ms"
        )


_ANSWERS = {
    CheckResult.REJECTED: ("the master rejects this replica", Retry.SOON),
    CheckResult.CLUSTER_NAME: (
        "the master belongs to another cluster: check the cluster name",
        Retry.OPERATOR,
    ),
    CheckResult.BROKER_NAME: (
        "the master belongs to another broker set: check the broker name",
        Retry.OPERATOR,
    ),
    CheckResult.BROKER_ID: (
        "the master refuses this broker id: if that goes on, check the identity",
        Retry.OPERATOR,
    ),
    CheckResult.PROTOCOL: (
        "the two sides have no protocol version in common: upgrade the older one",
        Retry.OPERATOR,
    ),
    CheckResult.APP_VERSION: (
        "the master refuses this version: upgrade the older side",
        Retry.OPERATOR,
    ),
    CheckResult.NOT_MASTER: ("the peer is not the master", Retry.ASK_CONTROLLER),
    CheckResult.STALE_EPOCH: (
        "the epoch of this replica is behind the master's",
        Retry.ASK_CONTROLLER,
    ),
    CheckResult.FUTURE_EPOCH: (
        "the epoch of the master is behind this replica's",
        Retry.ASK_CONTROLLER,
    ),
    CheckResult.STORE_LAYOUT: (
        "the segments of the master have another size: copy its store settings",
        Retry.OPERATOR,
    ),
    CheckResult.BUSY: ("the master is busy", Retry.SOON),
    CheckResult.DUPLICATE: (
        "a newer incarnation of this broker has a session: stop one of the two",
        Retry.SOON,
    ),
}


def leave_for_refusal(refusal: HandshakeMaster) -> LeaveMaster:
    """
    Returns how the slave leaves after a refusal.

    Args:
        refusal: anything but SUCCESS.
    """
    text, retry = _ANSWERS[refusal.result]
    reason = f"{refusal.result.name}: {text}"
    if refusal.reason:
        # One line, whatever the peer wrote.
        reason += f" ({' '.join(refusal.reason.split())[:200]})"
    is_elsewhere = refusal.result is CheckResult.NOT_MASTER
    return LeaveMaster(reason, retry, refusal.redirect if is_elsewhere else "")
