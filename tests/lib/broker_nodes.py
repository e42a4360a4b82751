"""
Broker nodes under a real controller, for tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from lib.free_ports import free_port
from pystore.broker.config import NodeConfig
from pystore.broker.node import BrokerNode
from pystore.fs.free_space import used_percent
from pystore.ha.insync.config import SetRules
from pystore.ha.replica import Replica
from pystore.ha.role import Role

__all__ = ["RULES", "SEGMENT", "WAIT_S", "master_of", "node", "until"]

SEGMENT = 1 << 20
WAIT_S = 20
RULES = SetRules(serves_synced=False, first_check_ms=300, check_ms=300)


async def until(holds: Callable[[], object]) -> None:
    """
    Waits until it holds.
    """
    async with asyncio.timeout(WAIT_S):
        while not holds():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def node(
    folder: Path,
    name: str,
    controller: str,
    *,
    disk_used: Callable[[Path], int] = used_percent,
    segment_size: int = SEGMENT,
    **changes: object,
) -> AsyncIterator[BrokerNode]:
    """
    A broker of the set ``b``.
    """
    config = NodeConfig(
        "c",
        "b",
        f"127.0.0.1:{free_port()}",
        folder / name,
        (controller,),
        heartbeat_ms=100,
        poll_ms=100,
        **({"rules": RULES} | changes),  # type: ignore[arg-type]
    )
    said: list[str] = []
    async with BrokerNode(
        config, said.append, disk_used=disk_used, segment_size=segment_size
    ) as started:
        yield started


async def master_of(*nodes: BrokerNode) -> tuple[Replica, list[Replica]]:
    """
    Waits until one is master, and all are in the set; returns it and the others.
    """
    replicas = [await one.registered() for one in nodes]

    def is_whole() -> bool:
        masters = [one for one in replicas if one.standing().role is Role.MASTER]
        members = [one.standing().agreed.members for one in masters]
        return [len(replicas)] == [len(one) for one in members]

    await until(is_whole)
    (master,) = [one for one in replicas if one.standing().role is Role.MASTER]
    return master, [one for one in replicas if one is not master]
