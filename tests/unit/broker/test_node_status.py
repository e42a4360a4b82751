"""
The status of a node: what it holds, and what is not known yet.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from lib.command_line import run
from lib.controller.controller_server import running
from lib.free_ports import free_port
from lib.hosted_nodes import await_master, holds, hosted_node, made
from lib.store.stores import message

from pystore.broker.node_status import FAILED, STARTING
from pystore.ha.insync.ack import Ack


def test_a_node_without_a_controller_is_starting(tmp_path: Path) -> None:
    """
    Its log is known when its store is open.
    """

    async def main() -> None:
        at = f"127.0.0.1:{free_port()}"
        before = made(tmp_path, "s", at).status()
        assert (STARTING, None, None) == (
            before["role"],
            before["brokerId"],
            before["endOffset"],
        )
        async with hosted_node(tmp_path, "s", at) as hosted:
            now = hosted.status()
            assert (STARTING, None, 0) == (
                now["role"],
                now["masterId"],
                now["endOffset"],
            )
        hosted.failure = "it burns"
        closed = hosted.status()
        assert (FAILED, "it burns", None) == (
            closed["role"],
            closed["problem"],
            closed["endOffset"],
        )

    asyncio.run(main())


def test_master_and_slave_have_all_values(tmp_path: Path) -> None:
    """
    Roles, set and offsets, with the names of the JSON.
    """

    async def main() -> None:
        async with (
            running() as at,
            hosted_node(tmp_path, "1", at.address) as one,
            hosted_node(tmp_path, "2", at.address) as two,
        ):
            master, (slave,) = await await_master(one, two)
            assert master.node.replica is not None
            done = await asyncio.to_thread(
                master.node.replica.append, message(1), Ack.ALL
            )
            end = done.appended.end
            await holds(lambda: slave.status()["confirmOffset"] == end)
            found, other = master.status(), slave.status()
            config = master.settings.config
            left_ms = found.pop("leaseLeftMs")
            assert left_ms is None or 0 <= left_ms < 10_000
            assert 0 <= found.pop("flushedOffset") <= end
            assert found["syncStateSetEpoch"] > 1
            assert {
                "node": master.name,
                "brokerClusterName": "DefaultCluster",
                "brokerName": "b",
                "address": config.address,
                "haAddress": config.ha_address,
                "store": str(config.store),
                "brokerId": master.node.replica.me.broker_id,
                "role": "master",
                "masterEpoch": 1,
                "masterId": found["brokerId"],
                "masterAddress": config.address,
                "syncStateSet": [1, 2],
                "syncStateSetEpoch": found["syncStateSetEpoch"],
                "candidates": [],
                "gapBytes": 0,
                "isLearner": False,
                "problem": "",
                "minOffset": 0,
                "endOffset": end,
                "confirmOffset": end,
                "segmentSize": 1 << 20,
                "isFilling": False,
                "isPoisoned": False,
            } == found
            assert "following" == other["role"]
            assert config.address == other["masterAddress"] == slave.master_address
            assert other["brokerId"] != other["masterId"] == found["brokerId"]

    asyncio.run(main())


def test_a_broker_whose_store_is_a_copy_says_what_an_operator_has_to_do(
    tmp_path: Path,
) -> None:
    """
    Until the operator did it, and a master has admitted the broker.
    """

    async def main() -> None:
        async with (
            running() as at,
            hosted_node(tmp_path, "1", at.address) as one,
        ):
            async with hosted_node(tmp_path, "2", at.address) as two:
                master, _ = await await_master(one, two)
                assert master is one
                assert "" == two.status()["problem"]
            (tmp_path / "2").rename(tmp_path / "old")
            shutil.copytree(tmp_path / "old", tmp_path / "2")
            async with hosted_node(tmp_path, "2", at.address) as copy:
                await holds(lambda: "readmitBroker" in copy.status()["problem"])
                words = ("readmitBroker", "-a", at.address, "-bn", "b", "-b", "2")
                done = await asyncio.to_thread(run, "admin", *words)
                assert 0 == done.exit_code, done.output
                await holds(lambda: [1, 2] == copy.status()["syncStateSet"])
                assert "" == copy.status()["problem"]

    asyncio.run(main())
