"""
Retention on the nodes of a set.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from lib.broker_nodes import SEGMENT, master_of, node, until
from lib.controller.controller_server import running

from pystore.ha.insync.ack import Ack
from pystore.ha.replica import Replica
from pystore.ha.role import Role
from pystore.message.message import Message
from pystore.store.retention import Retention

TWO = Retention(reserved_hours=None, total_bytes_max=2 * SEGMENT)


def fill(replica: Replica, segments: int) -> None:
    """
    Appends records for so many segments.
    """
    end = replica.log.log().end_offset + segments * SEGMENT
    while replica.log.log().end_offset < end:
        result = replica.append([Message("t", bytes(1000))] * 64, Ack.ALL, 20_000)
        assert result.is_reached


def test_each_replica_deletes_its_own_segments(tmp_path: Path) -> None:
    """
    The master by its limit, the slave by another one; the set goes on, also after a
    failover.
    """

    async def main() -> None:
        async with (
            running() as at,
            node(tmp_path, "1", at.address, retention=TWO, retain_ms=50) as one,
        ):
            master, _ = await master_of(one)
            await asyncio.to_thread(fill, master, 5)
            await until(lambda: master.log.log().min_offset >= 3 * SEGMENT)
            async with node(tmp_path, "2", at.address) as two:
                _, (slave,) = await master_of(one, two)
                begin = slave.log.log().min_offset
                assert begin > 0
                await asyncio.to_thread(fill, master, 3)
                await until(lambda: master.log.log().min_offset > begin)
                assert begin == slave.log.log().min_offset
                await one.close()
                await until(lambda: slave.standing().role is Role.MASTER)
                kept = slave.log.store.queue_range("t", 0)
                assert begin == slave.log.log().min_offset
                assert kept[1] > kept[0]

    asyncio.run(main())


def test_a_store_that_keeps_everything_stays_as_it_is(tmp_path: Path) -> None:
    """
    Without a limit nothing is deleted.
    """

    async def main() -> None:
        async with running() as at, node(tmp_path, "1", at.address) as one:
            master, _ = await master_of(one)
            await asyncio.to_thread(fill, master, 4)
            assert 0 == master.log.log().min_offset

    asyncio.run(main())
