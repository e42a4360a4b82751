"""
A broker: a store that stays, and processes that come and go.

A process gets its id and registers, beats to the controllers, believes what it is told
if no newer epoch was promised, and is then a master or a slave. All of it hangs on one
life: what was scheduled by a process that is gone does not happen.
"""

from __future__ import annotations

from functools import partial

from sim.controller import Controller
from sim.environment import environment_of
from sim.follower import SimFollower
from sim.machine import Machine
from sim.mastership import SimMastership
from sim.messages import Beat, Ended, Role
from sim.network import Stream
from sim.registration import register
from sim.requests import ask, propose
from sim.world import World

from pystore.controller.model.commands import Elect, Trigger
from pystore.controller.model.decision import CommandResult
from pystore.epochs.table import EpochEntry
from pystore.ha.master.lease import lease_from
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.effects import Append, Begin, Confirm, Cut, SlaveEffect, Wipe
from pystore.ha.wire.effects import Send
from pystore.replicaset import Member

__all__ = ["Broker"]

_BEAT_MS = 1_000


class Broker(Machine):
    """
    One broker of the set.

    Args:
        number: its place, from 1 on.
        world: around it.
        is_learner: whether it counts for nothing.

    Attributes:
        flushes: whether its disk gets anything durable.
        is_java: see `sim.setting.Setting`.
        refusal: why its last link ended.
    """

    def __init__(self, number: int, world: World, *, is_learner: bool = False) -> None:
        super().__init__(number, world, is_learner=is_learner)
        self.flushes = True
        self.is_java = number in world.setting.java_ids
        self.refusal = ""
        self.mastership: SimMastership | None = None
        self.follower: SimFollower | None = None
        self.role: Role | None = None
        self._is_seeking = False
        self._wake_at: int | None = None
        self._master_id: int | None = None
        self._given_up = -1
        self._heard: EpochEntry | None = None

    # -- life -----------------------------------------------------------------

    def start(self) -> None:
        """
        A process begins: a new incarnation.
        """
        self.begin()
        setting = self.world.setting
        is_always = self.number in setting.legacy_ids
        # The chance of a set without legacy links is left as it is.
        share = setting.legacy_share
        self.is_legacy = is_always or (share > 0 and self.random.random() < share)
        self._wake_at = None
        self.role, self._master_id, self._given_up = None, None, -1
        self.refusal, self._is_seeking = "", False
        recovery = self.recover()
        self._flush_later()
        self.clock.after(
            self.random.randint(1, 20),
            self.own(lambda: register(self, recovery, self._registered)),
        )

    def _registered(self) -> None:
        self.registered()
        self.every(_BEAT_MS, self._beat)

    def end(self, how: Ended) -> None:
        """
        The process is gone; with the power, what was not flushed is, too.
        """
        if not self.is_up:
            return
        if how is Ended.CLEAN:
            self._leave()
        self.is_up, self.fuse = False, None
        if self.mastership is not None:
            self.mastership.drop()
        if self.follower is not None:
            self.follower.drop()
        self.mastership = self.follower = None
        self.left(how)

    def _leave(self) -> None:
        if self.follower is not None:
            self.follower.leave()
        if self.mastership is not None:
            self.mastership.step_down(2**62)
        self.store.flush()

    # -- the controller -------------------------------------------------------

    def _beat(self) -> None:
        network, number, clock = self.world.network, self.number, self.clock
        mastership = self.mastership
        is_master = mastership is not None and not mastership.is_over
        sent_ms, wall_ms = clock.now, clock.now + clock.wall_ms
        heartbeat = self.heartbeat()
        epoch = mastership.epoch if is_master and mastership else 0
        beat = Beat(heartbeat, epoch, self._given_up, sent_ms, wall_ms)

        # The answer to another life's heartbeat is dropped.
        taking = {
            target: self.hearing(partial(self._told, beat, target))
            for target in self.world.controllers
        }

        def arrive(target: int, controller: Controller) -> None:
            take = taking[target]
            controller.beat(
                beat, lambda role: network.message(target, number, partial(take, role))
            )

        for target, controller in self.world.controllers.items():
            event = controller.own(partial(arrive, target, controller))
            network.message(number, target, event)

    def _told(self, beat: Beat, target: int, role: Role) -> None:
        store = self.store
        known = self.role
        is_old = known is not None and role.epoch < known.epoch
        if role.epoch < store.promised or is_old:
            return
        self.step()
        store.promise(role.epoch)
        self.role, self.leader = role, target
        if role.master == self.member:
            self._be_master(role)
            self._lease(role, beat)
            return
        self.step_down(role.epoch)
        if role.master is None:
            self._seek_master()
            return
        if role.master.broker_id == self.broker_id:
            # Our own former self (B1).
            return
        following = self.follower
        self._master_id = role.master.broker_id
        is_same = following is not None and following.role_epoch == role.epoch
        if following is not None and not following.is_over and not is_same:
            following.drop()
        if following is None or following.is_over:
            self._connect_later(1)

    def _be_master(self, role: Role) -> None:
        mastership = self.mastership
        if mastership is not None and mastership.epoch == role.epoch:
            if not mastership.is_over:
                mastership.monitor.agreed(role.agreed, self.clock.now)
                mastership.after()
            return
        if self._given_up == role.epoch:
            return
        self.step_down(role.epoch)
        if self.follower is not None:
            self.follower.drop()
            self.follower = None
        self._master_id = None
        self.step()
        if self.store.begin_epoch(role.epoch, self._heard):
            self.world.checker.unrecorded(self.store)
        self.step()
        self.world.checker.elected(
            self.number, self.store, role.epoch, self.world.ledger.elections
        )
        self.mastership = SimMastership(
            self.member,
            role.epoch,
            self.store,
            role.agreed,
            rules=self.world.rules,
            environment=environment_of(self, role.epoch),
        )

    def _lease(self, role: Role, beat: Beat) -> None:
        mastership = self.mastership
        if mastership is None or mastership.is_over or mastership.epoch != role.epoch:
            return
        # A request from before this mastership is not of it.
        if role.lease_ms > 0 and beat.epoch == role.epoch:
            lease = lease_from(
                beat.sent_ms * 1_000_000, beat.sent_wall_ms, role.lease_ms
            )
            if lease.boottime_ns > mastership.lease.boottime_ns:
                mastership.lease = lease
        mastership.after()

    def _seek_master(self) -> None:
        """
        There is no master: requests an election (1002).
        """
        if self._is_seeking or self.is_learner:
            return
        self._is_seeking = True

        def heard(_: CommandResult | None) -> None:
            self._is_seeking = False

        ask(self, [Elect(Trigger.BROKER, self.broker_id)], heard)

    def step_down(self, epoch: int) -> None:
        """
        A newer epoch is known.
        """
        mastership = self.mastership
        if (
            mastership is not None
            and mastership.epoch < epoch
            and not mastership.is_over
        ):
            self._given_up = mastership.epoch
            mastership.step_down(epoch)

    # -- the slave ------------------------------------------------------------

    def _connect_later(self, delay: int) -> None:
        self.follower = None
        self.clock.after(delay, self.own(self._connect))

    def _may_wipe(self) -> bool:
        return self.role is not None and not self.role.lists(self.broker_id)

    def _connect(self) -> None:
        role, number = self.role, self._master_id
        is_idle = self.follower is None or self.follower.is_over
        if role is None or number is None or not is_idle:
            return
        master = self.world.by_id[number]
        stream = self.world.network.connect(self.number, master.number)
        if stream is None or master.mastership is None or not master.is_up:
            if stream is not None:
                stream.up.drop()
                stream.down.drop()
            self._connect_later(self.random.randint(300, 1_500))
            return
        # Some know from the controller only where the master is.
        is_told = self.random.random() < 0.7
        config = SlaveConfig(
            "sim",
            "set",
            self.broker_id,
            incarnation=self.counter,
            incarnation_bits=self.bits,
            epoch=role.epoch if is_told else None,
            is_learner=self.is_learner,
            may_wipe=self._may_wipe,
            wants_block_crc=bool(number & 1),
        )
        self.follower = following = SimFollower(
            config,
            stream,
            self.store,
            now=lambda: self.clock.now,
            step=self.step,
            changed=self._changed,
            role_epoch=role.epoch,
            is_legacy=self.is_legacy,
            inflates_acks=self.number in self.world.setting.inflating_ids,
        )
        stream.down.receive = self.hearing(following.receive)
        stream.down.lost = self.own(following.lost)
        if self.is_java:
            self._heard = master.store.epochs.entries[-1]
        self.world.links += 1
        self.world.legacy_links += self.is_legacy
        master.accept(stream, Member(self.broker_id, self.process))
        following.begin()

    def accept(self, stream: Stream, slave: Member) -> None:
        """
        A slave connects.
        """
        assert self.mastership is not None
        mastership = self.mastership
        mastership.accept(stream, slave)
        stream.up.receive = self.hearing(stream.up.receive)
        stream.up.lost = self.own(stream.up.lost)
        # The slave's handshake is under way; silence has a deadline.
        self.clock.after(1, self.own(lambda: None))

    def _changed(self, effect: SlaveEffect) -> None:
        checker, number = self.world.checker, self.number
        if isinstance(effect, Append):
            checker.wrote(number, self.store)
        elif isinstance(effect, Send):
            checker.told(number, self.store, effect.data)
        elif isinstance(effect, Cut | Wipe):
            self.world.cuts += 1
            checker.cut(number, self.store)
        elif isinstance(effect, Begin):
            # Its empty log may begin below the end of an earlier one.
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
                if self.mastership is not None and not self.mastership.is_over:
                    self.mastership.flushed()
                if self.follower is not None:
                    self.follower.flushed()
            self._flush_later()

        delay = self.random.randint(50, 400)
        self.clock.after(delay, self.own(flush))

    def after(self) -> None:
        """
        Something happened: wishes are told, and the next deadline is kept.
        """
        clock = self.clock
        mastership, following = self.mastership, self.follower
        due: int | None = None
        if mastership is not None and not mastership.is_over:
            self._propose()
            due = mastership.next_deadline()
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
        if self.mastership is not None and not self.mastership.is_over:
            self.mastership.tick()
        if self.follower is not None and not self.follower.is_over:
            self.follower.tick()

    def _propose(self) -> None:
        mastership = self.mastership
        assert mastership is not None
        change = mastership.monitor.proposal(self.clock.now)
        if change is not None:
            propose(self, change)
            mastership.after()
        if mastership.monitor.must_resign(self.clock.now):
            self._given_up = mastership.epoch
            mastership.step_down(mastership.epoch + 1)
