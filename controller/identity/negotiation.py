"""
The negotiation of a broker id, safe against crashes and lost answers. Pure.

A broker applies for an id under a check code that it stored durably before. After a
crash or a lost answer it applies with the same code and gets the same id (RMQ-R26), so
no id leaks. Only one answer deletes the stored code: the id belongs to another broker
(RMQ-R28).

One literal table has all transitions; the diagram of docs/identity.md is drawn from it.
A `Negotiation` is a value: each of its methods returns the next value, so its owner, a
simulation and an exhaustive test drive the same code.

Source: RMQ-R10 to RMQ-R29, RMQ-R38 to RMQ-R44; formats 4.4, 4.13, 5.1;
docs/identity.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum

from pystore.controller.identity.identity import ConfiguredIdentity, mismatch_of
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
    The steps; below some of them RocketMQ's name.
    """

    READ = "reading the store"
    ASK = "asking for the next id"
    """``INITIAL``"""
    WRITE = "storing the id to apply for"
    APPLY = "applying for the id"
    """``CREATE_TEMP_METADATA_FILE_DONE``"""
    FORGET = "deleting another broker's id"
    CONFIRM = "storing the confirmed id"
    REGISTER = "registering"
    """``CREATE_METADATA_FILE_DONE``"""
    REGISTERED = "registered"
    """``REGISTERED``"""
    STOPPED = "stopped: needs an operator"


class NegotiationEvent(Enum):
    """
    The events that lead from one step to another.
    """

    FOUND_NONE = "the store has no identity"
    FOUND_TEMPORARY = "the store has a temporary id"
    FOUND_CONFIRMED = "the store has a confirmed id"
    FOUND_ANOTHER = "the store belongs to another broker"
    ID_OFFERED = "the controller offers an id"
    STORED = "the write is durable"
    ACCEPTED = "the controller accepts"
    TAKEN = "the id belongs to another broker"
    UNKNOWN = "the controller does not know this broker"
    UNSETTLED = "no answer, or an unclear one"
    FAILED = "the store failed temporarily"
    UNREADABLE = "the store failed permanently"
    AGAIN = "a new registration is due"


_READ, _ASK, _WRITE, _APPLY, _FORGET, _CONFIRM, _REGISTER, _REGISTERED, _STOPPED = (
    NegotiationStep
)

