"""
Heartbeats of hosts, and the description of hosts, at a controller.
"""

from __future__ import annotations

import asyncio

import pytest
from lib.controller.controller_server import Running, SpokenBroker, running
from lib.remoting.virtual_time_loop import move, run, until
from lib.values import replace

from pystore.controller.client.client import ControllerClient
from pystore.controller.client.host_descriptions import (
    describe_hosts,
    forget_host,
    send_host_heartbeat,
)
from pystore.controller.protocol.host_descriptions import (
    HOST_BODY_BYTES_MAX,
    HostDescription,
    HostedReplica,
    HostsPage,
    encode_hosts,
)
from pystore.controller.server.record_keys import host_key
from pystore.errors import InvalidError, UnavailableError
from pystore.records.memory import MemorySpace
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.controller_headers import CleanBrokerDataRequest
from pystore.remoting.host_headers import (
    DescribeHostsRequest,
    ForgetHostRequest,
    HostHeartbeatRequest,
)

ONE = HostDescription("h:1", "r", 100, 40, "", (HostedReplica("c", "s", 1, "h:3"),))


async def pages(client: ControllerClient) -> list[HostsPage]:
    """
    All of them.
    """
    return [one async for one in describe_hosts(client)]


def test_the_leader_tells_what_hosts_told_it() -> None:
    """
    Page by page, with how long it has led; a host that is silent is told as such.
    """

    async def main() -> None:
        async with running() as at, ControllerClient([at.address]) as client:
            hosts = [replace(ONE, address=f"h{n:03}:1") for n in range(201)]
            for one in hosts:
                await send_host_heartbeat(client, one, 10_000)
            found = await pages(client)
            assert [200, 1] == [len(one.hosts) for one in found]
            told = [each for one in found for each in one.hosts]
            assert hosts == [replace(one, since_ms=0) for one in told]
            assert all(one.is_alive for one in told)
            for _ in range(22):
                move(500)
                await asyncio.sleep(0.01)
            await send_host_heartbeat(client, hosts[0], 10_000)
            (page, _) = await pages(client)
            assert page.may_replace
            assert page.led_ms >= 11_000
            assert [True, False] == [one.is_alive for one in page.hosts[:2]]

    run(main())


@pytest.mark.parametrize(
    ("timeout_ms", "body"),
    [
        (10_000, encode_hosts([])),
        (10_000, encode_hosts([ONE, ONE])),
        (10_000, encode_hosts([ONE]) + b" " * HOST_BODY_BYTES_MAX),
        (0, encode_hosts([ONE])),
        (60_001, encode_hosts([ONE])),
        (10_000, b"no JSON"),
    ],
)
def test_what_is_no_heartbeat_of_a_host_is_refused(
    timeout_ms: int, body: bytes
) -> None:
    """
    And changes nothing.
    """

    async def main() -> None:
        async with running() as at, ControllerClient([at.address]) as client:
            header = HostHeartbeatRequest(timeout_ms)
            answer = await at.ask(RequestCode.HOST_HEARTBEAT, header, body)
            assert ResponseCode.SUCCESS != answer.code
            (page,) = await pages(client)
            assert () == page.hosts

    run(main())


async def led_for_long() -> None:
    """
    Waits until all heartbeats would have arrived.
    """
    for _ in range(22):
        move(500)
        await asyncio.sleep(0.01)


def test_a_dead_host_is_known_to_the_next_controller_and_forgotten_on_request() -> None:
    """
    Not while it is alive, nor before the controller knows that, nor while a set has a
    replica of it.
    """

    async def main() -> None:
        space = MemorySpace()
        carried = HostedReplica("cluster", "set", 1, "h:3")
        one = replace(ONE, replicas=(carried, HostedReplica("cluster", "set", 7)))
        async with running(space) as at, ControllerClient([at.address]) as client:
            await SpokenBroker(at, 1).join()
            await send_host_heartbeat(client, one, 20_000)
            await led_for_long()
            with pytest.raises(InvalidError, match="h:1 is alive: stop it first"):
                await forget_host(client, "h:1")
            await until(lambda: host_key("h:1") in space.rows)
        async with running(space) as at, ControllerClient([at.address]) as client:
            (page,) = await pages(client)
            (found,) = page.hosts
            assert ("h:1", "r", (carried,)) == (
                found.address,
                found.rack,
                found.replicas,
            )
            assert not found.is_alive
            with pytest.raises(UnavailableError, match="too short a time"):
                await forget_host(client, "h:1")
            await led_for_long()
            with pytest.raises(InvalidError, match=r"such as cluster/set/1: have it"):
                await forget_host(client, "h:1")
            header = CleanBrokerDataRequest(
                "set", "cluster", "1", is_clean_living_broker=True
            )
            assert 0 == (await at.ask(RequestCode.CLEAN_BROKER_DATA, header)).code
            await forget_host(client, "h:1")
            await forget_host(client, "h:1")
            assert host_key("h:1") not in space.rows
            (page,) = await pages(client)
            assert () == page.hosts

    run(main())


async def refused(at: Running) -> set[int]:
    """
    The answers to the three requests.
    """
    header = HostHeartbeatRequest()
    beat = await at.ask(RequestCode.HOST_HEARTBEAT, header, encode_hosts([ONE]))
    asked = await at.ask(RequestCode.DESCRIBE_HOSTS, DescribeHostsRequest())
    forget = await at.ask(RequestCode.FORGET_HOST, ForgetHostRequest("h:1"))
    return {beat.code, asked.code, forget.code}


def test_a_controller_that_does_not_lead_neither_takes_nor_tells() -> None:
    """
    C2: another one may know better.
    """

    async def main() -> None:
        space = MemorySpace()
        async with running(space), running(space, leads=False) as other:
            assert {ResponseCode.CONTROLLER_NOT_LEADER} == await refused(other)

    run(main())
