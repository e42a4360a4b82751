"""
The negotiation of a broker id: the effect of each answer.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from lib.controller.id_allocation_model import Given
from lib.controller.negotiation_model import begin, calm

from pystore.controller.identity.identity import ConfiguredIdentity
from pystore.controller.identity.negotiation import (
    NEGOTIATION,
    DeleteTemp,
    GiveUp,
    Negotiation,
    NegotiationEffect,
    NegotiationEvent,
    NegotiationStep,
    Pause,
    ReadIdentity,
    WriteConfirmed,
    WriteTemp,
    next_step,
)
from pystore.controller.model.commands import Recovery
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.replies import Done, NextBrokerId
from pystore.controller.protocol.calls import (
    ApplyBrokerId,
    CallRefused,
    CallUnanswered,
    GetNextBrokerId,
    MasterInfo,
    RegisterBroker,
)
from pystore.errors import LocalViolation
from pystore.replicaset import Incarnation, Member
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity

NAMED = ConfiguredIdentity("c", "b", "127.0.0.1:10911")
THIRD = BrokerIdentity("c", "b", 3)
TEMPORARY = TemporaryIdentity(THIRD, "code")
LOST = CallUnanswered("no answer for 3000 ms")
TAKEN = CallRefused(2014)


@pytest.fixture
def new() -> Negotiation:
    """Returns a broker that has not read its store yet."""
    codes = count()
    return Negotiation(NAMED, lambda: f"code{next(codes)}")


@pytest.fixture
def applying(new: Negotiation) -> Negotiation:
    """Returns a broker that has stored its application."""
    return new.found(TEMPORARY)


@pytest.fixture
def registering(new: Negotiation) -> Negotiation:
    """Returns a broker that has its id."""
    return new.found(THIRD)


def _next(negotiation: Negotiation) -> NegotiationEffect | None:
    return negotiation.next_effect()


class TestTheWay:
    """A new broker, step by step."""

    def test_a_new_broker_stores_the_id_before_it_applies(
        self, new: Negotiation
    ) -> None:
        """RMQ-R19, RMQ-R22: and the id is its own once that is durable, too."""
        assert ReadIdentity() == _next(new)
        now = new.found(None)
        assert GetNextBrokerId("c", "b") == _next(now)
        now = now.answered(NextBrokerId(3))
        temporary = TemporaryIdentity(THIRD, "code0")
        assert WriteTemp(temporary) == _next(now)
        now = now.stored()
        assert ApplyBrokerId("c", "b", 3, "code0") == _next(now)
        now = now.answered(Done())
        assert (WriteConfirmed(THIRD), None) == (_next(now), now.identity)
        now = now.stored()
        assert RegisterBroker("c", "b", 3, "127.0.0.1:10911") == _next(now)
        now = now.answered(MasterInfo(Member(1)))
        assert (None, NegotiationStep.REGISTERED, THIRD) == (
            _next(now),
            now.step,
            now.identity,
        )
        assert MasterInfo(Member(1)) == now.mastership

    def test_a_broker_that_has_its_id_only_registers(self, new: Negotiation) -> None:
        """RMQ-R13, RMQ-R27."""
        now = new.found(THIRD)

        assert RegisterBroker("c", "b", 3, "127.0.0.1:10911") == _next(now)

    def test_a_broker_that_applied_applies_again_by_the_same_code(
        self, new: Negotiation
    ) -> None:
        """RMQ-R25, RMQ-R26: no id is requested, and no code is drawn."""
        assert ApplyBrokerId("c", "b", 3, "code") == _next(new.found(TEMPORARY))

    def test_the_recovery_is_sent_with_the_registration(self) -> None:
        """A controller of RocketMQ passes over it."""
        found = Recovery(Incarnation(4, bytes(16)), "boot", LogEnd(7, 4711))
        now = Negotiation(NAMED, str, found).found(THIRD)

        assert RegisterBroker("c", "b", 3, NAMED.address, found) == _next(now)

    def test_a_registered_broker_registers_again_where_it_is_now(
        self, registering: Negotiation
    ) -> None:
        """RMQ-R42, RMQ-R43: the same id, another address."""
        now = registering.answered(MasterInfo())
        moved = ConfiguredIdentity("c", "b", "10.1.2.3:10911")

        assert RegisterBroker("c", "b", 3, moved.address) == _next(now.again(moved))
        assert _next(registering) == _next(now.again())
        with pytest.raises(LocalViolation, match="another"):
            now.again(ConfiguredIdentity("c", "another", "127.0.0.1:1"))


class TestWhatSettlesNothing:
    """RMQ-R28: a lost or unclear answer changes nothing."""

    @pytest.mark.parametrize(
        "answer", [LOST, *(CallRefused(n) for n in (1, 2, 3, 2007, 2010, 2015, 9999))]
    )
    def test_the_application_is_kept_and_repeated(
        self, applying: Negotiation, answer: Any
    ) -> None:
        """Only the answer that the id is another broker's ends it."""
        for failures in (1, 2, 3):
            effect = _next(applying)
            applying = applying.answered(answer)
            pause = _next(applying)
            assert isinstance(pause, Pause)
            assert failures == pause.failures
            assert applying.step is NegotiationStep.APPLY
            applying = applying.paused()
            assert ApplyBrokerId("c", "b", 3, "code") == effect == _next(applying)

    @pytest.mark.parametrize("answer", [LOST, CallRefused(1), CallRefused(2007)])
    def test_an_id_is_asked_for_again(self, new: Negotiation, answer: Any) -> None:
        """RMQ-R20: nothing was written."""
        now = new.found(None).answered(answer).paused()

        assert GetNextBrokerId("c", "b") == _next(now)

    @pytest.mark.parametrize("answer", [LOST, CallRefused(1), CallRefused(2010)])
    def test_a_registration_is_tried_again(
        self, registering: Negotiation, answer: Any
    ) -> None:
        """
        RMQ-R27, RMQ-R44: with the same id, which is never replaced by another one.
        """
        now = registering.answered(answer)

        assert isinstance(_next(now), Pause)
        assert _next(registering) == _next(now.paused())

    def test_an_answer_resets_the_count_of_failures(self, new: Negotiation) -> None:
        """The next pause is a first one again."""
        now = new.found(None).answered(LOST).paused().answered(LOST).paused()
        now = now.answered(NextBrokerId(3)).stored().answered(LOST)

        assert (1, "") != (now.failures, now.problem)
        assert 1 == now.failures


