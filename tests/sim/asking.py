"""
A master asks the controller for a set: once per attempt, and may hear nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.network import CONTROLLER

from pystore.ha.insync.member import AgreedSet, SetChange

if TYPE_CHECKING:
    from sim.broker import Broker

__all__ = ["ask"]

_PATIENCE_MS = 3_000


def ask(broker: Broker, change: SetChange) -> None:
    """
    Sends a change; its answer, or the lack of one, goes to the judgement.
    """
    network, controller = broker.world.network, broker.world.controller
    mastering, member, clock = broker.mastering, broker.member, broker.clock
    assert mastering is not None

    def is_over() -> bool:
        return broker.mastering is not mastering or mastering.is_over

    def answered(answer: AgreedSet | frozenset[int]) -> None:
        if is_over():
            return
        if isinstance(answer, AgreedSet):
            mastering.judge.agreed(answer, clock.now)
        else:
            mastering.judge.refused(change, answer, clock.now)
        mastering.after()

    def arrive() -> None:
        now = broker.world.controller_clock.now
        found = controller.alter(change, member, now)
        answer = found if isinstance(found, AgreedSet) else found.broker_ids
        back = broker.own(lambda: answered(answer))
        network.message(CONTROLLER, broker.broker_id, back)

    def give_up() -> None:
        if not is_over():
            mastering.judge.unknown(change, clock.now)
            mastering.after()

    network.message(broker.broker_id, CONTROLLER, arrive, may_double=False)
    clock.after(_PATIENCE_MS, broker.own(give_up))
