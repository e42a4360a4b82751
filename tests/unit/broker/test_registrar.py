"""
A broker registers again when the controllers know another process of it, or none.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from lib.command_line import run
from lib.controller.controller_server import running
from lib.hosted_nodes import await_master, holds, hosted_node
from lib.store.stores import SEGMENT, message

from pystore.broker.node_status import HostedNode
from pystore.ha.insync.ack import Ack
from pystore.ha.slave.replica_log import ReplicaLog

TIMEOUT = {"controllerHeartBeatTimeoutMills": 1_000}


async def order(controller: str, command: str, *words: str, broker_id: int = 2) -> int:
    """
    An operator gives an order for a broker of the set; returns the exit code.
    """
    at = ("-a", controller, "-bn", "b", "-b", str(broker_id))
    done = await asyncio.to_thread(run, "admin", command, *at, *words)
    return done.exit_code


def members(one: HostedNode) -> list[int]:
    """
    The set that a master knows.
    """
    found: list[int] = one.status()["syncStateSet"]
    return found


def test_a_living_slave_that_was_cleaned_comes_back_when_it_is_readmitted(
    tmp_path: Path,
) -> None:
    """
    It asks by itself, and no earlier than the operator wants it.
    """

    async def main() -> None:
        async with (
            running() as at,
            hosted_node(tmp_path, "1", at.address, **TIMEOUT) as one,
            hosted_node(tmp_path, "2", at.address, **TIMEOUT) as two,
        ):
            await await_master(one, two)
            master = one.node.replica
            assert master is not None
            appended = await asyncio.to_thread(master.append, message(1), Ack.ALL)
            assert {1, 2} == appended.settled.received_by
            words = ("-c", "DefaultCluster", "-l")
            assert 0 == await order(at.address, "cleanBrokerMetadata", *words)
            await holds(lambda: [1] == members(one))
            await holds(lambda: "was cleaned" in two.status()["problem"])
            assert [1] == members(one)
            assert 0 == await order(at.address, "readmitBroker")
            await holds(lambda: [1, 2] == members(one))
            await holds(lambda: "" == two.status()["problem"])

    asyncio.run(main())


def test_a_broker_that_was_cleaned_is_not_emptied_for_another_master(
    tmp_path: Path,
) -> None:
    """
    An operator cleaned its whole set, and a new, empty broker leads: the records go
    once the operator gives the broker to that master, and no earlier.
    """

    async def main() -> None:
        async with (
            running() as at,
            hosted_node(tmp_path, "1", at.address, **TIMEOUT) as one,
        ):
            await await_master(one)
            master = one.node.replica
            assert master is not None
            appended = await asyncio.to_thread(master.append, message(1), Ack.ALL)
            assert appended.is_reached
            end = one.status()["endOffset"]
            words = ("-a", at.address, "-bn", "b", "-c", "DefaultCluster", "-l")
            cleaned = await asyncio.to_thread(
                run, "admin", "cleanBrokerMetadata", *words
            )
            assert 0 == cleaned.exit_code
            await holds(lambda: "was cleaned" in one.status()["problem"])
            async with hosted_node(tmp_path, "2", at.address, **TIMEOUT) as two:
                await await_master(two)
                await holds(lambda: one.status()["masterId"] == 2)
                reason = "has no epoch of the master's log"
                await holds(lambda: reason in master.standing().problem)
                assert end == one.status()["endOffset"]
                assert 0 == await order(at.address, "readmitBroker", broker_id=1)
                await holds(lambda: [1, 2] == members(two))
                assert 0 == one.status()["endOffset"]

    asyncio.run(main())


def test_a_broker_whose_copy_had_its_id_for_a_while_comes_back_by_itself(
    tmp_path: Path,
) -> None:
    """
    The copy took the id while the broker was down, and was no member. The store of the
    broker had the start that the controllers knew before.
    """

    async def main() -> None:
        async with (
            running() as at,
            hosted_node(tmp_path, "1", at.address, **TIMEOUT) as one,
        ):
            async with hosted_node(tmp_path, "2", at.address, **TIMEOUT) as two:
                await await_master(one, two)
            shutil.copytree(tmp_path / "2", tmp_path / "copy")
            for _ in range(2):
                async with hosted_node(tmp_path, "copy", at.address, **TIMEOUT) as copy:
                    await holds(lambda: 2 == copy.status()["brokerId"])
                    await holds(lambda: "readmitBroker" in copy.status()["problem"])
            async with hosted_node(tmp_path, "2", at.address, **TIMEOUT) as two:
                await holds(lambda: [1, 2] == members(one))
                assert "" == two.status()["problem"]
            async with hosted_node(tmp_path, "copy", at.address, **TIMEOUT) as copy:
                await holds(lambda: "readmitBroker" in copy.status()["problem"])

    asyncio.run(main())


def test_a_copy_that_an_operator_vouched_for_is_the_broker(tmp_path: Path) -> None:
    """
    The store of which it is a copy is another one then.
    """

    async def main() -> None:
        async with (
            running() as at,
            hosted_node(tmp_path, "1", at.address, **TIMEOUT) as one,
        ):
            async with hosted_node(tmp_path, "2", at.address, **TIMEOUT) as two:
                await await_master(one, two)
            shutil.copytree(tmp_path / "2", tmp_path / "copy")
            async with hosted_node(tmp_path, "copy", at.address, **TIMEOUT) as copy:
                await holds(lambda: "readmitBroker" in copy.status()["problem"])
                assert 0 == await order(at.address, "readmitBroker")
                await holds(lambda: [1, 2] == members(one))
            async with hosted_node(tmp_path, "2", at.address, **TIMEOUT) as two:
                await holds(lambda: "readmitBroker" in two.status()["problem"])
            async with hosted_node(tmp_path, "copy", at.address, **TIMEOUT) as copy:
                await holds(lambda: [1, 2] == members(one))

    asyncio.run(main())


def test_a_log_that_is_opened_again_delays_a_registration_and_ends_no_broker(
    tmp_path: Path,
) -> None:
    """
    A closed log is the longest of such moments.
    """

    async def main() -> None:
        async with (
            running() as at,
            hosted_node(tmp_path, "1", at.address, **TIMEOUT) as one,
        ):
            await await_master(one)
            registrar = one.node._registrar
            assert registrar is not None
            closed = ReplicaLog(tmp_path / "closed", segment_size=SEGMENT)
            closed.close()
            registrar._log = closed
            following = asyncio.create_task(registrar.run(bool))
            for _ in range(3):
                registrar.lost()
                await asyncio.sleep(0)
            assert not following.done()
            following.cancel()

    asyncio.run(main())
