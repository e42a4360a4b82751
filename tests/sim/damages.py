"""
Faults of a virtual set with AutoRecovery: damage of copies, operators, processes that
are killed between any two of their steps.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from random import Random

from sim.broker import Broker
from sim.broker_set import BrokerSet
from sim.clients import Clients
from sim.copies import Copies
from sim.faults import (
    Surroundings,
    another_controller_leads,
    answers_of_the_records_are_lost,
    broker_is_killed,
    broker_is_paused,
    broker_is_stopped,
    broker_loses_the_controllers,
    controller_is_killed,
    controller_is_paused,
    disk_is_full,
    disk_stands_still,
    link_is_cut,
    machine_is_cut_off,
    mastership_is_handed_over,
    network_is_slow,
    records_stand_still,
    sessions_are_lost,
    wall_clock_steps,
)
from sim.place import Place
from sim.recovery import Recovery
from sim.world import MS, Task

from pystore.autorecovery.mark import Missing, Priority, Reason
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.segment_key import SegmentKey
from pystore.records.memory import MemoryStore

__all__ = [
    "DAMAGES",
    "QUICK",
    "RECOVERY_FAULTS",
    "RecoveryFault",
    "RecoverySurroundings",
    "begin_late",
]

QUICK = {
    "delay_s": 20,
    "broker_check_s": 10,
    "open_grace_s": 3,
    "backoff_s": 1,
    "backoff_max_s": 8,
    "dead_after": 4,
    "ageing_alarm_s": 60,
}
"""Settings of AutoRecovery: what takes minutes takes seconds."""

_STEPS_MAX = 60
_RETRY_NS = 300 * MS
_TRIES = 300
_YEAR_2026_MS = 1_767_225_600_000


class RecoverySurroundings(Surroundings):
    """
    What faults need.

    Attributes:
        copies: of the set.
        queue: of marked segments, as an operator and a verification have it.
    """

    def __init__(
        self, brokers: BrokerSet, clients: Clients, draw: Random, copies: Copies
    ) -> None:
        super().__init__(brokers, clients, draw)
        self.copies = copies
        self.queue = UnderReplicationQueue(
            MemoryStore(brokers.records.space), self._now_ms
        )

    def _now_ms(self) -> int:
        return _YEAR_2026_MS + self.brokers.world.now_ns // MS

    def hosts(self) -> list[str]:
        """
        See `Surroundings.hosts`.
        """
        return [
            *super().hosts(),
            *(one.machine.host for one in self.brokers.recoveries),
        ]

    def is_spare(self, broker: Broker) -> bool:
        """
        See `Surroundings.is_spare`; not where a replica cannot be opened.
        """
        known = self.clients.known.values()
        is_any_ill = any(now["minOffset"] is None for now in known)
        return not is_any_ill and super().is_spare(broker)

    def recovery(self) -> Recovery:
        """
        Any process of AutoRecovery.
        """
        return self.draw.choice(self.brokers.recoveries)

    def places(self) -> list[Place]:
        """
        All that run a process.
        """
        brokers = self.brokers
        return [*brokers.brokers.values(), *brokers.controllers, *brokers.recoveries]

    def verify(self) -> None:
        """
        A verification reads all copies of living brokers, and marks bad blocks.
        """
        for name, base in sorted(self.copies.damaged):
            number = self.clients.known.get(name, {}).get("brokerId")
            if number is not None:
                fact = Missing(Reason.CORRUPT, "a verification found it", blocks=(0,))
                key = SegmentKey("DefaultCluster", "b", base)
                rank = Priority.FEWER_THAN_WANTED
                self.queue.mark(key, {number: fact}, rank, by="verification")


RecoveryFault = Callable[[RecoverySurroundings], Task]


def bit_rots(around: RecoverySurroundings) -> Task:
    """
    A bit of one copy is another one.
    """
    place = around.copies.choose(around.draw)
    if place is not None:
        around.copies.rot(place, around.draw)
    yield 0


def segment_vanishes(around: RecoverySurroundings) -> Task:
    """
    The file of one copy is gone.
    """
    place = around.copies.choose(around.draw)
    if place is not None:
        around.copies.remove(place)
    yield 0


def segment_is_cut_short(around: RecoverySurroundings) -> Task:
    """
    The file of one copy ends early.
    """
    place = around.copies.choose(around.draw)
    if place is not None:
        around.copies.shorten(place, around.draw)
    yield 0


def all_copies_are_verified(around: RecoverySurroundings) -> Task:
    """
    What is bad is marked.
    """
    around.verify()
    yield 0


def operator_asks_for_a_check(around: RecoverySurroundings) -> Task:
    """
    Now, whatever the brake says.
    """
    around.queue.kick("operator", force=True)
    yield 0


def recovery_is_disabled(around: RecoverySurroundings) -> Task:
    """
    For a while.
    """
    around.queue.disable("operator")
    yield around.hold()
    around.queue.enable()


def recovery_is_killed(around: RecoverySurroundings) -> Task:
    """
    One process of AutoRecovery, by SIGKILL.
    """
    one = around.recovery()
    one.kill()
    yield around.hold()
    if not one.is_up:
        one.start()


def recovery_is_paused(around: RecoverySurroundings) -> Task:
    """
    At times beyond its session.
    """
    yield from around.pauses(around.recovery().process)


def process_is_killed_between_two_steps(around: RecoverySurroundings) -> Task:
    """
    Any process, after some more steps of its own.
    """
    place = around.draw.choice(around.places())
    if place.process is not None:
        place.process.on_last_step = place.kill
        place.process.steps_left = around.draw.randrange(_STEPS_MAX)
    yield around.hold()
    if place.process is not None:
        place.process.steps_left = None
    if not place.is_up:
        place.start()


def old_segments_are_deleted(around: RecoverySurroundings) -> Task:
    """
    By the retention of one broker; segments without any good copy are told as text.
    """
    broker = around.broker()
    is_last = around.copies.has_last(broker.name)
    if broker.process is not None and broker.is_up and not is_last:
        around.copies.retained.add(broker.name)
        broker.process.deliver("retain")
    yield 0


def slave_begins_late(around: RecoverySurroundings) -> Task:
    """
    It loses its disk, comes back with another id, begins with the last segment, and is
    filled; an operator removes the old id.
    """
    broker = around.slave()
    if around.copies.has_last(broker.name) or not around.is_spare(broker):
        return
    yield from begin_late(around, broker.name)


def begin_late(around: RecoverySurroundings, name: str) -> Task:
    """
    An operator puts a new disk into a broker, and removes its old id.
    """
    broker, copies = around.brokers.brokers[name], around.copies
    state, address = around.brokers.state(), f"{broker.machine.host}:"
    assert state is not None
    old = [one.broker_id for one in state.replicas if one.address.startswith(address)]
    broker.kill()
    shutil.rmtree(broker.store)
    broker.synced = 0
    copies.emptied(broker.name)
    around.clients.known.pop(broker.name, None)
    around.start(broker)
    for number in old:
        yield from _clean(around, number)


def _clean(around: RecoverySurroundings, number: int) -> Task:
    words = "-c", "DefaultCluster", "-bn", "b", "-b", str(number)
    for _ in range(_TRIES):
        yield _RETRY_NS
        code, _ = yield from around.brokers.order("cleanBrokerMetadata", *words)
        if not code:
            return
    raise AssertionError(f"broker {number} is not removed")


DAMAGES: tuple[RecoveryFault, ...] = (bit_rots, segment_vanishes, segment_is_cut_short)
"""One copy of a segment that has another good one."""

RECOVERY_FAULTS: tuple[RecoveryFault, ...] = (
    all_copies_are_verified,
    operator_asks_for_a_check,
    recovery_is_disabled,
    recovery_is_killed,
    recovery_is_killed,
    recovery_is_paused,
    process_is_killed_between_two_steps,
    process_is_killed_between_two_steps,
    old_segments_are_deleted,
    slave_begins_late,
    another_controller_leads,
    answers_of_the_records_are_lost,
    broker_is_killed,
    broker_is_paused,
    broker_is_stopped,
    broker_loses_the_controllers,
    controller_is_killed,
    controller_is_paused,
    disk_is_full,
    disk_stands_still,
    link_is_cut,
    machine_is_cut_off,
    mastership_is_handed_over,
    network_is_slow,
    records_stand_still,
    sessions_are_lost,
    wall_clock_steps,
)
"""Those of a set with AutoRecovery, two at a time at most."""
