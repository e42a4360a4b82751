"""
A broker registers with a real store and a scripted controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lib.controller.id_allocation_model import Given, Request
from lib.store.stores import SEGMENT

from pystore.controller.identity.identity import ConfiguredIdentity, check_code
from pystore.controller.identity.negotiation import Negotiation, NegotiationStep
from pystore.controller.identity.registration import BrokerRegistration
from pystore.controller.identity.store import IdentityStore
from pystore.controller.protocol.calls import (
    Answer,
    ApplyBrokerId,
    CallRefused,
    CallUnanswered,
    GetNextBrokerId,
    MasterInfo,
    RegisterBroker,
)
from pystore.errors import FormatError, InvalidError
from pystore.metastore.schema import IDENTITY
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity
from pystore.store.commit_log import CommitLog

BROKER = BrokerIdentity("c", "b", 1)
LOST = CallUnanswered("no answer for 3000 ms")


class Controller:
    """
    A controller that allocates ids, and loses messages as scripted.

    Attributes:
        given: the allocated ids.
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
        if fault == "request" or isinstance(fault, CallRefused):
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


class _EndedError(Exception):
    """The process ends."""


def _files(root: Path) -> tuple[bytes | None, bytes | None]:
    """What a Java broker would read: the final file, and the temporary one."""
    paths = (root / "brokerIdentity", root / "brokerIdentity-temp")
    final, draft = (path.read_bytes() if path.exists() else None for path in paths)
    return final, draft


class Stage:
    """One broker: its store, a controller, and what it said and waited for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.controller: Any = Controller()
        self.said: list[str] = []
        self.pauses: list[int] = []
        self.codes = 0
        self.pause: Callable[[int], Awaitable[None]] = self._pause

    def _code(self) -> str:
        self.codes += 1
        return check_code("127.0.0.1:10911", 1700000000000, bytes([self.codes]) * 8)

    async def _pause(self, failures: int) -> None:
        self.pauses.append(failures)

    def run(
        self, log: CommitLog, named: ConfiguredIdentity | None = None
    ) -> Negotiation:
        """Registers, or raises."""
        named = (
            ConfiguredIdentity("c", "b", "127.0.0.1:10911") if named is None else named
        )
        self.registration = BrokerRegistration(
            Negotiation(named, self._code),
            IdentityStore(log.writer),
            self.controller,
            self.pause,
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
    """RMQ-T21: and after a restart it only registers."""
    for count in (3, 4):
        with CommitLog(stage.root, segment_size=SEGMENT) as log:
            now = stage.run(log)
        assert (NegotiationStep.REGISTERED, BROKER, MasterInfo()) == (
            now.step,
            now.identity,
            now.mastership,
        )
        assert count == len(stage.controller.asked)
    assert (b"c#b#1", None) == _files(stage.root)
    assert [] == stage.said


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize(
    "fault", ["request", "answer", CallRefused(2007), CallRefused(1)]
)
def test_each_request_and_each_answer_may_be_lost(
    stage: Stage, log: CommitLog, number: int, fault: str | Answer
) -> None:
    """RMQ-R28: 1012, 1013 and 1003; one id is given, by one code, whatever is lost."""
    stage.controller.lost = {number: fault, number + 1: fault}

    assert BROKER == stage.run(log).identity
    assert 1 == len(stage.controller.given.ids)
    assert 2 == stage.controller.given.next_id
    assert [1, 2] == stage.pauses
    assert 1 == len(stage.said), "the same line is said once"


@pytest.mark.parametrize(
    ("lost", "step", "files"),
    [
        (0, NegotiationStep.ASK, (None, None)),
        (
            1,
            NegotiationStep.APPLY,
            (None, b"c#b#1#127.0.0.1:10911;1700000000000;" + b"01" * 8),
        ),
        (2, NegotiationStep.REGISTER, (b"c#b#1", None)),
    ],
)
def test_a_broker_continues_its_negotiation_after_lost_answers(
    stage: Stage,
    lost: int,
    step: NegotiationStep,
    files: tuple[bytes | None, bytes | None],
) -> None:
    """
    RMQ-T23, RMQ-T25, RMQ-T27: without a next id it has no file; without an answer to
    its application the temporary one, which RMQ-R28 has it keep; without one to its
    registration the final one. Started again, it ends with the same id.
    """

    async def end(_: int) -> None:
        raise _EndedError

    pause, stage.pause = stage.pause, end
    stage.controller.lost = {lost: "answer"}
    with CommitLog(stage.root, segment_size=SEGMENT) as log:
        with pytest.raises(_EndedError):
            stage.run(log)
        assert (step, files) == (
            stage.registration.negotiation.step,
            _files(stage.root),
        )
    stage.pause = pause
    with CommitLog(stage.root) as log:
        assert BROKER == stage.run(log).identity
    assert (b"c#b#1", None) == _files(stage.root)
    assert 2 == stage.controller.given.next_id


def test_a_broker_that_lost_the_race_takes_the_next_id(
    stage: Stage, log: CommitLog
) -> None:
    """RMQ-R29: its store forgot the first one, and so did its files."""
    first = TemporaryIdentity(BROKER, "mine")
    IdentityStore(log.writer).write_temporary(first)
    stage.controller.given = Given(2, frozenset({(1, "another's")}))

    assert BrokerIdentity("c", "b", 2) == stage.run(log).identity
    assert {1: "another's", 2: stage.controller.given.given()[2]} == (
        stage.controller.given.given()
    )


def test_a_store_of_another_set_is_left_alone(stage: Stage, log: CommitLog) -> None:
    """RMQ-T22, RMQ-R12: nothing is asked, nothing is written."""
    stage.run(log)
    asked = len(stage.controller.asked)

    for named in (
        ConfiguredIdentity("c", "other", "127.0.0.1:10911"),
        ConfiguredIdentity("other", "b", "127.0.0.1:10911"),
    ):
        with pytest.raises(InvalidError, match=r"belongs to .* '[bc]' .broker 1."):
            stage.run(log, named)
    assert asked == len(stage.controller.asked)
    assert BROKER == IdentityStore(log.writer).read()


def test_a_damaged_identity_never_counts_as_none(
    stage: Stage, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RMQ-R16: it stops and names the damaged record."""
    stage.run(log)
    asked = len(stage.controller.asked)
    real = IDENTITY.encode(BROKER)
    monkeypatch.setattr(type(IDENTITY), "encode", lambda *_: b"12345678" + real[8:])
    with log.writer.metastore.change() as change:
        change.write(IDENTITY, None)
    monkeypatch.undo()

    with pytest.raises(FormatError, match="the record 'identity' is damaged: restore"):
        stage.run(log)
    assert NegotiationStep.STOPPED is stage.registration.negotiation.step
    assert asked == len(stage.controller.asked)


def test_a_disk_that_fails_for_a_while_delays_the_registration(
    stage: Stage, log: CommitLog
) -> None:
    """It reports the error once, and does not apply before the write is durable."""
    blocker = stage.root / "brokerIdentity-temp"
    blocker.mkdir()

    async def pause(failures: int) -> None:
        stage.pauses.append(failures)
        if len(stage.pauses) == 3:
            blocker.rmdir()

    stage.pause = pause
    assert BROKER == stage.run(log).identity
    assert 3 == len(stage.pauses)
    assert 1 == len(stage.said)
    assert "cannot replace" in stage.said[0]
    kinds = [type(one) for one in stage.controller.asked]
    assert [GetNextBrokerId, ApplyBrokerId, RegisterBroker] == kinds
