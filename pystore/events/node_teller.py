"""
Tells the events of one broker node: adds the time and the names that all of them have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pystore.clocks import wall_ms
from pystore.events.event import Event, hand_over
from pystore.events.node_events import NodeEvent, log_node_event

__all__ = ["NodeTeller", "Tell", "untold"]


class Tell(Protocol):
    """
    Tells an event, given its class and what is special of it.
    """

    def __call__(self, kind: type[NodeEvent], **fields: Any) -> object:  # noqa: ANN401
        """
        Tells it. Any thread.
        """
        ...


def untold(kind: type[NodeEvent], **fields: Any) -> None:  # noqa: ANN401
    """
    Tells nothing.
    """


@dataclass(frozen=True, slots=True)
class NodeTeller:
    """
    A `Tell` for one broker.

    Attributes:
        cluster_name, broker_name: of its set.
        broker_id: its own; ``None``: it has none yet.
        sink: takes each event.
        now_ms: the time, ms since 1970.
        more: what all events have beside, such as the peer of a link.
    """

    cluster_name: str
    broker_name: str
    broker_id: int | None = None
    sink: Callable[[Event], object] = log_node_event
    now_ms: Callable[[], int] = wall_ms
    more: dict[str, Any] = field(default_factory=dict)

    def __call__(self, kind: type[NodeEvent], **fields: Any) -> None:  # noqa: ANN401
        """
        Tells an event. Any thread.
        """
        event = kind(
            time_ms=self.now_ms(),
            cluster_name=self.cluster_name,
            broker_name=self.broker_name,
            broker_id=self.broker_id,
            **self.more,
            **fields,
        )
        hand_over(event, self.sink)

    def of_peer(self, role: str, broker_id: int | None, address: str) -> NodeTeller:
        """
        Returns the teller of a link.

        Args:
            role: of the peer, ``master`` or ``slave``.
            broker_id: of the peer; ``None``: it is not known.
            address: of the peer.
        """
        more = {"peer_role": role, "peer_id": broker_id, "address": address}
        return replace(self, more=more)
