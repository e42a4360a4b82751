"""
The controller client over real sockets: each request is sent at most once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from lib.remoting.virtual_time_loop import move, run, until

from pystore.controller.client.client import ControllerClient, role_handler
from pystore.controller.model.commands import AlterSet
from pystore.controller.model.replies import Done, NextBrokerId
from pystore.controller.protocol.calls import (
    AlterSyncStateSet,
    ApplyBrokerId,
    CallRefused,
    CallUnanswered,
    ElectMaster,
    GetNextBrokerId,
    GetReplicaInfo,
    HeartbeatAnswer,
    MasterInfo,
    RegisterBroker,
    SendHeartbeat,
)
from pystore.controller.protocol.extensions import LeaseGrant, lease_fields
from pystore.errors import ClosedError
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.controller_bodies import ElectMasterBody, SyncStateSet
from pystore.remoting.controller_headers import NotifyRoleChanged
from pystore.remoting.fields import encode_fields
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer
from pystore.replicaset import AgreedSet, Member

SET_BODY = SyncStateSet(frozenset({1}), 1).encode()
AGREED = AgreedSet(frozenset({Member(1)}), 1)
MASTER = {"masterBrokerId": "1", "masterAddress": "a:1", "masterEpoch": "5"}
APPLY = ApplyBrokerId("c", "b", 1, "code")
ALTER = AlterSyncStateSet("b", AlterSet(Member(1), 5, 1, frozenset({Member(1)})))


class Controller:
    """
    A controller with prepared answers, which records its requests.

    Attributes:
        address: ``HOST:PORT``.
        is_leader: whether it answers that it leads.
        leader: the leader that it names.
        replies: by code; other codes are answered with success only.
        is_mute: it answers only 1005.
        asked: the received codes.
        peers: the connections with requests.
    """

    def __init__(self) -> None:
        self.address = ""
        self.is_leader = True
        self.leader = ""
        self.replies: dict[int, Reply] = {}
        self.is_mute = False
        self.asked: list[int] = []
        self.peers: set[Connection] = set()
        self.server = RemotingServer(dict.fromkeys(RequestCode, self._handle))

    async def _handle(self, request: RemotingCommand, peer: Connection) -> Reply:
        self.asked.append(request.code)
        self.peers.add(peer)
        if request.code == RequestCode.CONTROLLER_GET_METADATA_INFO:
            is_leader = "true" if self.is_leader else "false"
            told = {"isLeader": is_leader, "controllerLeaderAddress": self.leader}
            return Reply(ext_fields=told)
        if self.is_mute:
            await asyncio.Event().wait()
        return self.replies.get(request.code, Reply())


@asynccontextmanager
async def standing(count: int = 1) -> AsyncIterator[list[Controller]]:
    """
    Several controllers, of which the first leads.
    """
    controllers = [Controller() for _ in range(count)]
    try:
        for number, one in enumerate(controllers):
            host, port = await one.server.start()
            one.address, one.is_leader = f"{host}:{port}", number == 0
        yield controllers
    finally:
        for one in controllers:
            await one.server.close()


def client_of(
    controllers: list[Controller], told: Callable[[MasterInfo], object] = bool
) -> ControllerClient:
    """
    A client of all of them.
    """
    return ControllerClient([one.address for one in controllers], told)


CALLS: list[tuple[Callable[[ControllerClient], Awaitable[object]], Reply, object]] = [
    (
        lambda c: c.get_next_broker_id(GetNextBrokerId("c", "b")),
        Reply(ext_fields={"nextBrokerId": "4"}),
        NextBrokerId(4),
    ),
    (lambda c: c.apply_broker_id(APPLY), Reply(), Done()),
    (
        lambda c: c.register_broker(RegisterBroker("c", "b", 1, "a:1")),
        Reply(ext_fields=MASTER, body=SET_BODY),
        MasterInfo(Member(1), "a:1", 5, AGREED),
    ),
    (
        lambda c: c.elect_master(ElectMaster("c", "b", 1)),
        Reply(
            ext_fields=MASTER | {"syncStateSetEpoch": "1"},
            body=ElectMasterBody(frozenset({1})).encode(),
        ),
        MasterInfo(Member(1), "a:1", 5, AGREED, is_new=True),
    ),
    (
        lambda c: c.get_replica_info(GetReplicaInfo("b")),
        Reply(ext_fields=MASTER, body=SET_BODY),
        MasterInfo(Member(1), "a:1", 5, AGREED),
    ),
    (lambda c: c.alter_sync_state_set(ALTER), Reply(body=SET_BODY), AGREED),
]


@pytest.mark.parametrize(("call", "reply", "answer"), CALLS)
def test_the_leader_is_found_and_asked_once(
    call: Callable[[ControllerClient], Awaitable[object]], reply: Reply, answer: object
) -> None:
    """Each request goes to the leader, which is known afterwards."""

    async def main() -> None:
        async with standing(2) as (leader, other):
            other.is_leader, leader.is_leader = False, True
            other.leader = leader.address
            leader.replies = dict.fromkeys(range(1001, 1014), reply)
            async with client_of([other, leader]) as client:
                assert answer == await call(client)
                assert leader.address == client.leader
                assert answer == await call(client)
            assert [1005] == other.asked
            assert 3 == len(leader.asked)
            assert 1 == leader.asked.count(1005)

    run(main())


def test_a_refusal_by_a_former_leader_starts_a_new_search() -> None:
    """2007 changed nothing; the caller sends the request again to the new leader."""

    async def main() -> None:
        async with standing(2) as (old, new), client_of([old, new]) as client:
            old.replies[1013] = Reply(2007, "not leader")
            assert CallRefused(2007, "not leader") == await client.apply_broker_id(
                APPLY
            )
            assert client.leader is None
            old.is_leader, old.leader, new.is_leader = False, new.address, True
            assert Done() == await client.apply_broker_id(APPLY)
            assert [1013] == [code for code in old.asked if code == 1013]
            assert [1005, 1013] == new.asked

    run(main())


def test_an_unreachable_hint_does_not_end_the_search() -> None:
    """The search continues with the other addresses."""

    async def main() -> None:
        async with standing() as (other,), client_of([other]) as client:
            other.is_leader, other.leader = False, "nonsense"
            answer = await client.apply_broker_id(APPLY)
            assert isinstance(answer, CallUnanswered)
            assert not answer.may_be_done
            assert "'nonsense' is no HOST:PORT" in answer.reason

    run(main())


@pytest.mark.parametrize(("call", "_", "__"), CALLS)
def test_a_request_without_an_answer_may_be_done_and_is_not_repeated(
    call: Callable[[ControllerClient], Awaitable[object]], _: object, __: object
) -> None:
    """
    RMQ-R28, RMQ-R112: after 3 s the search starts again, and asks the old leader last.
    """

    async def main() -> None:
        async with standing() as (leader,), client_of([leader]) as client:
            leader.is_mute = True
            asking = asyncio.ensure_future(call(client))
            await until(lambda: len(leader.asked) == 2)
            move(3001)
            answer = await asking
            assert isinstance(answer, CallUnanswered)
            assert answer.may_be_done
            assert f"did not answer request {leader.asked[1]}" in answer.reason
            assert 2 == len(leader.asked)
            assert client.leader is None

    run(main())


def test_a_connection_that_ends_leaves_the_outcome_open() -> None:
    """A controller killed between commit and answer."""

    async def main() -> None:
        async with standing() as (leader,), client_of([leader]) as client:
            leader.is_mute = True
            asking = asyncio.ensure_future(client.apply_broker_id(APPLY))
            await until(lambda: len(leader.asked) == 2)
            for peer in leader.peers:
                peer.close()
            answer = await asking
            assert isinstance(answer, CallUnanswered)
            assert answer.may_be_done

    run(main())


def test_a_call_that_reached_no_controller_is_not_done() -> None:
    """No controller, no leader, and a leader that is gone."""

    async def main() -> None:
        async with standing(2) as controllers, client_of(controllers) as client:
            leader, other = controllers
            assert Done() == await client.apply_broker_id(APPLY)
            await leader.server.close()
            await until(lambda: leader.address not in client._remoting.addresses)
            answer = await client.apply_broker_id(APPLY)
            assert isinstance(answer, CallUnanswered)
            assert not answer.may_be_done
            answer = await client.apply_broker_id(APPLY)
            assert isinstance(answer, CallUnanswered)
            assert not answer.may_be_done
            assert answer.reason.startswith("no controller leads: ")
            assert f"{leader.address} {leader.address}" not in answer.reason
            assert {leader.address, other.address} == set(client.known)
            assert 1013 not in other.asked

    run(main())


def test_a_heartbeat_goes_to_the_given_address() -> None:
    """904: to any controller; the answer may contain a lease."""

    async def main() -> None:
        async with standing(2) as controllers, client_of(controllers) as client:
            beat = SendHeartbeat("c", "b", 1, "a:1")
            grant = LeaseGrant(10_000, 5)
            controllers[0].replies[904] = Reply(ext_fields=lease_fields(grant))
            answers = [await client.heartbeat(to, beat) for to in client.known]
            assert [HeartbeatAnswer(grant), HeartbeatAnswer(None)] == answers
            assert client.leader is None
            controllers[1].is_mute = True
            asking = asyncio.ensure_future(
                client.heartbeat(controllers[1].address, beat)
            )
            await until(lambda: len(controllers[1].asked) == 2)
            move(3001)
            assert isinstance(await asking, CallUnanswered)

    run(main())


NOTIFICATION = RemotingCommand(
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED,
    ext_fields=encode_fields(NotifyRoleChanged("a:1", 1, 5, 1)),
    body=SET_BODY,
)


def test_a_notification_arrives_on_the_connection_of_the_client() -> None:
    """1008: a malformed one is reported, and changes nothing."""

    async def main() -> None:
        told: list[MasterInfo] = []
        async with (
            standing() as controllers,
            client_of(controllers, told.append) as client,
        ):
            await client.apply_broker_id(APPLY)
            (peer,) = controllers[0].peers
            await peer.send(RemotingCommand(NOTIFICATION.code, body=b"?"), 1000)
            await peer.send(NOTIFICATION, 1000)
            await until(lambda: told)
            assert [MasterInfo(Member(1), "a:1", 5, AGREED)] == told
            assert Done() == await client.apply_broker_id(APPLY)

    run(main())


def test_a_server_of_the_broker_takes_the_same_notification() -> None:
    """RocketMQ's controllers connect to the broker's address."""

    async def main() -> None:
        told: list[MasterInfo] = []
        handlers = {NOTIFICATION.code: role_handler(told.append)}
        async with RemotingServer(handlers) as server, RemotingClient() as controller:
            host, port = await server.start()
            await controller.send(f"{host}:{port}", NOTIFICATION)
            await until(lambda: told)
            assert 5 == told[0].master_epoch

    run(main())


def test_a_closed_client_sends_nothing() -> None:
    """A waiting call has an open outcome; a later call raises."""

    async def main() -> None:
        async with standing() as (leader,), client_of([leader]) as client:
            leader.is_mute = True
            asking = asyncio.ensure_future(client.apply_broker_id(APPLY))
            await until(lambda: len(leader.asked) == 2)
            await client.close()
            answer = await asking
            assert isinstance(answer, CallUnanswered)
            assert answer.may_be_done
            with pytest.raises(ClosedError):
                await client.heartbeat(
                    leader.address, SendHeartbeat("c", "b", 1, "a:1")
                )

    run(main())
