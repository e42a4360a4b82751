"""
What happens to a broker node: one typed event for each fact.

`log_node_event` is the default sink: it writes each event to the logger
``pystore.broker``. What `pystore broker` does with them is in docs/operations.md,
*What happened?*.

Threads: an event is told in the thread in which the fact happens, often that of a link.
A sink returns soon, and calls no method of the node.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from pystore.events.event import Event, log_to

__all__ = [
    "LOGGER",
    "AdmissionBarred",
    "CutOrdered",
    "FollowingEnded",
    "LeaseEnded",
    "LeaseGranted",
    "LeaseRefused",
    "LinkClosed",
    "LinkFailed",
    "LinkOpened",
    "LossNoteKept",
    "NodeEvent",
    "NodeFailed",
    "NodeRefused",
    "NodeRegistered",
    "PeerEvent",
    "RoleChanged",
    "SyncStateSetChanged",
    "SyncStateSetShrank",
    "log_node_event",
]

LOGGER = logging.getLogger("pystore.broker")
"""The default sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvent(Event):
    """
    A fact about a broker node, or a replica.

    Attributes:
        cluster_name, broker_name: of its set.
        broker_id: its own; ``None``: it has none yet.
    """

    cluster_name: str
    broker_name: str
    broker_id: int | None

    @property
    def subject(self) -> str:
        """
        The set and the broker.
        """
        own = "a broker" if self.broker_id is None else f"broker {self.broker_id}"
        return f"{own} of set {self.broker_name}, cluster {self.cluster_name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleChanged(NodeEvent):
    """
    The broker has another role, or the same one in a newer epoch.

    Attributes:
        old, new: the roles, as `pystore broker status` names them.
        master_epoch: of the newest decision.
        reason: why.
    """

    old: str
    new: str
    master_epoch: int
    reason: str

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        return f"{self.new} in epoch {self.master_epoch}, was {self.old}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGranted(NodeEvent):
    """
    A master has a lease: the first one of its epoch, or again after it had none.

    Attributes:
        master_epoch: of the mastership.
        is_limited: the lease has to be renewed; a controller of RocketMQ gives none.
    """

    master_epoch: int
    is_limited: bool

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        if not self.is_limited:
            return (
                f"epoch {self.master_epoch} needs no lease: the controller gives none"
            )
        return f"has the lease of epoch {self.master_epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRefused(NodeEvent):
    """
    The leading controller gives a master no lease: `leader` is not acknowledged.

    Attributes:
        master_epoch: of the mastership.
        reason: why.
    """

    master_epoch: int
    reason: str
    level: ClassVar[int] = logging.WARNING

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        return (
            f"gets no lease for epoch {self.master_epoch}, leader is not acknowledged: "
            f"{self.reason}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseEnded(NodeEvent):
    """
    The lease of a master has run out: `leader` is not acknowledged.

    Attributes:
        master_epoch: of the mastership.
        reason: why.
    """

    master_epoch: int
    reason: str
    level: ClassVar[int] = logging.WARNING

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        return (
            f"the lease of epoch {self.master_epoch} ran out, leader is not "
            f"acknowledged: {self.reason}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerEvent(NodeEvent):
    """
    A fact about a link of replication.

    Attributes:
        peer_role: ``master`` or ``slave``.
        peer_id: its broker id; ``None``: it is not known.
        address: ``HOST:PORT`` of the peer.
    """

    peer_role: str
    peer_id: int | None
    address: str

    @property
    def peer(self) -> str:
        """
        The other end.
        """
        own = "" if self.peer_id is None else f", broker {self.peer_id},"
        return f"the {self.peer_role}{own} at {self.address}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkOpened(PeerEvent):
    """
    A link to a peer has begun: both ends have agreed where it continues.

    Attributes:
        is_unproven: whether this master could have verified the slave, which proved
            nothing (docs/security.md, *Links*).
    """

    is_unproven: bool = False

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        lack = "; it did not prove that it is a broker of this set" * self.is_unproven
        return f"a link to {self.peer} is open{lack}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkClosed(PeerEvent):
    """
    An open link has ended.

    Attributes:
        reason: why.
    """

    reason: str
    level: ClassVar[int] = logging.WARNING

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        return f"the link to {self.peer} closed: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFailed(PeerEvent):
    """
    A link could not begin: a slave tells each new reason, a master each connection.

    Attributes:
        reason: why.
    """

    reason: str
    level: ClassVar[int] = logging.WARNING

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        return f"no link to {self.peer}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOrdered(PeerEvent):
    """
    A slave is about to cut bytes that its master does not have.

    Attributes:
        from_offset: the end of its bytes.
        to_offset: the end after the cut.
        reason: why.
    """

    from_offset: int
    to_offset: int
    reason: str
    level: ClassVar[int] = logging.WARNING

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        return (
            f"cuts its log from offset {self.from_offset} to {self.to_offset}, as "
            f"{self.peer} orders: {self.reason}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowingEnded(PeerEvent):
    """
    A slave follows its master no more, and does not try again by itself.

    Attributes:
        reason: why.
    """

    reason: str
    level: ClassVar[int] = logging.ERROR

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        return f"follows {self.peer} no more: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStateSetChanged(NodeEvent):
    """
    The master's SyncStateSet has changed: brokers joined it, one process of a broker
    replaced another, or the candidates of an election changed.

    Attributes:
        master_epoch: of the mastership.
        set_epoch: of the set.
        members: the broker ids of the set now.
        candidates: the broker ids for which acks wait beside the members.
        joined, left: the broker ids that were not, or are no more, among the members.
        reason: who joined or left, and why: one sentence for each.
    """

    master_epoch: int
    set_epoch: int
    members: tuple[int, ...]
    candidates: tuple[int, ...]
    joined: tuple[int, ...]
    left: tuple[int, ...]
    reason: str

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        name = "broker" if len(self.members) == 1 else "brokers"
        return f"{self.reason}; it is {name} {', '.join(map(str, self.members))} now"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStateSetShrank(SyncStateSetChanged):
    """
    A broker has left the master's SyncStateSet.
    """

    level: ClassVar[int] = logging.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRegistered(NodeEvent):
    """
    The controllers have registered this broker: first, or after a refusal.
    """

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        return "is registered with the controllers"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRefused(NodeEvent):
    """
    The controllers have not registered this broker yet; it tries again.

    Attributes:
        reason: why; each new one is an event.
    """

    reason: str
    level: ClassVar[int] = logging.WARNING

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        return f"is not registered: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionBarred(NodeEvent):
    """
    The controllers have registered this broker, but no master may admit it.

    Attributes:
        reason: why.
    """

    reason: str
    level: ClassVar[int] = logging.WARNING

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        return f"no master may admit this broker: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LossNoteKept(NodeEvent):
    """
    A master has admitted this broker, but that it once lost records stays noted: the
    note could not be deleted. It is tried again.

    Attributes:
        reason: the error.
    """

    reason: str
    level: ClassVar[int] = logging.WARNING

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        return f"the note of lost records stays for now: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailed(NodeEvent):
    """
    A node of a host could not start, has ended, or was not closed cleanly.

    Attributes:
        node: its name in the host.
        reason: the error.
        is_closing: it was to be closed.
    """

    node: str
    reason: str
    is_closing: bool
    level: ClassVar[int] = logging.ERROR

    @property
    def text(self) -> str:
        """
        The fact in one line.
        """
        how = (
            "is closed, but not cleanly"
            if self.is_closing
            else "has failed and is closed"
        )
        return f"{self.node} {how}: {self.reason}"


def log_node_event(event: Event) -> None:
    """
    Writes an event to the logger ``pystore.broker``, at its level.
    """
    log_to(LOGGER, event)
