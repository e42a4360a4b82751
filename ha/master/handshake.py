"""
The master's decision about a v3 handshake. Pure.

The slave's identity is checked first: only a broker of this set can prove that the
master's epoch is over. The controller's list and the live sessions are arguments.

Source: docs/protocol.md (RMQ-K.3), RMQ-R164, RMQ-R199, B1, B6.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pystore.epochs.table import NO_EPOCH
from pystore.ha.master.config import FRAME_BYTES_LEAST, MasterConfig, SetView
from pystore.ha.wire.codes import PROTOCOL_V3, CheckResult
from pystore.ha.wire.frames import HandshakeSlave
from pystore.replicaset import Incarnation

__all__ = ["HandshakeDecision", "admit", "refusal_of_id", "refusal_of_session"]


@dataclass(frozen=True, slots=True)
class HandshakeDecision:
    """
    The decision about one handshake.

    Attributes:
        result: success, or the kind of refusal.
        reason: one line for people; empty on success.
        newer_epoch: a newer epoch that the slave knows; else ``None``.
    """

    result: CheckResult
    reason: str = ""
    newer_epoch: int | None = None


def admit(
    shake: HandshakeSlave, epoch: int, config: MasterConfig, set_view: SetView
) -> HandshakeDecision:
    """
    Returns the first reason to refuse a slave, or success.

    Args:
        shake: the slave's handshake.
        epoch: of the frame: the master's, as the controller told the slave; -1: the
            slave knows none and takes this master's.
        config: of the mastership.
        set_view: the set as it is known now.
    """
    for result, reason in _identity_refusals(shake, config, set_view):
        return HandshakeDecision(result, reason)
    if not set_view.is_master:
        where = f": the master is {set_view.redirect}" if set_view.redirect else ""
        text = f"broker {config.broker_id} is not the master{where}"
        return HandshakeDecision(CheckResult.NOT_MASTER, text)
    newest = max(epoch, shake.last_epoch)
    if newest > config.epoch:
        text = f"stale epoch {config.epoch}: the slave knows epoch {newest}"
        return HandshakeDecision(CheckResult.FUTURE_EPOCH, text, newest)
    if NO_EPOCH < epoch < config.epoch:
        text = f"stale epoch {epoch} of the slave: the set is at epoch {config.epoch}"
        return HandshakeDecision(CheckResult.STALE_EPOCH, text)
    for result, reason in _store_refusals(shake, config, set_view):
        return HandshakeDecision(result, reason)
    return HandshakeDecision(CheckResult.SUCCESS)


def _identity_refusals(
    shake: HandshakeSlave, config: MasterConfig, set_view: SetView
) -> Iterator[tuple[CheckResult, str]]:
    if not shake.protocol_min <= PROTOCOL_V3 <= shake.protocol_max:
        spoken = f"{shake.protocol_min} to {shake.protocol_max}"
        text = (
            f"the slave speaks protocol versions {spoken}, this master version "
            f"{PROTOCOL_V3}"
        )
        yield CheckResult.PROTOCOL, text
    if shake.version in config.versions_refused:
        yield (
            CheckResult.APP_VERSION,
            f"this master does not serve version {_shortened(shake.version)}",
        )
    if shake.cluster != config.cluster:
        name = _shortened(shake.cluster)
        text = f"the slave belongs to cluster {name}, not to {config.cluster!r}"
        yield CheckResult.CLUSTER_NAME, text
    if shake.broker_name != config.broker_name:
        name = _shortened(shake.broker_name)
        text = f"the slave belongs to broker set {name}, not to {config.broker_name!r}"
        yield CheckResult.BROKER_NAME, text
    reason = refusal_of_id(shake.broker_id, config, set_view)
    if reason is not None:
        yield CheckResult.BROKER_ID, reason


def _shortened(name: str) -> str:
    # The peer's text may have any length, and the reason must fit into a frame.
    return repr(name if len(name) <= 64 else f"{name[:64]}...")


def refusal_of_id(
    broker_id: int, config: MasterConfig, set_view: SetView
) -> str | None:
    """
    Returns why no slave can have this broker id; ``None``: one can.
    """
    if broker_id < 1:
        return f"{broker_id} is no broker id: broker ids begin with 1"
    if broker_id == config.broker_id:
        return f"broker id {broker_id} is this master's own"
    if broker_id not in set_view.broker_ids:
        return f"this master knows no broker {broker_id} yet, and asks the controller"
    return None


def _store_refusals(
    shake: HandshakeSlave, config: MasterConfig, set_view: SetView
) -> Iterator[tuple[CheckResult, str]]:
    if shake.segment_size != config.segment_size:
        text = (
            f"the slave has segments of {shake.segment_size} bytes, this master of "
            f"{config.segment_size} bytes"
        )
        yield CheckResult.STORE_LAYOUT, text
    if not 0 <= shake.min_offset <= shake.end_offset:
        text = (
            f"the slave's log cannot begin at offset {shake.min_offset} and end at "
            f"offset {shake.end_offset}"
        )
        yield CheckResult.REJECTED, text
    if not 0 <= shake.flushed_offset <= shake.end_offset:
        text = (
            f"the slave's log cannot end at offset {shake.end_offset} and be flushed "
            f"up to offset {shake.flushed_offset}"
        )
        yield CheckResult.REJECTED, text
    if shake.frame_bytes_max < FRAME_BYTES_LEAST:
        text = (
            f"the slave takes frames of {shake.frame_bytes_max} bytes: at least "
            f"{FRAME_BYTES_LEAST} are needed"
        )
        yield CheckResult.REJECTED, text
    if shake.incarnation < 0:
        text = f"incarnation {shake.incarnation} is negative"
        yield CheckResult.REJECTED, text
    elif shake.broker_id in set_view.sessions:
        mine = Incarnation(shake.incarnation, shake.incarnation_bits)
        reason = refusal_of_session(mine, set_view.sessions[shake.broker_id])
        if reason is not None:
            yield CheckResult.DUPLICATE, f"broker {shake.broker_id}: {reason}"
    if set_view.is_busy:
        yield CheckResult.BUSY, "this master takes no more sessions now"


def refusal_of_session(ours: Incarnation, live: Incarnation | None) -> str | None:
    """
    Returns why the process *ours* does not replace a live session; ``None``: it does.

    The same process may connect again, and a later one replaces an earlier one. A
    legacy session does not name its process, so any process replaces it.

    Args:
        ours: incarnation of the slave that connects.
        live: incarnation of the live session; ``None`` of a legacy slave.
    """
    if live is None or ours == live or ours.counter > live.counter:
        return None
    if ours.counter < live.counter:
        return (
            f"its newer incarnation {live.counter} has a session, this one is "
            f"incarnation {ours.counter}"
        )
    return (
        f"another process with incarnation {ours.counter} has a session: one of the "
        "two stores is a copy"
    )
