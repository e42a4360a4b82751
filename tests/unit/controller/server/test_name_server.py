"""
A controller's process is a name server, too: on one port, or on its own.
"""

from __future__ import annotations

import pytest
from lib.controller.controller_server import running
from lib.remoting.name_server_peers import registration
from lib.remoting.virtual_time_loop import run

from pystore.controller.server.config import ControllerConfig
from pystore.controller.server.controller import Controller
from pystore.errors import StorageError
from pystore.records.memory import MemorySpace, MemoryStore
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand

HERE = "127.0.0.1:0"
TOPICS = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER


async def _topics(client: RemotingClient, address: str) -> RemotingCommand:
    return await client.call(address, RemotingCommand(TOPICS))


def test_one_port_answers_for_both() -> None:
    """A 904 with an id is for the controller, one without for the name server."""

    async def main() -> None:
        async with running(settings=ControllerConfig(HERE, nameserver=HERE)) as at:
            answer = await at.client.call(at.address, registration("10.0.0.1"))
            assert ResponseCode.SUCCESS == answer.code, answer
            assert b"T1" in (await _topics(at.client, at.address)).body
            fields = {"clusterName": "C", "brokerName": "s", "brokerAddr": "10.0.0.1:1"}
            beat = await at.ask(RequestCode.BROKER_HEARTBEAT, added=fields)
            assert (ResponseCode.SUCCESS, {}) == (beat.code, dict(beat.ext_fields))
            fields["brokerId"] = "1"
            beat = await at.ask(RequestCode.BROKER_HEARTBEAT, added=fields)
            assert {"pystoreLeaseMs", "pystoreLeaseEpoch"} == set(beat.ext_fields)
            context = at.controller.context
            assert {1} == set(
                context.liveness.last_heartbeats(("C", "s"), context.clock_ns())
            )
            assert (await at.metadata()).is_leader

    run(main())


def test_a_broker_whose_connection_closes_is_in_no_route() -> None:
    """Also where the controller has the port."""

    async def main() -> None:
        async with running(settings=ControllerConfig(HERE, nameserver=HERE)) as at:
            async with RemotingClient() as broker:
                await broker.call(at.address, registration("10.0.0.1"))
            clusters = RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO)
            found = await at.client.call(at.address, clusters)
            assert b"10.0.0.1" not in found.body
            assert "removed broker 10.0.0.1:1" in " ".join(at.said)

    run(main())


def test_a_port_of_its_own_answers_for_routes_alone() -> None:
    """And the controller's for decisions alone."""

    async def main() -> None:
        async with running(
            settings=ControllerConfig(HERE, nameserver="localhost:0")
        ) as at:
            routes = at.controller.names.address
            await at.client.call(routes, registration("10.0.0.1"))
            assert b"T1" in (await _topics(at.client, routes)).body
            unknown = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            assert unknown == (await _topics(at.client, at.address)).code
            metadata = RemotingCommand(RequestCode.CONTROLLER_GET_METADATA_INFO)
            assert unknown == (await at.client.call(routes, metadata)).code

    run(main())


def test_without_it_routes_are_unknown() -> None:
    """A controller is no name server by default."""

    async def main() -> None:
        async with running() as at:
            unknown = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            assert unknown == (await _topics(at.client, at.address)).code
            assert "" == at.controller.names.address

    run(main())


def test_a_port_in_use_ends_the_process() -> None:
    """Rather than a controller that brokers cannot find."""

    async def main() -> None:
        async with running() as at:
            settings = ControllerConfig(HERE, nameserver=at.address)
            other = Controller(settings, lambda: MemoryStore(MemorySpace()), bool)
            with pytest.raises(StorageError, match="remoting cannot listen"):
                await other.run()

    run(main())
