"""
A stage for masters: a real service over a real store, and real followers, on loopback.

Waiting is done by what the service offers: an ack, the end of a link's thread. The
clock of a service can be moved on by a test.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from lib.ha.told_reasons import reasons_to
from lib.store.stores import SEGMENT
from lib.values import replace
from pystore.clocks import clock_ms
from pystore.errors import PystoreError
from pystore.events.event import Event
from pystore.events.node_events import LinkClosed, LinkFailed
from pystore.events.node_teller import NodeTeller
from pystore.ha.insync.set_change import SetChange
from pystore.ha.master.config import MasterConfig
from pystore.ha.master.service import MasterService, Mastership
from pystore.ha.slave.backoff import BackOff
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.effects import SlaveProtocol
from pystore.ha.slave.follower import Follower, FollowerEnvironment, FollowerStatus
from pystore.ha.slave.protocol_legacy import LegacySlaveProtocol
from pystore.ha.slave.protocol_v3 import V3SlaveProtocol
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.ha.slave.transport import MasterStream, connect
from pystore.replicaset import AgreedSet, Member
from pystore.store.commit_log import CommitLog

__all__ = [
    "EPOCH",
    "WAIT_MS",
    "Clock",
    "Controller",
    "MasterStage",
    "Slave",
    "data_of",
]

EPOCH = 3
WAIT_MS = 60_000


@dataclass
class Controller:
    """
    Agrees to every change of the set.

    Attributes:
        agreed: the set.
        asked: every change that was asked for.
        changed: is released with each.
    """

    agreed: AgreedSet = field(
        default_factory=lambda: AgreedSet(frozenset({Member(1)}), 1)
    )
    asked: list[SetChange] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def ask(self, change: SetChange) -> AgreedSet:
        """
        Agrees.
        """
        with self.changed:
            self.asked.append(change)
            self.agreed = AgreedSet(
                change.members, self.agreed.set_epoch + 1, change.candidates
            )
            self.changed.notify_all()
        return self.agreed

    def wait_for(self, broker_ids: set[int]) -> None:
        """
        Waits until the set has these members.
        """
        with self.changed:
            assert self.changed.wait_for(
                lambda: {one.broker_id for one in self.agreed.members} == broker_ids,
                WAIT_MS / 1000,
            ), self.agreed


class Clock:
    """
    The clock of a service, or of a slave.
    """

    def __init__(self) -> None:
        self._skipped_ms = 0
        self._frozen_ms: int | None = None

    def now_ms(self) -> int:
        """
        The time.
        """
        real_ms = clock_ms() if self._frozen_ms is None else self._frozen_ms
        return real_ms + self._skipped_ms

    def freeze(self) -> None:
        """
        It stands still from now on, but for `skip`.
        """
        self._frozen_ms = clock_ms()

    def skip(self, skipped_ms: int) -> None:
        """
        It moves on.
        """
        self._skipped_ms += skipped_ms


def _hear(events: list[Event], said: list[str], event: Event) -> None:
    # No method: the service would refer to the stage, and no reference count ends that.
    events.append(event)
    if isinstance(event, LinkClosed | LinkFailed):
        said.append(f"{event.address}: {event.reason}")


class MasterStage:
    """
    A master. A context manager.

    Args:
        root: where its store is, or will be.
        config: what to change in its terms.
        **changes: what to change in its mastership.

    Attributes:
        log: the master's.
        service: at work.
        controller: of the set.
        said: every line for people, and why each link ended.
        events: all of them.
        clock: the service's.
    """

    def __init__(
        self, root: Path, config: dict[str, Any] | None = None, **changes: Any
    ) -> None:
        self.said: list[str] = []
        self.events: list[Event] = []
        self.clock = Clock()
        self.controller = Controller()
        self.log = CommitLog(root, segment_size=SEGMENT)
        if self.log.epochs.last_epoch < EPOCH:
            self.log.begin_epoch(EPOCH)
        own = MasterConfig("c", "b", 1, EPOCH, SEGMENT)
        ship = Mastership(
            config=replace(own, **(config or {})),
            me=Member(1),
            agreed=self.controller.agreed,
            broker_ids=lambda: frozenset({1, 2, 3}),
            ask=self.controller.ask,
            say=self.said.append,
            tell=NodeTeller("c", "b", 1, partial(_hear, self.events, self.said)),
        )
        try:
            self.service = MasterService(
                self.log, replace(ship, **changes), self.clock.now_ms
            )
        except PystoreError:
            # No other thread has the log.
            self.log.close()
            raise

    def __enter__(self) -> MasterStage:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.service.close()
        self.log.close()

    def skip(self, skipped_ms: int) -> None:
        """
        Moves the clock on, and wakes all sleeping threads.
        """
        self.clock.skip(skipped_ms)
        self.service.monitor.notifier.notify()

    def wait_for_links(self, count: int) -> None:
        """
        Waits until so many links are open.
        """
        self._wait_until(lambda: len(self.service.links()) == count)

    def wait_for_ack(self, offset: int) -> None:
        """
        Waits until some slave has acknowledged so much.
        """
        self._wait_until(
            lambda: any(link.acked_offset == offset for link in self.service.links())
        )

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        until_ms = clock_ms() + WAIT_MS
        while not is_so():
            assert clock_ms() < until_ms, self.said
            self.service.monitor.rest(1)

    def dial(self) -> socket.socket:
        """
        Returns a socket that is connected to the service.
        """
        return socket.create_connection(self.service.address, timeout=WAIT_MS / 1000)


class Slave:
    """
    A follower of a service, in a thread. A context manager.

    Args:
        address: of the service.
        root: of its store.
        broker_id: its own.
        is_legacy: whether it speaks as a Java slave.
        may_wipe: whether no record depends on it.
        now_ms: its clock.
        around: what to change in the follower's environment.
        **terms: what to change in its terms.

    Attributes:
        log: the replica.
        said: why it had no link.
    """

    def __init__(
        self,
        address: tuple[str, int],
        root: Path,
        broker_id: int = 2,
        *,
        is_legacy: bool = False,
        may_wipe: bool = True,
        now_ms: Callable[[], int] = clock_ms,
        around: dict[str, Any] | None = None,
        **config: Any,
    ) -> None:
        self.log = ReplicaLog(root, segment_size=SEGMENT, flush_interval_ms=10)
        self.said: list[str] = []
        own = SlaveConfig(
            "c",
            "b",
            broker_id,
            epoch=EPOCH,
            incarnation=1,
            may_wipe=lambda: may_wipe,
        )
        own = replace(own, **config)
        make: Callable[[], SlaveProtocol] = lambda: (  # noqa: E731
            LegacySlaveProtocol(own) if is_legacy else V3SlaveProtocol(own)
        )
        self._stopping = threading.Event()
        self._now_ms = now_ms
        environment = FollowerEnvironment(
            dial=lambda: self._dial(address),
            make=make,
            now_ms=now_ms,
            pause=lambda ms: (self._stopping.wait(ms / 1000), None)[1],
            is_stopping=self._stopping.is_set,
            tell=reasons_to(self.said),
        )
        environment = replace(environment, **(around or {}))
        self._follower = Follower(self.log, environment, BackOff(lambda: 0.0, 10, 100))
        self._thread = threading.Thread(target=self._follower.run)
        self._thread.start()

    def _dial(self, address: tuple[str, int]) -> MasterStream:
        return connect(*address, self._stopping.is_set, self._now_ms)

    def status(self) -> FollowerStatus:
        """
        How it stands.
        """
        return self._follower.status()

    def __enter__(self) -> Slave:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """
        Leaves, and closes its store; again is fine.
        """
        self._stopping.set()
        self._thread.join()
        self.log.close()


def data_of(root: Path) -> bytes:
    """
    Returns all bytes of a store's log.
    """
    with CommitLog(root, mode="r") as log:
        return b"".join(bytes(block.view) for block in log.blocks())
