"""
How full the disk of a node is, as its heartbeats tell the controllers.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from lib.broker_nodes import WAIT_S, master_of, node
from lib.controller.controller_server import running

from pystore.controller.client.client import ControllerClient
from pystore.controller.client.set_descriptions import describe_sets
from pystore.controller.protocol.set_descriptions import BrokerDescription


async def described(address: str) -> list[BrokerDescription]:
    """
    The brokers of the only set, as the leading controller describes them.
    """
    async with ControllerClient([address]) as client:
        pages = [one async for one in describe_sets(client)]
    return [each for one in pages for it in one.sets for each in it.brokers]


async def until_told(address: str, *percents: int) -> list[BrokerDescription]:
    """
    Waits until the controllers were told so of each broker, by its id.
    """
    async with asyncio.timeout(WAIT_S):
        while True:
            found = await described(address)
            if list(percents) == [one.disk_used_percent for one in found]:
                return found
            await asyncio.sleep(0.02)


def test_controllers_are_told_how_full_the_disk_of_a_store_is(tmp_path: Path) -> None:
    """
    A disk whose system does not say is unknown, and nothing else fails for that.
    """

    def refused(store: Path) -> int:
        raise OSError(5, "Input/output error", str(store))

    asked: list[Path] = []

    def used(store: Path) -> int:
        asked.append(store)
        return 87

    async def main() -> None:
        async with (
            running() as at,
            node(tmp_path, "1", at.address, disk_used=used) as one,
        ):
            await master_of(one)
            await until_told(at.address, 87)
            async with node(tmp_path, "2", at.address, disk_used=refused) as two:
                await master_of(one, two)
                first, second = await until_told(at.address, 87, -1)
                assert (True, True) == (first.is_alive, second.is_alive)
        assert {tmp_path / "1"} == {*asked}

    asyncio.run(main())


def test_a_node_looks_at_its_own_disk(tmp_path: Path) -> None:
    """
    As the system says.
    """

    async def main() -> None:
        async with running() as at, node(tmp_path, "1", at.address) as one:
            await master_of(one)
            async with asyncio.timeout(WAIT_S):
                while 0 > (await described(at.address))[0].disk_used_percent:
                    await asyncio.sleep(0.02)

    asyncio.run(main())
