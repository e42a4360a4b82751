"""
Brokers of pystore with RocketMQ's controllers: ids after kills, and masters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.java_controllers import KINDS, running
from interop.new_broker import CLUSTER, POINTS, NewBroker

from pystore.controller.client.client import ControllerClient, role_handler
from pystore.controller.model.commands import AlterSet
from pystore.controller.model.replies import NextBrokerId
from pystore.controller.protocol.calls import (
    AlterSyncStateSet,
    Answer,
    ApplyBrokerId,
    CallRefused,
    ElectMaster,
    GetNextBrokerId,
    GetReplicaInfo,
    HeartbeatAnswer,
    MasterInfo,
    SendHeartbeat,
)
from pystore.controller.protocol.extensions import HeartbeatExtension
from pystore.remoting.codes import RequestCode
from pystore.remoting.connection import Handler
from pystore.remoting.server import RemotingServer
from pystore.replicaset import AgreedSet, Incarnation, Member


@pytest.fixture(scope="module")
def addresses(
    compiled_tool: None,  # noqa: ARG001
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, str]]:
    """
    The addresses of a DLedger and of a jRaft controller.
    """
    with running(tmp_path_factory.mktemp("controllers")) as addresses:
        yield addresses


@pytest.fixture(params=KINDS)
def controller(addresses: dict[str, str], request: pytest.FixtureRequest) -> str:
    """
    The address of one controller.
    """
    return addresses[request.param]


async def _next_id(controller: str, name: str) -> Answer:
    async with ControllerClient([controller]) as client:
        return await client.get_next_broker_id(GetNextBrokerId(CLUSTER, name))


def next_id(controller: str, name: str) -> Answer:
    """
    Returns the next id of a set: one more than the assigned ids.
    """
    return asyncio.run(_next_id(controller, name))


def test_no_sigkill_leaks_an_id_or_uses_one_twice(
    controller: str, tmp_path: Path
) -> None:
    """
    RMQ-R19 to RMQ-R29: before and after each step; a restarted broker has the one
    assigned id.
    """
    for point in range(POINTS):
        broker = NewBroker(controller, f"killed-{point}", tmp_path / f"{point}")
        assert [None, 1] == [broker.run(killed_at=point), broker.run()], point
        assert NextBrokerId(2) == next_id(controller, broker.name), point


def test_a_broker_that_is_killed_repeatedly_gets_one_id(
    controller: str, tmp_path: Path
) -> None:
    """
    Each process gets one point further, until the last is not killed.
    """
    broker = NewBroker(controller, "mortal", tmp_path / "store")
    lives = [broker.run(killed_at=point) for point in range(POINTS)]

    assert {None, 1} >= set(lives)
    assert [1, 1] == [broker.run(), broker.run()]
    assert NextBrokerId(2) == next_id(controller, "mortal")


def test_two_new_brokers_at_once_get_an_id_each(
    controller: str, tmp_path: Path
) -> None:
    """
    RMQ-R29: both may get the same next id; one of them is also killed.
    """
    for turn, killed_at in enumerate((None, 3, 5, 7)):
        name = f"pair-{turn}"
        brokers = [
            NewBroker(controller, name, tmp_path / f"{turn}-{port}", port)
            for port in (10911, 10921)
        ]
        ends = [brokers[0].start(killed_at), brokers[1].start()]
        found = [end() for end in ends]
        if killed_at is not None:
            found[0] = brokers[0].run()
        assert {1, 2} == set(found), name
        assert NextBrokerId(3) == next_id(controller, name)


def test_another_register_code_does_not_get_an_assigned_id(
    controller: str, tmp_path: Path
) -> None:
    """
    The answer is 2014: the broker then asks for the next id.
    """
    assert 1 == NewBroker(controller, "taken", tmp_path / "store").run()

    async def apply() -> Answer:
        async with ControllerClient([controller]) as client:
            stranger = ApplyBrokerId(CLUSTER, "taken", 1, "127.0.0.1:1;1;1")
            return await client.apply_broker_id(stranger)

    answer = asyncio.run(apply())
    assert isinstance(answer, CallRefused)
    assert 2014 == answer.code


def test_two_brokers_get_a_master_and_a_set(controller: str, tmp_path: Path) -> None:
    """
    Codes 904, 1001 to 1005 and 1008, with the fields of pystore. Java ignores these
    fields, grants no lease, identifies members by id, and notifies a new master at the
    address of its broker.
    """
    asyncio.run(_life(controller, tmp_path))


async def _life(controller: str, folder: Path) -> None:
    notified: asyncio.Queue[MasterInfo] = asyncio.Queue()
    handlers: dict[int, Handler] = {
        RequestCode.NOTIFY_BROKER_ROLE_CHANGED: role_handler(notified.put_nowait)
    }
    async with (
        RemotingServer(handlers) as server,
        ControllerClient([controller]) as client,
    ):
        port = (await server.start())[1]
        for number in (1, 2):
            broker = NewBroker(controller, "life", folder / f"{number}", port)
            assert number == await asyncio.to_thread(broker.run)
            me = HeartbeatExtension(Incarnation(number, bytes(16)), "boot", 4711, "ill")
            beat = SendHeartbeat(
                CLUSTER, "life", number, f"127.0.0.1:{port}", -1, 0, extension=me
            )
            assert HeartbeatAnswer(None) == await client.heartbeat(controller, beat)
        first = await client.elect_master(ElectMaster(CLUSTER, "life", 1))
        alone = AgreedSet(frozenset({Member(1)}), 1)
        lead = MasterInfo(Member(1), f"127.0.0.1:{port}", 1, alone)
        assert MasterInfo(*_facts(lead), is_new=True) == first
        assert lead == await client.elect_master(ElectMaster(CLUSTER, "life", 2))
        assert lead == await asyncio.wait_for(notified.get(), 10)

        both = _change({1, 2}, set_epoch=1)
        agreed = AgreedSet(frozenset({Member(1), Member(2)}), 2)
        assert agreed == await client.alter_sync_state_set(both)
        info = await client.get_replica_info(GetReplicaInfo("life"))
        assert MasterInfo(Member(1), lead.master_address, 1, agreed) == info
        # The same set again, another epoch, an old version, a set without the master.
        for refused, code in (
            (_change({1, 2}, set_epoch=2), 2013),
            (_change({1}, epoch=7), 2000),
            (_change({1}, set_epoch=1), 2001),
            (_change({1, 3}, set_epoch=2), 2003),
        ):
            answer = await client.alter_sync_state_set(refused)
            assert isinstance(answer, CallRefused)
            assert (code, None) == (answer.code, answer.agreed)
        unknown = await client.get_replica_info(GetReplicaInfo("unknown"))
        assert isinstance(unknown, CallRefused)
        assert 2008 == unknown.code


def _facts(lead: MasterInfo) -> tuple[Member | None, str, int, AgreedSet]:
    return lead.master, lead.master_address, lead.master_epoch, lead.agreed


def _change(
    broker_ids: set[int], *, epoch: int = 1, set_epoch: int = 2
) -> AlterSyncStateSet:
    """
    Returns the request of a pystore master, including incarnations.
    """
    bits = bytes(16)
    members = frozenset(Member(one, Incarnation(one, bits)) for one in broker_ids)
    me = Member(1, Incarnation(1, bits))
    return AlterSyncStateSet("life", AlterSet(me, epoch, set_epoch, members))
