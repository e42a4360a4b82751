"""
A replica whose log begins above that of its set (B11).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lib.broker_nodes import SEGMENT, WAIT_S, master_of, node, until
from lib.controller.controller_server import Running, running

from pystore.ha.insync.ack import Ack
from pystore.ha.replica import Replica
from pystore.ha.role import Role
from pystore.message.message import Message
from pystore.remoting.codes import RequestCode
from pystore.store.retention import Retention

BODY = bytes(1000)


def fill(replica: Replica, segments: int) -> int:
    """
    Appends records for so many segments; returns the end of the log.
    """
    end = replica.log.log().end_offset + segments * SEGMENT
    while replica.log.log().end_offset < end:
        assert replica.append([Message("t", BODY)] * 64, Ack.ALL, 20_000).is_reached
    return replica.log.log().end_offset


def retain(replica: Replica, segments: int) -> None:
    """
    Deletes the oldest segments, but for so many.
    """
    replica.log.sync()
    policy = Retention(reserved_hours=None, total_bytes_max=segments * SEGMENT)
    replica.log.store.retain(policy, 2**62)


async def described(at: Running) -> dict[str, Any]:
    """
    What the controller tells of the set.
    """
    names = {"clusterName": "c", "brokerName": "b"}
    answer = await at.ask(RequestCode.DESCRIBE_BROKER_SET, added=names)
    found: dict[str, Any] = json.loads(answer.body)
    return found


async def until_told(at: Running, holds: Callable[[dict[str, Any]], object]) -> None:
    """
    Waits until it holds of what the controller tells.
    """
    async with asyncio.timeout(WAIT_S):
        while not holds(await described(at)):
            await asyncio.sleep(0.05)


def broker(found: dict[str, Any], broker_id: int) -> dict[str, Any]:
    """
    What is told of one broker.
    """
    (one,) = (each for each in found["brokers"] if each["brokerId"] == broker_id)
    return dict(one)


def test_a_filling_replica_counts_for_acks_and_is_elected_only_unclean(
    tmp_path: Path,
) -> None:
    """
    Finding F1. The range that is missing on the new master is recorded.
    """

    async def main() -> None:
        async with running() as at, node(tmp_path, "a", at.address) as a:
            master, _ = await master_of(a)
            await asyncio.to_thread(fill, master, 3)
            async with node(tmp_path, "b", at.address, is_from_last_file=True) as b:
                await master_of(a, b)
                appended = await asyncio.to_thread(
                    master.append, Message("t", BODY), Ack.ALL
                )
                assert {1, 2} == appended.settled.received_by
                slave = b.replica
                assert slave is not None
                begin = slave.log.log().min_offset
                assert begin >= SEGMENT
                await until_told(at, lambda it: broker(it, 2)["beginOffset"] == begin)
                assert broker(await described(at), 2)["filling"]

                await a.close()
                # Until its end is known, the only whole broker may be elected again.
                await until_told(
                    at,
                    lambda it: (
                        not it.get("masterBrokerId") and not broker(it, 1)["alive"]
                    ),
                )
                names = {"clusterName": "c", "brokerName": "b", "brokerId": "2"}
                elect = RequestCode.CONTROLLER_ELECT_MASTER
                answer = await at.ask(elect, added=names)
                assert "broker 2 is alive and filling" in (answer.remark or "")
                assert slave.standing().role is not Role.MASTER

                await at.ask(
                    RequestCode.UPDATE_CONTROLLER_CONFIG,
                    body=b"enableElectUncleanMaster=true",
                )
                await until(lambda: slave.standing().role is Role.MASTER)
                found = await described(at)
                assert [[0, begin, "unclean"]] == [
                    [one["startOffset"], one["endOffset"], one["cause"]]
                    for one in found["losses"]
                ]
                await until_told(at, lambda it: not broker(it, 2)["filling"])

    asyncio.run(main())


def test_a_replica_is_whole_once_the_set_begins_where_it_does(tmp_path: Path) -> None:
    """
    Retention on the master reached the begin of the replica, which knows it from its
    next link on. Its own retention does not make it filling again.
    """

    async def main() -> None:
        async with running() as at, node(tmp_path, "a", at.address) as a:
            master, _ = await master_of(a)
            await asyncio.to_thread(fill, master, 3)
            async with node(tmp_path, "b", at.address, is_from_last_file=True) as b:
                await master_of(a, b)
                assert b.replica is not None
                assert b.replica.log.log().is_filling
                await asyncio.to_thread(fill, master, 2)
                await asyncio.to_thread(retain, master, 1)
            async with node(tmp_path, "b", at.address) as b:
                _, (slave,) = await master_of(a, b)
                assert not slave.log.log().is_filling
                await asyncio.to_thread(fill, master, 3)
                await asyncio.to_thread(retain, slave, 1)
                assert slave.log.log().min_offset > master.log.log().min_offset
            async with node(tmp_path, "b", at.address) as b:
                _, (slave,) = await master_of(a, b)
                assert not slave.log.log().is_filling
                await a.close()
                await until(lambda: slave.standing().role is Role.MASTER)

    asyncio.run(main())


def test_a_replica_that_was_filling_and_is_wiped_begins_with_the_set(
    tmp_path: Path,
) -> None:
    """
    It joins like any new one, and may be elected.
    """

    async def main() -> None:
        async with running() as at, node(tmp_path, "a", at.address) as a:
            master, _ = await master_of(a)
            await asyncio.to_thread(fill, master, 3)
            async with node(tmp_path, "b", at.address, is_from_last_file=True) as b:
                await master_of(a, b)
                assert b.replica is not None
                assert b.replica.log.log().is_filling
                # A slave whose log is behind the master's minimum is filled again.
                await b.close()
            await until(lambda: 1 == len(master.standing().agreed.members))
            await asyncio.to_thread(fill, master, 3)
            await asyncio.to_thread(retain, master, 1)
            async with node(tmp_path, "b", at.address) as b:
                _, (slave,) = await master_of(a, b)
                assert not slave.log.log().is_filling
                assert slave.log.log().min_offset == master.log.log().min_offset

    asyncio.run(main())
