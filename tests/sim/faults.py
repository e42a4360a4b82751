"""
Faults of a virtual set: each is a task that does harm, waits, and ends the harm.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from random import Random

from sim.broker import Broker
from sim.broker_set import BrokerSet
from sim.clients import Clients
from sim.controller import Controller
from sim.disk import FAILED, FULL, STILL, WELL
from sim.network import RECORDS
from sim.world import MS, SECOND, Process, Task

__all__ = ["DESTRUCTIVE", "FAULTS", "Fault", "Surroundings"]

_RETRY_NS = 300 * MS
_TRIES = 300


class Surroundings:
    """
    What faults need.

    Attributes:
        brokers: the set.
        clients: of the set.
        draw: chance.
    """

    def __init__(self, brokers: BrokerSet, clients: Clients, draw: Random) -> None:
        self.brokers = brokers
        self.clients = clients
        self.draw = draw

    def master(self) -> Broker:
        """
        The master, or any broker if none is known.
        """
        masters = [
            self.brokers.brokers[name]
            for name, now in sorted(self.clients.known.items())
            if now["role"] == "master"
        ]
        return self.draw.choice(masters or list(self.brokers.brokers.values()))

    def slave(self) -> Broker:
        """
        Another broker than the master.
        """
        master = self.master()
        others = [one for one in self.brokers.brokers.values() if one is not master]
        return self.draw.choice(others or [master])

    def broker(self) -> Broker:
        """
        Any broker.
        """
        return self.draw.choice(list(self.brokers.brokers.values()))

    def is_spare(self, broker: Broker) -> bool:
        """
        Whether the set survives the loss of a broker's log without an operator: a
        member of the SyncStateSet with a log as long as its own is left, which has what
        was acknowledged, and may be elected (B11). One that was just killed may have
        been left out of the set.
        """
        known = self.clients.known
        mine = known.get(broker.name)
        members: set[int] = set()
        for now in known.values():
            if now["role"] == "master":
                members = set(now["syncStateSet"])
        return mine is not None and any(
            now["brokerId"] in members and now["minOffset"] <= mine["minOffset"]
            for name, now in known.items()
            if name != broker.name and self.brokers.brokers[name].is_up
        )

    def controller(self) -> Controller:
        """
        Any controller.
        """
        return self.draw.choice(self.brokers.controllers)

    def hosts(self) -> list[str]:
        """
        All that a link can have at its ends.
        """
        machines = (*self.brokers.brokers.values(), *self.brokers.controllers)
        return [*(one.machine.host for one in machines), RECORDS]

    def hold(self) -> int:
        """
        Draws how long a fault lasts, in ns.
        """
        seconds = self.draw.choice([0.05, 0.5, 1, 2, 4, 8])
        return int(seconds * SECOND * self.draw.uniform(0.5, 1))

    def start(self, broker: Broker) -> None:
        """
        Starts a broker, unless another fault did.
        """
        if not broker.is_up:
            broker.start()

    def pauses(self, process: Process | None) -> Task:
        """
        A process does nothing for a while, as by SIGSTOP.
        """
        hold = self.hold()
        if process is not None:
            process.pause(hold)
        yield hold

    def readmit(self, broker: Broker) -> Task:
        """
        An operator readmits a broker that says that it needs it.
        """
        for _ in range(_TRIES):
            yield _RETRY_NS
            self.start(broker)
            now = self.clients.known.get(broker.name)
            if now is None or now["brokerId"] is None:
                continue
            number = now["brokerId"]
            if "readmitBroker" in now["problem"]:
                words = "-bn", "b", "-b", str(number)
                _, text = yield from self.brokers.order("readmitBroker", *words)
                if "last member" in text:
                    unclean = "electMaster", *words, "--unclean", "--yes"
                    yield from self.brokers.order(*unclean)
            elif number in now["syncStateSet"]:
                return
        raise AssertionError(f"{broker.name} is not readmitted")


Fault = Callable[[Surroundings], Task]


def broker_is_killed(around: Surroundings) -> Task:
    """
    Master or slave, by SIGKILL.
    """
    broker = around.draw.choice([around.master(), around.slave()])
    broker.kill()
    yield around.hold()
    around.start(broker)


def all_brokers_are_killed(around: Surroundings) -> Task:
    """
    One after the other, and they start in another order.
    """
    brokers = list(around.brokers.brokers.values())
    for one in around.draw.sample(brokers, len(brokers)):
        one.kill()
        yield around.draw.choice([0, 10 * MS, 500 * MS])
    yield around.hold()
    for one in around.draw.sample(brokers, len(brokers)):
        around.start(one)
        yield around.draw.choice([0, 10 * MS, 2 * SECOND])


def broker_is_stopped(around: Surroundings) -> Task:
    """
    In order, and started again.
    """
    broker = around.broker()
    broker.stop()
    while broker.is_up:
        yield 10 * MS
    yield around.hold()
    around.start(broker)


def power_of_a_broker_is_cut(around: Surroundings) -> Task:
    """
    Bytes that were not on disk may be lost; of the only one that has older records they
    are not, which the set has to find out (B11).
    """
    broker = around.broker()
    # Otherwise only an operator could have it elected: it may have lost what it acked,
    # and no other has the older records (B2).
    loss = around.draw.choice([0.0, 0.5, 1.0]) if around.is_spare(broker) else 0.0
    broker.cut_power(loss)
    yield around.hold()
    around.start(broker)


def disk_stands_still(around: Surroundings) -> Task:
    """
    No sync ends.
    """
    broker = around.broker()
    broker.set_disk(STILL)
    yield around.hold()
    broker.set_disk(WELL)


def disk_is_full(around: Surroundings) -> Task:
    """
    Of master or slave.
    """
    broker = around.broker()
    broker.set_disk(FULL)
    yield around.hold()
    broker.set_disk(WELL)


def disk_fails(around: Surroundings) -> Task:
    """
    A sync of master or slave fails; later an operator starts the broker again.
    """
    broker = around.broker()
    broker.set_disk(FAILED)
    yield around.hold()
    broker.kill()
    broker.disk = WELL
    yield around.draw.choice([10 * MS, 2 * SECOND])
    around.start(broker)


def broker_is_paused(around: Surroundings) -> Task:
    """
    Master or slave, at times beyond its lease.
    """
    broker = around.draw.choice([around.master(), around.slave()])
    yield from around.pauses(broker.process)


def controller_is_paused(around: Surroundings) -> Task:
    """
    At times beyond its session.
    """
    yield from around.pauses(around.controller().process)


def controller_is_killed(around: Surroundings) -> Task:
    """
    By SIGKILL.
    """
    controller = around.controller()
    controller.kill()
    yield around.hold()
    if not controller.is_up:
        controller.start()


def sessions_are_lost(around: Surroundings) -> Task:
    """
    The record store ends the sessions of all controllers.
    """
    around.brokers.records.lose_sessions()
    yield 0


def records_stand_still(around: Surroundings) -> Task:
    """
    The record store answers nothing.
    """
    around.brokers.records.is_still = True
    yield around.hold()
    around.brokers.records.is_still = False


def answers_of_the_records_are_lost(around: Surroundings) -> Task:
    """
    Some requests, and some answers.
    """
    around.brokers.records.loss = around.draw.choice([5, 30])
    yield around.hold()
    around.brokers.records.loss = 0


def _cut(around: Surroundings, *pairs: tuple[str, str]) -> Task:
    network = around.brokers.network
    for pair in pairs:
        network.cut(*pair)
    yield around.hold()
    for pair in pairs:
        network.join(*pair)


def link_is_cut(around: Surroundings) -> Task:
    """
    In one direction or in both, between any two machines.
    """
    one, other = around.draw.sample(around.hosts(), 2)
    ways = [(one, other), (other, one)][: around.draw.choice([1, 2])]
    yield from _cut(around, *ways)


def machine_is_cut_off(around: Surroundings) -> Task:
    """
    It hears no other machine, or none hears it, or both.
    """
    one, which = around.draw.choice(around.hosts()), around.draw.choice([1, 2, 3])
    others = [host for host in around.hosts() if host != one]
    ways = [(one, host) for host in others if which & 1]
    ways += [(host, one) for host in others if which & 2]
    yield from _cut(around, *ways)


def broker_loses_the_controllers(around: Surroundings) -> Task:
    """
    Its set hears it on.
    """
    host = around.draw.choice([around.master(), around.slave()]).machine.host
    controllers = [one.machine.host for one in around.brokers.controllers]
    ways = [(host, one) for one in controllers] + [(one, host) for one in controllers]
    yield from _cut(around, *ways)


def network_is_slow(around: Surroundings) -> Task:
    """
    All of it.
    """
    network = around.brokers.network
    network.delay_ns = around.draw.choice([20, 100, 400]) * MS
    yield around.hold()
    network.delay_ns = MS


def wall_clock_steps(around: Surroundings) -> Task:
    """
    Of one machine, ahead or back, for good.
    """
    machines = (*around.brokers.brokers.values(), *around.brokers.controllers)
    machine = around.draw.choice(machines).machine
    seconds = around.draw.choice([1, 10, 3_600, 100_000])
    machine.wall_ns += around.draw.choice([-1, 1]) * seconds * SECOND
    yield 0


def mastership_is_handed_over(around: Surroundings) -> Task:
    """
    By an operator, to any broker; it may be refused.
    """
    number = str(around.draw.randint(1, len(around.brokers.brokers)))
    yield from around.brokers.order("switchMaster", "-bn", "b", "-b", number)


def master_is_replaced_by_force(around: Surroundings) -> Task:
    """
    It does not hear the controllers, and an operator has another broker elected.
    """
    host = around.master().machine.host
    controllers = [one.machine.host for one in around.brokers.controllers]
    for one in controllers:
        around.brokers.network.cut(one, host)
        around.brokers.network.cut(host, one)
    count = len(around.brokers.brokers)
    for number in around.draw.sample(range(1, count + 1), count):
        words = "-bn", "b", "-b", str(number)
        yield from around.brokers.order("electMaster", *words)
    yield around.hold()
    for one in controllers:
        around.brokers.network.join(one, host)
        around.brokers.network.join(host, one)


def another_controller_leads(around: Surroundings) -> Task:
    """
    By an operator.
    """
    yield from around.brokers.order("transferController")


def slave_is_an_older_copy(around: Surroundings) -> Task:
    """
    It is killed, its store is copied and runs on; later it is replaced by the copy,
    and an operator readmits it.
    """
    broker = around.slave()
    copy = broker.store.with_name("copy")
    broker.kill()
    broker.copy_store(copy)
    around.start(broker)
    yield around.hold()
    if not around.is_spare(broker):
        # It may be the only one that has what was acknowledged since.
        return
    broker.kill()
    shutil.rmtree(broker.store)
    copy.rename(broker.store)
    broker.synced = 0
    around.start(broker)
    yield from around.readmit(broker)


def disk_is_cloned(around: Surroundings) -> Task:
    """
    A copy of the disk of a living broker runs on another machine.
    """
    broker = around.broker()
    clone = around.brokers.clone_of(broker)
    broker.copy_store(clone.store)
    clone.start()
    yield around.hold()
    clone.kill()
    shutil.rmtree(clone.store)
    yield from around.readmit(broker)


def slave_gets_an_empty_disk(around: Surroundings) -> Task:
    """
    It is killed, its store is lost, and it comes back with another id; an operator
    removes the old one.
    """
    broker = around.slave()
    old = around.clients.known.get(broker.name, {}).get("brokerId")
    if not around.is_spare(broker):
        return
    broker.kill()
    shutil.rmtree(broker.store)
    broker.synced = 0
    around.start(broker)
    if old is None:
        return
    words = "-c", "DefaultCluster", "-bn", "b", "-b", str(old)
    for _ in range(_TRIES):
        yield _RETRY_NS
        code, _ = yield from around.brokers.order("cleanBrokerMetadata", *words)
        if not code:
            return
    raise AssertionError(f"broker {old} is not removed")


DESTRUCTIVE: frozenset[Fault] = frozenset(
    {
        power_of_a_broker_is_cut,
        slave_is_an_older_copy,
        disk_is_cloned,
        slave_gets_an_empty_disk,
    }
)
"""
Bytes of one broker are lost: while the set is whole, and not two at a time.
"""

FAULTS: tuple[Fault, ...] = (
    broker_is_killed,
    all_brokers_are_killed,
    broker_is_stopped,
    disk_stands_still,
    disk_is_full,
    disk_fails,
    broker_is_paused,
    controller_is_paused,
    controller_is_killed,
    sessions_are_lost,
    records_stand_still,
    answers_of_the_records_are_lost,
    link_is_cut,
    machine_is_cut_off,
    broker_loses_the_controllers,
    network_is_slow,
    wall_clock_steps,
    mastership_is_handed_over,
    master_is_replaced_by_force,
    another_controller_leads,
    power_of_a_broker_is_cut,
    slave_is_an_older_copy,
    disk_is_cloned,
    slave_gets_an_empty_disk,
)
