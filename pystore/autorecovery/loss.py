"""
The loss of a replica, and when it is due. Pure.

A loss is the word of the leading controller, told under its authority, that a replica
is not alive, and since when. The record keeps the time of the loss, not a timer: when
it is due follows from it and from the settings at each turn. So a changed delay and
another Auditor forget nothing.

Source: AR-R1 to AR-R3, AR-R6; BK-A22 to BK-A31; docs/autorecovery.md, *The Auditor*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from pystore.autorecovery.record_form import decode_form, encode_form
from pystore.autorecovery.replica_key import ReplicaKey
from pystore.autorecovery.replica_peers import ClusterView
from pystore.autorecovery.settings import RecoverySettings
from pystore.controller.protocol.set_descriptions import BrokerDescription

__all__ = [
    "LossPhase",
    "LossStanding",
    "ReplicaLoss",
    "decode_loss",
    "encode_loss",
    "loss_standing",
    "losses_after",
]

_KNOWN = (
    *("since_ms", "incarnation", "host", "address"),
    *("ended_ms", "due_ms", "why"),
)
_SAME_MS = 5_000  # two tellings of one time differ by what the answers took


@dataclass(frozen=True, slots=True)
class ReplicaLoss:
    """
    The record of a replica that is dead.

    Attributes:
        since_ms: since when, Unix time. It never moves forward.
        incarnation: of the process that registered last; empty: a broker of RocketMQ.
        host: of its address; empty: unknown.
        address: ``HOST:PORT`` where it was; empty: unknown.
        ended_ms: when an operator ended the waiting; 0: none did.
        due_ms: since when it is due; 0: it is not.
        why: what is done about it, or why nothing is; empty: it waits for its delay.
        more: fields of a later program, kept as they are.
    """

    since_ms: int
    incarnation: str = ""
    host: str = ""
    address: str = ""
    ended_ms: int = 0
    due_ms: int = 0
    why: str = ""
    more: Mapping[str, object] = field(default_factory=dict)


class LossPhase(Enum):
    """
    What becomes of a loss.
    """

    WAITING = "waiting"  # the replica may return
    MAINTENANCE = "maintenance"  # an operator said until when it is away
    DUE = "due"  # its copies are to be made anew


@dataclass(frozen=True, slots=True)
class LossStanding:
    """
    Where a loss stands at one moment.

    Attributes:
        phase: the kind.
        at_ms: when it is due, or since when; Unix time.
        why: one line.
    """

    phase: LossPhase
    at_ms: int
    why: str


def losses_after(
    known: Mapping[ReplicaKey, ReplicaLoss], view: ClusterView, now_ms: int
) -> dict[ReplicaKey, ReplicaLoss]:
    """
    Returns the losses that there are after a word of the controller.

    A replica that is told as not alive by a controller that does not know yet is
    unknown: it is neither lost nor returned. So is one of a set whose record is
    unreadable.

    Args:
        known: the losses before.
        view: of all sets.
        now_ms: Unix time.
    """
    losses: dict[ReplicaKey, ReplicaLoss] = {}
    for (cluster, name), one in view.sets.items():
        for broker in one.brokers:
            if broker.is_alive or broker.is_ill:
                # An ill one is there, and is repaired where it is.
                continue
            key = ReplicaKey(cluster, name, broker.broker_id)
            old = known.get(key)
            if not view.may_replace:
                if old is not None:
                    losses[key] = old
            elif old is not None or key.is_storable():
                losses[key] = _told(old, broker, now_ms)
    if known and view.damaged:
        damaged = set(view.damaged)
        kept = {k: v for k, v in known.items() if (k.cluster, k.set_name) in damaged}
        losses.update(kept)
    return losses


def _told(
    old: ReplicaLoss | None, broker: BrokerDescription, now_ms: int
) -> ReplicaLoss:
    told_ms = max(1, now_ms - broker.since_ms)
    incarnation = broker.incarnation or ""
    if old is None or old.incarnation != incarnation:
        # Another process of it was alive meanwhile.
        return ReplicaLoss(told_ms, incarnation, broker.host, broker.address)
    if told_ms < old.since_ms - _SAME_MS:
        return replace(old, since_ms=told_ms)
    # A controller that leads for less time knows less; the first word counts.
    return old


def loss_standing(
    loss: ReplicaLoss,
    settings: RecoverySettings,
    now_ms: int,
    *,
    until_ms: int = 0,
    missing: int = 1,
) -> LossStanding:
    """
    Returns where a loss stands.

    Args:
        loss: of the replica.
        settings: at this moment.
        now_ms: Unix time.
        until_ms: the end of its maintenance, also a past one; 0: none.
        missing: replicas of its set that are not alive, this one included.
    """
    if until_ms > now_ms:
        why = "in maintenance: no copy of it is made until the maintenance ends"
        return LossStanding(LossPhase.MAINTENANCE, until_ms, why)
    # One whose maintenance has ended counts as lost since then.
    begin_ms = max(loss.since_ms, until_ms)
    due_ms = begin_ms + 1000 * settings.delay_s
    why = f"the delay of {settings.delay_s} s is over"
    if loss.ended_ms > until_ms:
        due_ms, why = min(due_ms, loss.ended_ms), "an audit was asked for"
    if settings.multi_loss_immediate and missing > 1 and due_ms > now_ms:
        due_ms = begin_ms
        why = f"{missing} replicas of the set are missing, which ends the waiting"
    if due_ms <= now_ms:
        return LossStanding(LossPhase.DUE, due_ms, why)
    why = f"it may return: the delay is {settings.delay_s} s"
    return LossStanding(LossPhase.WAITING, due_ms, why)


def encode_loss(loss: ReplicaLoss) -> bytes:
    """
    Returns the record of a loss.
    """
    own = {name: getattr(loss, name) for name in _KNOWN}
    return encode_form({**loss.more, **own})


def decode_loss(raw: bytes, where: str) -> ReplicaLoss:
    """
    Returns the loss of a record.

    Raises:
        FormatError: it is none, or has a later form.
    """
    fields = decode_form(raw, where)
    return ReplicaLoss(
        since_ms=fields.number("since_ms"),
        incarnation=fields.text("incarnation"),
        host=fields.text("host"),
        address=fields.text("address"),
        ended_ms=fields.number("ended_ms"),
        due_ms=fields.number("due_ms"),
        why=fields.text("why"),
        more=fields.other_than(_KNOWN),
    )
