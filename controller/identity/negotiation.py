"""
How a broker gets its id, and keeps it: each crash and each lost answer included. Pure.

An id is applied for under a code that was durable before. So whoever asks again, after
a crash or without an answer, shows the same code and gets the same id (R26): no id
leaks. What was written down is forgotten for one answer only, the one that says that
the id is another broker's (R28).

One literal table says what leads where; docs/identity.md draws its diagram from it. A
`Negotiation` is a value: each of its verbs returns the next one, so its owner, a
simulation and an exhaustive test drive the same code.

Source: R10 to R29, R38 to R44; formats 4.4, 4.13, 5.1; docs/identity.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum

from pystore.controller.identity.identity import ConfiguredIdentity, misfit_of
from pystore.controller.model.commands import Recovery
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
from pystore.errors import LocalViolation
from pystore.metastore.values import Identity
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity

__all__ = [
    "NEGOTIATION",
    "DeleteTemp",
    "GiveUp",
    "Negotiation",
    "NegotiationEffect",
    "NegotiationEvent",
    "NegotiationStep",
    "Pause",
    "ReadIdentity",
    "WriteConfirmed",
    "WriteTemp",
    "next_step",
]

_NOT_SUPPORTED = 3


class NegotiationStep(Enum):
    """
    What is being done; RocketMQ's name for it, where it has one.
    """

    READ = "looking into the store"
    ASK = "asking for an id"
    """``INITIAL``"""
    WRITE = "writing down what to apply for"
    APPLY = "applying for it"
    """``CREATE_TEMP_METADATA_FILE_DONE``"""
    FORGET = "forgetting what is another broker's"
    CONFIRM = "writing down what was given"
    REGISTER = "registering"
    """``CREATE_METADATA_FILE_DONE``"""
    REGISTERED = "registered"
    """``REGISTERED``"""
    STOPPED = "stopped: an operator has to help"


class NegotiationEvent(Enum):
    """
    What leads from one step to another.
    """

    FOUND_NOBODY = "the store knows nobody"
    FOUND_TEMPORARY = "the store knows what was applied for"
    FOUND_CONFIRMED = "the store knows its broker"
    FOUND_ANOTHER = "the store is another broker's"
    TOLD_ID = "told an id"
    STORED = "it is durable"
    ACCEPTED = "the controller accepts"
    TAKEN = "the id is another broker's"
    UNKNOWN = "the controller does not know this broker"
    UNSETTLED = "no answer, or none that settles it"
    FAILED = "the store failed, for now"
    UNREADABLE = "the store failed for good"
    AGAIN = "to be registered again"


_READ, _ASK, _WRITE, _APPLY, _FORGET, _CONFIRM, _REGISTER, _REGISTERED, _STOPPED = (
    NegotiationStep
)

# A failed write may have been made: so it is followed by a look, never by a guess.
NEGOTIATION: dict[tuple[NegotiationStep, NegotiationEvent], NegotiationStep] = {
    (_READ, NegotiationEvent.FOUND_NOBODY): _ASK,
    (_READ, NegotiationEvent.FOUND_TEMPORARY): _APPLY,
    (_READ, NegotiationEvent.FOUND_CONFIRMED): _REGISTER,
    (_READ, NegotiationEvent.FOUND_ANOTHER): _STOPPED,
    (_READ, NegotiationEvent.FAILED): _READ,
    (_READ, NegotiationEvent.UNREADABLE): _STOPPED,
    (_ASK, NegotiationEvent.TOLD_ID): _WRITE,
    (_ASK, NegotiationEvent.UNSETTLED): _ASK,
    (_WRITE, NegotiationEvent.STORED): _APPLY,
    (_WRITE, NegotiationEvent.FAILED): _READ,
    (_WRITE, NegotiationEvent.UNREADABLE): _STOPPED,
    (_APPLY, NegotiationEvent.ACCEPTED): _CONFIRM,
    (_APPLY, NegotiationEvent.TAKEN): _FORGET,
    (_APPLY, NegotiationEvent.UNSETTLED): _APPLY,
    (_FORGET, NegotiationEvent.STORED): _ASK,
    (_FORGET, NegotiationEvent.FAILED): _READ,
    (_FORGET, NegotiationEvent.UNREADABLE): _STOPPED,
    (_CONFIRM, NegotiationEvent.STORED): _REGISTER,
    (_CONFIRM, NegotiationEvent.FAILED): _READ,
    (_CONFIRM, NegotiationEvent.UNREADABLE): _STOPPED,
    (_REGISTER, NegotiationEvent.ACCEPTED): _REGISTERED,
    (_REGISTER, NegotiationEvent.UNKNOWN): _REGISTER,
    (_REGISTER, NegotiationEvent.UNSETTLED): _REGISTER,
    (_REGISTERED, NegotiationEvent.AGAIN): _REGISTER,
}

# What ends a row of failures: the world answered.
_PROGRESS = {
    NegotiationEvent.FOUND_NOBODY,
    NegotiationEvent.FOUND_TEMPORARY,
    NegotiationEvent.FOUND_CONFIRMED,
    NegotiationEvent.TOLD_ID,
    NegotiationEvent.STORED,
    NegotiationEvent.ACCEPTED,
    NegotiationEvent.TAKEN,
    NegotiationEvent.AGAIN,
}


def next_step(step: NegotiationStep, event: NegotiationEvent) -> NegotiationStep:
    """
    Returns where *event* leads from *step*.

    Raises:
        LocalViolation: nothing of the kind can happen there.
    """
    following = NEGOTIATION.get((step, event))
    if following is None:
        raise LocalViolation(f"{event.value!r} while {step.value}")
    return following


@dataclass(frozen=True, slots=True)
class Negotiation:
    """
    Where a broker stands on its way to an id and a registration.

    Its owner carries `next_effect` out, says how it ended by the verb that belongs to
    it, and goes on with the value that it got.

    Attributes:
        named: who the configuration says that it is.
        draw_code: a new check code with each call
            (`pystore.controller.identity.identity`).
        recovery: what is told at the registration beside RocketMQ's fields.
        step: what is being done.
        temporary: what is applied for, while it is.
        identity: who the broker is, once that is durable.
        mastership: what the registration answered.
        refused_id: the id that was another broker's, just now.
        failures: in a row.
        problem: of the last one, as one line; empty: there is none.
        is_paused: whether the owner is to wait first.
    """

    named: ConfiguredIdentity
    draw_code: Callable[[], str] = field(compare=False)
    recovery: Recovery | None = None
    step: NegotiationStep = NegotiationStep.READ
    temporary: TemporaryIdentity | None = None
    identity: BrokerIdentity | None = None
    mastership: MasterInfo | None = None
    refused_id: int | None = None
    failures: int = 0
    problem: str = ""
    is_paused: bool = False

    def next_effect(self) -> NegotiationEffect | None:
        """
        Returns what is to be done now; ``None``: the broker is registered.
        """
        if self.step is NegotiationStep.STOPPED:
            return GiveUp(self.problem)
        if self.is_paused:
            return Pause(self.failures, self.problem)
        if self.step is NegotiationStep.READ:
            return ReadIdentity()
        return self._request() or self._write()

    def _request(self) -> GetNextBrokerId | ApplyBrokerId | RegisterBroker | None:
        cluster, broker = self.named.cluster, self.named.broker
        if self.step is NegotiationStep.ASK:
            return GetNextBrokerId(cluster, broker)
        if self.step is NegotiationStep.APPLY and self.temporary is not None:
            wanted = self.temporary
            code = wanted.register_check_code
            return ApplyBrokerId(cluster, broker, wanted.identity.broker_id, code)
        if self.step is NegotiationStep.REGISTER and self.identity is not None:
            who, address = self.identity.broker_id, self.named.address
            return RegisterBroker(cluster, broker, who, address, self.recovery)
        return None

    def _write(self) -> WriteTemp | WriteConfirmed | DeleteTemp | None:
        if self.temporary is None:
            return None
        if self.step is NegotiationStep.WRITE:
            return WriteTemp(self.temporary)
        if self.step is NegotiationStep.CONFIRM:
            return WriteConfirmed(self.temporary.identity)
        return DeleteTemp(self.temporary)

    # -- the verbs of the owner ----------------------------------------------

    def found(self, stored: Identity) -> Negotiation:
        """
        What `ReadIdentity` found.
        """
        if misfit := misfit_of(stored, self.named):
            return self._after(NegotiationEvent.FOUND_ANOTHER, problem=misfit)
        match stored:
            case None:
                return self._after(NegotiationEvent.FOUND_NOBODY)
            case TemporaryIdentity():
                return self._after(NegotiationEvent.FOUND_TEMPORARY, temporary=stored)
            case _:
                return self._after(NegotiationEvent.FOUND_CONFIRMED, identity=stored)

    def stored(self) -> Negotiation:
        """
        `WriteTemp`, `WriteConfirmed` or `DeleteTemp` is durable.
        """
        if self.step is NegotiationStep.CONFIRM:
            assert self.temporary is not None
            identity = self.temporary.identity
            return self._after(
                NegotiationEvent.STORED, temporary=None, identity=identity
            )
        kept = None if self.step is NegotiationStep.FORGET else self.temporary
        return self._after(NegotiationEvent.STORED, temporary=kept)

    def failed(self, reason: str, *, is_final: bool) -> Negotiation:
        """
        The store could not be read or written; whether it was written is not known.
        """
        event = NegotiationEvent.UNREADABLE if is_final else NegotiationEvent.FAILED
        return self._after(event, problem=reason, temporary=None)

    def answered(self, answer: Answer) -> Negotiation:
        """
        How a request ended.

        Raises:
            LocalViolation: no request is under way, or this answers another one.
        """
        match self.step, answer:
            case NegotiationStep.ASK, NextBrokerId():
                return self._told(answer.broker_id)
            case NegotiationStep.APPLY, Done():
                return self._after(NegotiationEvent.ACCEPTED)
            case NegotiationStep.APPLY, CallRefused(code=2014):
                return self._taken()
            case NegotiationStep.REGISTER, MasterInfo():
                return self._after(NegotiationEvent.ACCEPTED, mastership=answer)
            case NegotiationStep.REGISTER, CallRefused(code=2010):
                return self._after(
                    NegotiationEvent.UNKNOWN, problem=self._unknown_line()
                )
            case (
                (
                    NegotiationStep.ASK
                    | NegotiationStep.APPLY
                    | NegotiationStep.REGISTER
                ),
                (CallRefused() | CallUnanswered()),
            ):
                problem = f"{self.step.value}: {_reason_of(answer)}"
                return self._after(NegotiationEvent.UNSETTLED, problem=problem)
        raise LocalViolation(f"{answer} while {self.step.value}")

    def paused(self) -> Negotiation:
        """
        The pause is over.
        """
        return replace(self, is_paused=False)

    def again(self, named: ConfiguredIdentity | None = None) -> Negotiation:
        """
        Register again: the controller forgot the set (R43), or the address changed.

        Raises:
            LocalViolation: not registered, or under other names.
        """
        named = self.named if named is None else named
        if misfit := misfit_of(self.identity, named):
            raise LocalViolation(misfit)
        return self._after(NegotiationEvent.AGAIN, named=named, mastership=None)

    # -- inside --------------------------------------------------------------

    def _told(self, broker_id: int) -> Negotiation:
        if broker_id < 1:
            problem = f"the controller offers broker id {broker_id}; ids begin at 1"
            return self._after(NegotiationEvent.UNSETTLED, problem=problem)
        if broker_id == self.refused_id:
            problem = (
                f"the controller offers broker id {broker_id} again, which is another "
                "broker's: its counter is behind (R36): upgrade the controller, or "
                f"clean broker {broker_id} of {self.named.broker!r} if it is gone"
            )
            # Once more after a pause: a controller that lost its records counts anew.
            return self._after(
                NegotiationEvent.UNSETTLED, problem=problem, refused_id=None
            )
        identity = self.named.with_id(broker_id)
        temporary = TemporaryIdentity(identity, self.draw_code())
        return self._after(NegotiationEvent.TOLD_ID, temporary=temporary)

    def _taken(self) -> Negotiation:
        assert self.temporary is not None
        return self._after(
            NegotiationEvent.TAKEN, refused_id=self.temporary.identity.broker_id
        )

    def _unknown_line(self) -> str:
        assert self.identity is not None
        return (
            f"the controller does not know broker {self.identity.broker_id} of "
            f"{self.named.broker!r}: it was cleaned there, or this is another "
            "controller: correct controllerAddr, or give this broker an empty store"
        )

    def _after(self, event: NegotiationEvent, **changes: object) -> Negotiation:
        step = next_step(self.step, event)
        if event in _PROGRESS:
            changes |= {"failures": 0, "problem": ""}
        else:
            is_over = step is NegotiationStep.STOPPED
            changes |= {"failures": self.failures + 1, "is_paused": not is_over}
        return replace(self, step=step, **changes)  # type: ignore[arg-type]


def _reason_of(answer: CallRefused | CallUnanswered) -> str:
    if isinstance(answer, CallUnanswered):
        return answer.reason
    if answer.code == _NOT_SUPPORTED:
        return (
            "the controller knows no persistent broker ids: it is older than "
            "RocketMQ 5.1.1: upgrade it"
        )
    remark = f": {' '.join(answer.remark.split())[:200]}" if answer.remark else ""
    return f"the controller answered with code {answer.code}{remark}"


@dataclass(frozen=True, slots=True)
class ReadIdentity:
    """
    Look who the store says that we are.
    """


@dataclass(frozen=True, slots=True)
class WriteTemp:
    """
    Remember which id will be applied for, and by which code: durably, before.
    """

    temporary: TemporaryIdentity


@dataclass(frozen=True, slots=True)
class WriteConfirmed:
    """
    Remember the id that a controller gave; the temporary one goes with the same step.
    """

    identity: BrokerIdentity


@dataclass(frozen=True, slots=True)
class DeleteTemp:
    """
    Forget an id that is certainly somebody else's.
    """

    temporary: TemporaryIdentity


@dataclass(frozen=True, slots=True)
class Pause:
    """
    Wait before the next try.

    Attributes:
        failures: in a row, from 1 on: how long to wait is the owner's to draw.
        reason: one line for people.
    """

    failures: int
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """
    Nothing but an operator can help: say so, and stop.
    """

    reason: str


NegotiationEffect = (
    ReadIdentity
    | WriteTemp
    | WriteConfirmed
    | DeleteTemp
    | GetNextBrokerId
    | ApplyBrokerId
    | RegisterBroker
    | Pause
    | GiveUp
)
