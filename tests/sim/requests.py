"""
Requests of a broker to a controller: once per attempt, perhaps without an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pystore.controller.model.commands import AlterSet, Command
from pystore.controller.model.decision import Accepted, CommandResult
from pystore.controller.model.replies import NewSet
from pystore.ha.insync.set_change import SetChange

if TYPE_CHECKING:
    from sim.broker import Broker

__all__ = ["ask", "propose"]

_PATIENCE_MS = 3_000


def ask(
    broker: Broker,
    commands: Sequence[Command],
    heard: Callable[[CommandResult | None], None],
) -> None:
    """
    Asks the controller that a broker takes for the leader; ``None``: it does not lead,
    or there is no answer.
    """
    world, number, target = broker.world, broker.number, broker.leader
    network, controller = world.network, world.controllers[target]
    is_over = False

    def once(decision: CommandResult | None) -> None:
        nonlocal is_over
        if not is_over:
            is_over = True
            heard(decision)

    hear, connection = broker.hearing(once), broker.connection

    def back(decision: CommandResult | None) -> None:
        network.message(target, number, partial(hear, decision))

    def arrive() -> None:
        if not controller.ask(commands, back, connection):
            back(None)

    network.message(number, target, controller.own(arrive), may_double=False)
    broker.clock.after(_PATIENCE_MS, broker.own(lambda: once(None)))


def propose(broker: Broker, change: SetChange) -> None:
    """
    Sends a change of the set; its answer, or the lack of one, goes to the in-sync
    logic.
    """
    mastership, clock = broker.mastership, broker.clock
    assert mastership is not None
    command = AlterSet(
        broker.member,
        change.epoch,
        change.set_epoch,
        change.members,
        change.candidates,
        change.is_fence,
    )

    def heard(decision: CommandResult | None) -> None:
        if broker.mastership is not mastership or mastership.is_over:
            return
        monitor, now = mastership.monitor, clock.now
        if decision is None:
            monitor.unknown(change, now)
        elif isinstance(decision, Accepted):
            assert isinstance(decision.reply, NewSet)
            monitor.agreed(decision.reply.agreed, now)
        else:
            monitor.refused(change, decision.broker_ids, now)
        mastership.after()

    ask(broker, [command], heard)
