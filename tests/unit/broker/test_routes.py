"""
The registration of a broker with name servers.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from lib.remoting.virtual_time_loop import move, run, until

from pystore.broker.config import NodeConfig
from pystore.broker.routes import RouteRegistration
from pystore.ha.replica import Replica
from pystore.ha.role import Role
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.fields import decode_fields
from pystore.remoting.name_server_headers import RegisterBrokerRequest
from pystore.remoting.registration_body import DataVersion, RegistrationBody
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer


class Standing:
    """
    A replica of which the role alone is asked.
    """

    def __init__(self) -> None:
        self.now = SimpleNamespace(epoch=4, role=Role.FOLLOWING)

    def standing(self) -> SimpleNamespace:
        """
        Its status.
        """
        return self.now


def test_a_new_master_registers_at_once_and_again_at_intervals() -> None:
    """
    As id 0, with the address for slaves; before that with its own id.
    """

    async def main() -> None:
        seen: list[tuple[RegisterBrokerRequest, RegistrationBody]] = []

        async def note(request: RemotingCommand, _: Connection) -> Reply:
            header = decode_fields(RegisterBrokerRequest, request.ext_fields)
            seen.append((header, RegistrationBody.decode(request.body)))
            return Reply()

        said: list[str] = []
        async with RemotingServer({RequestCode.REGISTER_BROKER: note}) as server:
            host, port = await server.start()
            config = NodeConfig(
                "c",
                "b",
                "h:10911",
                Path("s"),
                ("h:9878",),
                # One that does not answer delays no other.
                (f"{host}:{port}", "127.0.0.1:1"),
            )
            routes = RouteRegistration(config, said.append)
            replica = Standing()
            task = asyncio.create_task(routes.run(cast("Replica", replica), 2))
            await until(lambda: len(seen) == 1)
            replica.now = SimpleNamespace(epoch=5, role=Role.MASTER)
            await until(lambda: len(seen) == 2)
            move(config.route_ms)
            await until(lambda: len(seen) == 3)
            task.cancel()
            await routes.close()
        first, second, third = seen
        assert ("b", "h:10911", "c", 2) == (
            first[0].broker_name,
            first[0].broker_addr,
            first[0].cluster_name,
            first[0].broker_id,
        )
        assert (0, "h:10912") == (second[0].broker_id, second[0].ha_server_addr)
        assert RegistrationBody(DataVersion(state_version=5)) == second[1]
        assert second == third
        assert {"name server 127.0.0.1:1"} == {line[:23] for line in said}

    run(main())
