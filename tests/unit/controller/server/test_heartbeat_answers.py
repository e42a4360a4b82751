"""
The answers to heartbeats.
"""

from __future__ import annotations

from typing import Any

import pytest
from lib.controller.controller_server import SpokenBroker, running
from lib.remoting.virtual_time_loop import move, run

from pystore.controller.model.log_end import LogEnd
from pystore.controller.server import heartbeat_answers
from pystore.controller.server.heartbeat_codec import BrokerBeat, heartbeat_of
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.connection import Connection
from pystore.remoting.controller_headers import (
    ApplyBrokerIdRequest,
    BrokerHeartbeat,
    ElectMasterRequest,
    GetNextBrokerIdRequest,
    GetReplicaInfoRequest,
    RegisterBrokerToControllerRequest,
)


class _Beats:
    """
    Counts the heartbeats that are decoded.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decoded = 0

        def counted(*args: Any) -> BrokerBeat:
            self.decoded += 1
            return heartbeat_of(*args)

        monkeypatch.setattr(heartbeat_answers, "heartbeat_of", counted)


def test_the_next_heartbeats_of_a_registered_broker_are_not_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    They count as any: with the end of the log, the lease and the time that they are
    valid. One that tells anything else is decoded.
    """

    async def main() -> None:
        async with running() as at:
            broker = SpokenBroker(at, 1)
            await broker.join()
            await broker.elect()
            await broker.beat(1)
            context = at.controller.context
            beats = _Beats(monkeypatch)
            for end in (5, 123_456, 0):
                move(9_000)
                broker.end = end
                grant = await broker.beat(1)
                assert (8_181, 1) == (grant.length_ms, grant.epoch)
                now_ns = context.clock_ns()
                last = context.liveness.last_heartbeats(("cluster", "set"), now_ns)
                assert LogEnd(1, end) == last[1].position
            assert 0 == beats.decoded
            # A silence, another epoch, and a resignation.
            move(11_000)
            assert 0 < (await broker.beat(1)).length_ms
            assert 1 == beats.decoded
            assert 0 == (await broker.beat(2)).length_ms
            assert 0 == (await broker.beat(2)).length_ms
            assert 2 == beats.decoded
            assert 0 == (await broker.beat(1, resigned_epoch=1)).length_ms
            assert 0 == (await broker.beat(1, resigned_epoch=1)).length_ms
            assert 4 == beats.decoded

    run(main())


def test_a_repeated_heartbeat_says_whose_requests_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    A connection that carries brokers of two sets of one name: a request without a
    cluster means the set of the last heartbeat.
    """

    async def main() -> None:
        async with running() as at:
            for cluster in ("one", "two"):
                address = f"{cluster}:1"
                for code, header in (
                    (
                        RequestCode.CONTROLLER_APPLY_BROKER_ID,
                        ApplyBrokerIdRequest(cluster, "set", 1, f"{address};1"),
                    ),
                    (
                        RequestCode.CONTROLLER_REGISTER_BROKER,
                        RegisterBrokerToControllerRequest(cluster, "set", 1, address),
                    ),
                    (
                        RequestCode.BROKER_HEARTBEAT,
                        BrokerHeartbeat(1, cluster, address, "set"),
                    ),
                    (
                        RequestCode.CONTROLLER_ELECT_MASTER,
                        ElectMasterRequest(cluster, "set", 1),
                    ),
                ):
                    answer = await at.ask(code, header)
                    assert ResponseCode.SUCCESS == answer.code, (code, answer)
            beats = _Beats(monkeypatch)
            async with RemotingClient() as client:
                for number in range(40):
                    cluster = ("one", "two")[number % 2]
                    header = BrokerHeartbeat(1, cluster, f"{cluster}:1", "set")
                    code = RequestCode.BROKER_HEARTBEAT
                    await at.ask(code, header, client=client)
                    code = RequestCode.CONTROLLER_GET_REPLICA_INFO
                    asked = GetReplicaInfoRequest("set")
                    answer = await at.ask(code, asked, client=client)
                    assert f"{cluster}:1" == answer.ext_fields["masterAddress"]
            assert 20 <= beats.decoded < 40

    run(main())


def test_heartbeats_are_decoded_where_more_than_a_lease_depends_on_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Those of a stranger, and those that another record store, or none, would refuse.
    """

    async def main() -> None:
        async with running() as at:
            broker, stranger = SpokenBroker(at, 1), SpokenBroker(at, 2)
            await broker.join()
            await broker.beat()
            beats = _Beats(monkeypatch)
            for _ in range(3):
                await stranger.beat()
            assert 3 == beats.decoded
            await broker.beat()
            assert 3 == beats.decoded
            context = at.controller.context
            context.cluster_id = "f" * 32
            await broker.beat()
            assert 4 == beats.decoded
            await broker.beat()
            assert 4 == beats.decoded
            context.leader = None
            await broker.beat()
            assert 5 == beats.decoded

    run(main())


def test_peers_that_speak_for_a_known_set_are_preferred(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Their heartbeats and commits do not wait for those of strangers.
    """
    preferred: list[Connection] = []

    def prefer(connection: Connection) -> None:
        preferred.append(connection)

    monkeypatch.setattr(Connection, "prefer", prefer)

    async def main() -> None:
        async with running() as at:
            broker, stranger = SpokenBroker(at, 1), SpokenBroker(at, 2)
            await broker.join()
            context = at.controller.context
            [beat] = context.liveness.alive(("cluster", "set"), context.clock_ns())
            known = context.connections[beat.connection]
            assert {known} == {*preferred}
            preferred.clear()
            await stranger.beat()
            assert ResponseCode.SUCCESS != await stranger.register()
            asked = GetNextBrokerIdRequest("cluster", "other")
            await at.ask(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, asked)
            assert not preferred

    run(main())