class TestTaken:
    """RMQ-R23, RMQ-R29: the id is another broker's."""

    def test_the_id_is_deleted_and_the_next_one_requested(
        self, applying: Negotiation
    ) -> None:
        """Durably, before."""
        now = applying.answered(TAKEN)
        assert DeleteTemp(TEMPORARY) == _next(now)
        now = now.stored()
        assert GetNextBrokerId("c", "b") == _next(now)
        now = now.answered(NextBrokerId(4))
        assert WriteTemp(TemporaryIdentity(NAMED.with_id(4), "code0")) == _next(now)

    def test_a_repeated_offer_of_a_taken_id_is_reported_and_retried(
        self, applying: Negotiation
    ) -> None:
        """RMQ-R36: RocketMQ's counter can point at an id that exists, for ever."""
        now = applying.answered(TAKEN).stored().answered(NextBrokerId(3))
        pause = _next(now)
        assert isinstance(pause, Pause)
        assert "another broker (RMQ-R36)" in pause.reason
        now = now.paused()
        assert GetNextBrokerId("c", "b") == _next(now)
        # A controller that lost its records counts from 1 again, and means it.
        assert isinstance(_next(now.answered(NextBrokerId(3))), WriteTemp)

    @pytest.mark.parametrize("broker_id", [0, -1])
    def test_an_id_that_no_controller_gives_is_not_taken(
        self, new: Negotiation, broker_id: int
    ) -> None:
        """0 is a role, and never a broker."""
        now = new.found(None).answered(NextBrokerId(broker_id))

        assert NegotiationStep.ASK is now.step
        assert "ids begin at 1" in now.problem


