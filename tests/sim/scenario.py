"""
Scenarios: histories as text, one command per line.

    # a comment; the first one says what the scenario shows
    cluster 3 learners 1 min 2   brokers, then what is unusual; 1 is master
    cluster 3 controllers 3      which are 0, -1 and -2; 0 leads, -10 are the records
    cluster 3 at-once            all begin together, so ids are as they come
    cluster 3 legacy 2,3 java 2  slaves with the legacy protocol, and which records
                                 epochs as a Java master does (RMQ-R137)
    cluster 3 boasting 3         whose acks say more than it holds
    cluster 3 clocks 0=1.1,1=0.9 rates of their clocks
    run 5s                       time passes (ms, s)
    append 3 all                 three records, one after another, by the master
    append 1 all at 2            by broker 2, whatever it holds itself for
    append 8 leader at 1,2       by both in turn
    append 9 all every 10ms      instead of half a second
    kill 2 / cut-power 2 3 / stop 2 / start 2
    new-disk 2                   it ends, and its store is gone
    save 2 / restore 2           its store is saved; it ends, and that store is back
    vouch 2                      the operator lets it in again
    kill 2 after 3               in the third step from now; so does cut-power
    partition 1 0 | 2 3          0 is the controller; heal ends it
    deaf 1 2                     nothing gets from 1 to 2
    cut-off 0                    its server of the record store serves reads alone
    lose-session 0 / lose-answer 0   of the record store; the next commit's answer
    tear 2 heard 2               streams of 2 break; one end hears of it
    pause 1 12s
    weather loss 50 delay 100 late 20000 doubled 50
    poison 2 / no-flush 2 / flush 2 / full 2 / space 2
    exclude 2 / readmit 2 / elect 2 / retain 1
    expect master 2 / expect set 1 2 / expect candidates 3 / expect epoch 2
    expect leader -1             the controller that leads
    expect outcome timed out     of the last wait that ended since the last append
    expect refused no lease      of the last append
    expect confirmed             the confirm offset is the end of the master's log
    expect frozen                it is not
    expect ends 1 2 3            their logs end at the same offset
    expect stuck 2               slaves that wait for the operator
    expect excluded RMQ-R183         what was lost by a rule of a Java peer
    expect given-up nothing      what the election after a power cut of all gave up
    settle                       all faults end, and the set comes together

Whatever is expected, all that must always be true is looked at after each step.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sim.cluster import Cluster
from sim.messages import Ended
from sim.network import Weather
from sim.setting import Setting

from pystore.controller.model.commands import Elect, Trigger
from pystore.ha.insync.ack import Ack

__all__ = ["Scenario", "Unexpected"]

_UNITS = {"ms": 1, "s": 1_000}


class Unexpected(AssertionError):
    """
    A scenario went another way.
    """


class Scenario:
    """
    One history.

    Args:
        path: of the text.
        seed: of the network's chance; what is expected holds for each.
    """

    def __init__(self, path: Path, seed: int) -> None:
        self._path = path
        self._lines = path.read_text(encoding="utf-8").splitlines()
        self._seed = seed
        self._set: Cluster
        self._said = ""

    @property
    def title(self) -> str:
        """
        What it shows.
        """
        return self._lines[0].lstrip("# ")

    def run(self) -> None:
        """
        Carries out every line.

        Raises:
            Violation: something that must be true is not.
            Unexpected: something that is expected is not.
        """
        for number, line in enumerate(self._lines, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            name = words[0].replace("-", "_")
            command: Callable[[list[str]], None] = getattr(self, f"_{name}")
            try:
                command(words[1:])
            except AssertionError as error:
                where = (
                    f"{self._path.name}:{number}: {line.strip()} (seed {self._seed})"
                )
                raise type(error)(f"{where}: {error}") from error

    # -- commands -------------------------------------------------------------

    def _cluster(self, words: list[str]) -> None:
        told = [one for one in words if one != "at-once"]
        options = dict(zip(told[1::2], told[2::2], strict=True))
        self._set = Cluster(
            self._seed,
            int(words[0]),
            learners=int(options.get("learners", 0)),
            min_in_sync=int(options.get("min", 1)),
            first=None if "at-once" in words else 1,
            setting=Setting(
                legacy_ids=_ids(options.get("legacy", "")),
                java_ids=_ids(options.get("java", "")),
                inflating_ids=_ids(options.get("boasting", "")),
                rates=_rates(options.get("clocks", "")),
                controllers=int(options.get("controllers", 1)),
            ),
        )

    def _run(self, words: list[str]) -> None:
        self._set.run(_ms(words[0]))

    def _append(self, words: list[str]) -> None:
        options = dict(zip(words[2::2], words[3::2], strict=True))
        at = [int(one) for one in options.get("at", "").split(",") if one]
        for number in range(int(words[0])):
            target = at[number % len(at)] if at else None
            self._set.world.checker.last_outcome = ""
            self._said = self._set.append(Ack(words[1]), broker_id=target)
            self._set.run(_ms(options.get("every", "500ms")))

    def _end(self, words: list[str], how: Ended) -> None:
        if "after" in words:
            self._set.process(int(words[0])).fuse = int(words[2]), how
            return
        for word in words:
            self._set.end(int(word), how)

    def _kill(self, words: list[str]) -> None:
        self._end(words, Ended.KILLED)

    def _cut_power(self, words: list[str]) -> None:
        self._end(words, Ended.POWER)

    def _stop(self, words: list[str]) -> None:
        self._end(words, Ended.CLEAN)

    def _new_disk(self, words: list[str]) -> None:
        self._restore(words)

    def _save(self, words: list[str]) -> None:
        self._set.world.brokers[int(words[0])].save()

    def _restore(self, words: list[str]) -> None:
        self._set.end(int(words[0]), Ended.POWER)
        self._set.world.brokers[int(words[0])].restore()

    def _vouch(self, words: list[str]) -> None:
        if not self._set.vouch(int(words[0])):
            raise Unexpected("the controller refuses")

    def _start(self, words: list[str]) -> None:
        for word in words:
            self._set.start(int(word))

    def _partition(self, words: list[str]) -> None:
        sides = " ".join(words).split("|")
        numbers = [{int(word) for word in side.split()} for side in sides]
        self._set.world.network.partition(*numbers)

    def _deaf(self, words: list[str]) -> None:
        self._set.world.network.block(int(words[0]), int(words[1]))

    def _heal(self, _: list[str]) -> None:
        self._set.world.network.heal()
        self._set.world.records.heal()
        self._set.world.network.weather = Weather()

    def _cut_off(self, words: list[str]) -> None:
        self._set.world.records.cut_off(int(words[0]))

    def _lose_session(self, words: list[str]) -> None:
        self._set.world.records.lose_session(int(words[0]))

    def _lose_answer(self, words: list[str]) -> None:
        self._set.world.records.losing_answers.add(int(words[0]))

    def _tear(self, words: list[str]) -> None:
        network = self._set.world.network
        network.break_streams(int(words[0]), heard_by=int(words[2]))

    def _pause(self, words: list[str]) -> None:
        self._set.pause(int(words[0]), _ms(words[1]))

    def _weather(self, words: list[str]) -> None:
        values = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        self._set.world.network.weather = Weather(
            delay_ms=values.get("delay", 3),
            loss=values.get("loss", 0),
            doubled=values.get("doubled", 0),
            late_ms=values.get("late", 5),
        )

    def _poison(self, words: list[str]) -> None:
        for word in words:
            self._set.world.brokers[int(word)].store.is_poisoned = True

    def _no_flush(self, words: list[str]) -> None:
        for word in words:
            self._set.world.brokers[int(word)].flushes = False

    def _flush(self, words: list[str]) -> None:
        for word in words:
            self._set.world.brokers[int(word)].flushes = True

    def _full(self, words: list[str]) -> None:
        self._set.world.brokers[int(words[0])].store.is_full = True

    def _space(self, words: list[str]) -> None:
        self._set.world.brokers[int(words[0])].store.is_full = False

    def _exclude(self, words: list[str]) -> None:
        self._set.exclude(int(words[0]), wanted=True)

    def _readmit(self, words: list[str]) -> None:
        self._set.exclude(int(words[0]), wanted=False)

    def _elect(self, words: list[str]) -> None:
        if not self._set.accepts(Elect(Trigger.OPERATOR, int(words[0]))):
            raise Unexpected("the controller elects another broker, or none")

    def _retain(self, words: list[str]) -> None:
        self._set.retain(int(words[0]))

    def _settle(self, _: list[str]) -> None:
        self._set.settle()

    # -- what is expected -----------------------------------------------------

    def _expect(self, words: list[str]) -> None:
        what, rest = words[0], " ".join(words[1:])
        found = str(getattr(self, f"_found_{what.replace('-', '_')}")())
        if what == "ends":
            ends = {self._set.world.brokers[int(one)].store.end for one in words[1:]}
            if len(ends) != 1:
                raise Unexpected(f"they end at {sorted(ends)}")
        elif found != rest and not (what == "refused" and rest in found):
            raise Unexpected(f"it is {found or 'nothing'}")

    def _found_ends(self) -> str:
        return ""

    def _found_master(self) -> str:
        return " ".join(str(one.broker_id) for one in self._set.masters())

    def _found_set(self) -> str:
        agreed = self._set.world.ledger.agreed
        return " ".join(
            str(one) for one in sorted({m.broker_id for m in agreed.members})
        )

    def _found_candidates(self) -> str:
        agreed = self._set.world.ledger.agreed
        return " ".join(
            str(one) for one in sorted({m.broker_id for m in agreed.candidates})
        )

    def _found_epoch(self) -> int:
        return self._set.world.ledger.state.epoch

    def _found_leader(self) -> str:
        return str(self._set.world.records.leader())

    def _found_outcome(self) -> str:
        return self._set.world.checker.last_outcome

    def _found_refused(self) -> str:
        return self._said

    def _found_confirmed(self) -> str:
        store = self._set.masters()[0].store
        return "" if store.confirm == store.end else f"at {store.confirm}"

    def _found_frozen(self) -> str:
        store = self._set.masters()[0].store
        return "" if store.confirm < store.end else "at the end"

    def _found_stuck(self) -> str:
        return " ".join(map(str, self._set.stuck()))

    def _found_excluded(self) -> str:
        return " ".join(sorted(self._set.world.checker.excluded))

    def _found_given_up(self) -> str:
        return "something" if self._set.world.checker.given_up else "nothing"


def _ids(word: str) -> frozenset[int]:
    return frozenset(int(one) for one in word.split(",") if one)


def _rates(word: str) -> dict[int, float]:
    pairs = (one.split("=") for one in word.split(",") if one)
    return {int(number): float(rate) for number, rate in pairs}


def _ms(word: str) -> int:
    unit = "ms" if word.endswith("ms") else "s"
    return int(word.removesuffix(unit)) * _UNITS[unit]
