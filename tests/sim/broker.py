"""
A broker: a store that stays, and processes that come and go.

A process beats to the controller, believes what it is told if no newer epoch was
promised, and is then a master or a slave. All of it hangs on one life: what was
scheduled by a process that is gone does not happen.
"""

from __future__ import annotations

from random import Random

from sim.asking import ask
from sim.checkers import Checker
from sim.clock import Clock, LocalClock
from sim.controller import Controller, Ended, Heartbeat, Role, incarnation_bits
from sim.following import Following
from sim.mastering import Mastering
from sim.network import CONTROLLER, Network, Stream
from sim.process import Process
from sim.rim import rim_of
from sim.setting import Setting
from sim.store import SimStore

from pystore.epochs import EpochEntry
from pystore.ha.insync.member import Member
from pystore.ha.insync.rules import SetRules
from pystore.ha.slave.effects import Append, Confirm, Cut, Effect, Send, Wipe
from pystore.ha.slave.terms import Terms

__all__ = ["Broker", "World"]

_BEAT_MS = 1_000


class World:
    """
    What all brokers share.

    Args:
        random: chance.
        rules: of every mastership.
        continues: see `Controller`.
        setting: what is unusual.
    """

    def __init__(
        self, random: Random, rules: SetRules, *, continues: bool, setting: Setting
    ) -> None:
        self.random = random
        self.rules = rules
        self.setting = setting
        self.clock = Clock()
        self.controller_clock = self.local_clock(CONTROLLER)
        self.network = Network(self.clock, random)
        self.controller = Controller(continues=continues)
        self.brokers: dict[int, Broker] = {}
        self.checker = Checker(rules.min_in_sync)
        self.numbers = self.links = self.legacy_links = self.cuts = 0

    def local_clock(self, number: int) -> LocalClock:
        """
        Returns the clock of a machine.
        """
        rate = self.setting.rates.get(number, 1.0)
        offset = self.random.randint(0, 10**9) if self.setting.is_skewed else 0
        return LocalClock(self.clock, rate, offset)

    def number(self) -> int:
        """
        A number that nobody had before.
        """
        self.numbers += 1
        return self.numbers


