"""
Nodes of a host in this process, under a real controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from lib.broker_process import node_text
from pystore.broker.node import BrokerNode
from pystore.broker.node_status import HostedNode
from pystore.broker.settings import host_of_toml
from pystore.ha.role import Role

__all__ = ["await_master", "holds", "hosted_node"]

WAIT_S = 20


async def holds(is_so: Callable[[], object]) -> None:
    """
    Waits until it holds.
    """
    async with asyncio.timeout(WAIT_S):
        while not is_so():
            await asyncio.sleep(0.01)


def made(folder: Path, name: str, controller: str, **more: str | int) -> HostedNode:
    """
    A node that is not started.
    """
    text = node_text(folder / name, controller, name=name, **more)
    (settings,) = host_of_toml(text, name).nodes
    return HostedNode(settings, BrokerNode(settings.config, **settings.options))


@asynccontextmanager
async def hosted_node(
    folder: Path, name: str, controller: str, **more: str | int
) -> AsyncIterator[HostedNode]:
    """
    A started node of the set ``b``, with its store in ``folder/name``.
    """
    hosted = made(folder, name, controller, **more)
    await hosted.node.start()
    try:
        yield hosted
    finally:
        await hosted.node.close()


async def await_master(*nodes: HostedNode) -> tuple[HostedNode, list[HostedNode]]:
    """
    Waits until one is master with all of them in its set; returns it and the others.
    """
    replicas = {one: await one.node.registered() for one in nodes}

    def masters() -> list[HostedNode]:
        return [
            one
            for one, replica in replicas.items()
            if replica.standing().role is Role.MASTER
            and len(replica.standing().agreed.members) == len(nodes)
        ]

    await holds(masters)
    (master,) = masters()
    return master, [one for one in nodes if one is not master]
