"""
The registration of a broker's process: the real negotiation of its id, over a store
that keeps its writes when the process dies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sim.checkers import Violation
from sim.ledger import NAMES
from sim.requests import ask

from pystore.controller.identity.identity import ConfiguredIdentity, check_code
from pystore.controller.identity.negotiation import (
    DeleteTemp,
    GiveUp,
    Negotiation,
    Pause,
    ReadIdentity,
    WriteConfirmed,
    WriteTemp,
)
from pystore.controller.model.commands import (
    ApplyId,
    ChangeBroker,
    Command,
    GetNextId,
    Recovery,
    Register,
)
from pystore.controller.model.decision import CommandResult, Rejected
from pystore.controller.model.replies import Done, NextBrokerId
from pystore.controller.protocol.calls import (
    Answer,
    ApplyBrokerId,
    CallRefused,
    CallUnanswered,
    GetNextBrokerId,
    MasterInfo,
    RegisterBroker,
)

if TYPE_CHECKING:
    from sim.broker import Broker

__all__ = ["register"]


def register(broker: Broker, recovery: Recovery, done: Callable[[], None]) -> None:
    """
    Negotiates until a process is registered, then calls *done*.
    """
    _Registration(broker, recovery, done).go_on()


class _Registration:
    def __init__(
        self, broker: Broker, recovery: Recovery, done: Callable[[], None]
    ) -> None:
        self._broker = broker
        self._recovery = recovery
        self._done = done
        self._address = broker.address
        self._negotiation = Negotiation(
            ConfiguredIdentity(*NAMES, self._address),
            lambda: check_code(
                self._address, broker.clock.now, broker.random.randbytes(8)
            ),
            recovery,
        )

    def go_on(self) -> None:
        """
        Does what is to be done, until something has to be waited for.
        """
        broker = self._broker
        while True:
            now = self._negotiation
            match effect := now.next_effect():
                case None:
                    self._done()
                    return
                case GiveUp():
                    raise Violation(f"broker {broker.number} stopped: {effect.reason}")
                case Pause():
                    pause = broker.random.randint(100, 400 * min(effect.failures, 5))
                    broker.clock.after(pause, broker.own(self._paused))
                    return
                case GetNextBrokerId() | ApplyBrokerId() | RegisterBroker():
                    ask(broker, self._commands(effect), self._heard)
                    return
                case ReadIdentity():
                    broker.step()
                    self._negotiation = now.found(broker.identity)
                case _:
                    self._write(effect)

    def _write(self, effect: WriteTemp | WriteConfirmed | DeleteTemp) -> None:
        broker = self._broker
        broker.step()
        match effect:
            case WriteTemp():
                broker.identity = effect.temporary
            case WriteConfirmed():
                broker.identity = effect.identity
                broker.world.named(broker, effect.identity.broker_id)
            case DeleteTemp():
                broker.identity = None
        broker.step()
        self._negotiation = self._negotiation.stored()

    def _paused(self) -> None:
        self._negotiation = self._negotiation.paused()
        self.go_on()

    def _commands(
        self, effect: GetNextBrokerId | ApplyBrokerId | RegisterBroker
    ) -> list[Command]:
        broker = self._broker
        match effect:
            case GetNextBrokerId():
                return [GetNextId()]
            case ApplyBrokerId():
                return [ApplyId(effect.broker_id, effect.register_check_code)]
            case _:
                number = effect.broker_id
                # A Java broker tells nothing of its process.
                told = None if broker.is_legacy else self._recovery
                register = Register(number, effect.address, told)
                if not broker.is_learner:
                    return [register]
                # The operator sees to it.
                return [ChangeBroker(number, is_learner=True), register]

    def _heard(self, decision: CommandResult | None) -> None:
        before = self._negotiation.next_effect()
        answer: Answer
        if decision is None:
            self._broker.seek()
            answer = CallUnanswered("no answer")
        elif isinstance(decision, Rejected):
            answer = CallRefused(decision.code, decision.reason)
        elif isinstance(before, GetNextBrokerId):
            assert isinstance(decision.reply, NextBrokerId)
            answer = decision.reply
        else:
            answer = Done() if isinstance(before, ApplyBrokerId) else MasterInfo()
        self._broker.step()
        self._negotiation = self._negotiation.answered(answer)
        self.go_on()