class Broker(Process):
    """
    One broker of the set.

    Args:
        broker_id: from 1 on.
        world: around it.
        is_learner: whether it counts for nothing.

    Attributes:
        flushes: whether its disk gets anything durable.
        is_legacy: whether its process follows by the legacy protocol.
        is_java: see `sim.setting.Setting`.
        refusal: why its last link ended.
    """

    def __init__(
        self, broker_id: int, world: World, *, is_learner: bool = False
    ) -> None:
        super().__init__(world.local_clock(broker_id), world.random)
        self.broker_id = broker_id
        self.world = world
        self.store = SimStore()
        self.flushes = True
        self.is_legacy = False
        self.is_java = broker_id in world.setting.java_ids
        self.refusal = ""
        self.mastering: Mastering | None = None
        self.following: Following | None = None
        self.role: Role | None = None
        self._is_learner = is_learner
        self._counter = 0
        self._before = Ended.CLEAN
        self._begun = 0
        self._wake_at: int | None = None
        self._master_id: int | None = None
        self._given_up = -1
        self._heard: EpochEntry | None = None
        self.member = Member(broker_id)

    # -- life -----------------------------------------------------------------

    def start(self) -> None:
        """
        A process begins: a new incarnation.
        """
        self.begin()
        self._counter += 1
        bits = incarnation_bits(self.broker_id, self._counter)
        self.member = Member(self.broker_id, (self._counter, bits))
        setting = self.world.setting
        is_always = self.broker_id in setting.legacy_ids
        # The chance of a set without legacy links is left as it is.
        share = setting.legacy_share
        self.is_legacy = is_always or (share > 0 and self.random.random() < share)
        self._wake_at = None
        self.role, self._master_id, self._given_up = None, None, -1
        self.refusal = ""
        self.store.open()
        self._begun = self.store.end
        self.world.checker.opened(self.broker_id, self.store)
        self.every(_BEAT_MS, self._beat)
        self._flush_later()

    def end(self, how: Ended) -> None:
        """
        The process is gone; with the power, what was not flushed is, too.
        """
        if not self.is_up:
            return
        if how is Ended.CLEAN:
            self._leave()
        self.is_up, self.fuse = False, None
        if self.mastering is not None:
            self.mastering.drop()
        if self.following is not None:
            self.following.drop()
        self.mastering = self.following = None
        # A disk that failed proves nothing of what it was given.
        was_lost = how is Ended.POWER or self.store.is_poisoned
        self._before = Ended.POWER if was_lost else how
        if was_lost:
            self.store.lose_power(self.random)

    def _leave(self) -> None:
        if self.following is not None:
            self.following.leave()
        if self.mastering is not None:
            self.mastering.step_down(2**62)
        self.store.flush()

    # -- the controller -------------------------------------------------------

    def _beat(self) -> None:
        network, controller = self.world.network, self.world.controller
        number = self.broker_id
        epochs = self.store.epochs.drop_above(self.store.published)
        beat = Heartbeat(
            self.member,
            self.clock.now,
            epochs.last_epoch,
            self.store.published,
            self._before,
            self._begun,
            self._is_learner,
            self._given_up,
            not self.store.is_poisoned,
        )

        def arrive() -> None:
            role = controller.beat(beat, self.world.controller_clock.now)
            network.message(CONTROLLER, number, self.own(lambda: self._told(role)))

        network.message(number, CONTROLLER, arrive)

    def _told(self, role: Role) -> None:
        store = self.store
        known = self.role
        is_old = known is not None and role.epoch < known.epoch
        if role.epoch < store.promised or is_old:
            return
        self.step()
        store.promise(role.epoch)
        self.role = role
        if role.master == self.member:
            self._be_master(role)
            return
        self.step_down(role.epoch)
        if role.master is None:
            return
        following = self.following
        self._master_id = role.master.broker_id
        is_same = following is not None and following.role_epoch == role.epoch
        if following is not None and not following.is_over and not is_same:
            following.drop()
        if following is None or following.is_over:
            self._connect_later(1)

    def _be_master(self, role: Role) -> None:
        mastering = self.mastering
        if mastering is not None and mastering.epoch == role.epoch:
            if not mastering.is_over:
                if role.lease_ms is not None:
                    mastering.lease_ms = max(mastering.lease_ms or 0, role.lease_ms)
                mastering.judge.agreed(role.agreed, self.clock.now)
                mastering.after()
            return
        if self._given_up == role.epoch:
            return
        self.step_down(role.epoch)
        if self.following is not None:
            self.following.drop()
            self.following = None
        self._master_id = None
        self.step()
        if self.store.begin_epoch(role.epoch, self._heard):
            self.world.checker.unrecorded(self.store)
        self.step()
        self.world.checker.elected(
            self.broker_id, self.store, role.epoch, self.world.controller.elections
        )
        self.mastering = Mastering(
            self.member,
            role.epoch,
            self.store,
            role.agreed,
            rules=self.world.rules,
            rim=rim_of(self, role.epoch),
        )
        if role.lease_ms is not None:
            self.mastering.lease_ms = role.lease_ms

    def step_down(self, epoch: int) -> None:
        """
        A newer epoch is known.
        """
        mastering = self.mastering
        if mastering is not None and mastering.epoch < epoch and not mastering.is_over:
            self._given_up = mastering.epoch
            mastering.step_down(epoch)

    # -- the slave ------------------------------------------------------------

    def _connect_later(self, delay: int) -> None:
        self.following = None
        self.clock.after(delay, self.own(self._connect))

    def _connect(self) -> None:
        role, number = self.role, self._master_id
        is_idle = self.following is None or self.following.is_over
        if role is None or number is None or not is_idle:
            return
        master = self.world.brokers[number]
        stream = self.world.network.connect(self.broker_id, number)
        if stream is None or master.mastering is None or not master.is_up:
            if stream is not None:
                stream.up.drop()
                stream.down.drop()
            self._connect_later(self.random.randint(300, 1_500))
            return
        assert self.member.incarnation is not None
        # Some know from the controller only where the master is.
        is_told = self.random.random() < 0.7
        terms = Terms(
            "sim",
            "set",
            self.broker_id,
            incarnation=self.member.incarnation[0],
            incarnation_bits=self.member.incarnation[1],
            epoch=role.epoch if is_told else None,
            is_learner=self._is_learner,
            may_wipe=not role.is_listed,
            wants_block_crc=bool(number & 1),
        )
        self.following = following = Following(
            terms,
            stream,
            self.store,
            now=lambda: self.clock.now,
            step=self.step,
            changed=self._changed,
            role_epoch=role.epoch,
            is_legacy=self.is_legacy,
            boasts=self.broker_id in self.world.setting.boasting_ids,
        )
        stream.down.receive = self.hearing(following.receive)
        stream.down.lost = self.own(following.lost)
        if self.is_java:
            self._heard = master.store.epochs.entries[-1]
        self.world.links += 1
        self.world.legacy_links += self.is_legacy
        master.accept(stream, self.member)
        following.begin()

    def accept(self, stream: Stream, slave: Member) -> None:
        """
        A slave connects.
        """
        assert self.mastering is not None
        mastering = self.mastering
        mastering.accept(stream, slave)
        stream.up.receive = self.hearing(stream.up.receive)
        stream.up.lost = self.own(stream.up.lost)
        # The slave's handshake is under way; silence has a deadline.
        self.clock.after(1, self.own(lambda: None))

    def _changed(self, effect: Effect) -> None:
        checker, number = self.world.checker, self.broker_id
        if isinstance(effect, Append):
            checker.wrote(number, self.store)
        elif isinstance(effect, Send):
            checker.told(number, self.store, effect.data)
        elif isinstance(effect, Cut | Wipe):
            self.world.cuts += 1
            checker.cut(number, self.store)
        elif isinstance(effect, Confirm):
            checker.confirmed(number, self.store, is_master=False)

    # -- time -----------------------------------------------------------------

    def _flush_later(self) -> None:
        def flush() -> None:
            store = self.store
            before = store.flushed, store.is_poisoned
            if self.flushes:
                self.step()
                store.flush()
            if (store.flushed, store.is_poisoned) != before or store.is_poisoned:
                if self.mastering is not None and not self.mastering.is_over:
                    self.mastering.flushed()
                if self.following is not None:
                    self.following.flushed()
            self._flush_later()

        delay = self.random.randint(50, 400)
        self.clock.after(delay, self.own(flush))

    def after(self) -> None:
        """
        Something happened: wishes are told, and the next deadline is kept.
        """
        clock = self.clock
        mastering, following = self.mastering, self.following
        due: int | None = None
        if mastering is not None and not mastering.is_over:
            self._propose()
            due = mastering.next_deadline()
        elif following is not None:
            if following.is_over:
                self.refusal = following.reason
                self._connect_later(self.random.randint(300, 1_500))
            else:
                due = following.next_deadline()
        if due is None or (self._wake_at is not None and self._wake_at <= due):
            return
        due = max(due, clock.now + 1)
        self._wake_at = due
        clock.at(due, self.own(self._wake))

    def _wake(self) -> None:
        self._wake_at = None
        if self.mastering is not None and not self.mastering.is_over:
            self.mastering.tick()
        if self.following is not None and not self.following.is_over:
            self.following.tick()

    def _propose(self) -> None:
        mastering = self.mastering
        assert mastering is not None
        change = mastering.judge.proposal(self.clock.now)
        if change is not None:
            ask(self, change)
            mastering.after()
        if mastering.judge.must_resign(self.clock.now):
            self._given_up = mastering.epoch
            mastering.step_down(mastering.epoch + 1)
