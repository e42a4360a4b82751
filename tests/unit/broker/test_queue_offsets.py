"""
Queue offsets of a set that lives longer than its oldest segment (A20).
"""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from lib.broker_nodes import RULES, SEGMENT, master_of, node, until
from lib.controller.controller_server import running
from lib.values import replace

from pystore.broker.node import BrokerNode
from pystore.ha.insync.ack import Ack
from pystore.ha.replica import Replica
from pystore.ha.role import Role
from pystore.message.message import Message
from pystore.store.retention import Retention

SEED = int(os.environ.get("PS_SEED", "1"))
BODY = bytes(1000)
# What a new master waits for a closed one at most.
QUICK = replace(RULES, lag_ms_max=1000, join_lag_ms=500)


def retain(replica: Replica, segments: int) -> int:
    """
    Deletes the oldest segments, and returns where the log begins.
    """
    replica.log.sync()
    policy = Retention(reserved_hours=None, total_bytes_max=segments * SEGMENT)
    replica.log.store.retain(policy, 2**62)
    return replica.log.log().min_offset


def fill(replica: Replica, segments: int) -> None:
    """
    Appends other records, for so many segments.
    """
    end = replica.log.log().end_offset + segments * SEGMENT
    while replica.log.log().end_offset < end:
        replica.append([Message("other", BODY)] * 64, Ack.ALL)


def append(replica: Replica, topic: str, queue_id: int, ack: Ack) -> int:
    """
    Appends one record, and returns its queue offset.
    """
    appended = replica.append(Message(topic, BODY, queue_id=queue_id), ack, 20_000)
    assert appended.is_reached
    return appended.appended.queue_offset


async def next_master(old: BrokerNode, *others: BrokerNode) -> Replica:
    """
    Closes a master; returns the next one, which may acknowledge.
    """
    await old.close()

    def masters() -> list[Replica]:
        replicas = [one.replica for one in others]
        return [
            one
            for one in replicas
            if one is not None
            and one.standing().role is Role.MASTER
            and (one.standing().lease_left_ms or 0) > 0
        ]

    await until(masters)
    (master,) = masters()
    return master


def test_a_quiet_queue_goes_on_counting_on_a_master_that_joined_later(
    tmp_path: Path,
) -> None:
    """
    Retention deleted its records before the other replica joined.
    """

    async def main() -> None:
        async with (
            running() as at,
            node(tmp_path, "a", at.address, rules=QUICK) as a,
        ):
            master, _ = await master_of(a)
            numbers = [append(master, "quiet", 3, Ack.ALL) for _ in range(5)]
            assert [0, 1, 2, 3, 4] == numbers
            await asyncio.to_thread(fill, master, 4)
            master.log.store.keep()
            assert retain(master, 2) > 0
            async with node(tmp_path, "b", at.address, rules=QUICK) as b:
                await master_of(a, b)
                assert b.replica is not None
                assert b.replica.log.log().min_offset > 0
                elected = await next_master(a, b)
                found = await asyncio.to_thread(append, elected, "quiet", 3, Ack.ALL)
                assert 5 == found

    asyncio.run(main())


@pytest.mark.parametrize("number", range(3))
def test_no_queue_offset_is_given_twice_however_often_replicas_are_replaced(
    tmp_path: Path, number: int
) -> None:
    """
    Random appends, retention, new replicas with empty stores, and planned failovers.
    Each acknowledged append has a queue offset of its own, the next one of its queue.
    """
    draw = random.Random(f"{SEED} {number}")
    print(f"PS_SEED={SEED}")
    expected: dict[tuple[str, int], int] = {}

    def work(master: Replica) -> None:
        for _ in range(draw.randrange(1, 8)):
            key = f"topic{draw.randrange(3)}", draw.randrange(2)
            assert expected.get(key, 0) == append(master, *key, Ack.ALL), key
            expected[key] = expected.get(key, 0) + 1
        fill(master, draw.randrange(1, 4))

    async def main() -> None:
        async with AsyncExitStack() as stack:
            at = await stack.enter_async_context(running())
            one = await stack.enter_async_context(
                node(tmp_path, "0", at.address, rules=QUICK)
            )
            await master_of(one)
            for count in range(1, 6):
                master = one.replica
                assert master is not None
                await asyncio.to_thread(work, master)
                if draw.randrange(2):
                    await asyncio.to_thread(retain, master, 1)
                other = await stack.enter_async_context(
                    node(tmp_path, str(count), at.address, rules=QUICK)
                )
                await master_of(one, other)
                if draw.randrange(2):
                    await asyncio.to_thread(work, master)
                if draw.randrange(2):
                    await asyncio.to_thread(retain, master, 1)
                await next_master(one, other)
                one = other

    asyncio.run(main())
