"""
A whole set of brokers in one process and in virtual time, and what may befall it.
"""

from __future__ import annotations

from functools import partial
from random import Random

from sim.broker import Broker, World
from sim.checkers import Violation
from sim.client import append
from sim.controller import Ended
from sim.network import CONTROLLER, Weather
from sim.setting import Setting
from sim.store import SEGMENT_SIZE, SimStore

from pystore.ha.insync.ack import Ack
from pystore.ha.insync.member import Member
from pystore.ha.insync.rules import SetRules

__all__ = ["Cluster"]

_SCAN_MS = 2_000
_STUCK = ("resync needed", "elect the longer one")


class Cluster:
    """
    Brokers, a controller, a network, a clock.

    Args:
        seed: of all chance.
        size: brokers that count, from number 1 on.
        learners: brokers behind them that do not.
        min_in_sync: copies that `all` needs.
        continues: see `sim.controller.Controller`.
        first: who begins alone, and so is the first master; else chance says.
        setting: what is unusual.
    """

    def __init__(
        self,
        seed: int,
        size: int = 3,
        *,
        learners: int = 0,
        min_in_sync: int = 1,
        continues: bool = False,
        first: int | None = None,
        setting: Setting | None = None,
    ) -> None:
        self.random = Random(seed)
        rules = SetRules(min_in_sync=min_in_sync)
        self.world = World(
            self.random, rules, continues=continues, setting=setting or Setting()
        )
        self.size = size
        self.faults = self.appends = self.refused = 0
        for number in range(1, size + learners + 1):
            broker = Broker(number, self.world, is_learner=number > size)
            self.world.brokers[number] = broker
        self._scan()
        if first is not None:
            self.start(first)
            self.run(3_000)
        for broker in self.brokers:
            self.start(broker.broker_id)

    @property
    def brokers(self) -> list[Broker]:
        """
        All of them, by number.
        """
        return list(self.world.brokers.values())

    @property
    def now(self) -> int:
        """
        The time.
        """
        return self.world.clock.now

    def run(self, ms: int) -> None:
        """
        Time passes.
        """
        self.world.clock.run_until(self.now + ms)

    def _scan(self) -> None:
        self.world.controller.scan(self.world.controller_clock.now)
        self.world.clock.after(_SCAN_MS, self._scan)

    # -- clients --------------------------------------------------------------

    def masters(self) -> list[Broker]:
        """
        Brokers that hold themselves for master.
        """
        return [
            one
            for one in self.brokers
            if one.mastering is not None and not one.mastering.is_over and one.is_up
        ]

    def append(self, ack: Ack, size: int = 64, broker_id: int | None = None) -> str:
        """
        A client appends to a master; answers why not, or nothing.
        """
        masters = self.masters()
        if broker_id is not None:
            masters = [self.world.brokers[broker_id]]
        self.appends += 1
        said = "no master"
        if masters:
            said = append(self.random.choice(masters), ack, size)
        self.refused += bool(said)
        return said

    # -- what befalls a broker ------------------------------------------------

    def end(self, broker_id: int, how: Ended) -> None:
        """
        A process ends.
        """
        self.world.brokers[broker_id].end(how)

    def start(self, broker_id: int) -> None:
        """
        A process begins, if there is none.
        """
        if not self.world.brokers[broker_id].is_up:
            self.world.brokers[broker_id].start()

    def pause(self, broker_id: int, ms: int) -> None:
        """
        A process stands still for a while.
        """
        broker = self.world.brokers[broker_id]
        broker.paused_until = max(broker.paused_until, broker.clock.now + ms)

    def exclude(self, broker_id: int, *, wanted: bool) -> None:
        """
        The operator wants a slave out of the set, or in it again.
        """
        for one in self.masters():
            assert one.mastering is not None
            judge = one.mastering.judge
            change = judge.exclude if wanted else judge.readmit
            one.own(partial(change, broker_id, one.clock.now))()

    def retain(self, broker_id: int) -> None:
        """
        Old segments go, as far as they are flushed and confirmed.
        """
        store = self.world.brokers[broker_id].store
        limit = min(store.flushed, store.confirm)
        offset = limit - limit % SEGMENT_SIZE
        if offset > store.base:
            store.retain(offset)

    def isolate(self, *ids: int) -> None:
        """
        These reach nobody else, not even the controller.
        """
        everybody = {CONTROLLER, *self.world.brokers}
        self.world.network.partition(set(ids), everybody - set(ids))

    # -- the end --------------------------------------------------------------

    def heal(self) -> None:
        """
        Every fault is over.
        """
        self.world.network.heal()
        self.world.network.weather = Weather()
        for broker in self.brokers:
            broker.fuse, broker.flushes = None, True
            broker.store.is_full = False
            if broker.is_up and broker.store.is_poisoned:
                broker.end(Ended.POWER)
            if not broker.is_up:
                broker.start()
            self.exclude(broker.broker_id, wanted=False)

    def settle(self, patience_ms: int = 180_000) -> None:
        """
        Once nothing is wrong any more, the set comes together by itself.

        Raises:
            Violation: it does not.
        """
        self.heal()
        until = self.now + patience_ms
        why = "nothing was looked at"
        while self.now < until:
            self.run(1_000)
            why = self.why_not_whole()
            if not why:
                break
            self._replace_outgrown()
        if why:
            raise Violation(f"after {patience_ms} ms without a fault: {why}")
        outcomes = self.world.checker.outcomes
        reached = outcomes.get("reached", 0)
        ack = Ack.ALL_SYNCED
        slaves = set(self.brokers[: self.size]) - set(self.masters())
        if any(one.is_legacy for one in slaves):
            said = self.append(ack)
            if "legacy" not in said:
                raise Violation(
                    f"all-synced with a legacy member: {said or 'appended'}"
                )
            ack = Ack.ALL
        said = self.append(ack)
        self.run(3_000)
        if said or outcomes.get("reached", 0) != reached + 1:
            raise Violation(f"a whole set reaches no {ack.value}: {said or outcomes}")
        self.run(6_000)
        why = self.why_not_whole()
        if why:
            raise Violation(f"after one more append: {why}")

    def stuck(self) -> list[int]:
        """
        Returns the slaves whose last link ended with a word for people.
        """
        return [
            one.broker_id
            for one in self.brokers
            if any(word in one.refusal for word in _STUCK)
        ]

    def _replace_outgrown(self) -> None:
        """
        A legacy slave is not told that the log has outgrown it, and neither wipes what
        it holds nor cuts what was confirmed (B10): somebody takes its store away, once
        it is out of the set.
        """
        agreed, masters = self.world.controller.agreed, self.masters()
        listed = {one.broker_id for one in agreed.members | agreed.candidates}
        for one in self.brokers:
            if not one.is_legacy or one.broker_id in listed or len(masters) != 1:
                continue
            is_below = 0 < one.store.end < masters[0].store.base
            if is_below or one.broker_id in self.stuck():
                one.end(Ended.POWER)
                one.store = SimStore()
                one.start()

    def why_not_whole(self) -> str:
        """
        Says what the set lacks to be whole, or nothing.
        """
        masters = self.masters()
        if len(masters) != 1:
            return f"{len(masters)} masters"
        (master,) = masters
        agreed = self.world.controller.agreed
        listed = agreed.members | agreed.continuing
        is_listed = [
            one.member in listed or Member(one.broker_id) in listed
            for one in self.brokers[: self.size]
        ]
        if len({one.broker_id for one in agreed.members}) != self.size or not all(
            is_listed
        ):
            return f"the set is {sorted(one.broker_id for one in agreed.members)}"
        for one in self.brokers:
            end, store = master.store.end, one.store
            if (store.end, store.confirm, store.flushed) != (end, end, end):
                return (
                    f"broker {one.broker_id} is at {store.end}, confirmed "
                    f"{store.confirm}, flushed {store.flushed}; the master at {end}"
                )
            base = max(store.base, master.store.base)
            if store.bytes_at(base, end) != master.store.bytes_at(base, end):
                return f"broker {one.broker_id} differs from the master"
        return ""
