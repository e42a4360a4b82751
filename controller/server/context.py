"""
What the parts of one controller have in common.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from pystore.controller.liveness.heartbeats import Heartbeats
from pystore.controller.server.dynamic_config import DynamicConfig
from pystore.controller.server.term import LeaderTerm
from pystore.records.record_store import RecordStore
from pystore.remoting.connection import Connection

__all__ = ["ControllerContext"]


@dataclass(slots=True)
class ControllerContext:
    """
    One controller, as it is now. For one event loop.

    Attributes:
        settings: with what was changed.
        say: one line for people.
        clock_ns: boot time, the one that terms are told by.
        draw: chance, for pauses.
        address: under which others reach it; empty: it does not listen yet.
        liveness: the heartbeats, also while it does not lead.
        connections: that stand, by the number at which they were accepted.
        store: the session with the record store; ``None``: there is none.
        leader: its term; ``None``: it does not lead.
    """

    settings: DynamicConfig
    say: Callable[[str], object]
    clock_ns: Callable[[], int]
    draw: random.Random
    address: str = ""
    liveness: Heartbeats = field(default_factory=Heartbeats)
    connections: dict[int, Connection] = field(default_factory=dict)
    store: RecordStore | None = None
    leader: LeaderTerm | None = None
