"""
Every schedule of brokers that negotiate their ids, and of what can go wrong.

A `World` is a value: each broker's process and store, the controller, and requests that
are in flight without a waiting caller. `moves` answers every world that may come next:
an effect that is carried out, one that is not, one whose result is lost, a killed
broker, a late request that arrives after all. So a search over worlds is a search over
every schedule, and it ends, as worlds repeat.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from lib.controller.id_allocation_model import Allocation, Request, given_of
from pystore.controller.identity.identity import ConfiguredIdentity
from pystore.controller.identity.negotiation import (
    DeleteTemp,
    Negotiation,
    NegotiationStep,
    ReadIdentity,
    WriteConfirmed,
    WriteTemp,
)
from pystore.controller.protocol.calls import (
    Answer,
    ApplyBrokerId,
    CallRefused,
    CallUnanswered,
    GetNextBrokerId,
    RegisterBroker,
)
from pystore.metastore.values import Identity
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity

__all__ = ["Side", "World", "begin", "calm", "every_world", "moves", "problem_of"]

_NOT_DONE = CallRefused(2007, "not leader")
_NOT_KNOWN = CallUnanswered("no answer")


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """
    One broker; equal ones are the same object, so that a search is fast.

    Attributes:
        number: which one.
        negotiation: of its process.
        stored: what its store holds, durably.
        late: requests without a waiting caller, which may still arrive.
    """

    number: int
    negotiation: Negotiation
    stored: Identity
    late: frozenset[ApplyBrokerId]

    def then(
        self, negotiation: Negotiation, stored: Identity, *late: ApplyBrokerId
    ) -> Side:
        """What it has become; how often it failed, and why, leads nowhere else."""
        problem = negotiation.problem and "failed"
        now = replace(
            negotiation, failures=min(negotiation.failures, 1), problem=problem
        )
        return _side(self.number, now, stored, self.late.union(late))

    def restarted(self, stored: Identity, *late: ApplyBrokerId) -> Side:
        """A new process on the same store."""
        return self.then(_process(self.number), stored, *late)


_side = cache(Side)


def _process(number: int) -> Negotiation:
    return Negotiation(
        ConfiguredIdentity("c", "b", f"10.0.0.{number}:10911"), draw_code=str
    )


class World(NamedTuple):
    """Everything there is."""

    sides: tuple[Side, ...]
    controller: Allocation

    def with_side(self, side: Side, controller: Allocation) -> World:
        """What one broker did."""
        before, after = self.sides[: side.number], self.sides[side.number + 1 :]
        return World((*before, side, *after), controller)


def begin(count: int, controller: Allocation) -> World:
    """New brokers of one set."""
    sides = [
        _side(number, _process(number), None, frozenset()) for number in range(count)
    ]
    return World(tuple(sides), controller)


def moves(world: World) -> Iterator[World]:
    """Every world that may come next."""
    for side in world.sides:
        for now, controller in _moves_of(side, world.controller):
            yield world.with_side(now, controller)


def calm(world: World) -> World | None:
    """
    The next world when nothing goes wrong any more; ``None``: all are registered.
    """
    for side in world.sides:
        if (following := _good(side, world.controller)) is not None:
            return world.with_side(*following)
    return None


Move = tuple[Side, Allocation]


@cache
def _moves_of(side: Side, controller: Allocation) -> list[Move]:
    """What one broker, or its network, may do next."""
    now, stored = side.negotiation, side.stored
    found = [(side.restarted(stored), controller)]
    if (good := _good(side, controller)) is not None:
        found.append(good)
    for request in side.late:
        rest = _side(side.number, now, stored, side.late - {request})
        found.append((rest, controller.decide(request)[0]))
    match effect := now.next_effect():
        case ReadIdentity():
            found.append((side.then(_failed(now), stored), controller))
        case WriteTemp() | WriteConfirmed() | DeleteTemp():
            done = _after_write(effect)
            found.append((side.restarted(done), controller))
            found += [
                (side.then(_failed(now), it), controller) for it in (stored, done)
            ]
        case ApplyBrokerId():
            found += [
                (side.restarted(stored, effect), controller),
                (side.then(now.answered(_NOT_KNOWN), stored, effect), controller),
                (side.then(now.answered(_NOT_DONE), stored), controller),
            ]
        case GetNextBrokerId() | RegisterBroker():
            # No other broker sees their results: a lost request is lost.
            found.append((side.then(now.answered(_NOT_KNOWN), stored), controller))
    return found


def _good(side: Side, controller: Allocation) -> Move | None:
    """What a broker does next if nothing goes wrong."""
    now = side.negotiation
    match effect := now.next_effect():
        case None:
            return None
        case ReadIdentity():
            return side.then(now.found(side.stored), side.stored), controller
        case WriteTemp() | WriteConfirmed() | DeleteTemp():
            return side.then(now.stored(), _after_write(effect)), controller
        case GetNextBrokerId() | ApplyBrokerId() | RegisterBroker():
            return _asked(side, controller, effect)
        case _:
            return side.then(now.paused(), side.stored), controller


def _asked(side: Side, controller: Allocation, request: Request) -> Move:
    decided, reply = controller.decide(request)
    return side.then(_answered(side, controller, reply), side.stored), decided


def _answered(side: Side, controller: Allocation, answer: Answer) -> Negotiation:
    code = _fresh_code(side, controller)
    return replace(side.negotiation, draw_code=lambda: code).answered(answer)


def _fresh_code(side: Side, controller: Allocation) -> str:
    """
    A code that is nowhere: chance makes none twice, and yet worlds must repeat.
    """
    used = {code for _, code in given_of(controller)}
    used.update(request.register_check_code for request in side.late)
    for one in (side.stored, side.negotiation.temporary):
        if isinstance(one, TemporaryIdentity):
            used.add(one.register_check_code)
    codes = (f"{side.number};{count}" for count in range(len(used) + 1))
    return next(code for code in codes if code not in used)


def _after_write(effect: WriteTemp | WriteConfirmed | DeleteTemp) -> Identity:
    match effect:
        case WriteTemp():
            return effect.temporary
        case WriteConfirmed():
            return effect.identity
        case DeleteTemp():
            return None


def _failed(now: Negotiation) -> Negotiation:
    return now.failed("no space", is_final=False)


def problem_of(world: World) -> str:
    """What is wrong with a world; empty: nothing."""
    given = given_of(world.controller)
    held: dict[int, int] = {}
    for side in world.sides:
        if side.negotiation.step is NegotiationStep.STOPPED:
            return f"broker {side.number} gave up: {side.negotiation.problem}"
        if not isinstance(side.stored, BrokerIdentity):
            continue
        broker_id = side.stored.broker_id
        if broker_id in held:
            return f"id {broker_id} is used by {held[broker_id]} and {side.number}"
        held[broker_id] = side.number
        codes = [code for one, code in given if one == broker_id]
        if [code.partition(";")[0] for code in codes] != [str(side.number)]:
            return (
                f"broker {side.number} uses id {broker_id}, which was given to {codes}"
            )
    for broker_id, code in given:
        owner = world.sides[int(code.partition(";")[0])].stored
        if not _holds(owner, broker_id, code):
            return (
                f"id {broker_id} was given to {code} and leaks: its store holds {owner}"
            )
    return ""


def _holds(stored: Identity, broker_id: int, code: str) -> bool:
    if isinstance(stored, TemporaryIdentity):
        kept = stored.identity.broker_id, stored.register_check_code
        return kept == (broker_id, code)
    return stored is not None and stored.broker_id == broker_id


def every_world(first: World, at_most: int = 50_000) -> dict[World, World | None]:
    """
    Every world that can be reached, and the one that led to it; nearest first. The
    search ends early at a world that has a problem.
    """
    came: dict[World, World | None] = {first: None}
    waiting = deque([first])
    while waiting:
        world = waiting.popleft()
        for following in moves(world):
            if following not in came:
                came[following] = world
                waiting.append(following)
                if problem_of(following):
                    return came
        assert len(came) < at_most, "worlds do not repeat any more"
    return came
