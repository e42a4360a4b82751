"""
Faults: each is done to a running set, and is over when the set is whole again.

A fault takes the set and chance, and is a generator: what comes before its first
`yield` does the harm, what comes after it ends the harm. What an operator has to do
comes after a second one: by then no fault lasts.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from chaos.broker_set import BROKERS, CLONE, SEGMENT, ChaosSet
from chaos.workload import Target

__all__ = ["DESTRUCTIVE", "FAULTS", "LOSING", "PATIENCE_S", "Fault", "Surroundings"]

PATIENCE_S = 90
"""So long a set may take, after its last fault, until it is whole again."""

_RETRY_S = 0.2


class Surroundings:
    """
    What faults need.

    Attributes:
        brokers: the set.
        targets: of the clients, by broker.
        draw: decides what is left to chance.
    """

    def __init__(
        self, brokers: ChaosSet, targets: Mapping[str, Target], draw: random.Random
    ) -> None:
        self.brokers = brokers
        self.targets = targets
        self.draw = draw

    def master(self) -> str:
        """
        The master, or any broker if there is none now.
        """
        return self.brokers.master() or self.draw.choice(BROKERS)

    def slave(self) -> str:
        """
        Another broker than the master.
        """
        master = self.master()
        return self.draw.choice([one for one in BROKERS if one != master])

    def restart(self, name: str) -> None:
        """
        Starts a broker again, unless another fault did.
        """
        broker = self.brokers.brokers[name]
        if broker.child.poll() is not None:
            self.targets[name].run += 1
            broker.restart()

    def any_controller(self) -> str:
        """
        A controller.
        """
        return self.draw.choice(self.brokers.controllers)

    def readmit(self, name: str) -> None:
        """
        An operator readmits a broker that says that it needs it, as often as it does:
        which process has the id may change while a copy of it lives.
        """
        end_s = time.monotonic() + PATIENCE_S
        error = "it has no broker id"
        while error:
            assert time.monotonic() < end_s, f"{name} is not readmitted: {error}"
            time.sleep(_RETRY_S)
            self.brokers.restart_ended()
            now = self.brokers.statuses().get(name, {})
            broker_id = now.get("brokerId")
            if broker_id is None:
                continue
            error = now["problem"]
            if "readmitBroker" in error:
                order = self.brokers.admin
                refused = order(self.any_controller(), "readmitBroker", broker_id)
                if "last member" in refused:
                    # A copy had its id, so no one vouches for the log but the operator.
                    words = self.any_controller(), "electMaster", broker_id
                    order(*words, is_unclean=True)
            elif broker_id in now["syncStateSet"] or now["role"] == "master":
                error = ""

    def alone(self, name: str) -> dict[str, Any] | None:
        """
        Waits until a master is the only member, and returns its status; ``None``: it is
        no master any more, or was killed.
        """
        end_s = time.monotonic() + PATIENCE_S
        child = self.brokers.brokers[name].child
        while time.monotonic() < end_s and child.poll() is None:
            now = self.brokers.statuses().get(name, {})
            if now.get("role") == "master" and len(now["syncStateSet"]) == 1:
                return now
            if now.get("role") not in ("master", None):
                return None
            time.sleep(_RETRY_S)
        return None

    def elect_the_longest(self, names: list[str]) -> None:
        """
        An operator has the broker with the longest log elected, unless there is a
        master: then no bytes were lost that would need it.
        """
        end_s = time.monotonic() + PATIENCE_S
        while not self.brokers.master():
            assert time.monotonic() < end_s, "no broker is elected"
            time.sleep(_RETRY_S)
            self.brokers.restart_ended()
            found = self.brokers.statuses()
            logs = [
                (found[one]["endOffset"], found[one]["brokerId"])
                for one in names
                if found.get(one, {}).get("brokerId")
            ]
            if len(logs) == len(names):
                words = self.any_controller(), "electMaster", max(logs)[1]
                self.brokers.admin(*words, is_unclean=True)

    def is_spare(self, name: str) -> bool:
        """
        Whether the set survives the loss of a broker's log without an operator: a
        member of the SyncStateSet with a log as long as its own is left, which has what
        was acknowledged, and may be elected (B11).
        """
        found = self.brokers.statuses()
        begin = found.get(name, {}).get("minOffset")
        # A deposed master may still tell an older set, with itself in it.
        told = [
            (one["masterEpoch"], one["syncStateSetEpoch"], one["syncStateSet"])
            for one in found.values()
            if one["masterEpoch"] is not None  # it is registered
        ]
        *_, members = max(told, default=(0, 0, ()))  # none: all are dead
        others = [
            one
            for other, one in found.items()
            if other != name and one["brokerId"] in members
        ]
        return begin is not None and any(one["minOffset"] <= begin for one in others)

    def remove(self, broker_id: int) -> None:
        """
        An operator removes a broker that never comes back.
        """
        end_s = time.monotonic() + PATIENCE_S
        while error := self.brokers.admin(
            self.any_controller(), "cleanBrokerMetadata", broker_id
        ):
            assert time.monotonic() < end_s, f"{broker_id} is not removed: {error}"
            time.sleep(_RETRY_S)

    def signal(self, name: str, number: signal.Signals) -> None:
        """
        Sends a signal to a broker or a controller.
        """
        brokers = self.brokers.brokers
        if name in brokers:
            brokers[name].child.send_signal(number)
        else:
            self.brokers.controller(name).child.send_signal(number)


Fault = Callable[[Surroundings], Iterator[None]]


def _killed(around: Surroundings, *names: str) -> Iterator[None]:
    for name in names:
        around.brokers.brokers[name].kill()
    yield
    for name in names:
        around.restart(name)


def master_is_killed(around: Surroundings) -> Iterator[None]:
    """
    By SIGKILL.
    """
    yield from _killed(around, around.master())


def slave_is_killed(around: Surroundings) -> Iterator[None]:
    """
    By SIGKILL.
    """
    yield from _killed(around, around.slave())


def all_brokers_are_killed(around: Surroundings) -> Iterator[None]:
    """
    One shortly after the other.
    """
    yield from _killed(around, *around.draw.sample(BROKERS, len(BROKERS)))


def _paused(around: Surroundings, name: str) -> Iterator[None]:
    around.signal(name, signal.SIGSTOP)
    yield
    around.signal(name, signal.SIGCONT)


def master_is_paused(around: Surroundings) -> Iterator[None]:
    """
    By SIGSTOP, at times beyond its lease.
    """
    yield from _paused(around, around.master())


def slave_is_paused(around: Surroundings) -> Iterator[None]:
    """
    By SIGSTOP.
    """
    yield from _paused(around, around.slave())


def controller_is_paused(around: Surroundings) -> Iterator[None]:
    """
    By SIGSTOP, at times beyond its session.
    """
    yield from _paused(around, around.any_controller())


def controller_is_killed(around: Surroundings) -> Iterator[None]:
    """
    By SIGKILL.
    """
    name = around.any_controller()
    around.brokers.kill_controller(name)
    yield
    around.brokers.start_controller(name)


def zookeeper_is_paused(around: Surroundings) -> Iterator[None]:
    """
    The record store of all controllers stands still.
    """
    around.brokers.zookeeper.pause()
    yield
    around.brokers.zookeeper.go_on()


def link_is_cut(around: Surroundings) -> Iterator[None]:
    """
    In one direction or in both, between any two machines.
    """
    network, draw = around.brokers.network, around.draw
    one, other = draw.sample(sorted(network.machines), 2)
    ways = draw.choice([[(one, other)], [(one, other), (other, one)]])
    cuts = [network.cut(*way) for way in ways]
    yield
    for cut in cuts:
        network.heal(cut)


def machine_is_cut_off(around: Surroundings) -> Iterator[None]:
    """
    It hears no other machine, or none hears it, or both.
    """
    network, draw = around.brokers.network, around.draw
    one = draw.choice(sorted(network.machines))
    others = [name for name in network.machines if name != one]
    which = draw.choice([1, 2, 3])
    cuts = [network.cut(one, name) for name in others if which & 1]
    cuts += [network.cut(name, one) for name in others if which & 2]
    yield
    for cut in cuts:
        network.heal(cut)


def _unheard(around: Surroundings, broker: str) -> Iterator[None]:
    network = around.brokers.network
    cuts = []
    for name in around.brokers.controllers:
        cuts += [network.cut(broker, name), network.cut(name, broker)]
    yield
    for cut in cuts:
        network.heal(cut)


def master_loses_the_controllers(around: Surroundings) -> Iterator[None]:
    """
    Its slaves hear it on.
    """
    yield from _unheard(around, around.master())


def slave_loses_the_controllers(around: Surroundings) -> Iterator[None]:
    """
    Its master hears it on.
    """
    yield from _unheard(around, around.slave())


def slave_is_slow(around: Surroundings) -> Iterator[None]:
    """
    Few bytes a second reach it.
    """
    network, slave = around.brokers.network, around.slave()
    network.slow(slave, around.draw.choice([16, 100, 1_000]))
    yield
    network.full_speed(slave)


def disk_is_full(around: Surroundings) -> Iterator[None]:
    """
    Of the master or of a slave.
    """
    name = around.draw.choice(BROKERS)
    filler = around.brokers.store(name).parent / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                # Full, for pieces of that size.
                continue
    yield
    filler.unlink()


def slave_is_an_older_copy(around: Surroundings) -> Iterator[None]:
    """
    It is killed, its store is copied and runs on; later it is replaced by the copy,
    and an operator readmits it.
    """
    name = around.slave()
    broker, store = around.brokers.brokers[name], around.brokers.store(name)
    copy = store.parent / "copy"
    broker.kill()
    try:
        shutil.copytree(store, copy)
    except OSError as error:
        if os.strerror(errno.ENOSPC) not in str(error):
            raise
        # Another fault: its disk is full, so there is no copy.
        shutil.rmtree(copy, ignore_errors=True)
        around.restart(name)
        return
    around.restart(name)
    yield
    if not around.is_spare(name):
        shutil.rmtree(copy)
        return
    broker.kill()
    shutil.rmtree(store)
    copy.rename(store)
    around.restart(name)
    yield
    around.readmit(name)


def disk_is_cloned(around: Surroundings) -> Iterator[None]:
    """
    A copy of the disk of a living broker runs on another machine.
    """
    name, brokers = around.draw.choice(BROKERS), around.brokers
    clone = brokers.store(CLONE)
    words = ("cp", "-r", brokers.store(name), clone)
    # Files of a living store come and go; what was copied is the clone.
    subprocess.run(words, check=False, capture_output=True)
    brokers.start_broker(CLONE)
    yield
    brokers.brokers[CLONE].kill()
    shutil.rmtree(clone)
    yield
    around.readmit(name)


def slave_gets_an_empty_disk(around: Surroundings) -> Iterator[None]:
    """
    It is killed, its store is lost, and it comes back with another id; an operator
    removes the old one. It begins with the newest segment of the master.
    """
    name = around.slave()
    broker = around.brokers.brokers[name]
    if not around.is_spare(name):
        return
    old = around.brokers.statuses().get(name, {}).get("brokerId")
    broker.kill()
    shutil.rmtree(around.brokers.store(name), ignore_errors=True)
    around.restart(name)
    yield
    yield
    if old is not None:
        around.remove(old)


def last_member_loses_bytes(around: Surroundings) -> Iterator[None]:
    """
    The slaves are killed, and leave the set. Then the master is killed, its log is
    damaged, and an operator gives up what is. What `all` acknowledged is in the log of
    a slave: an operator has the longest one elected.
    """
    brokers, master = around.brokers, around.master()
    slaves = [one for one in BROKERS if one != master]
    for name in around.draw.sample(slaves, len(slaves)):
        brokers.brokers[name].kill()
    now = around.alone(master)
    brokers.brokers[master].kill()
    if brokers.min_in_sync > 1 and now is not None:
        end = now["endOffset"]
        _flip_a_byte(brokers.store(master), end - around.draw.randrange(200, 20_000))
        brokers.accept_loss(master)
    yield
    for name in BROKERS:
        around.restart(name)
    yield
    around.elect_the_longest(slaves)


def _flip_a_byte(store: Path, offset: int) -> None:
    base = offset - offset % SEGMENT
    with (store / "commitlog" / f"{base:020}").open("r+b") as file:
        file.seek(offset - base)
        (byte,) = file.read(1)
        file.seek(offset - base)
        file.write(bytes([byte ^ 0x40]))


def master_is_replaced_by_force(around: Surroundings) -> Iterator[None]:
    """
    It does not hear the controllers, and an operator has another broker elected.
    """
    network, master = around.brokers.network, around.master()
    controllers = around.brokers.controllers
    cuts = [network.cut(one, master) for one in controllers]
    cuts += [network.cut(master, one) for one in controllers]
    for broker_id in around.draw.sample(range(1, 4), 3):
        around.brokers.admin(around.any_controller(), "electMaster", broker_id)
    yield
    for cut in cuts:
        network.heal(cut)


def master_is_replaced_before_a_transfer(around: Surroundings) -> Iterator[None]:
    """
    An operator has another broker elected, while the master does not hear the
    controllers; at once another controller leads, which did not grant the leases that
    run.
    """
    replaced = master_is_replaced_by_force(around)
    next(replaced)
    around.brokers.transfer(around.any_controller())
    yield
    next(replaced, None)


def names_are_silent(around: Surroundings) -> Iterator[None]:
    """
    The names of the controllers cannot be looked up any more, on one machine or on all.
    """
    names = around.draw.choice([BROKERS, [around.draw.choice(BROKERS)]])
    for name in names:
        around.brokers.resolve(name, is_silent=True)
    yield
    for name in names:
        around.brokers.resolve(name)


def wall_clock_steps(around: Surroundings) -> Iterator[None]:
    """
    Of a broker or a controller, ahead or back.
    """
    clocks, draw = around.brokers.clocks, around.draw
    name = draw.choice([*BROKERS, *around.brokers.controllers])
    clocks.step(name, draw.choice([-1, 1]) * draw.choice([1, 10, 3_600, 100_000]))
    yield
    clocks.step(name, 0)


def mastership_is_handed_over(around: Surroundings) -> Iterator[None]:
    """
    By an operator, to any broker; it may be refused.
    """
    broker_id = around.draw.randrange(1, len(BROKERS) + 1)
    around.brokers.admin(around.any_controller(), "switchMaster", broker_id)
    yield


DESTRUCTIVE = frozenset(
    {
        slave_is_an_older_copy,
        slave_gets_an_empty_disk,
        disk_is_cloned,
        last_member_loses_bytes,
    }
)
"""
Bytes of one broker are gone: not more than one at a time, and while the set is whole.
"""

LOSING: tuple[Fault, ...] = (last_member_loses_bytes,)
"""
Only by name: an operator accepts that bytes are lost which readers may have read.
"""

FAULTS: tuple[Fault, ...] = (
    master_is_killed,
    slave_is_killed,
    all_brokers_are_killed,
    master_is_paused,
    slave_is_paused,
    controller_is_paused,
    controller_is_killed,
    zookeeper_is_paused,
    link_is_cut,
    machine_is_cut_off,
    master_loses_the_controllers,
    slave_loses_the_controllers,
    slave_is_slow,
    disk_is_full,
    slave_is_an_older_copy,
    disk_is_cloned,
    slave_gets_an_empty_disk,
    master_is_replaced_by_force,
    master_is_replaced_before_a_transfer,
    names_are_silent,
    wall_clock_steps,
    mastership_is_handed_over,
)
