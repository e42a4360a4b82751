"""
The state that the parts of one controller share.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from pystore.controller.liveness.heartbeats import Heartbeats
from pystore.controller.model.state import SetKey
from pystore.controller.server.controller_events import log_event
from pystore.controller.server.dynamic_config import DynamicConfig
from pystore.controller.server.store_threads import StoreThreads
from pystore.controller.server.term import LeaderTerm
from pystore.events.event import Event
from pystore.records.record_store import RecordStore
from pystore.remoting.connection import Connection

__all__ = ["ControllerContext"]


@dataclass(slots=True)
class ControllerContext:
    """
    The shared state of one controller. For one event loop.

    Attributes:
        settings: with the changes of administrators.
        say: receives one line for people.
        clock_ns: boot time, the clock of the terms.
        draw: randomness for pauses.
        address: where brokers and controllers reach it; empty: it does not listen yet.
        tell: receives each event.
        liveness: the heartbeats, also while it does not lead.
        connections: the open ones, by the number in which they were accepted.
        threads: of the calls to the record store.
        store: the session with the record store; ``None``: there is none.
        leader: its term; ``None``: it does not lead.
        cluster_id: of the record store; empty: this controller never led, or the store
            is empty.
    """

    settings: DynamicConfig
    say: Callable[[str], object]
    clock_ns: Callable[[], int]
    draw: random.Random
    address: str = ""
    tell: Callable[[Event], object] = log_event
    liveness: Heartbeats = field(init=False)
    connections: dict[int, Connection] = field(default_factory=dict)
    threads: StoreThreads = field(default_factory=StoreThreads)
    store: RecordStore | None = None
    leader: LeaderTerm | None = None
    cluster_id: str = ""

    def __post_init__(self) -> None:
        self.liveness = Heartbeats(self.is_registered)

    def is_registered(self, key: SetKey, broker_id: int) -> bool | None:
        """
        Returns whether a broker has a record; ``None``: this controller does not lead,
        and does not know.
        """
        if self.leader is None:
            return None
        state = self.leader.sets.known(key)
        return state is not None and state.replica(broker_id) is not None
