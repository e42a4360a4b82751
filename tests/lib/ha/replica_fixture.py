"""
A stage for replicas: each with a real store and real links, and one scripted
controller that says what a test wants it to say.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from lib.store.stores import SEGMENT
from pystore.events.event import Event
from pystore.events.node_events import NodeEvent
from pystore.ha.config import ReplicaConfig
from pystore.ha.decision import Decision
from pystore.ha.insync.set_change import SetChange
from pystore.ha.master.insync_monitor import SetRefusal
from pystore.ha.master.lease import UNLEASED, Lease
from pystore.ha.replica import Replica
from pystore.ha.result import ReplicaStatus
from pystore.ha.role import Role
from pystore.ha.slave.backoff import BackOffConfig
from pystore.replicaset import AgreedSet, Member, ids_of

__all__ = ["WAIT_MS", "ReplicaStage", "ScriptedController"]

WAIT_MS = 60_000


@dataclass
class ScriptedController:
    """
    Agrees to every change of the set, and notes what it is told.

    Attributes:
        unheard: brokers that it does not hear, so it refuses to add them to the set.
        agreed: the set.
        resigned: each epoch that was given up, and why.
        changed: every set that it agreed to.
        told_epochs: each newer epoch that a slave told a master.
    """

    unheard: frozenset[int] = frozenset()
    agreed: AgreedSet = field(default_factory=lambda: AgreedSet(frozenset(), 0))
    resigned: queue.SimpleQueue[tuple[int, str]] = field(
        default_factory=queue.SimpleQueue
    )
    changed: queue.SimpleQueue[AgreedSet] = field(default_factory=queue.SimpleQueue)
    told_epochs: queue.SimpleQueue[int] = field(default_factory=queue.SimpleQueue)

    def broker_ids(self) -> frozenset[int]:
        """
        Knows three.
        """
        return frozenset({1, 2, 3})

    def ask(self, change: SetChange) -> AgreedSet | SetRefusal:
        """
        Agrees, unless it does not hear a broker that would be added.
        """
        unheard = self.unheard & ids_of(change.members - self.agreed.members)
        if unheard:
            return SetRefusal(unheard)
        self.agreed = AgreedSet(
            change.members, self.agreed.set_epoch + 1, change.candidates
        )
        self.changed.put(self.agreed)
        return self.agreed

    def newer_epoch_told(self, epoch: int) -> None:
        """
        Notes it.
        """
        self.told_epochs.put(epoch)

    def resign(self, epoch: int, reason: str) -> None:
        """
        Notes it.
        """
        self.resigned.put((epoch, reason))

    def wait_for(self, broker_ids: set[int]) -> None:
        """
        Waits until the set has these members.
        """
        while {one.broker_id for one in self.agreed.members} != broker_ids:
            self.changed.get(timeout=WAIT_MS / 1000)


class ReplicaStage:
    """
    A set of replicas. A context manager, which closes them.

    Args:
        root: where their stores are, or will be.
        **changes: of every place.

    Attributes:
        controller: of all of them.
        replicas: by broker id.
        said: every line for people, that of each event as well.
        events: of all of them.
    """

    def __init__(self, root: Path, **changes: Any) -> None:
        self.controller = ScriptedController()
        self.replicas: dict[int, Replica] = {}
        self.said: list[str] = []
        self.events: list[NodeEvent] = []
        self._root = root
        self._changes = changes
        self._open = ExitStack()

    def __enter__(self) -> ReplicaStage:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def _hear(self, event: Event) -> None:
        assert isinstance(event, NodeEvent)
        self.events.append(event)
        self.said.append(event.text)

    def store(self, broker_id: int) -> Path:
        """
        Returns where a store is.
        """
        return self._root / f"store{broker_id}"

    def start(self, broker_id: int, **changes: Any) -> Replica:
        """
        A process begins: the replica opens its store.
        """
        place = ReplicaConfig(
            "c",
            "b",
            broker_id,
            **{
                "pace": BackOffConfig(10, 100),
                "retry_ms": 10,
                "say": self.said.append,
                "on_event": self._hear,
                **self._changes,
                **changes,
            },
        )
        replica = Replica(
            self.store(broker_id),
            place,
            self.controller,
            segment_size=SEGMENT,
            flush_interval_ms=10,
        )
        self.replicas[broker_id] = self._open.enter_context(replica)
        return replica

    def elect(
        self, epoch: int, master: Replica, lease: Lease = UNLEASED
    ) -> ReplicaStatus:
        """
        The controller elects, with the rest of the set as candidates, and tells
        everybody when the master is there.
        """
        before = self.controller.agreed
        others = (before.members | before.candidates) - {master.me}
        agreed = AgreedSet(frozenset({master.me}), before.set_epoch + 1, others)
        self.controller.agreed = agreed
        master.decided(Decision(epoch, master.me, "", agreed, lease))
        standing = self.wait_for(master, Role.MASTER, epoch)
        told = Decision(epoch, master.me, standing.address, agreed)
        for replica in self.replicas.values():
            replica.decided(told)
        return standing

    def wait_for(self, replica: Replica, role: Role, epoch: int) -> ReplicaStatus:
        """
        Waits until a replica has a role.
        """
        return self.wait_until(
            replica, lambda stands: (stands.role, stands.epoch) == (role, epoch)
        )

    def wait_until(
        self, replica: Replica, is_so: Callable[[ReplicaStatus], bool]
    ) -> ReplicaStatus:
        """
        Waits until a replica stands as wanted.
        """
        standing = replica.wait_for(is_so, WAIT_MS)
        assert is_so(standing), (standing, self.said)
        return standing

    def member(self, broker_id: int) -> Member:
        """
        Returns a replica as it is listed.
        """
        return self.replicas[broker_id].me