# A failed write may have been made, so the store is read again.
NEGOTIATION: dict[tuple[NegotiationStep, NegotiationEvent], NegotiationStep] = {
    (_READ, NegotiationEvent.FOUND_NONE): _ASK,
    (_READ, NegotiationEvent.FOUND_TEMPORARY): _APPLY,
    (_READ, NegotiationEvent.FOUND_CONFIRMED): _REGISTER,
    (_READ, NegotiationEvent.FOUND_ANOTHER): _STOPPED,
    (_READ, NegotiationEvent.FAILED): _READ,
    (_READ, NegotiationEvent.UNREADABLE): _STOPPED,
    (_ASK, NegotiationEvent.ID_OFFERED): _WRITE,
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

# These events reset the count of failures.
_PROGRESS = {
    NegotiationEvent.FOUND_NONE,
    NegotiationEvent.FOUND_TEMPORARY,
    NegotiationEvent.FOUND_CONFIRMED,
    NegotiationEvent.ID_OFFERED,
    NegotiationEvent.STORED,
    NegotiationEvent.ACCEPTED,
    NegotiationEvent.TAKEN,
    NegotiationEvent.AGAIN,
}


def next_step(step: NegotiationStep, event: NegotiationEvent) -> NegotiationStep:
    """
    Returns the step after *event* in *step*.

    Raises:
        LocalViolation: the event cannot happen in that step.
    """
    following = NEGOTIATION.get((step, event))
    if following is None:
        raise LocalViolation(f"unexpected event {event.value!r} while {step.value}")
    return following


@dataclass(frozen=True, slots=True)
class Negotiation:
    """
    The state of a broker's negotiation and registration.

    Its owner carries out `next_effect`, reports the result with the method for it, and
    continues with the returned value.

    Attributes:
        named: the configured identity.
        draw_code: returns a new check code with each call
            (`pystore.controller.identity.identity`).
        recovery: sent with the registration beside RocketMQ's fields.
        step: the present one.
        temporary: the id and code of the application, while there is one.
        identity: of the broker, once it is durable.
        mastership: the answer to the registration.
        refused_id: the id that belonged to another broker just now.
        failures: in a row.
        problem: the last failure as one line; empty: none.
        is_paused: whether the owner has to wait first.
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
        Returns the next effect to carry out; ``None``: the broker is registered.
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
            broker_id, address = self.identity.broker_id, self.named.address
            return RegisterBroker(
                cluster,
                broker,
                broker_id,
                address,
                self.recovery,
                self.named.ha_address,
            )
        return None

    def _write(self) -> WriteTemp | WriteConfirmed | DeleteTemp | None:
        if self.temporary is None:
            return None
        if self.step is NegotiationStep.WRITE:
            return WriteTemp(self.temporary)
        if self.step is NegotiationStep.CONFIRM:
            return WriteConfirmed(self.temporary.identity)
        return DeleteTemp(self.temporary)

    # -- results that the owner reports ----------------------------------------------

    def found(self, stored: Identity) -> Negotiation:
        """
        Takes the identity that `ReadIdentity` found.
        """
        if misfit := mismatch_of(stored, self.named):
            return self._after(NegotiationEvent.FOUND_ANOTHER, problem=misfit)
        match stored:
            case None:
                return self._after(NegotiationEvent.FOUND_NONE)
            case TemporaryIdentity():
                return self._after(NegotiationEvent.FOUND_TEMPORARY, temporary=stored)
            case _:
                return self._after(NegotiationEvent.FOUND_CONFIRMED, identity=stored)

    def stored(self) -> Negotiation:
        """
        Takes note that `WriteTemp`, `WriteConfirmed` or `DeleteTemp` is durable.
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
        Takes note that a read or write of the store failed; a failed write may be done.
        """
        event = NegotiationEvent.UNREADABLE if is_final else NegotiationEvent.FAILED
        return self._after(event, problem=reason, temporary=None)

    def answered(self, answer: Answer) -> Negotiation:
        """
        Takes the answer to a request.

        Raises:
            LocalViolation: no request is pending, or the answer has another type.
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
        raise LocalViolation(f"unexpected answer {answer} while {self.step.value}")

    def paused(self) -> Negotiation:
        """
        Takes note that the pause is over.
        """
        return replace(self, is_paused=False)

    def again(self, named: ConfiguredIdentity | None = None) -> Negotiation:
        """
        Registers again: the controller lost the set (RMQ-R43), or the address changed.

        Raises:
            LocalViolation: not registered, or registered under other names.
        """
        named = self.named if named is None else named
        if misfit := mismatch_of(self.identity, named):
            raise LocalViolation(misfit)
        return self._after(NegotiationEvent.AGAIN, named=named, mastership=None)

    # -- internals --------------------------------------------------------------

    def _told(self, broker_id: int) -> Negotiation:
        if broker_id < 1:
            problem = f"the controller offers broker id {broker_id}, but ids begin at 1"
            return self._after(NegotiationEvent.UNSETTLED, problem=problem)
        if broker_id == self.refused_id:
            problem = (
                f"the controller offers broker id {broker_id} again, which belongs to "
                "another broker (RMQ-R36): upgrade the controller, or "
                f"clean broker {broker_id} of {self.named.broker!r} if it is gone"
            )
            # Try again after a pause: a controller that lost its records counts again.
            return self._after(
                NegotiationEvent.UNSETTLED, problem=problem, refused_id=None
            )
        identity = self.named.with_id(broker_id)
        temporary = TemporaryIdentity(identity, self.draw_code())
        return self._after(NegotiationEvent.ID_OFFERED, temporary=temporary)

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
            "the controller does not support persistent broker ids: it is older than "
            "RocketMQ 5.1.1: upgrade it"
        )
    remark = f": {' '.join(answer.remark.split())[:200]}" if answer.remark else ""
    return f"the controller answered with code {answer.code}{remark}"


@dataclass(frozen=True, slots=True)
class ReadIdentity:
    """
    Read the identity from the store.
    """


@dataclass(frozen=True, slots=True)
class WriteTemp:
    """
    Store the id and the check code durably, before the application.
    """

    temporary: TemporaryIdentity


@dataclass(frozen=True, slots=True)
class WriteConfirmed:
    """
    Store the confirmed id; the same transaction removes the temporary one.
    """

    identity: BrokerIdentity


@dataclass(frozen=True, slots=True)
class DeleteTemp:
    """
    Delete an id that belongs to another broker.
    """

    temporary: TemporaryIdentity


@dataclass(frozen=True, slots=True)
class Pause:
    """
    Wait before the next try.

    Attributes:
        failures: in a row, from 1 on; the owner draws the pause.
        reason: one line for people.
    """

    failures: int
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """
    Report the problem to an operator, and stop.
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
