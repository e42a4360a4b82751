"""
A machine with a broker: a durable store, which has the identity of the broker and the
number of its starts, and processes, each with another incarnation.
"""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING

from sim.messages import Ended
from sim.network import CONTROLLER
from sim.process import Process
from sim.store import SimStore

from pystore.controller.liveness.heartbeats import Heartbeat
from pystore.controller.model.commands import Recovery
from pystore.controller.model.log_end import LogEnd
from pystore.metastore.values import Identity
from pystore.replicaset import Incarnation, Member
from pystore.rocketmq.identity_file import BrokerIdentity

if TYPE_CHECKING:
    from sim.world import World

__all__ = ["Machine"]


class Machine(Process):
    """
    One.

    Args:
        number: its place, from 1 on.
        world: around it.
        is_learner: whether its broker counts for nothing.

    Attributes:
        broker_id: that it was given; its place until then.
        identity: what its store says of that.
        member: the process, once it is registered.
        counter: of its starts.
        bits: of this start.
        leader: the controller that it takes for the leader.
        connection: to the controllers, by its number.
        is_copy: its store is an older copy, and no operator has confirmed it.
        is_legacy: whether its process follows by the legacy protocol, and tells the
            controllers no more than a Java broker does.
    """

    def __init__(self, number: int, world: World, *, is_learner: bool) -> None:
        super().__init__(world.local_clock(number), world.random)
        self.number = self.broker_id = number
        self.world = world
        self.is_learner = is_learner
        self.store = SimStore()
        self.identity: Identity = None
        self.member = Member(number)
        self.counter = 0
        self.bits = bytes(16)
        self.leader = CONTROLLER
        self.is_copy = False
        self.is_legacy = False
        self._before = Ended.CLEAN
        self._published = 0
        self._boots = 0
        self.connection = 0
        self._saved = SimStore(), 0, Ended.CLEAN

    def recover(self) -> Recovery:
        """
        Another incarnation begins; answers what it says of itself and of its store.
        """
        self.counter += 1
        self.bits = self.world.number().to_bytes(16, "big")
        self.connection = self.world.number()
        self.store.open()
        self.world.checker.opened(self.number, self.store)
        return Recovery(
            self.process,
            self._boot_id,
            self._position,
            published_end=self._published,
            is_clean=self._before is Ended.CLEAN,
            keeps_pages=self._before is Ended.KILLED,
        )

    def registered(self) -> None:
        """
        A controller knows it.
        """
        assert isinstance(self.identity, BrokerIdentity)
        self.broker_id = self.identity.broker_id
        told = None if self.is_legacy else self.process
        self.member = Member(self.broker_id, told)
        if self.is_copy:
            self.world.ledger.copies.add(self.member)

    def left(self, how: Ended) -> None:
        """
        The process is gone; what becomes of its store, and of its connections?
        """
        # A disk that failed proves nothing of what it was given.
        was_lost = how is Ended.POWER or self.store.is_poisoned
        self._before = Ended.POWER if was_lost else how
        self._published = self.store.published
        if self.is_legacy:
            self.world.checker.forgets(self.number, self.store)
        if was_lost:
            self._boots += 1
            self.store.lose_power(self.random)
        if how is not Ended.POWER:
            self.hang_up(is_dead=True)

    def heartbeat(self) -> Heartbeat:
        """
        What it says of itself.
        """
        return Heartbeat(
            self.broker_id,
            self.connection,
            self.member.incarnation,
            self._boot_id,
            None if self.is_legacy else self.clock.now * 1_000_000,
            self._position,
            self.store.flushed,
            is_ill=self.store.is_poisoned,
            address=self.address,
        )

    @property
    def address(self) -> str:
        """
        Where it listens.
        """
        return f"10.0.0.{self.number}:10911"

    @property
    def process(self) -> Incarnation:
        """
        The incarnation of this start.
        """
        return Incarnation(self.counter, self.bits)

    @property
    def _boot_id(self) -> str:
        return f"boot {self._boots}"

    @property
    def _position(self) -> LogEnd:
        epochs = self.store.epochs.drop_above(self.store.published)
        return LogEnd(epochs.last_epoch, self.store.published)

    def seek(self) -> None:
        """
        Another controller may lead.
        """
        self.leader = self.random.choice(list(self.world.controllers))

    def hang_up(self, *, is_dead: bool) -> None:
        """
        The connections to the controllers end, and these hear of it if they can.

        Args:
            is_dead: its process has ended.
        """
        connection, self.connection = self.connection, self.world.number()
        for target, controller in self.world.controllers.items():
            end = partial(controller.closed, connection, is_dead=is_dead)
            closed = controller.own(end)
            self.world.network.message(self.number, target, closed, may_double=False)

    def save(self) -> None:
        """
        Makes a backup of the store.
        """
        # Only what was closed has a clean mark.
        before = Ended.POWER if self.is_up else self._before
        self._saved = deepcopy(self.store), self.counter, before

    def restore(self) -> None:
        """
        Its store becomes the backup, or a new one; its identity stays.
        """
        assert not self.is_up
        store, self.counter, self._before = self._saved
        self.store, self.is_copy = deepcopy(store), True
