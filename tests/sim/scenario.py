"""
A history of a virtual set as text, and what is expected of it: a line each.

Brokers are numbers from 1 on, which are their broker ids, too. 0 and the numbers below
it are controllers, and -10 is the record store.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from chaos.checker import violations
from chaos.history import Appended, Read, Row
from lib.values import replace
from sim.broker import SEGMENT, Broker
from sim.broker_set import BrokerSet
from sim.clients import Clients
from sim.controller import Controller
from sim.copies import Copies
from sim.damages import QUICK, RecoverySurroundings, begin_late
from sim.disk import FAILED, FULL, STILL, WELL
from sim.expected import Expected
from sim.faulty_peers import acks_more_than_it_has
from sim.final_log import final_of
from sim.network import RECORDS
from sim.world import MS, SECOND, Task, World

from pystore.ha.insync.ack import Ack

__all__ = ["Scenario", "Unexpected"]

_UNITS = {"ms": MS, "s": SECOND}
_SETTLED_NS = 180 * SECOND
_ORDERS = 60
_AGAIN = (
    "cannot be reached",
    "knows no leading",
    "no controller leads",
    "leads too short a time",
)
"""What an operator reads who tries again a moment later."""


class Unexpected(AssertionError):
    """
    A history went another way.
    """


class Scenario:
    """
    One history.

    Args:
        path: of the text.
        seed: of all chance; what is expected holds for each.
        folder: takes the stores.
    """

    def __init__(self, path: Path, seed: int, folder: Path) -> None:
        self._path = path
        self._lines = path.read_text(encoding="utf-8").splitlines()
        self._seed = seed
        self._folder = folder / f"{path.stem}-{os.getpid()}"
        self._world: World
        self._set: BrokerSet
        self._clients: Clients
        self._said = self._outcome = ""
        self._count = 0
        self._retains = False

    def run(self) -> None:
        """
        Carries out every line.

        Raises:
            AssertionError: something that is expected, or must be, is not.
        """
        try:
            for number, line in enumerate(self._lines, 1):
                words = line.split("#")[0].split()
                if not words:
                    continue
                command: Callable[[list[str]], None]
                command = getattr(self, f"_{words[0].replace('-', '_')}")
                try:
                    command(words[1:])
                except AssertionError as error:
                    where = f"{self._path.name}:{number}: {line.strip()}"
                    raise type(error)(
                        f"{where} (seed {self._seed}): {error}"
                    ) from error
            self._judge()
        finally:
            if hasattr(self, "_set"):
                self._set.__exit__()

    def lines(self) -> list[str]:
        """
        What all processes told.
        """
        found: list[str] = []
        places = *self._set.controllers, *self._set.brokers.values()
        for one in (*places, *self._set.recoveries):
            found += [one.name, *(f"   {line}" for line in one.lines)]
        return found

    # -- places ---------------------------------------------------------------

    def _broker(self, word: str | int) -> Broker:
        return self._set.brokers[f"b{word}"]

    def _place(self, word: str) -> Broker | Controller:
        number = int(word)
        if number > 0:
            return self._broker(word)
        return self._set.controllers[-number]

    def _host(self, word: str) -> str:
        return RECORDS if word == "-10" else self._place(word).machine.host

    # -- commands -------------------------------------------------------------

    def _cluster(self, words: list[str]) -> None:
        told = [one for one in words if one != "at-once"]
        options = dict(zip(told[1::2], told[2::2], strict=True))
        size, learners = int(words[0]), int(options.get("learners", 0))
        late = int(options.get("late", 0))
        draw = Random(self._seed)
        self._world = World(draw.getrandbits(64))
        self._set = BrokerSet(
            self._world,
            self._folder,
            brokers=size + learners + late,
            controllers=int(options.get("controllers", 1)),
            min_in_sync=int(options.get("min", 1)),
            recoveries=int(options.get("recoveries", 0)),
        )
        for number in range(size + 1, size + learners + 1):
            self._broker(number).more["asyncLearner"] = "true"
        for number in range(size + learners + 1, size + learners + late + 1):
            # It begins with the last segment of the set, once it is started.
            self._broker(number).more["syncFromLastFile"] = "true"
        for word in _list(options.get("boasting", "")):
            self._broker(word).defect_of_peer = acks_more_than_it_has
        for word in _list(options.get("clocks", "")):
            place, _, rate = word.partition("=")
            self._place(place).machine.rate = float(rate)
        self._clients = Clients(self._set, draw, 0)
        copies = Copies(self._set.brokers, self._clients.known)
        self._around = RecoverySurroundings(self._set, self._clients, draw, copies)
        for controller in self._set.controllers:
            controller.start()
            # The first one is to lead.
            self._world.run(600 * MS if "at-once" not in words else 0)
        for number in range(size + learners):
            self._broker(number + 1).start()
            if "at-once" in words:
                continue
            # One after another, so that ids are as places are.
            self._world.run((400 if number else 3_000) * MS)
        if self._set.recoveries:
            self._around.queue.change_settings(QUICK)
        for recovery in self._set.recoveries:
            recovery.start()
        if "at-once" not in words:
            # A controller that has just begun to lead grants no lease yet.
            self._world.run(60 * SECOND, self._is_leased)

    def _is_leased(self) -> bool:
        return any(now["leaseLeftMs"] for now in self._clients.known.values())

    def _run(self, words: list[str]) -> None:
        self._world.run(_ns(words[0]))

    def _append(self, words: list[str]) -> None:
        options = dict(zip(words[2::2], words[3::2], strict=True))
        at = [self._broker(one) for one in _list(options.get("at", ""))]
        for number in range(int(words[0])):
            masters = at or self._clients.masters()
            self._said = "" if masters else "no master"
            if masters:
                self._outcome = ""
                target = masters[number % len(masters)]
                self._world.spawn(self._append_one(target, Ack(words[1])))
            self._world.run(_ns(options.get("every", "500ms")))

    def _append_one(self, broker: Broker, ack: Ack) -> Task:
        self._count += 1
        body = f"{self._count}-" + "x" * 400
        row, said = yield from self._clients.append(broker, ack, body)
        self._said = self._outcome = said.replace("-", " ") if row.epoch else said

    def _end(
        self, words: list[str], how: Callable[[Broker | Controller], None]
    ) -> None:
        if "after" in words:
            place = self._place(words[0])
            assert place.process is not None
            place.process.steps_left = int(words[2])
            place.process.on_last_step = lambda: how(place)
            return
        for word in words:
            how(self._place(word))

    def _kill(self, words: list[str]) -> None:
        self._end(words, lambda one: one.kill())

    def _cut_power(self, words: list[str]) -> None:
        self._end(words, _cut_power)

    def _stop(self, words: list[str]) -> None:
        for word in words:
            place = self._place(word)
            place.stop()
            self._world.run(10 * SECOND, lambda: not place.is_up)  # noqa: B023

    def _new_disk(self, words: list[str]) -> None:
        broker = self._broker(words[0])
        broker.kill()
        shutil.rmtree(broker.store)
        broker.synced = 0

    def _save(self, words: list[str]) -> None:
        broker = self._broker(words[0])
        broker.copy_store(broker.store.with_name("saved"))

    def _restore(self, words: list[str]) -> None:
        broker = self._broker(words[0])
        broker.kill()
        shutil.rmtree(broker.store)
        store = broker.store
        store.with_name("saved").rename(store)
        broker.synced = 0

    def _start(self, words: list[str]) -> None:
        for word in words:
            place = self._place(word)
            if not place.is_up:
                place.start()

    def _partition(self, words: list[str]) -> None:
        sides = [side.split() for side in " ".join(words).split("|")]
        for one in sides:
            for other in sides:
                if one is not other:
                    for source in one:
                        for target in other:
                            self._deaf([source, target])

    def _deaf(self, words: list[str]) -> None:
        self._set.network.cut(self._host(words[0]), self._host(words[1]))

    def _heal(self, _: list[str]) -> None:
        self._set.network.heal()
        self._set.network.delay_ns = MS
        self._set.network.late_ns = 0
        self._set.records.loss = 0
        self._set.records.join()

    def _cut_off(self, words: list[str]) -> None:
        self._set.records.cut_off(self._host(words[0]))

    def _lose_session(self, words: list[str]) -> None:
        self._set.records.lose_sessions(self._host(words[0]))

    def _lose_answer(self, words: list[str]) -> None:
        self._set.records.losing_answers.add(self._host(words[0]))

    def _tear(self, words: list[str]) -> None:
        self._set.network.tear(self._host(words[0]), self._host(words[2]))

    def _pause(self, words: list[str]) -> None:
        process = self._place(words[0]).process
        assert process is not None
        process.pause(_ns(words[1]))

    def _weather(self, words: list[str]) -> None:
        values = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        network = self._set.network
        network.delay_ns = values.get("delay", 3) * MS
        network.late_ns = values.get("late", 0) * MS
        network.late = {one.machine.host for one in self._set.controllers}
        self._set.records.loss = values.get("loss", 0) // 3

    def _no_flush(self, words: list[str]) -> None:
        self._disks(words, STILL)

    def _flush(self, words: list[str]) -> None:
        self._disks(words, WELL)

    def _poison(self, words: list[str]) -> None:
        self._disks(words, FAILED)

    def _full(self, words: list[str]) -> None:
        self._disks(words, FULL)

    def _space(self, words: list[str]) -> None:
        self._disks(words, WELL)

    def _disks(self, words: list[str], state: str) -> None:
        for word in words:
            self._broker(word).set_disk(state)

    def _retain(self, words: list[str]) -> None:
        self._retains = True
        for word in words:
            process = self._broker(word).process
            assert process is not None
            process.deliver("retain")

    # -- AutoRecovery ----------------------------------------------------------

    def _damage(self, words: list[str], how: Callable[[tuple[str, int]], None]) -> None:
        """
        Of a broker, the segments with these numbers.
        """
        self._look()
        for word in words[1:]:
            how((f"b{words[0]}", int(word) * SEGMENT))

    def _look(self) -> None:
        found = self._around.copies.look()
        assert not found, found

    def _rot(self, words: list[str]) -> None:
        copies = self._around.copies
        self._damage(words, lambda one: copies.rot(one, self._around.draw))

    def _shorten(self, words: list[str]) -> None:
        copies = self._around.copies
        self._damage(words, lambda one: copies.shorten(one, self._around.draw))

    def _remove(self, words: list[str]) -> None:
        self._damage(words, self._around.copies.remove)

    def _verify(self, _: list[str]) -> None:
        self._around.verify()

    def _check(self, _: list[str]) -> None:
        self._around.queue.kick("operator", force=True)

    def _repaired(self, words: list[str]) -> None:
        """
        Within a time every copy is good, and nothing is marked.
        """
        around = self._around

        def is_repaired() -> bool:
            self._look()
            return not around.copies.missing(0) and not around.queue.list()

        if not self._world.run(_ns(words[0]), is_repaired):
            left = around.copies.missing(0), around.queue.list()
            raise Unexpected(f"not repaired: {left}")

    def _dead(self, words: list[str]) -> None:
        """
        Within a time these segments, and no others, have no good copy.
        """
        wanted = {int(word) * SEGMENT for word in words[1:]}

        def is_dead() -> bool:
            return {key.start for key in self._around.queue.dead()} == wanted

        if not self._world.run(_ns(words[0]), is_dead):
            raise Unexpected(f"dead are {self._around.queue.dead()}")

    def _replace(self, words: list[str]) -> None:
        """
        A broker gets an empty disk, and an operator removes its old id.
        """
        name = f"b{words[0]}"
        done: list[bool] = []

        def order() -> Task:
            yield from begin_late(self._around, name)
            done.append(True)

        self._world.spawn(order())
        self._world.run(120 * SECOND, lambda: done)
        assert done, f"{name} is not replaced"

    def _void(self, words: list[str]) -> None:
        """
        More copies were lost than these acks promise to survive: what they acknowledged
        so far, and what was read of it, may be gone.
        """
        rows = self._clients.rows
        kept: list[Row] = []
        for one in rows:
            if isinstance(one, Appended) and one.ack in words:
                kept.append(replace(one, outcome="void"))
            elif not isinstance(one, Read):
                kept.append(one)
        rows[:] = kept

    def _elect(self, words: list[str]) -> None:
        self._order("electMaster", words[0])

    def _elect_unclean(self, words: list[str]) -> None:
        # By this word a master may lack older records, as after retention.
        self._retains = True
        self._order("electMaster", words[0], "--unclean", "--yes")

    def _switch(self, words: list[str]) -> None:
        self._order("switchMaster", words[0])

    def _vouch(self, words: list[str]) -> None:
        self._order("readmitBroker", words[0])

    def _learner(self, words: list[str]) -> None:
        self._order("changeBroker", words[0], "--learner")

    def _voter(self, words: list[str]) -> None:
        self._order("changeBroker", words[0], "--voter")

    def _order(self, command: str, number: str, *more: str) -> None:
        done: list[tuple[int, str]] = []

        def order() -> Task:
            words = "-bn", "b", "-b", number, *more
            for _ in range(_ORDERS):
                code, text = yield from self._set.order(command, *words)
                if not any(one in text for one in _AGAIN):
                    break
                yield SECOND
            done.append((code, text))

        self._world.spawn(order())
        self._world.run(120 * SECOND, lambda: done)
        if not done or done[0][0]:
            raise Unexpected(f"the order is refused: {done}")

    def _settle(self, _: list[str]) -> None:
        self._heal([])
        for one in (*self._set.controllers, *self._set.brokers.values()):
            if one.process is not None:
                one.process.steps_left = None
            if not one.is_up:
                one.start()
        for one in self._set.brokers.values():
            if one.disk == FAILED:
                # Only a restart helps.
                one.kill()
                one.disk = WELL
                one.start()
            one.set_disk(WELL)
        end_ns = self._world.now_ns + _SETTLED_NS
        while not self._set.is_complete():
            self._world.run(500 * MS)
            assert self._world.now_ns < end_ns, f"not whole: {self._clients.known}"
            for one in self._set.brokers.values():
                if one.ended and not one.is_up:
                    one.start()
        self._world.run(SECOND)
        self._append(["1", "all-synced"])
        self._world.run(3 * SECOND)
        if self._outcome != "reached":
            raise Unexpected(f"a whole set reaches no ack: {self._said}")
        self._world.run(SECOND, self._set.is_complete)

    def _expect(self, words: list[str]) -> None:
        found = Expected(self._set, self._clients, self._outcome, self._said)
        if problem := found.problem(words[0], words[1:]):
            raise Unexpected(problem)

    # -- the end --------------------------------------------------------------

    def _judge(self) -> None:
        broken = [*self._set.defects, *self._set.records.broken]
        assert not broken, broken[0]
        now = self._set.statuses()
        members = Expected(self._set, self._clients).members()
        for one in self._set.brokers.values():
            one.stop()
        ended = self._world.run(
            30 * SECOND,
            lambda: not any(one.is_up for one in self._set.brokers.values()),
        )
        assert ended, "a broker does not end"
        final = final_of(
            [
                one.store
                for name, one in self._set.brokers.items()
                if name in now and str(now[name]["brokerId"]) in members
            ]
        )
        rows = self._clients.rows
        found = violations(rows, final, retains=self._retains)
        assert not found, f"{len(found)} violations: {found[:3]}"


def _cut_power(place: Broker | Controller) -> None:
    if isinstance(place, Broker):
        place.cut_power(loss=1.0)
    else:
        place.kill()


def _list(word: str) -> list[str]:
    return [one for one in word.split(",") if one]


def _ns(word: str) -> int:
    unit = "ms" if word.endswith("ms") else "s"
    return int(word.removesuffix(unit)) * _UNITS[unit]
