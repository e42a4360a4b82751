"""
``pystore admin switchMaster`` with a real controller and real nodes.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from click.testing import Result
from lib.broker_nodes import master_of, node, until
from lib.command_line import run
from lib.controller.controller_server import running

from pystore.ha.role import Role
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection, Handler
from pystore.remoting.controller_headers import GetReplicaInfoResponse
from pystore.remoting.fields import encode_fields
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer


async def switch(address: str, broker_id: int, *more: str) -> Result:
    """
    Runs the command, while the controller and the nodes go on.
    """
    words = ("-a", address, "-bn", "b", "-b", str(broker_id), *more)
    return await asyncio.to_thread(run, "admin", "switchMaster", *words)


def test_the_named_broker_is_master(tmp_path: Path) -> None:
    """
    Once more it says so, and changes nothing.
    """

    async def main() -> None:
        async with (
            running() as at,
            node(tmp_path, "1", at.address) as one,
            node(tmp_path, "2", at.address) as two,
        ):
            _, (slave,) = await master_of(one, two)
            target = slave.me.broker_id
            done = await switch(at.address, target)
            assert 0 == done.exit_code, done.output
            assert f"broker {target} is master of b in epoch 2\n" == done.output
            await until(lambda: slave.standing().role is Role.MASTER)
            again = await switch(at.address, target, "--json")
            found = json.loads(again.stdout)
            assert (target, 2) == (found["masterBrokerId"], found["masterEpoch"])

    asyncio.run(main())


def test_a_switch_that_cannot_be_says_why(tmp_path: Path) -> None:
    """
    In one line, and the master stays.
    """

    async def main() -> None:
        async with running() as at, node(tmp_path, "1", at.address) as one:
            master, _ = await master_of(one)
            done = await switch(at.address, 9)
            assert 3 == done.exit_code
            assert "broker 9 is no member of the SyncStateSet" in done.output
            assert master.standing().role is Role.MASTER

    asyncio.run(main())


def test_a_master_that_does_not_answer_leaves_the_outcome_open() -> None:
    """
    The line says how to find out.
    """

    async def main() -> None:
        async def hang_up(_: RemotingCommand, peer: Connection) -> Reply:
            peer.abort()
            return Reply()

        async def lead(_: RemotingCommand, __: Connection) -> Reply:
            return Reply(ext_fields={"controllerLeaderAddress": address})

        async def name_master(_: RemotingCommand, __: Connection) -> Reply:
            info = GetReplicaInfoResponse(1, address, 1)
            return Reply(ext_fields=encode_fields(info))

        handlers: dict[int, Handler] = {
            RequestCode.CONTROLLER_GET_METADATA_INFO: lead,
            RequestCode.CONTROLLER_GET_REPLICA_INFO: name_master,
            RequestCode.HAND_OVER: hang_up,
        }
        async with RemotingServer(handlers) as server:
            host, port = await server.start()
            address = f"{host}:{port}"
            done = await switch(address, 2)
            assert 3 == done.exit_code, done.output
            assert "closed the connection without an answer" in done.stderr
            assert ": whether broker 2 is the master" in done.stderr

    asyncio.run(main())
