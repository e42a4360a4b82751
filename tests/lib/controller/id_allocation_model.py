"""
A small model of the allocation of broker ids, to run brokers against.

It has the one thing that a negotiation leans on: an id belongs to the code that was
committed with it, for good. Anything with the three methods of `Allocation` can stand
in its place, so the same schedules run against the controller's own decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from pystore.controller.model.replies import Done, NextBrokerId
from pystore.controller.protocol.calls import (
    ApplyBrokerId,
    CallRefused,
    GetNextBrokerId,
    MasterInfo,
    RegisterBroker,
)

__all__ = ["Allocation", "Given", "Request", "given_of"]

Request = GetNextBrokerId | ApplyBrokerId | RegisterBroker
Reply = NextBrokerId | Done | MasterInfo | CallRefused


class Allocation(Protocol):
    """One broker set, as a value that can be compared and kept in a set."""

    def __hash__(self) -> int:
        """Worlds are kept by value."""
        ...

    def decide(self, request: Request) -> tuple[Allocation, Reply]:
        """What is committed, and what is answered; not yet sent."""
        ...

    def given(self) -> Mapping[int, str]:
        """Ids, and the code that each was given to."""
        ...


class Given(NamedTuple):
    """
    The model.

    Attributes:
        next_id: what 1012 answers.
        ids: (id, code) of each that was given.
        takes_any_id: as RocketMQ: any free id is given, not only the next one
            (RMQ-R36).
    """

    next_id: int = 1
    ids: frozenset[tuple[int, str]] = frozenset()
    takes_any_id: bool = False

    def given(self) -> Mapping[int, str]:
        """By id."""
        return dict(self.ids)

    def decide(self, request: Request) -> tuple[Given, Reply]:
        """As formats 4.4 and 4.13 have it."""
        given = self.given()
        if isinstance(request, GetNextBrokerId):
            return self, NextBrokerId(self.next_id)
        if isinstance(request, RegisterBroker):
            is_there = request.broker_id in given
            return self, MasterInfo() if is_there else CallRefused(
                2010, "not registered"
            )
        wanted, code = request.broker_id, request.register_check_code
        if wanted in given:
            is_same = given[wanted] == code
            return self, Done() if is_same else CallRefused(2014, "id invalid")
        if wanted != self.next_id and (not self.takes_any_id or not given):
            return self, CallRefused(2014, "id invalid")
        ids = self.ids | {(wanted, code)}
        return self._replace(next_id=self.next_id + 1, ids=ids), Done()


def given_of(allocation: Allocation) -> set[tuple[int, str]]:
    """Returns (id, code) of each that was given."""
    return set(allocation.given().items())