class TestTheStore:
    """Files and records that fail, or belong to another broker."""

    @pytest.mark.parametrize(
        "step",
        [
            NegotiationStep.READ,
            NegotiationStep.WRITE,
            NegotiationStep.CONFIRM,
            NegotiationStep.FORGET,
        ],
    )
    def test_the_store_is_read_after_a_failed_write(
        self, new: Negotiation, step: NegotiationStep
    ) -> None:
        """It may have been made: nothing is assumed."""
        applying = new.found(TEMPORARY)
        at = {
            NegotiationStep.READ: new,
            NegotiationStep.WRITE: new.found(None).answered(NextBrokerId(3)),
            NegotiationStep.CONFIRM: applying.answered(Done()),
            NegotiationStep.FORGET: applying.answered(TAKEN),
        }[step]
        assert step is at.step
        now = at.failed("no space", is_final=False)

        assert Pause(1, "no space") == _next(now)
        assert ReadIdentity() == _next(now.paused())
        assert GiveUp("damaged") == _next(at.failed("damaged", is_final=True))

    @pytest.mark.parametrize(
        ("stored", "line"),
        [
            (BrokerIdentity("x", "b", 3), "cluster 'x' (broker 3)"),
            (BrokerIdentity("c", "x", 3), "broker set 'x' (broker 3)"),
            (TemporaryIdentity(BrokerIdentity("c", "x", 3), "d"), "set 'x' (broker 3)"),
            (BrokerIdentity("c", "b", 0), "broker id 0, but ids begin at 1"),
        ],
    )
    def test_the_identity_of_another_broker_stops_the_negotiation(
        self, new: Negotiation, stored: Any, line: str
    ) -> None:
        """RMQ-R12: nothing is sent and nothing is written; one line says what to do."""
        effect = _next(new.found(stored))

        assert isinstance(effect, GiveUp)
        assert line in effect.reason
        assert "correct" in effect.reason or "restore" in effect.reason


def test_a_cleaned_broker_is_reported_as_cleaned(registering: Negotiation) -> None:
    """RMQ-R44: it continues, because an operator may re-admit it."""
    now = registering.answered(CallRefused(2010))

    assert "does not know broker 3 of 'b': it was cleaned there" in now.problem


def test_an_old_controller_is_named(new: Negotiation) -> None:
    """One before 5.1.1 has no persistent ids."""
    now = new.found(None).answered(CallRefused(3, "not supported"))

    assert "older than RocketMQ 5.1.1: upgrade it" in now.problem


def test_a_remark_stays_on_one_line(new: Negotiation) -> None:
    """Java's are stack traces now and then."""
    now = new.found(None).answered(CallRefused(1, "a\n\tb" + "x" * 999))

    assert "with code 1: a bxx" in now.problem
    assert len(now.problem) < 300


def test_transitions_outside_the_table_are_errors(new: Negotiation) -> None:
    """Each pair is either listed or refused, and nothing leaves STOPPED."""
    for step in NegotiationStep:
        for event in NegotiationEvent:
            if (step, event) not in NEGOTIATION:
                with pytest.raises(LocalViolation):
                    next_step(step, event)
    assert NegotiationStep.STOPPED not in {step for step, _ in NEGOTIATION}
    with pytest.raises(LocalViolation):
        new.answered(Done())
    with pytest.raises(LocalViolation):
        new.found(None).answered(Done())


def test_only_one_answer_deletes_the_stored_application() -> None:
    """RMQ-R28, as the table has it."""
    to_forget = [
        pair for pair, to in NEGOTIATION.items() if to is NegotiationStep.FORGET
    ]

    assert [(NegotiationStep.APPLY, NegotiationEvent.TAKEN)] == to_forget


def test_without_a_fault_a_broker_is_registered_in_six_steps() -> None:
    """One read, two writes, three calls."""
    world = begin(1, Given())
    steps = []
    while (following := calm(world)) is not None:
        steps.append(world.sides[0].negotiation.step)
        world = following

    assert [
        NegotiationStep.READ,
        NegotiationStep.ASK,
        NegotiationStep.WRITE,
        NegotiationStep.APPLY,
        NegotiationStep.CONFIRM,
        NegotiationStep.REGISTER,
    ] == steps
