"""
``pystore admin describeSets``.
"""

from __future__ import annotations

import asyncio
import json

from lib.command_line import run
from lib.controller.broker_set_driver import start
from lib.controller.controller_server import Running, SpokenBroker, running

from pystore.controller.model.log_end import LogBegin
from pystore.controller.server.record_keys import set_key
from pystore.records.memory import MemorySpace, MemoryStore
from pystore.records.ops import Put


async def joined(at: Running) -> SpokenBroker:
    """
    A master and a replica whose log begins late.
    """
    first = SpokenBroker(at, 1, start(1, begin=LogBegin(0)), disk_used_percent=41)
    late = SpokenBroker(at, 2, start(1, begin=LogBegin(4096, is_filling=True)))
    for broker in (first, late):
        await broker.join()
    await first.elect()
    return first


def test_all_sets_are_shown_with_what_their_brokers_tell() -> None:
    """For people: one line for each broker, and how much the controller knows."""

    async def main() -> str:
        async with running() as at:
            await joined(at)
            words = ("admin", "describeSets", "-a", at.address)
            found = await asyncio.to_thread(run, *words)
            assert 0 == found.exit_code, found.output
            return found.stdout

    lines = asyncio.run(main()).splitlines()
    assert lines[0].startswith("the controller leads  for ")
    assert lines[0].endswith("s: who is not alive is not known yet")
    one, two = lines[-2:]
    assert one.startswith("set of cluster")
    assert {"127.0.0.1:10001", "yes", "41", "%", "master"} <= set(one.split())
    assert {"127.0.0.1:10002", "4,096", "no", "filling"} <= set(two.split())


def test_programs_get_every_field_of_every_broker() -> None:
    """Also those that have their defaults; a damaged record is named: exit code 1."""

    async def main() -> str:
        space = MemorySpace()
        store = MemoryStore(space)
        store.commit([Put(set_key("cluster", "ill"), b"ill")])
        async with running(space) as at:
            await joined(at)
            words = ("admin", "describeSets", "-a", at.address, "--json")
            found = await asyncio.to_thread(run, *words)
            assert 1 == found.exit_code, found.output
            return found.stdout

    found = json.loads(asyncio.run(main()))
    assert ["cluster/ill"] == found["damaged"]
    assert 1 == found["schemaVersion"]
    assert 0 <= found["ledMillis"] < 60_000
    assert not found["mayReplaceMaster"]
    (one,) = found["sets"]
    assert (1, 2) == (one["masterBrokerId"], one["wantedCopies"])
    broker = one["brokers"][1]
    assert 0 <= broker.pop("sinceMillis") < 60_000
    assert {
        "brokerId": 2,
        "brokerAddress": "127.0.0.1:10002",
        "host": "127.0.0.1",
        "alive": True,
        "incarnation": start(1).incarnation.text,
        "beginOffset": 4096,
        "filling": True,
        "epoch": 0,
        "endOffset": 0,
        "standing": "sound",
        "learner": False,
        "inSync": False,
        "candidate": False,
        "diskUsedPercent": -1,
        "diskProblem": "",
        "ill": False,
    } == broker


def test_an_empty_record_store_has_no_sets() -> None:
    """Which is an answer."""

    async def main() -> str:
        async with running() as at:
            words = ("admin", "describeSets", "-a", at.address)
            return (await asyncio.to_thread(run, *words)).stdout

    assert ["sets", "0"] == asyncio.run(main()).splitlines()[-1].split()
