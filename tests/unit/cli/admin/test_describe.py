"""
``pystore admin describeBrokerSet`` beside what `test_admin` has.
"""

from __future__ import annotations

import asyncio

from lib.command_line import run
from lib.controller.broker_set_driver import start
from lib.controller.controller_server import SpokenBroker, running

from pystore.controller.model.log_end import LogBegin


def test_a_replica_that_is_filling_is_described() -> None:
    """In sync or not: no election takes it, and refusals point here."""

    async def main() -> None:
        async with running() as at:
            first = SpokenBroker(at, 1, start(1, begin=LogBegin(0)))
            late = SpokenBroker(at, 2, start(1, begin=LogBegin(4096, is_filling=True)))
            for broker in (first, late):
                await broker.join()
            await first.elect()
            members = frozenset({first.member, late.member})
            assert 0 == (await first.alter(members, 1, 1)).code
            words = ("describeBrokerSet", "-a", at.address, "-bn", "set")
            told = (await asyncio.to_thread(run, "admin", *words)).stdout.splitlines()[
                -1
            ]
            assert "broker 2: it is filling: its log begins at 4,096" in told

    asyncio.run(main())
