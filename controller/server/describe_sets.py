"""
Describes all sets, page by page: the answer to 7118. For one event loop.

What watches over all sets asks this again and again, for thousands of sets. So a page
begins where the one before ended, has a bounded number of brokers, and lets heartbeats
through meanwhile.

Source: docs/controller.md, *All sets at once*; C2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from pystore.controller.decide.election_policy import is_filling
from pystore.controller.liveness.heartbeats import HeardBroker
from pystore.controller.model.facts import Facts
from pystore.controller.model.log_end import LogBegin
from pystore.controller.model.replica import RegisteredBroker
from pystore.controller.model.state import SetKey, SetState
from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
    encode_sets,
)
from pystore.controller.server.broker_sets import NotLeading
from pystore.controller.server.context import ControllerContext
from pystore.controller.server.term import LeaderTerm
from pystore.errors import FormatError
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.fields import decode_fields, encode_fields
from pystore.remoting.operator_headers import (
    DescribeSetsRequest,
    DescribeSetsResponse,
)
from pystore.remoting.reply import Reply

__all__ = ["DescribeSets", "set_description"]

_PAGE_SETS = 500
_PAGE_BROKERS = 1_500
_SETS_AT_ONCE = 50
_MS = 1_000_000


class DescribeSets:
    """
    The answers to 7118.

    Args:
        context: of the controller.
        leading: returns the term of this controller, or raises `NotLeading`.
    """

    def __init__(
        self, context: ControllerContext, leading: Callable[[], LeaderTerm]
    ) -> None:
        self._context = context
        self._leading = leading

    async def answer(self, request: RemotingCommand, _: Connection) -> Reply:
        """
        Returns the description of some sets.

        Raises:
            NotLeading: this controller does not lead, or led no more at the end: what
                it tells might be of an earlier term.
        """
        leader = self._leading()
        header = decode_fields(DescribeSetsRequest, request.ext_fields)
        # As of the begin of the page: what is told later is known better.
        led_ms = self._led_ms(leader)
        may_replace = leader.may_replace
        after = header.after_cluster, header.after_name
        names = leader.sets.names_after(after, _PAGE_SETS + 1)
        if header.only_name:
            names = [(header.only_cluster, header.only_name)]
        sets: list[SetDescription] = []
        damaged: list[SetKey] = []
        last, brokers = ("", ""), 0
        for number, one in enumerate(names, 1):
            try:
                found = self._described(leader, one)
            except FormatError:
                # The others are described nevertheless.
                damaged.append(one)
                found = None
            if found is not None:
                sets.append(found)
                brokers += len(found.brokers)
            if number < len(names) and (
                number == _PAGE_SETS or brokers >= _PAGE_BROKERS
            ):
                last = one
                break
            if number % _SETS_AT_ONCE == 0:
                # Heartbeats and requests must not wait for thousands of sets.
                await asyncio.sleep(0)
        if self._leading() is not leader:
            raise NotLeading("this controller leads in another term")
        told = DescribeSetsResponse(led_ms, may_replace and leader.may_replace, *last)
        return Reply(ext_fields=encode_fields(told), body=encode_sets(sets, damaged))

    def _led_ms(self, leader: LeaderTerm) -> int:
        return (self._context.clock_ns() - leader.authority.began_ns) // _MS

    def _described(self, leader: LeaderTerm, names: SetKey) -> SetDescription | None:
        """
        Returns the description of a set; ``None``: it has no brokers.
        """
        state = leader.sets.state(names)
        if not state.is_known:
            return None
        now_ns = self._context.clock_ns()
        return set_description(
            state,
            leader.facts(state),
            self._context.liveness.heard_brokers(names, now_ns),
            now_ns=now_ns,
            began_ns=leader.authority.began_ns,
        )


def set_description(
    state: SetState,
    facts: Facts,
    heard: Mapping[int, HeardBroker],
    *,
    now_ns: int,
    began_ns: int,
) -> SetDescription:
    """
    Returns the description of a set.

    Args:
        state: of the set.
        facts: at this moment.
        heard: its brokers that were ever heard, by id.
        now_ns: the time.
        began_ns: since when this controller leads.
    """
    brokers = []
    for one in state.replicas:
        told = heard.get(one.broker_id)
        since_ns = began_ns if told is None else told.since_ns
        since_ms = max(0, now_ns - since_ns) // _MS
        brokers.append(_broker(state, facts, one, told, since_ms))
    return SetDescription(
        state.cluster,
        state.name,
        state.version,
        None if state.master is None else state.master.broker_id,
        state.epoch,
        state.agreed.set_epoch,
        state.copies,
        state.wanted_copies,
        tuple(brokers),
    )


def _broker(
    state: SetState,
    facts: Facts,
    one: RegisteredBroker,
    heard: HeardBroker | None,
    since_ms: int,
) -> BrokerDescription:
    told = None if heard is None else heard.heartbeat
    is_alive = facts.is_alive(one)
    begin = LogBegin(facts.begin(one).offset, is_filling(state, facts, one))
    return BrokerDescription(
        one.broker_id,
        one.address,
        is_alive,
        since_ms,
        None if one.incarnation is None else one.incarnation.text,
        begin,
        facts.position(one) if is_alive else facts.largest_end(one),
        one.standing,
        one.is_learner,
        one.member in state.agreed.members,
        one.member in state.agreed.candidates,
        -1 if told is None else told.disk_used_percent,
        "" if told is None else told.disk_problem,
        heard is not None and heard.is_alive and heard.heartbeat.is_ill,
    )
