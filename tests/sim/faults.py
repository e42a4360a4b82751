"""
Faults by chance, each with an end, and clients meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from sim.cluster import Cluster
from sim.messages import Ended
from sim.network import RECORDS, Weather
from sim.setting import draw_setting

from pystore.controller.model.commands import Elect, Trigger
from pystore.ha.insync.ack import Ack

__all__ = ["APPENDS", "FAULTS", "run_seed"]

APPENDS = 140
FAULTS = 9
"""In a simulated minute in which anything may happen; not all are quiet ones."""

_MINUTE_MS = 60_000


class _Chaos:
    """
    Draws faults for one cluster.
    """

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._kinds: list[Callable[[], None]] = [
            *[self._crash] * 4,
            *[self._crash_in_a_step] * 4,
            *[self._partition] * 3,
            *[self._weather] * 2,
            *[self._controller] * 4,
            self._hang_up,
            self._crash_all,
            self._tear,
            self._tear,
            self._pause,
            self._pause,
            self._pause_all,
            self._restart,
            self._deaf,
            self._poison,
            self._no_flush,
            self._full,
            self._exclude,
            self._designate,
            self._retain,
            self._jump,
        ]

    def strike(self) -> None:
        """
        One fault begins.
        """
        self._cluster.faults += 1
        self._random.choice(self._kinds)()

    def _some_id(self) -> int:
        masters = self._cluster.masters()
        # Masters have more to lose.
        if masters and self._random.random() < 0.4:
            return self._random.choice(masters).number
        return self._random.choice(self._cluster.brokers).number

    def _later(self, event: Callable[[], object], most_ms: int = 25_000) -> None:
        shortest = self._random.choice([50, 1_000, 8_000])
        delay = self._random.randint(shortest, max(shortest, most_ms))
        self._cluster.world.clock.after(delay, lambda: (event(), None)[1])

    def _how(self) -> Ended:
        return self._random.choice([Ended.KILLED, Ended.POWER])

    def _crash(self) -> None:
        number = self._some_id()
        self._cluster.end(number, self._how())
        self._later(lambda: self._cluster.start(number))

    def _crash_in_a_step(self) -> None:
        number = self._some_id()
        broker = self._cluster.world.brokers[number]
        broker.fuse = self._random.randint(0, 30), self._how()

        def again() -> None:
            broker.fuse = None
            self._cluster.start(number)

        self._later(again)

    def _crash_all(self) -> None:
        how = self._how()
        for broker in self._cluster.brokers:
            self._cluster.end(broker.number, how)
            self._later(partial(self._cluster.start, broker.number))

    def _restart(self) -> None:
        number = self._some_id()
        self._cluster.end(number, Ended.CLEAN)
        self._later(lambda: self._cluster.start(number), 3_000)

    def _partition(self) -> None:
        processes = self._all_processes()
        self._random.shuffle(processes)
        cut = self._random.randint(1, len(processes) - 1)
        network = self._cluster.world.network
        network.partition(set(processes[:cut]), set(processes[cut:]))
        self._later(network.heal)

    def _all_processes(self) -> list[int]:
        world = self._cluster.world
        return [RECORDS, *world.controllers, *world.brokers]

    def _controller(self) -> None:
        """
        Something befalls a controller, rather the one that leads.
        """
        world, random = self._cluster.world, self._random
        number = random.choice(list(world.controllers))
        leader = world.records.leader()
        if leader is not None and random.random() < 0.7:
            number = leader
        controller = world.controllers[number]
        match random.randrange(7):
            case 0:
                how = random.choice(list(Ended))
                self._cluster.end(number, how)
            case 1:
                controller.fuse = random.randint(0, 20), self._how()
            case 2:
                self._pause_of(number)
            case 3:
                world.network.block(number, RECORDS)
                self._later(world.network.heal)
            case 4:
                world.records.cut_off(number)
                self._later(world.records.heal)
            case 5:
                world.records.lose_session(number)
            case _:
                world.records.losing_answers.add(number)

        def again() -> None:
            controller.fuse = None
            self._cluster.start(number)

        self._later(again)

    def _hang_up(self) -> None:
        broker = self._cluster.world.brokers[self._some_id()]
        if broker.is_up:
            broker.hang_up(is_dead=False)

    def _deaf(self) -> None:
        network = self._cluster.world.network
        source, target = self._random.sample(self._all_processes(), 2)
        network.block(source, target)
        self._later(network.heal)

    def _weather(self) -> None:
        network, random = self._cluster.world.network, self._random
        network.weather = Weather(
            delay_ms=random.choice([3, 50, 700]),
            loss=random.choice([0, 20, 60]),
            doubled=random.choice([0, 30]),
            late_ms=random.choice([5, 500, 20_000]),
        )

        def clear() -> None:
            network.weather = Weather()

        self._later(clear)

    def _tear(self) -> None:
        self._cluster.world.network.break_streams(self._some_id())

    def _pause(self) -> None:
        self._pause_of(self._some_id())

    def _pause_of(self, number: int) -> None:
        lengths = [300, 3_000, 5_000, 10_000, 12_000, 22_000]
        self._cluster.pause(number, self._random.choice(lengths))

    def _pause_all(self) -> None:
        for broker in self._cluster.brokers:
            self._cluster.pause(broker.number, self._random.randint(1, 9_000))

    def _poison(self) -> None:
        number = self._some_id()
        self._cluster.world.brokers[number].store.is_poisoned = True

        def replace() -> None:
            self._cluster.end(number, Ended.POWER)
            self._cluster.start(number)

        self._later(replace)

    def _no_flush(self) -> None:
        broker = self._cluster.world.brokers[self._some_id()]
        broker.flushes = False

        def again() -> None:
            broker.flushes = True

        self._later(again)

    def _full(self) -> None:
        store = self._cluster.world.brokers[self._some_id()].store
        store.is_full = True

        def again() -> None:
            store.is_full = False

        self._later(again)

    def _exclude(self) -> None:
        number = self._some_id()
        number = self._cluster.world.brokers[number].broker_id
        self._cluster.exclude(number, wanted=True)
        self._later(lambda: self._cluster.exclude(number, wanted=False))

    def _designate(self) -> None:
        broker = self._cluster.world.brokers[self._some_id()]
        self._cluster.accepts(Elect(Trigger.OPERATOR, broker.broker_id))

    def _jump(self) -> None:
        broker = self._cluster.world.brokers[self._some_id()]
        broker.clock.wall_ms += self._random.randint(-3_600_000, 3_600_000)

    def _retain(self) -> None:
        self._cluster.retain(self._some_id())


def run_seed(seed: int, minutes: int = 3) -> Cluster:
    """
    Runs one cluster through so many simulated minutes, then lets it come together.

    Raises:
        Violation: of anything that must be true.
    """
    random = Random(seed)
    size, learners = random.choice([3, 3, 3, 4, 5]), random.choice([0, 0, 0, 1])
    cluster = Cluster(
        random.getrandbits(32),
        size,
        learners=learners,
        min_in_sync=random.choice([1, 2]),
        setting=draw_setting(random, size + learners),
    )
    chaos = _Chaos(cluster, random)
    clock = cluster.world.clock
    acks = random.choice([list(Ack), [Ack.ALL], [Ack.ALL_SYNCED, Ack.ALL]])

    end = minutes * _MINUTE_MS

    def client() -> None:
        if cluster.now > end:
            return
        burst = random.choice([1, 1, 1, 1, 6])
        for _ in range(burst):
            cluster.append(random.choice(acks), 8 * random.randint(2, 60))
        clock.after(random.randint(1, burst * 2 * _MINUTE_MS // APPENDS), client)

    def strike() -> None:
        if cluster.now > end:
            return
        chaos.strike()
        clock.after(random.randint(1, 2 * _MINUTE_MS // FAULTS), strike)

    clock.after(2_000, client)
    clock.after(4_000, strike)
    cluster.run(end)
    # What has begun still ends.
    cluster.run(30_000)
    cluster.settle()
    return cluster
