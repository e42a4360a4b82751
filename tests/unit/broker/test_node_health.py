"""
A master that cannot serve gives its mastership to a broker that can.

Real nodes under a real controller, a port that is taken, and a disk that is full.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from cluster.small_disks import NEEDS_MOUNTS, SmallDisk
from lib.controller.controller_server import running
from lib.free_ports import free_port
from lib.remoting.virtual_time_loop import move, run
from lib.store.stores import message

from pystore.broker.config import NodeConfig
from pystore.broker.node import BrokerNode
from pystore.clocks import clock_ms
from pystore.controller.client.client import ControllerClient
from pystore.controller.protocol.calls import ElectMaster, MasterInfo
from pystore.errors import FullError, PoisonedError, PystoreError
from pystore.ha.insync.ack import Ack
from pystore.ha.insync.config import SetRules
from pystore.ha.replica import Replica
from pystore.ha.role import Role

SEGMENT = 1 << 20
WAIT_S = 20
LIMIT_MS = 800
RULES = SetRules(
    serves_synced=False, first_check_ms=300, check_ms=300, resign_ms=LIMIT_MS
)


@contextmanager
def taken(node: BrokerNode) -> Iterator[None]:
    """Another program listens where a broker would serve its slaves."""
    with socket.create_server(("127.0.0.1", node.config.ha_port)):
        yield


@asynccontextmanager
async def node(
    store: Path, controller: str, ha_port: int = 0, rules: SetRules = RULES
) -> AsyncIterator[BrokerNode]:
    """A broker of the set ``b``."""
    config = NodeConfig(
        "c",
        "b",
        f"127.0.0.1:{free_port()}",
        store,
        (controller,),
        ha_port=ha_port or free_port(),
        rules=rules,
        heartbeat_ms=100,
        poll_ms=100,
    )
    async with BrokerNode(config, segment_size=SEGMENT) as started:
        await started.registered()
        yield started


def replica_of(one: BrokerNode) -> Replica:
    """The replica of a registered broker."""
    assert one.replica is not None
    return one.replica


async def until_master(one: BrokerNode, members: int) -> Replica:
    """Waits until a broker is the master of a set of this size; returns its replica."""
    replica = replica_of(one)

    def is_so() -> bool:
        now = replica.standing()
        return now.role is Role.MASTER and len(now.agreed.members) == members

    async with asyncio.timeout(WAIT_S):
        while not is_so():
            await asyncio.sleep(0.01)
    return replica


async def elect(controller: str, one: BrokerNode) -> None:
    """An operator elects a broker."""
    client = ControllerClient((controller,), lambda _: None)
    try:
        broker_id = replica_of(one).me.broker_id
        call = ElectMaster("c", "b", broker_id, is_designated=True)
        assert isinstance(await client.elect_master(call), MasterInfo)
    finally:
        await client.close()


@contextmanager
def full(disk: SmallDisk) -> Iterator[None]:
    """Not a byte is free; then there is space again, also for the end of a node."""
    disk.fill()
    try:
        yield
    finally:
        disk.free()


async def append_until_full(replica: Replica) -> str:
    """Appends until not even a small record fits; returns the last error."""
    error = ""
    for size in (1 << 15, 100):
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    replica.submit(message(1, size=size), Ack.ALL)
                except FullError as refused:
                    # As it should be.
                    error = str(refused)
                    break
                await asyncio.sleep(0)
    return error


async def refused_until(replica: Replica, role: Role) -> list[str]:
    """
    Appends, which is refused, until a replica has the role; returns its problems.
    """
    problems = set()
    async with asyncio.timeout(WAIT_S):
        while replica.standing().role is not role:
            problems.add(replica.standing().problem)
            try:
                await asyncio.to_thread(replica.append, message(1), Ack.ALL, 10)
            except PystoreError:
                # Full, and at last no master any more.
                await asyncio.sleep(0.02)
    return sorted(problems)


def test_a_master_whose_port_is_taken_resigns_for_one_that_can_serve(
    tmp_path: Path,
) -> None:
    """
    Within the limit; its standing names the port, and its heartbeats carry it. It
    follows the next master.
    """

    async def main() -> None:
        async with (
            running() as at,
            node(tmp_path / "1", at.address) as one,
            node(tmp_path / "2", at.address) as two,
        ):
            # A young term replaces no master that it has not heard (C3).
            move(11_000)
            first = await until_master(one, 2)
            second = replica_of(two)
            with taken(two):
                await elect(at.address, two)
                problems = set[str]()
                begun_ms = clock_ms()
                async with asyncio.timeout(WAIT_S):
                    while first.standing().epoch < 3:
                        problems.add(second.standing().problem)
                        await asyncio.sleep(0.01)
                assert clock_ms() - begun_ms < LIMIT_MS + 10_000
                await until_master(one, 2)
                assert first.append(message(1), Ack.ALL).is_reached
            assert Role.FOLLOWING is second.standing().role
            where = f"cannot listen on 127.0.0.1:{two.config.ha_port}"
            assert any(where in one for one in problems), problems

    run(main())


def test_a_master_alone_waits_for_its_port(tmp_path: Path) -> None:
    """
    Nobody else could serve: it stays, and begins the same epoch when the port is free.
    """

    async def main() -> None:
        async with running() as at:
            port = free_port()
            with socket.create_server(("127.0.0.1", port)):
                one = node(tmp_path / "1", at.address, port)
                replica = replica_of(await one.__aenter__())
                async with asyncio.timeout(WAIT_S):
                    while "cannot listen" not in replica.standing().problem:
                        await asyncio.sleep(0.01)
                await asyncio.sleep(2 * LIMIT_MS / 1000)
                assert Role.PENDING is replica.standing().role
                problem = replica.standing().problem
                assert f"cannot listen on 127.0.0.1:{port}" in problem
            try:
                async with asyncio.timeout(WAIT_S):
                    while replica.standing().role is not Role.MASTER:
                        await asyncio.sleep(0.01)
                assert (1, "") == (replica.standing().epoch, replica.standing().problem)
            finally:
                await one.__aexit__(None, None, None)

    asyncio.run(main())


@NEEDS_MOUNTS
def test_a_master_whose_disk_is_full_resigns_for_one_that_can_append(
    tmp_path: Path,
) -> None:
    """
    Within the limit, while it refuses appends; nothing acknowledged is lost, and the
    next master takes appends.
    """

    async def main() -> None:
        with SmallDisk(tmp_path / "disk") as disk:
            store = disk.seen(disk.path / "store")
            async with (
                running() as at,
                node(store, at.address) as one,
            ):
                first = await until_master(one, 1)
                async with node(tmp_path / "2", at.address) as two:
                    await until_master(one, 2)
                    acked = await asyncio.to_thread(first.append, message(1), Ack.ALL)
                    with full(disk):
                        error = await append_until_full(first)
                        begun_ms = clock_ms()
                        problems = await refused_until(first, Role.FOLLOWING)
                        assert clock_ms() - begun_ms < LIMIT_MS + 10_000
                        is_named = any("appends are refused" in one for one in problems)
                        assert is_named, (problems, error)
                        # The first is a member again until it misses a record.
                        second = replica_of(two)
                        async with asyncio.timeout(WAIT_S):
                            while not await _is_appended(second):
                                await asyncio.sleep(0.05)
                        assert acked.appended.end <= second.log.log().confirm_offset
                    await until_master(two, 2)
                    async with asyncio.timeout(WAIT_S):
                        while first.standing().problem:
                            await asyncio.sleep(0.01)

    asyncio.run(main())


async def _is_appended(replica: Replica) -> bool:
    try:
        return (await asyncio.to_thread(replica.append, message(2), Ack.ALL)).is_reached
    except PystoreError:
        # It is not the master yet.
        return False


@NEEDS_MOUNTS
def test_a_master_alone_whose_disk_is_full_stays_and_goes_on_with_space(
    tmp_path: Path,
) -> None:
    """
    No epoch is lost, its standing names the disk, and space mends it.
    """

    async def main() -> None:
        with SmallDisk(tmp_path / "disk") as disk:
            store = disk.seen(disk.path / "store")
            async with running() as at, node(store, at.address) as one:
                replica = await until_master(one, 1)
                disk.fill()
                await append_until_full(replica)
                begun_ms = clock_ms()
                while clock_ms() - begun_ms < 2 * LIMIT_MS:
                    with pytest.raises(FullError):
                        replica.append(message(1), Ack.ALL)
                    assert "appends are refused" in replica.standing().problem
                    await asyncio.sleep(0.05)
                disk.free()
                assert replica.append(message(1), Ack.ALL).is_reached
                now = replica.standing()
                assert (Role.MASTER, 1, "") == (now.role, now.epoch, now.problem)

    asyncio.run(main())


@NEEDS_MOUNTS
def test_a_slave_whose_disk_is_full_costs_no_master_its_mastership(
    tmp_path: Path,
) -> None:
    """
    It leaves the set, and `all` goes on without it.
    """

    async def main() -> None:
        with SmallDisk(tmp_path / "disk") as disk:
            store = disk.seen(disk.path / "store")
            async with (
                running() as at,
                node(tmp_path / "1", at.address) as one,
                node(store, at.address),
            ):
                master = await until_master(one, 2)
                disk.fill()
                big = [message(1, size=1 << 16)] * 8
                for _ in range(4):
                    await asyncio.to_thread(master.append, big, Ack.ALL, 10)
                await until_master(one, 1)
                begun_ms = clock_ms()
                while clock_ms() - begun_ms < 2 * LIMIT_MS:
                    appended = await asyncio.to_thread(
                        master.append, message(1), Ack.ALL
                    )
                    assert appended.is_reached
                    await asyncio.sleep(0.05)
                now = master.standing()
                assert (Role.MASTER, 1, "") == (now.role, now.epoch, now.problem)
                disk.free()

    asyncio.run(main())


def test_a_master_whose_disk_failed_resigns_for_one_that_can_sync(
    tmp_path: Path,
) -> None:
    """
    B9: here its lock file is gone, so it no longer knows whether the store is its own.
    """

    async def main() -> None:
        async with running() as at:
            failing = node(tmp_path / "1", at.address)
            one = await failing.__aenter__()
            try:
                first = await until_master(one, 1)
                async with node(tmp_path / "2", at.address) as two:
                    await until_master(one, 2)
                    acked = await asyncio.to_thread(first.append, message(1), Ack.ALL)
                    (tmp_path / "1" / "lock").unlink()
                    begun_ms = clock_ms()
                    second = await until_master(two, 1)
                    assert clock_ms() - begun_ms < LIMIT_MS + 10_000
                    assert acked.appended.end <= second.log.log().end_offset
            finally:
                with pytest.raises(PoisonedError):
                    await failing.__aexit__(None, None, None)

    asyncio.run(main())


def test_a_master_that_resigned_for_nobody_is_elected_again(tmp_path: Path) -> None:
    """
    The other broker is listed and not alive: the set has its master again as soon as
    the port is free.
    """
    # So long that the other broker has ended before.
    rules = replace(RULES, resign_ms=5 * LIMIT_MS)

    async def main() -> None:
        async with (
            running() as at,
            node(tmp_path / "2", at.address, rules=rules) as two,
        ):
            second = await until_master(two, 1)
            async with node(tmp_path / "1", at.address) as one:
                await until_master(two, 2)
                move(11_000)
                await elect(at.address, one)
                await until_master(one, 2)
                with taken(two):
                    # Its own choice while both live, so it knows that it has another.
                    await elect(at.address, two)
                    async with asyncio.timeout(WAIT_S):
                        while second.standing().role is not Role.PENDING:
                            await asyncio.sleep(0.01)
                    given_up = second.standing().epoch
                    begun_ms = clock_ms()
                    await one.close()
                    move(11_000)
                    async with asyncio.timeout(WAIT_S):
                        while second.standing().epoch == given_up:
                            await asyncio.sleep(0.01)
                    assert clock_ms() - begun_ms > LIMIT_MS
            async with asyncio.timeout(WAIT_S):
                while second.standing().role is not Role.MASTER:
                    await asyncio.sleep(0.01)
            assert "" == second.standing().problem

    run(main())
