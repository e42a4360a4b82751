"""
A member whose log was cut by its operator below what it had acknowledged (B4).
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from lib.broker_nodes import master_of, node, until
from lib.command_line import run
from lib.controller.controller_server import Running, running

from pystore.broker.node import BrokerNode
from pystore.ha.insync.ack import Ack
from pystore.ha.role import Role
from pystore.message.message import Message
from pystore.metastore.schema import LOSSY
from pystore.metastore.values import NOT_LOSSY
from pystore.remoting.codes import RequestCode


async def standings(at: Running) -> dict[int, str]:
    """
    The standing of each log, as the controller knows it.
    """
    names = {"clusterName": "c", "brokerName": "b"}
    answer = await at.ask(RequestCode.DESCRIBE_BROKER_SET, added=names)
    found: dict[str, Any] = json.loads(answer.body)
    return {one["brokerId"]: one["standing"] for one in found["brokers"]}


def is_forgotten(node: BrokerNode) -> bool:
    """
    Whether the store has no note of a loss any more.
    """
    assert node.log is not None
    with node.log.writer.metastore.view() as view:
        return view.read(LOSSY) == NOT_LOSSY


def cut_by_operator(store: Path, offset: int) -> None:
    """
    One byte at an offset rots, and the operator accepts the loss of all behind it.
    """
    with (store / "commitlog" / f"{0:020}").open("r+b") as segment:
        segment.seek(offset)
        byte = segment.read(1)
        segment.seek(offset)
        segment.write(bytes([byte[0] ^ 1]))
    assert 1 == run("recover", store).exit_code
    done = run("recover", store, "--accept-loss")
    assert 0 == done.exit_code, done.output


def test_a_member_whose_operator_accepted_a_loss_is_not_elected(tmp_path: Path) -> None:
    """
    The set waits for the other member, which has every acknowledged record, and fills
    the one that was cut.
    """

    async def main() -> None:
        async with running() as at:
            async with (
                node(tmp_path, "1", at.address) as one,
                node(tmp_path, "2", at.address) as two,
            ):
                master, _ = await master_of(one, two)
                assert 1 == master.me.broker_id
                ends = [
                    master.append(Message("t", bytes(100)), Ack.ALL).appended.end
                    for _ in range(10)
                ]
            cut_by_operator(tmp_path / "2", ends[-2] + 60)
            async with node(tmp_path, "2", at.address) as two:
                second = await two.registered()
                assert second.log.log().end_offset == ends[-2]
                assert "lossy" == (await standings(at))[2]
                async with node(tmp_path, "1", at.address) as one:
                    master, (slave,) = await master_of(one, two)
                    assert 1 == master.me.broker_id
                    await until(lambda: slave.log.log().end_offset == ends[-1])
                    assert slave.standing().role is Role.FOLLOWING
                    await until(lambda: is_forgotten(two))
            async with node(tmp_path, "2", at.address) as two:
                second = await two.registered()
                assert not second.log.recovery.is_lossy

    asyncio.run(main())
