"""
A broker registers with a real store and a controller that answers as it is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from id_allocation import Given, Request
from stores import SEGMENT

from pystore.controller.calls import (
    Answer,
    ApplyBrokerId,
    GetNextBrokerId,
    Mastership,
    Refused,
    RegisterBroker,
    Unanswered,
)
from pystore.controller.identity import Named, check_code
from pystore.controller.identity_store import IdentityStore
from pystore.controller.negotiation import Negotiation, Step
from pystore.controller.registering import Registration
from pystore.errors import FormatError, InvalidError
from pystore.exports import BrokerIdentity, TemporaryIdentity
from pystore.log import CommitLog
from pystore.stored_truth import IDENTITY

WHO = BrokerIdentity("c", "b", 1)
LOST = Unanswered("no answer for 3000 ms")


class Controller:
    """
    Gives ids, and loses what it is told to lose.

    Attributes:
        given: the ids it gave.
        asked: the requests that came in.
        lost: for the n-th request: ``request`` or ``answer``; or what to answer.
    """

    def __init__(self) -> None:
        self.given = Given()
        self.asked: list[Request] = []
        self.lost: dict[int, str | Answer] = {}

    def _answer(self, request: Request) -> Any:
        number = len(self.asked)
        self.asked.append(request)
        fault = self.lost.get(number)
        if fault == "request" or isinstance(fault, Refused):
            return LOST if fault == "request" else fault
        self.given, reply = self.given.decide(request)
        return LOST if fault == "answer" else reply

    async def get_next_broker_id(self, request: GetNextBrokerId) -> Any:
        """1012."""
        return self._answer(request)

    async def apply_broker_id(self, request: ApplyBrokerId) -> Any:
        """1013."""
        return self._answer(request)

    async def register_broker(self, request: RegisterBroker) -> Any:
        """1003."""
        return self._answer(request)


class Stage:
    """One broker: its store, a controller, and what it said and waited for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.controller: Any = Controller()
        self.said: list[str] = []
        self.pauses: list[int] = []
        self.codes = 0

    def _code(self) -> str:
        self.codes += 1
        return check_code("127.0.0.1:10911", 1700000000000, bytes([self.codes]) * 8)

    async def _pause(self, failures: int) -> None:
        self.pauses.append(failures)

    def run(self, log: CommitLog, named: Named | None = None) -> Negotiation:
        """Registers, or raises."""
        named = Named("c", "b", "127.0.0.1:10911") if named is None else named
        self.registration = Registration(
            Negotiation(named, self._code),
            IdentityStore(log.writer),
            self.controller,
            self._pause,
            self.said.append,
        )
        return asyncio.run(self.registration.run())


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A broker that was never started."""
    return Stage(tmp_path / "store")


@pytest.fixture
def log(stage: Stage) -> Iterator[CommitLog]:
    """Its store, open."""
    with CommitLog(stage.root, segment_size=SEGMENT) as log:
        yield log


def test_a_new_broker_gets_an_id_and_keeps_it(stage: Stage) -> None:
    """And after a restart it only registers."""
    for count in (3, 4):
        with CommitLog(stage.root, segment_size=SEGMENT) as log:
            now = stage.run(log)
        assert (Step.REGISTERED, WHO, Mastership()) == (
            now.step,
            now.identity,
            now.mastership,
        )
        assert count == len(stage.controller.asked)
    assert b"c#b#1" == (stage.root / "brokerIdentity").read_bytes()
    assert [] == stage.said


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("fault", ["request", "answer", Refused(2007), Refused(1)])
def test_each_request_and_each_answer_may_be_lost(
    stage: Stage, log: CommitLog, number: int, fault: str | Answer
) -> None:
    """R28: 1012, 1013 and 1003; one id is given, by one code, whatever is lost."""
    stage.controller.lost = {number: fault, number + 1: fault}

    assert WHO == stage.run(log).identity
    assert 1 == len(stage.controller.given.ids)
    assert 2 == stage.controller.given.next_id
    assert [1, 2] == stage.pauses
    assert 1 == len(stage.said), "the same line is said once"


def test_a_broker_that_lost_the_race_takes_the_next_id(
    stage: Stage, log: CommitLog
) -> None:
    """R29: its store forgot the first one, and so did its files."""
    first = TemporaryIdentity(WHO, "mine")
    IdentityStore(log.writer).write_temporary(first)
    stage.controller.given = Given(2, frozenset({(1, "another's")}))

    assert BrokerIdentity("c", "b", 2) == stage.run(log).identity
    assert {1: "another's", 2: stage.controller.given.given()[2]} == (
        stage.controller.given.given()
    )


def test_a_store_of_another_set_is_left_alone(stage: Stage, log: CommitLog) -> None:
    """R12: nothing is asked, nothing is written."""
    stage.run(log)
    asked = len(stage.controller.asked)

    with pytest.raises(InvalidError, match="belongs to broker set 'b' \\(broker 1\\)"):
        stage.run(log, Named("c", "other", "127.0.0.1:10911"))
    assert asked == len(stage.controller.asked)
    assert WHO == IdentityStore(log.writer).read()


def test_a_damaged_record_is_never_taken_for_nobody(
    stage: Stage, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R16: it stops, and says what is damaged."""
    stage.run(log)
    asked = len(stage.controller.asked)
    real = IDENTITY.encode(WHO)
    monkeypatch.setattr(type(IDENTITY), "encode", lambda *_: b"12345678" + real[8:])
    with log.writer.checkpoint.change() as change:
        change.write(IDENTITY, None)
    monkeypatch.undo()

    with pytest.raises(FormatError, match="the record 'identity' is damaged: restore"):
        stage.run(log)
    assert Step.STOPPED is stage.registration.negotiation.step
    assert asked == len(stage.controller.asked)


def test_a_disk_that_fails_for_a_while_delays_the_registration(
    stage: Stage, log: CommitLog
) -> None:
    """It says so once, and nothing is applied for before it is written down."""
    blocker = stage.root / "brokerIdentity-temp"
    blocker.mkdir()

    async def _pause(failures: int) -> None:
        stage.pauses.append(failures)
        if len(stage.pauses) == 3:
            blocker.rmdir()

    stage._pause = _pause  # type: ignore[method-assign]
    assert WHO == stage.run(log).identity
    assert 3 == len(stage.pauses)
    assert 1 == len(stage.said)
    assert "cannot replace" in stage.said[0]
    kinds = [type(one) for one in stage.controller.asked]
    assert [GetNextBrokerId, ApplyBrokerId, RegisterBroker] == kinds
