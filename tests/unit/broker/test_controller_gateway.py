"""
The gateway to the controller: each result of a change of the SyncStateSet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest
from lib.controller.broker_set_driver import incarnation
from lib.controller.controller_server import SpokenBroker, running
from lib.remoting.virtual_time_loop import run

from pystore.broker.controller_gateway import ThreadedGateway, alteration
from pystore.controller.client.client import ControllerClient
from pystore.controller.model.commands import AlterSet
from pystore.controller.model.replies import NextBrokerId
from pystore.controller.protocol.calls import (
    AlterSyncStateSet,
    CallRefused,
    CallUnanswered,
    ControllerCalls,
    GetNextBrokerId,
    GetReplicaInfo,
    MasterInfo,
)
from pystore.ha.insync.set_change import SetChange
from pystore.ha.master.insync_monitor import SetRefusal
from pystore.replicaset import AgreedSet, Incarnation, Member
from pystore.rocketmq.identity_file import BrokerIdentity

IDENTITY = BrokerIdentity("c", "b", 1)
EPOCH, VERSION = 5, 9
US = Member(1, Incarnation(1, bytes(16)))
BOTH = frozenset({US, Member(2)})
CHANGE = SetChange(1, EPOCH, VERSION, BOTH, frozenset(), "2 is caught up")
FENCE = SetChange(2, EPOCH, VERSION, frozenset({US}), frozenset(), "?", is_fence=True)

Answer = AgreedSet | CallRefused | CallUnanswered


def agreed(*broker_ids: int, version: int) -> AgreedSet:
    """
    A set as RocketMQ's controllers list it: by ids.
    """
    return AgreedSet(frozenset(map(Member, broker_ids)), version)


def ship(*broker_ids: int, version: int, epoch: int = EPOCH) -> MasterInfo:
    """
    The first of them is master of the others.
    """
    found = agreed(*broker_ids, version=version)
    return MasterInfo(Member(broker_ids[0]), "a:1", epoch, found)


class Scripted:
    """
    Calls with scripted results, which are recorded.
    """

    def __init__(
        self,
        altered: Answer,
        info: MasterInfo | CallRefused | CallUnanswered | None = None,
        next_id: NextBrokerId | CallUnanswered | None = None,
    ) -> None:
        self._altered, self._info, self._next_id = altered, info, next_id
        self.asked: list[object] = []

    async def alter_sync_state_set(self, request: AlterSyncStateSet) -> Answer:
        """
        1001.
        """
        self.asked.append(request)
        return self._altered

    async def get_replica_info(self, request: GetReplicaInfo) -> object:
        """
        1004, where the test expects it.
        """
        self.asked.append(request)
        assert self._info is not None, "the set should not be read"
        return self._info

    async def get_next_broker_id(self, request: GetNextBrokerId) -> object:
        """
        1012.
        """
        self.asked.append(request)
        return self._next_id


class Silent:
    """
    A controller that never answers.
    """

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def alter_sync_state_set(self, _: AlterSyncStateSet) -> Answer:
        """
        1001.
        """
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


def asked(
    calls: object, heard: Callable[[MasterInfo], object] = bool
) -> ThreadedGateway:
    """
    The controller, on the loop that runs.
    """
    loop = asyncio.get_running_loop()
    return ThreadedGateway(
        cast("ControllerCalls", calls), loop, IDENTITY, heard, incarnation(1)
    )


def outcome(
    change: SetChange, calls: Scripted, heard: Callable[[MasterInfo], object] = bool
) -> object:
    """
    Returns the result of a change.
    """

    async def main() -> object:
        return await asyncio.to_thread(asked(calls, heard).ask, change)

    answer = run(main())
    assert 1 == sum(isinstance(one, AlterSyncStateSet) for one in calls.asked)
    return answer


def test_a_set_that_was_committed_is_taken() -> None:
    """As the controller sends it, with or without incarnations."""
    calls = Scripted(agreed(1, 2, version=VERSION + 1))
    assert agreed(1, 2, version=VERSION + 1) == outcome(CHANGE, calls)


def test_an_unanswered_change_may_still_take_effect() -> None:
    """RMQ-R112: nothing is repeated, and nothing is concluded."""
    assert None is outcome(CHANGE, Scripted(CallUnanswered("no answer")))


def test_a_change_that_was_not_sent_is_settled() -> None:
    """For example without a leader; so there is nothing to wait for."""
    calls = Scripted(CallUnanswered("no leader", may_be_done=False))
    assert SetRefusal() == outcome(CHANGE, calls)


@pytest.mark.parametrize("code", [2001, 2013])
@pytest.mark.parametrize("change", [CHANGE, FENCE])
def test_the_set_is_read_after_a_refusal_without_one(
    change: SetChange, code: int
) -> None:
    """
    RMQ-R112, RMQ-R119: RocketMQ's controllers send none. A newer set settles all
    earlier requests, also unanswered ones.
    """
    heard: list[MasterInfo] = []
    found = ship(1, 2, version=VERSION + 1)
    calls = Scripted(CallRefused(code), found)
    assert agreed(1, 2, version=VERSION + 1) == outcome(change, calls, heard.append)
    assert [found] == heard


def test_a_set_in_the_refusal_is_not_read_again() -> None:
    """As controllers of pystore refuse what comes too late."""
    calls = Scripted(CallRefused(2001, agreed=agreed(1, 3, version=VERSION + 3)))
    assert agreed(1, 3, version=VERSION + 3) == outcome(CHANGE, calls)


@pytest.mark.parametrize(
    "info",
    [
        ship(1, version=VERSION),
        CallUnanswered("no answer"),
        CallRefused(2008),
    ],
)
def test_a_refused_fence_settles_only_itself(
    info: MasterInfo | CallRefused | CallUnanswered,
) -> None:
    """
    RMQ-R102: RocketMQ's controllers refuse a set that is the same (2013), so an earlier
    change without an answer stays in doubt: it may be on its way yet.
    """
    assert SetRefusal() == outcome(FENCE, Scripted(CallRefused(2013), info))


@pytest.mark.parametrize("code", [2000, 2002])
@pytest.mark.parametrize(
    "found",
    [ship(2, 1, version=VERSION + 1, epoch=EPOCH + 1), ship(2, 1, version=VERSION + 1)],
)
def test_the_set_of_another_mastership_is_not_ours(
    code: int, found: MasterInfo
) -> None:
    """It is handed on, so that this one ends; our own set stays as it is."""
    heard: list[MasterInfo] = []
    other = agreed(1, 2, version=VERSION + 1)
    calls = Scripted(CallRefused(code, agreed=other), found)
    assert SetRefusal() == outcome(CHANGE, calls, heard.append)
    assert [found] == heard


def test_a_refusal_names_the_refused_brokers() -> None:
    """RMQ-R106, RMQ-R111; the version was right, so the set is not read."""
    calls = Scripted(CallRefused(2006, broker_ids=frozenset({2})))
    assert SetRefusal(frozenset({2})) == outcome(CHANGE, calls)


def test_a_set_with_the_same_epoch_settles_nothing() -> None:
    """A controller that says so is wrong; the change stays open."""
    calls = Scripted(agreed(1, 2, version=VERSION))
    assert None is outcome(CHANGE, calls)


def test_brokers_are_known_once_they_have_an_id() -> None:
    """Those below the next id; itself always."""

    async def main() -> None:
        ask = asked(Scripted(CallUnanswered(""), next_id=NextBrokerId(4)))
        assert {1} == ask.broker_ids()
        await ask.learn_brokers()
        assert {1, 2, 3} == ask.broker_ids()
        silent = asked(Scripted(CallUnanswered(""), next_id=CallUnanswered("")))
        await silent.learn_brokers()
        assert {1} == silent.broker_ids()

    run(main())


def test_the_latest_resigned_epoch_is_kept_for_heartbeats() -> None:
    """C3: the next master need not wait for the lease."""

    async def main() -> None:
        ask = asked(Scripted(CallUnanswered("")))
        assert -1 == ask.resigned_epoch
        ask.resign(7, "its disk failed")
        ask.resign(6, "late")
        assert 7 == ask.resigned_epoch

    run(main())


def test_closing_the_gateway_ends_waiting_calls() -> None:
    """It may have been sent; what is asked afterwards is not."""

    async def main() -> None:
        calls = Silent()
        ask = asked(calls)
        waiting = asyncio.create_task(asyncio.to_thread(ask.ask, CHANGE))
        await calls.asked.wait()
        ask.close()
        ask.close()
        assert None is await waiting
        assert SetRefusal() == await asyncio.to_thread(ask.ask, CHANGE)

    run(main())


def test_a_controller_of_pystore_settles_a_lost_answer_by_a_fence() -> None:
    """
    Over a real socket: a change is taken, its answer is lost; the fence is refused
    with the set as it is, and one that is asked for from there is taken.
    """

    async def main() -> None:
        async with running() as at, ControllerClient([at.address]) as client:
            brokers = [SpokenBroker(at, number) for number in (1, 2)]
            for one in brokers:
                await one.join()
            elected = await brokers[0].elect()
            loop = asyncio.get_running_loop()
            identity = BrokerIdentity("cluster", "set", 1)
            ask = ThreadedGateway(
                client, loop, identity, lambda _: None, incarnation(1)
            )
            await ask.learn_brokers()
            assert {1, 2} == ask.broker_ids()

            us, other = (one.member for one in brokers)
            epoch, version = elected.master_epoch or 0, elected.sync_state_set_epoch
            assert version is not None
            both = frozenset({us, other})
            first = SetChange(1, epoch, version, both, frozenset(), "lost")
            await asyncio.to_thread(ask.ask, first)
            fence = SetChange(
                2, epoch, version, frozenset({us}), frozenset(), "?", is_fence=True
            )
            now = AgreedSet(both, version + 1)
            assert now == await asyncio.to_thread(ask.ask, fence)
            fence = SetChange(
                3, epoch, version + 1, both, frozenset(), "?", is_fence=True
            )
            now = AgreedSet(both, version + 2)
            assert now == await asyncio.to_thread(ask.ask, fence)

    run(main())


def test_a_change_is_requested_by_the_master_in_its_incarnation() -> None:
    """
    With its candidates and epochs, and as a fence if it is one.
    """
    change = SetChange(
        4,
        7,
        9,
        BOTH,
        frozenset({Member(3)}),
        "a reason",
        is_fence=True,
        filling=frozenset({2}),
    )
    expected = AlterSet(
        US,
        7,
        9,
        BOTH,
        frozenset({Member(3)}),
        is_fence=True,
        filling=frozenset({2}),
    )
    assert expected == alteration(change, 1)
