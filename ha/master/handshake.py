"""
Whether a slave may stay: the answer to a v3 handshake. Pure.

Who it is comes first: only a broker of this set may tell us that our epoch is over.
What the controller lists and who is connected are arguments; so is the session id.

Source: docs/protocol.md (K.3), R164, R199, safety B1, B6.
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
        result: success, or why not.
        reason: one line for people; empty on success.
        newer_epoch: the epoch that the slave knows and we do not; else ``None``.
    """

    result: CheckResult
    reason: str = ""
    newer_epoch: int | None = None


def admit(
    shake: HandshakeSlave, epoch: int, config: MasterConfig, set_view: SetView
) -> HandshakeDecision:
    """
    Returns the first objection to a slave, or success.

    Args:
        shake: what it says about itself.
        epoch: of the frame: the master's, as the controller told the slave; -1:
            nobody told it, and it will take ours.
        config: ours.
        set_view: as it is now.
    """
    for result, reason in _identity(shake, config, set_view):
        return HandshakeDecision(result, reason)
    if not set_view.is_master:
        where = f": it is at {set_view.redirect}" if set_view.redirect else ""
        text = f"broker {config.broker_id} is not the master{where}"
        return HandshakeDecision(CheckResult.NOT_MASTER, text)
    newest = max(epoch, shake.last_epoch)
    if newest > config.epoch:
        text = f"the slave knows epoch {newest}, this master is of {config.epoch}"
        return HandshakeDecision(CheckResult.FUTURE_EPOCH, text, newest)
    if NO_EPOCH < epoch < config.epoch:
        text = f"the slave is of epoch {epoch}, this master of {config.epoch}"
        return HandshakeDecision(CheckResult.STALE_EPOCH, text)
    for result, reason in _means(shake, config, set_view):
        return HandshakeDecision(result, reason)
    return HandshakeDecision(CheckResult.SUCCESS)


def _identity(
    shake: HandshakeSlave, config: MasterConfig, set_view: SetView
) -> Iterator[tuple[CheckResult, str]]:
    if not shake.protocol_min <= PROTOCOL_V3 <= shake.protocol_max:
        spoken = f"{shake.protocol_min} to {shake.protocol_max}"
        text = f"the slave speaks protocols {spoken}, this master {PROTOCOL_V3}"
        yield CheckResult.PROTOCOL, text
    if shake.version in config.versions_refused:
        yield (
            CheckResult.APP_VERSION,
            f"version {_brief(shake.version)} is not served here",
        )
    if shake.cluster != config.cluster:
        text = (
            f"the slave is of cluster {_brief(shake.cluster)}, not {config.cluster!r}"
        )
        yield CheckResult.CLUSTER_NAME, text
    if shake.broker_name != config.broker_name:
        name = _brief(shake.broker_name)
        text = f"the slave is of set {name}, not {config.broker_name!r}"
        yield CheckResult.BROKER_NAME, text
    reason = refusal_of_id(shake.broker_id, config, set_view)
    if reason is not None:
        yield CheckResult.BROKER_ID, reason


def _brief(name: str) -> str:
    # A peer's text of any length goes into a reason, which has to fit a frame.
    return repr(name if len(name) <= 64 else f"{name[:64]}...")


def refusal_of_id(
    broker_id: int, config: MasterConfig, set_view: SetView
) -> str | None:
    """
    Returns why no slave has this id; ``None``: one may.
    """
    if broker_id < 1:
        return f"{broker_id} is no broker id: they begin with 1"
    if broker_id == config.broker_id:
        return f"broker id {broker_id} is this master's own"
    if broker_id not in set_view.broker_ids:
        return f"the controller knows no broker {broker_id} in this set"
    return None


def _means(
    shake: HandshakeSlave, config: MasterConfig, set_view: SetView
) -> Iterator[tuple[CheckResult, str]]:
    if shake.segment_size != config.segment_size:
        text = (
            f"segments of {shake.segment_size} bytes, this master's have "
            f"{config.segment_size}"
        )
        yield CheckResult.STORE_LAYOUT, text
    if not 0 <= shake.min_offset <= shake.end_offset:
        text = f"a log from {shake.min_offset} to {shake.end_offset} cannot be"
        yield CheckResult.REJECTED, text
    if not 0 <= shake.flushed_offset <= shake.end_offset:
        text = (
            f"flushed to {shake.flushed_offset} in a log to {shake.end_offset} "
            "cannot be"
        )
        yield CheckResult.REJECTED, text
    if shake.frame_bytes_max < FRAME_BYTES_LEAST:
        text = (
            f"frames of {shake.frame_bytes_max} bytes at most: "
            f"{FRAME_BYTES_LEAST} are needed"
        )
        yield CheckResult.REJECTED, text
    if shake.incarnation < 0:
        text = f"incarnation {shake.incarnation} cannot be: the counter begins with 0"
        yield CheckResult.REJECTED, text
    elif shake.broker_id in set_view.sessions:
        mine = Incarnation(shake.incarnation, shake.incarnation_bits)
        reason = refusal_of_session(mine, set_view.sessions[shake.broker_id])
        if reason is not None:
            yield CheckResult.DUPLICATE, f"broker {shake.broker_id}: {reason}"
    if set_view.is_busy:
        yield CheckResult.BUSY, "this master takes no session more for now"


def refusal_of_session(ours: Incarnation, live: Incarnation | None) -> str | None:
    """
    Returns why a live session is not replaced by one of *ours*.

    The same process may connect again, a later one replaces an earlier one. A
    legacy session says nothing about its process and yields.

    Args:
        ours: of the slave that shakes hands.
        live: of the session there is.
    """
    if live is None or ours == live or ours.counter > live.counter:
        return None
    if ours.counter < live.counter:
        return (
            f"a session of its newer incarnation {live.counter} is live, "
            f"not {ours.counter}"
        )
    return f"another process with incarnation {ours.counter} is live: one is a copy"
