"""
A whole set of brokers in one process and in virtual time, and what may befall it.
"""

from __future__ import annotations

from functools import partial
from random import Random

from sim.broker import Broker
from sim.checkers import Violation
from sim.client import append
from sim.controller import Controller
from sim.messages import Ended
from sim.network import RECORDS, Weather
from sim.setting import Setting
from sim.store import SEGMENT_SIZE, SimStore
from sim.world import World

from pystore.controller.model.commands import Command, Readmit
from pystore.ha.insync.ack import Ack
from pystore.ha.insync.config import SetRules

__all__ = ["Cluster"]

_MASTER_MS = 60_000
"""Without a fault a set has a master after so long."""
_STUCK = ("resync needed", "with the longer log")


class Cluster:
    """
    Brokers, a controller, a network, a clock.

    Args:
        seed: of all chance.
        size: brokers that count, from number 1 on.
        learners: brokers behind them that do not.
        min_in_sync: copies that `all` needs.
        first: the broker that begins alone and so is the first master; else random.
        setting: what is unusual.
    """

    def __init__(
        self,
        seed: int,
        size: int = 3,
        *,
        learners: int = 0,
        min_in_sync: int = 1,
        first: int | None = None,
        setting: Setting | None = None,
    ) -> None:
        self.random = Random(seed)
        rules = SetRules(min_in_sync=min_in_sync)
        self.world = World(self.random, rules, setting or Setting())
        self.size = size
        self.faults = self.appends = self.refused = 0
        for number in range(1, size + learners + 1):
            broker = Broker(number, self.world, is_learner=number > size)
            self.world.brokers[number] = broker
        for controller in self.world.controllers.values():
            controller.start()
            # The first one is to lead.
            self.run(600 if first is not None else 0)
        if first is None:
            for broker in self.brokers:
                broker.start()
            return
        # One after another, so that ids are as places are.
        for number in sorted(self.world.brokers, key=lambda one: one != first):
            self.start(number)
            self.run(3_000 if number == first else 400)

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

    # -- clients --------------------------------------------------------------

    def masters(self) -> list[Broker]:
        """
        Brokers that hold themselves for master.
        """
        return [
            one
            for one in self.brokers
            if one.mastership is not None and not one.mastership.is_over and one.is_up
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

    def process(self, number: int) -> Broker | Controller:
        """
        Returns the process at that place.
        """
        if number in self.world.controllers:
            return self.world.controllers[number]
        return self.world.brokers[number]

    def end(self, number: int, how: Ended) -> None:
        """
        A process ends.
        """
        self.process(number).end(how)

    def start(self, number: int) -> None:
        """
        A process begins, if there is none.
        """
        process = self.process(number)
        if not process.is_up:
            process.start()

    def pause(self, number: int, ms: int) -> None:
        """
        A process stands still for a while.
        """
        one = self.process(number)
        one.paused_until = max(one.paused_until, one.clock.now + ms)

    def accepts(self, command: Command) -> bool:
        """
        The operator wants something of the controllers; answers whether it is done.
        """
        leader = self.world.leader()
        return leader is not None and leader.accepts(command)

    def vouch(self, number: int) -> bool:
        """
        The operator vouches for a store that is refused as it stands.
        """
        broker = self.world.brokers[number]
        is_done = self.accepts(Readmit(broker.broker_id))
        if is_done:
            broker.is_copy = False
            self.world.ledger.copies.discard(broker.member)
        return is_done

    def exclude(self, broker_id: int, *, wanted: bool) -> None:
        """
        The operator wants a slave out of the set, or in it again.
        """
        for one in self.masters():
            assert one.mastership is not None
            monitor = one.mastership.monitor
            change = monitor.exclude if wanted else monitor.readmit
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
        These reach no other process, not even the controller.
        """
        processes = {RECORDS, *self.world.controllers, *self.world.brokers}
        self.world.network.partition(set(ids), processes - set(ids))

    # -- the end --------------------------------------------------------------

    def heal(self) -> None:
        """
        Every fault is over.
        """
        self.world.network.heal()
        self.world.records.heal()
        self.world.network.weather = Weather()
        for controller in self.world.controllers.values():
            controller.fuse = None
            self.start(controller.number)
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
        begun = self.now
        until = begun + patience_ms
        why = "nothing was looked at"
        while self.now < until:
            self.run(1_000)
            why = self.why_not_whole()
            if not why:
                break
            if not self.masters() and self.now > begun + _MASTER_MS:
                raise Violation(f"no master after {_MASTER_MS} ms without a fault")
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
        given = {one.broker_id for one in self.world.ledger.state.replicas}
        leaked = given - set(self.world.by_id)
        if leaked:
            raise Violation(f"ids {sorted(leaked)} were given away and lost")

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
        it holds nor cuts what was confirmed (B10): the operator takes its store away,
        once it is out of the set.
        """
        agreed, masters = self.world.ledger.agreed, self.masters()
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
        agreed = self.world.ledger.agreed
        listed = agreed.members
        is_listed = [one.member in listed for one in self.brokers[: self.size]]
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
