"""
A controller on a real socket: brokers join, elect, change their set, die and resign.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest
from lib.controller.broker_set_driver import start
from lib.controller.controller_server import Running, SpokenBroker, running
from lib.remoting.virtual_time_loop import move, run, until

from pystore.controller.client.client import ControllerClient
from pystore.controller.model.replica import LogStanding
from pystore.controller.model.replies import NextBrokerId
from pystore.controller.model.state import SetState
from pystore.controller.protocol.calls import (
    ApplyBrokerId,
    ElectMaster,
    GetNextBrokerId,
    HeartbeatAnswer,
    MasterInfo,
    RegisterBroker,
    SendHeartbeat,
)
from pystore.controller.protocol.extensions import HeartbeatExtension, LeaseGrant
from pystore.controller.server.config import ControllerConfig
from pystore.controller.server.record_keys import PEERS, set_key
from pystore.controller.server.term import LeaderTerm
from pystore.errors import ClosedError
from pystore.records.memory import Fault, MemorySpace
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.controller_headers import (
    ElectMasterRequest,
    GetReplicaInfoRequest,
)
from pystore.replicaset import Member

CLUSTER = ("cluster", "set")


def test_a_set_of_three_replaces_its_lost_master() -> None:
    """
    The closed connection is enough (RMQ-R241), and the others are notified (RMQ-R57).
    """

    async def main() -> None:
        async with running() as at:
            brokers = [SpokenBroker(at, number) for number in (1, 2, 3)]
            for broker in brokers:
                await broker.join()
            first, second, third = brokers
            assert 1 == (await first.elect()).master_broker_id
            members = frozenset({first.member, second.member})
            assert 0 == (await first.alter(members, 1, 1)).code
            move(10_000)
            for broker in brokers:
                await broker.beat()
            await first.die()
            await until(lambda: any(two.master_epoch == 2 for two in second.told))
            await until(lambda: any(two.master_epoch == 2 for two in third.told))
            assert {2} == {one.master_broker_id for one in third.told[1:]}

    run(main())


def test_a_dead_process_does_not_register_in_the_place_of_its_successor() -> None:
    """Its late registration came on an older connection."""

    async def main() -> None:
        async with running() as at:
            before, after = SpokenBroker(at, 1), SpokenBroker(at, 1, start(2))
            await before.join()
            after.address = before.address
            refused = ResponseCode.CONTROLLER_BROKER_ID_INVALID
            assert refused == await after.register()
            move(10_001)
            assert 0 == await after.register()
            assert ResponseCode.CONTROLLER_INVALID_REQUEST == await before.register()

    run(main())


def test_a_process_that_was_paused_registers_once_its_copy_has_ended() -> None:
    """
    The connection of the copy was newer, and nothing else would ever end the older one.
    """

    async def main() -> None:
        async with running() as at:
            paused, copy = SpokenBroker(at, 1), SpokenBroker(at, 1, start(2))
            copy.address = "127.0.0.1:10002"
            await paused.join()
            move(10_001)
            assert 0 == await copy.register()
            await copy.beat()
            assert ResponseCode.CONTROLLER_INVALID_REQUEST == await paused.register()
            await paused.await_hang_up()
            # On a new connection: the copy lives.
            assert ResponseCode.CONTROLLER_BROKER_ID_INVALID == await paused.register()
            await copy.die()
            move(10_001)
            assert 0 == await paused.register()

    run(main())


def test_the_client_of_a_broker_gets_its_id_a_role_a_lease_and_notifications() -> None:
    """Client and server agree on the extensions of pystore."""

    async def main() -> None:
        news: list[MasterInfo] = []
        extension = HeartbeatExtension(start(1).incarnation)
        async with running() as at, ControllerClient([at.address], news.append) as one:
            assert NextBrokerId(1) == await one.get_next_broker_id(
                GetNextBrokerId("cluster", "set")
            )
            await one.apply_broker_id(ApplyBrokerId("cluster", "set", 1, "h:1;1"))
            registered = await one.register_broker(
                RegisterBroker("cluster", "set", 1, "h:1", start(1))
            )
            assert isinstance(registered, MasterInfo)
            assert LogStanding.SOUND is registered.standing
            beat = SendHeartbeat(
                "cluster", "set", 1, "h:1", epoch=1, extension=extension
            )
            await one.heartbeat(at.address, replace(beat, epoch=0))
            elected = await one.elect_master(ElectMaster("cluster", "set", 1))
            assert isinstance(elected, MasterInfo)
            assert Member(1, extension.incarnation) == elected.master
            answer = await one.heartbeat(at.address, beat)
            assert HeartbeatAnswer(LeaseGrant(8181, 1)) == answer
            await until(lambda: news)
            assert [(elected.master, 1)] == [
                (two.master, two.master_epoch) for two in news
            ]

    run(main())


def test_a_master_has_a_lease_and_its_successor_waits_for_its_end() -> None:
    """C1, C3: until then the new master gets no lease, unless the old one resigned."""

    async def main() -> None:
        async with running() as at:
            first, second = await _pair_of(at)
            assert (8181, 1) == _pair(await first.beat(epoch=1))
            assert (0, 0) == _pair(await second.beat())
            move(10_000)
            await first.beat(epoch=1)
            await second.beat()
            await first.die()
            await until(lambda: _epoch(at) == 2)
            assert (0, 2) == _pair(await second.beat(epoch=2))
            move(10_001)
            await second.beat(epoch=2)
            await until(lambda: not _state(at).unreleased)
            assert (8181, 2) == _pair(await second.beat(epoch=2))
            assert (0, 2) == _pair(await second.beat(epoch=2, resigned_epoch=2))
            await until(lambda: _epoch(at) > 2)

    run(main())


def test_a_new_leader_replaces_no_master_without_heartbeats() -> None:
    """
    Not before the longest lease of the controller before it is over (C3, RMQ-R226).
    """

    async def main() -> None:
        space = MemorySpace()
        async with running(space) as at:
            first, second = await _pair_of(at)
            await first.die()
        async with running(space) as at:
            second = SpokenBroker(at, 2, second.recovery)
            await second.beat()
            move(9_000)
            await second.beat()
            assert (1, 1) == (_epoch(at), _master_id(at))
            move(1_001)
            await until(lambda: _epoch(at) == 2)
            assert 2 == _master_id(at)

    run(main())


def test_a_master_that_falls_silent_is_replaced() -> None:
    """RMQ-T17, RMQ-T19: its connection is open, but its last heartbeat has expired."""

    async def main() -> None:
        async with running() as at:
            first, second = await _pair_of(at)
            move(9_000)
            await second.beat()
            assert (1, 1) == (_epoch(at), _master_id(at))
            move(1_001)
            await until(lambda: _epoch(at) == 2)
            assert 2 == _master_id(at)
            await until(lambda: any(one.master_epoch == 2 for one in second.told))
            # It still has its connection and gets the answer.
            assert (0, 1) == _pair(await first.beat(epoch=1))

    run(main())


def test_a_controller_replaces_no_master_for_a_while_after_a_pause() -> None:
    """
    A broker that dropped its connection during the pause connects again (RMQ-R226).
    """

    async def main() -> None:
        waking = [0]
        async with running(waking_ns=lambda: waking[0]) as at:
            first, second = await _pair_of(at)
            await first.listen()
            move(5_000)
            await first.beat()
            await second.beat()
            waking[0] += 1_000_000_001
            await first.hang_up()
            move(5_000)
            for _ in range(20):
                await second.beat()
            assert (1, 1) == (_epoch(at), _master_id(at))
            for _ in range(2):
                move(5_001)
                await second.beat()
            await until(lambda: _epoch(at) == 2)

    run(main())


def test_an_election_that_could_not_be_committed_is_retried() -> None:
    """RMQ-T13: the request is refused, nothing changes, and the next check elects."""

    async def main() -> None:
        fault = Fault.NONE
        space = MemorySpace()
        async with running(
            space, faults=lambda verb: fault if verb == "commit" else Fault.NONE
        ) as at:
            first, second = await _pair_of(at)
            move(5_000)
            await first.beat(epoch=1)
            await second.beat()
            move(5_001)
            before = space.rows[set_key(*CLUSTER)]
            fault = Fault.UNREACHABLE
            await first.die()
            await until(lambda: at.said[1:])
            asked = ElectMasterRequest(*CLUSTER, 2)
            answer = await at.ask(RequestCode.CONTROLLER_ELECT_MASTER, asked)
            assert ResponseCode.SYSTEM_ERROR == answer.code
            assert "unreachable" in (answer.remark or "")
            assert (1, 1) == (_epoch(at), _master_id(at))
            assert before is space.rows[set_key(*CLUSTER)]
            fault = Fault.NONE
            move(7_000)
            await second.beat()
            await until(lambda: _epoch(at) == 2)
            assert 2 == _master_id(at)

    run(main())


def test_a_master_whose_heartbeats_reach_only_other_controllers_is_replaced() -> None:
    """
    RMQ-R227: the leader decides by its own heartbeats. Other controllers grant the
    master no lease, so it stops before the new one begins.
    """

    async def main() -> None:
        space = MemorySpace()
        async with running(space) as at, running(space, leads=False) as other:
            first, second = await _pair_of(at)
            assert (8181, 1) == _pair(await first.beat(epoch=1))
            first.running = other
            for _ in range(5):
                move(2_001)
                assert (0, 1) == _pair(await first.beat(epoch=1))
                assert (0, 0) == _pair(await second.beat())
            await until(lambda: _epoch(at) == 2)
            assert 2 == _master_id(at)

    run(main())


def test_one_controller_leads_and_the_other_names_it() -> None:
    """2007 has no content; 1005 names the leader and all controllers (RMQ-R221)."""

    async def main() -> None:
        space = MemorySpace()
        async with running(space) as one, running(space, leads=False) as two:
            # Both announce themselves in their own threads.
            await until(lambda: 2 == sum(key.startswith(PEERS) for key in space.rows))
            answer = await two.ask(
                RequestCode.CONTROLLER_GET_REPLICA_INFO, GetReplicaInfoRequest("set")
            )
            assert ResponseCode.CONTROLLER_NOT_LEADER == answer.code
            assert {} == answer.ext_fields
            both = {one.address, two.address}
            for at in (one, two):
                peers = set[str]()
                # A controller announces itself while it campaigns, and cached peers are
                # valid for five seconds.
                while peers != both:
                    move(5000)
                    told = await at.metadata()
                    peers = set((told.peers or "").split(";")) - {""}
                assert one.address == told.controller_leader_address
                assert (at is one) == told.is_leader

    run(main())


def test_a_controller_that_loses_its_session_is_replaced() -> None:
    """Its state is dropped, and the next leader reads the records."""

    async def main() -> None:
        space = MemorySpace()
        async with running(space) as one, running(space, leads=False) as two:
            broker = SpokenBroker(one, 1)
            await broker.join()
            one.stores[-1].close()
            await until(lambda: two.controller.leads)
            broker.running = two
            await broker.beat()
            assert 1 == (await broker.elect()).master_broker_id

    run(main())


def test_a_controller_without_proof_of_its_term_names_no_master() -> None:
    """C2: reads prove nothing, and a commit proves no longer than a session lasts."""

    async def main() -> None:
        async with running(length_ns=3_000_000_000) as at:
            broker = SpokenBroker(at, 1)
            await broker.join()
            await broker.elect()
            assert 0 < (await broker.beat(epoch=1)).length_ms <= 3000 * 9 // 11
            _leader(at).authority.term.sent_ns -= 3_000_000_000
            assert (0, 1) == _pair(await broker.beat(epoch=1))
            answer = await at.ask(
                RequestCode.CONTROLLER_GET_REPLICA_INFO, GetReplicaInfoRequest("set")
            )
            assert ResponseCode.CONTROLLER_NOT_LEADER == answer.code
            move(1000)
            await until(lambda: at.controller.leads)

    run(main())


def test_notifications_can_be_switched_off() -> None:
    """RocketMQ: ``notifyBrokerRoleChanged``; brokers also ask by themselves."""

    async def main() -> None:
        settings = ControllerConfig(
            listen="127.0.0.1:0", notify_broker_role_changed=False
        )
        async with running(settings=settings) as at:
            broker = SpokenBroker(at, 1)
            await broker.join()
            await broker.elect()
            await broker.beat()
            assert [] == broker.told

    run(main())


async def _pair_of(at: Running) -> tuple[SpokenBroker, SpokenBroker]:
    """
    Returns a master of epoch 1 and a member of its set.
    """
    first, second = SpokenBroker(at, 1), SpokenBroker(at, 2)
    await first.join()
    await second.join()
    assert 1 == (await first.elect()).master_broker_id
    assert 0 == (await first.alter(frozenset({first.member, second.member}), 1, 1)).code
    return first, second


def _pair(grant: LeaseGrant) -> tuple[int, int]:
    return grant.length_ms, grant.epoch


def _leader(at: Running) -> LeaderTerm:
    leader = at.controller.context.leader
    assert leader is not None
    return leader


def _state(at: Running) -> SetState:
    return _leader(at).sets.state(CLUSTER)


def _master_id(at: Running) -> int:
    master = _state(at).master
    assert master is not None
    return master.broker_id


def _epoch(at: Running) -> int:
    return _state(at).epoch


def test_who_leads_is_answered_while_the_record_store_stands_still() -> None:
    """Operators and brokers wait for it: as far as this controller knows by itself."""
    stands_still, goes_on = threading.Event(), threading.Event()

    def fault(_: str) -> Fault:
        if stands_still.is_set():
            goes_on.wait(60)
        return Fault.NONE

    async def main() -> None:
        async with running(faults=fault) as at:
            stands_still.set()
            try:
                for _ in range(3):
                    found = await at.metadata()
                    assert found.is_leader
                    assert at.address == found.controller_leader_address
            finally:
                goes_on.set()

    asyncio.run(main())


def test_a_controller_that_waits_for_the_leadership_ends_at_once() -> None:
    """
    Its session is closed, which ends its campaign, however often it is cancelled.
    """

    async def main() -> None:
        space = MemorySpace()
        async with running(space), running(space, leads=False) as waiting:
            await until(lambda: waiting.controller.context.store)
            await asyncio.sleep(0.1)
        with pytest.raises(ClosedError):
            await asyncio.to_thread(waiting.stores[-1].get, "any")

    run(main())
