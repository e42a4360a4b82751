"""
The environment of a mastership: its inputs and its callbacks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.checkers import Violation

from pystore.ha.insync.ack import AckOutcome, AckResult
from pystore.ha.insync.facts import SessionAcked
from pystore.replicaset import Incarnation

if TYPE_CHECKING:
    from sim.broker import Broker

__all__ = ["MasterEnvironment", "environment_of"]


@dataclass(frozen=True, slots=True)
class MasterEnvironment:
    """
    All that lies around it.

    Attributes:
        now: the clock.
        broker_ids: all brokers that the controller knows.
        step: is called before each effect; may raise what a crash is.
        acked: an ack was taken, of a process.
        confirmed: the confirm offset moved.
        settled: a wait ended.
        stepped_down: a newer epoch is known.
        number: of a session; not 0.
        wall_ms: what to add to the clock for the wall clock.
        is_java: see `sim.setting.Setting`.
    """

    now: Callable[[], int]
    broker_ids: Callable[[], frozenset[int]]
    step: Callable[[], None]
    acked: Callable[[SessionAcked, Incarnation | None], None]
    confirmed: Callable[[], None]
    settled: Callable[[AckResult], None]
    stepped_down: Callable[[int], None]
    number: Callable[[], int]
    wall_ms: Callable[[], int]
    is_java: bool


def environment_of(broker: Broker, epoch: int) -> MasterEnvironment:
    """
    Returns the rim of a mastership of that epoch, which tells the checker.
    """
    world, checker = broker.world, broker.world.checker

    def settled(one: AckResult) -> None:
        if one.outcome is AckOutcome.REACHED and not one.ack.is_shared:
            others = {
                other.mastership.epoch
                for other in world.brokers.values()
                if other.mastership is not None and other.mastership.is_leased
            }
            if others - {epoch}:
                raise Violation(
                    f"B8: {one} of epoch {epoch}, others have leases: {others}"
                )
        checker.settled(epoch, one, world.clock.now)

    def acked(fact: SessionAcked, incarnation: Incarnation | None) -> None:
        slave = world.by_id[fact.broker_id]
        is_same = slave.is_up and slave.process == incarnation
        # What arrives from a process that is gone, or that follows another master by
        # now, says what it had.
        if is_same and slave.store.promised <= epoch:
            checker.acked(broker.store, slave.store, fact, epoch, slave.number)

    return MasterEnvironment(
        now=lambda: broker.clock.now,
        broker_ids=lambda: broker.role.broker_ids if broker.role else frozenset(),
        step=broker.step,
        acked=acked,
        confirmed=lambda: checker.confirmed(
            broker.number, broker.store, is_master=True
        ),
        settled=settled,
        stepped_down=broker.step_down,
        number=world.number,
        wall_ms=lambda: broker.clock.wall_ms,
        is_java=broker.is_java,
    )
